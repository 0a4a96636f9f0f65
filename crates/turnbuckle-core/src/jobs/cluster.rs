//! What is free on hosts and in pools, and where a part of a job goes.

use super::Hosts;
use std::ops::Range;

/// Thousandths of a GPU, or of a core.
const WHOLE: i64 = 1000;
/// A shared GPU that nobody shares.
const UNUSED: i64 = -1;
/// Of a part that shares no GPU.
const NOT_SHARED: u32 = u32::MAX;

/// Where a part of a job runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) pool: u32,
    host: u32,
    /// Shared GPU of the pool.
    slot: u32,
}

#[derive(Clone, Debug)]
struct Host {
    cores: i64,
    memory: i64,
}

#[derive(Clone, Debug)]
struct Pool {
    hosts: Range<usize>,
    /// GPUs that nobody uses.
    whole: i64,
    /// What is left of each GPU that several use.
    slots: Vec<i64>,
    /// All that is free, in thousandths.
    free: i64,
}

impl Pool {
    /// Parts that its GPUs have room for.
    fn room(&self, gpus: i64) -> i64 {
        match gpus {
            0 => i64::MAX,
            share if share < WHOLE => self.whole * (WHOLE / share) + self.slots.iter().filter(|&&s| s > 0).map(|s| s / share).sum::<i64>(),
            many => self.whole / (many / WHOLE),
        }
    }

    /// How well a part fits, the lowest best: whether it breaks a whole GPU, and what is free.  None where it does not.
    fn fit(&self, gpus: i64) -> Option<(bool, i64)> {
        if gpus == 0 || gpus >= WHOLE {
            return (self.whole >= gpus / WHOLE).then_some((false, self.free));
        }
        if self.free < gpus {
            return None;
        }
        let shared = self.slots.iter().any(|&s| s >= gpus);
        (shared || self.whole > 0).then_some((!shared, self.free))
    }

    /// The shared GPU with the least left that is enough; else one that nobody uses.
    fn slot(&mut self, share: i64) -> u32 {
        let best = (0..self.slots.len()).filter(|&k| self.slots[k] >= share).min_by_key(|&k| self.slots[k]);
        let slot = best.or_else(|| self.slots.iter().position(|&s| s == UNUSED)).unwrap_or(self.slots.len());
        slot as u32
    }

    /// Take GPUs; false, and nothing taken, where they are not free.
    fn take(&mut self, gpus: i64, slot: u32) -> bool {
        if slot == NOT_SHARED {
            if self.whole < gpus / WHOLE {
                return false;
            }
            self.whole -= gpus / WHOLE;
        } else {
            let at = slot as usize;
            if self.slots.len() <= at {
                self.slots.resize(at + 1, UNUSED);
            }
            if self.slots[at] == UNUSED {
                if self.whole == 0 {
                    return false;
                }
                self.whole -= 1;
                self.slots[at] = WHOLE;
            }
            if self.slots[at] < gpus {
                return false;
            }
            self.slots[at] -= gpus;
        }
        self.free -= gpus;
        true
    }

    fn give(&mut self, gpus: i64, slot: u32) {
        self.free += gpus;
        if slot == NOT_SHARED {
            self.whole += gpus / WHOLE;
            return;
        }
        let left = &mut self.slots[slot as usize];
        *left += gpus;
        if *left == WHOLE {
            *left = UNUSED;
            self.whole += 1;
        }
    }
}

/// What is free.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    hosts: Vec<Host>,
    pools: Vec<Pool>,
    /// All that there is, in thousandths.
    pub(super) all_cores: i64,
    pub(super) all_gpus: i64,
}

