//! What is free on hosts and in pools, and where a part of a job goes.

use super::Hosts;
use super::order::Order;
use std::ops::Range;

/// Thousandths of a GPU, or of a core.
const WHOLE: i64 = 1000;
/// A shared GPU that nobody shares.
const UNUSED: i64 = -1;
/// Of a part that shares no GPU.
const NOT_SHARED: u32 = u32::MAX;

/// What each part of a job takes: cores and GPUs in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) cores: i64,
    pub(super) memory: i64,
    pub(super) gpus: i64,
}

impl Part {
    /// Whether it takes a share of one GPU.
    fn shares(self) -> bool {
        self.gpus > 0 && self.gpus < WHOLE
    }
}

/// Where a part of a job runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) pool: u32,
    pub(super) host: u32,
    /// Shared GPU of the pool.
    slot: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) cores: i64,
    memory: i64,
    pub(super) pool: u32,
}

impl Host {
    pub(super) fn fits(&self, part: Part) -> bool {
        self.cores >= part.cores && self.memory >= part.memory
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) hosts: Range<usize>,
    /// GPUs that nobody uses.
    whole: i64,
    /// What is left of each GPU that several use.
    slots: Vec<i64>,
    /// All that is free, in thousandths.
    pub(super) free: i64,
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

    /// How well a part fits, the lowest best: whether it breaks a whole GPU, and what is free.  None where it does not fit.
    pub(super) fn fit(&self, gpus: i64) -> Option<(bool, i64)> {
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

/// What is free on each host and in each pool.
#[derive(Clone, Debug)]
pub(super) struct Free {
    pub(super) hosts: Vec<Host>,
    pub(super) pools: Vec<Pool>,
}

impl Free {
    fn new(given: &Hosts<'_>) -> Self {
        let each = given.cores.iter().zip(given.memory).zip(given.pool);
        let hosts = each.map(|((&cores, &memory), &pool)| Host { cores, memory, pool }).collect();
        let mut first = 0;
        let pools = (0_u32..).zip(given.gpus).map(|(pool, &gpus)| {
            let last = first + given.pool[first..].iter().take_while(|&&p| p == pool).count();
            let hosts = std::mem::replace(&mut first, last)..last;
            Pool { hosts, whole: i64::from(gpus), slots: Vec::new(), free: i64::from(gpus) * WHOLE }
        });
        Self { hosts, pools: pools.collect() }
    }

    /// Parts of a job that a pool has room for, counted up to `enough`.
    fn room(&self, pool: &Pool, enough: i64, part: Part) -> i64 {
        let most = pool.room(part.gpus).min(enough);
        let mut count = 0;
        for host in &self.hosts[pool.hosts.clone()] {
            if count >= most {
                break;
            }
            let by_cores = if part.cores > 0 { host.cores / part.cores } else { enough };
            let by_memory = if part.memory > 0 { host.memory / part.memory } else { enough };
            count += by_cores.min(by_memory);
        }
        count.min(most)
    }

    /// Whether all parts of a job fit.
    pub(super) fn could(&self, parts: u32, part: Part) -> bool {
        if parts == 1 {
            return self.spot(part).is_some();
        }
        let mut left = i64::from(parts);
        for pool in &self.pools {
            left -= self.room(pool, left, part);
            if left <= 0 {
                return true;
            }
        }
        false
    }

    /// The first host that has room for a part.
    pub(super) fn spot(&self, part: Part) -> Option<u32> {
        self.pools.iter().filter(|pool| pool.fit(part.gpus).is_some()).find_map(|pool| self.spot_in(pool, part))
    }

    /// The first host of a pool that has the cores and the memory of a part.
    pub(super) fn spot_in(&self, pool: &Pool, part: Part) -> Option<u32> {
        pool.hosts.clone().find(|&host| self.hosts[host].fits(part)).map(|host| host as u32)
    }

    /// Whether a part fits on a host.
    pub(super) fn fits(&self, host: u32, part: Part) -> bool {
        let host = &self.hosts[host as usize];
        host.fits(part) && self.pools[host.pool as usize].fit(part.gpus).is_some()
    }

    /// The host to which a part goes, looked for on all of them.
    fn best(&self, part: Part) -> Option<u32> {
        let mut best: Option<((bool, i64, i64), usize)> = None;
        for pool in &self.pools {
            let Some((breaks, free)) = pool.fit(part.gpus) else { continue };
            if best.is_some_and(|(key, _)| (breaks, free) > (key.0, key.1)) {
                continue;
            }
            for at in pool.hosts.clone() {
                let host = &self.hosts[at];
                let key = (breaks, free, host.cores);
                if host.fits(part) && best.is_none_or(|(least, _)| key < least) {
                    best = Some((key, at));
                }
            }
        }
        best.map(|(_, host)| host as u32)
    }

    /// Where a part on a host would be.
    fn placement(&mut self, host: u32, part: Part) -> Placement {
        let pool = self.hosts[host as usize].pool;
        let slot = if part.shares() { self.pools[pool as usize].slot(part.gpus) } else { NOT_SHARED };
        Placement { pool, host, slot }
    }

    /// Take what is placed; false, and nothing taken, where it is not free.
    pub(super) fn take(&mut self, placed: &[Placement], part: Part) -> bool {
        for (count, one) in placed.iter().enumerate() {
            if !self.take_one(*one, part) {
                self.free(&placed[..count], part);
                return false;
            }
        }
        true
    }

    fn take_one(&mut self, one: Placement, part: Part) -> bool {
        let host = &mut self.hosts[one.host as usize];
        if !host.fits(part) || !self.pools[one.pool as usize].take(part.gpus, one.slot) {
            return false;
        }
        host.cores -= part.cores;
        host.memory -= part.memory;
        true
    }

    /// Give back what is placed.
    pub(super) fn free(&mut self, placed: &[Placement], part: Part) {
        for one in placed {
            let host = &mut self.hosts[one.host as usize];
            host.cores += part.cores;
            host.memory += part.memory;
            self.pools[one.pool as usize].give(part.gpus, one.slot);
        }
    }
}

/// What is free now, and the order in which hosts are asked.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) free: Free,
    order: Order,
    /// All that there is, in thousandths.
    pub(super) all_cores: i64,
    pub(super) all_gpus: i64,
}

impl Cluster {
    pub(super) fn new(given: &Hosts<'_>) -> Self {
        let free = Free::new(given);
        let order = Order::new(&free);
        Self { order, all_cores: given.cores.iter().sum(), all_gpus: free.pools.iter().map(|p| p.free).sum(), free }
    }

    /// Whether a part that fitted nowhere fits now that something on a host became free.
    pub(super) fn opens(&self, host: u32, part: Part) -> bool {
        let one = &self.free.hosts[host as usize];
        if part.gpus == 0 {
            return one.fits(part);
        }
        self.free.pools[one.pool as usize].fit(part.gpus).is_some() && (one.fits(part) || self.order.has(&self.free, one.pool, part))
    }

    /// Whether all parts of a job fit.
    pub(super) fn could(&self, parts: u32, part: Part) -> bool {
        if parts == 1 { self.best(part).is_some() } else { self.free.could(parts, part) }
    }

    fn best(&self, part: Part) -> Option<u32> {
        // which GPU a share goes to depends on how the others are shared: no order of hosts holds that
        if part.shares() { self.free.best(part) } else { self.order.best(&self.free, part) }
    }

    /// Place all parts of a job, or nothing.
    pub(super) fn place(&mut self, parts: u32, part: Part) -> Option<Vec<Placement>> {
        let mut placed = Vec::with_capacity(parts as usize);
        for _ in 0..parts {
            let Some(host) = self.best(part) else {
                self.free(&placed, part);
                return None;
            };
            let one = self.free.placement(host, part);
            self.order.remove(&self.free, host);
            self.free.take_one(one, part);
            self.order.insert(&self.free, host);
            placed.push(one);
        }
        Some(placed)
    }

    /// Give back what is placed.
    pub(super) fn free(&mut self, placed: &[Placement], part: Part) {
        for one in placed {
            self.order.remove(&self.free, one.host);
            self.free.free(std::slice::from_ref(one), part);
            self.order.insert(&self.free, one.host);
        }
    }
}