impl Cluster {
    pub(super) fn new(given: &Hosts<'_>) -> Self {
        let hosts: Vec<Host> = given.cores.iter().zip(given.memory).map(|(&cores, &memory)| Host { cores, memory }).collect();
        let mut first = 0;
        let pools = (0_u32..).zip(given.gpus).map(|(pool, &gpus)| {
            let last = first + given.pool[first..].iter().take_while(|&&p| p == pool).count();
            let hosts = std::mem::replace(&mut first, last)..last;
            Pool { hosts, whole: i64::from(gpus), slots: Vec::new(), free: i64::from(gpus) * WHOLE }
        });
        let pools: Vec<Pool> = pools.collect();
        let all_cores = given.cores.iter().sum();
        Self { hosts, all_cores, all_gpus: pools.iter().map(|p| p.free).sum(), pools }
    }

    /// Parts of a job that a pool has room for, counted up to `enough`.
    pub(super) fn room(&self, pool: u32, enough: i64, cores: i64, memory: i64, gpus: i64) -> i64 {
        let pool = &self.pools[pool as usize];
        let most = pool.room(gpus).min(enough);
        let mut count = 0;
        for host in &self.hosts[pool.hosts.clone()] {
            if count >= most {
                break;
            }
            let by_cores = if cores > 0 { host.cores / cores } else { enough };
            let by_memory = if memory > 0 { host.memory / memory } else { enough };
            count += by_cores.min(by_memory);
        }
        count.min(most)
    }

    /// Whether all parts of a job fit.
    pub(super) fn could(&self, parts: u32, cores: i64, memory: i64, gpus: i64) -> bool {
        let mut left = i64::from(parts);
        for pool in 0..self.pools.len() {
            left -= self.room(pool as u32, left, cores, memory, gpus);
            if left <= 0 {
                return true;
            }
        }
        false
    }

    /// Place all parts of a job, or nothing.
    pub(super) fn place_all(&mut self, parts: u32, cores: i64, memory: i64, gpus: i64) -> Option<Vec<Placement>> {
        let mut placed = Vec::with_capacity(parts as usize);
        for _ in 0..parts {
            if let Some(one) = self.place(cores, memory, gpus) {
                placed.push(one);
            } else {
                self.free(&placed, cores, memory, gpus);
                return None;
            }
        }
        Some(placed)
    }

    fn place(&mut self, cores: i64, memory: i64, gpus: i64) -> Option<Placement> {
        let mut best: Option<((bool, i64, i64), u32, usize)> = None;
        for (number, pool) in self.pools.iter().enumerate() {
            let Some((breaks, free)) = pool.fit(gpus) else { continue };
            if best.is_some_and(|(key, _, _)| (breaks, free) > (key.0, key.1)) {
                continue;
            }
            for host in pool.hosts.clone() {
                let at = &self.hosts[host];
                let key = (breaks, free, at.cores);
                if at.cores >= cores && at.memory >= memory && best.is_none_or(|(least, _, _)| key < least) {
                    best = Some((key, number as u32, host));
                }
            }
        }
        let (_, pool, host) = best?;
        let slot = if gpus > 0 && gpus < WHOLE { self.pools[pool as usize].slot(gpus) } else { NOT_SHARED };
        let placement = Placement { pool, host: host as u32, slot };
        self.take(&[placement], cores, memory, gpus).then_some(placement)
    }

    /// Take what is placed; false, and nothing taken, where it is not free.
    pub(super) fn take(&mut self, placed: &[Placement], cores: i64, memory: i64, gpus: i64) -> bool {
        for (count, one) in placed.iter().enumerate() {
            let host = &mut self.hosts[one.host as usize];
            if host.cores < cores || host.memory < memory || !self.pools[one.pool as usize].take(gpus, one.slot) {
                self.free(&placed[..count], cores, memory, gpus);
                return false;
            }
            host.cores -= cores;
            host.memory -= memory;
        }
        true
    }

    /// Give back what is placed.
    pub(super) fn free(&mut self, placed: &[Placement], cores: i64, memory: i64, gpus: i64) {
        for one in placed {
            let host = &mut self.hosts[one.host as usize];
            host.cores += cores;
            host.memory += memory;
            self.pools[one.pool as usize].give(gpus, one.slot);
        }
    }
}
