//! The order in which hosts are asked for room: the pool with the fewest free GPUs first, in it the host with the fewest free cores.
//!
//! Fixed nodes are pools of one host; all of them stand in one set, so that thousands are not looked at one by one.  A pool with many hosts has a
//! set of its own: what is free in it changes without moving its hosts.

use super::cluster::{Free, Part};
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Pools of one host: free GPUs, free cores, host.
    alone: BTreeSet<(i64, i64, u32)>,
    /// Pools of many hosts: free GPUs, pool.
    many: BTreeSet<(i64, u32)>,
    /// Hosts of each pool of many: free cores, host.
    hosts: Vec<BTreeSet<(i64, u32)>>,
    /// The most free cores of a host of each of them.
    most: Vec<i64>,
}

impl Order {
    pub(super) fn new(free: &Free) -> Self {
        let pools = free.pools.len();
        let mut order = Self { alone: BTreeSet::new(), many: BTreeSet::new(), hosts: vec![BTreeSet::new(); pools], most: vec![0; pools] };
        for host in 0..free.hosts.len() {
            order.insert(free, host as u32);
        }
        order
    }

    /// Forget a host and its pool before what is free there changes.
    pub(super) fn remove(&mut self, free: &Free, host: u32) {
        let one = free.hosts[host as usize];
        let pool = &free.pools[one.pool as usize];
        if pool.hosts.len() > 1 {
            self.many.remove(&(pool.free, one.pool));
            self.hosts[one.pool as usize].remove(&(one.cores, host));
        } else {
            self.alone.remove(&(pool.free, one.cores, host));
        }
    }

    /// Remember a host and its pool with what is free there now.
    pub(super) fn insert(&mut self, free: &Free, host: u32) {
        let one = free.hosts[host as usize];
        let pool = &free.pools[one.pool as usize];
        if pool.hosts.len() > 1 {
            self.many.insert((pool.free, one.pool));
            let hosts = &mut self.hosts[one.pool as usize];
            hosts.insert((one.cores, host));
            self.most[one.pool as usize] = hosts.last().map_or(0, |(cores, _)| *cores);
        } else {
            self.alone.insert((pool.free, one.cores, host));
        }
    }

    /// Whether a host of a pool has the cores and the memory of a part.
    pub(super) fn has(&self, free: &Free, pool: u32, part: Part) -> bool {
        self.host_in(free, pool, part).is_some()
    }

    fn host_in(&self, free: &Free, pool: u32, part: Part) -> Option<(i64, u32)> {
        if self.most[pool as usize] < part.cores {
            return None;
        }
        self.hosts[pool as usize].range((part.cores, 0)..).find(|(_, host)| free.hosts[*host as usize].fits(part)).copied()
    }

    /// The host to which a part with whole GPUs goes.
    pub(super) fn best(&self, free: &Free, part: Part) -> Option<u32> {
        let mut best = self.best_alone(free, part);
        for &(gpus, pool) in self.many.range((part.gpus, 0)..) {
            if best.is_some_and(|(least, _, _)| gpus > least) {
                break;
            }
            if free.pools[pool as usize].fit(part.gpus).is_some()
                && let Some((cores, host)) = self.host_in(free, pool, part)
                && best.is_none_or(|least| (gpus, cores, host) < least)
            {
                best = Some((gpus, cores, host));
            }
        }
        best.map(|(_, _, host)| host)
    }

    /// The best of the pools of one host: of each number of free GPUs the hosts with too few cores are passed over at once.
    fn best_alone(&self, free: &Free, part: Part) -> Option<(i64, i64, u32)> {
        let mut from = (part.gpus, part.cores, 0);
        loop {
            let &next = self.alone.range(from..).next()?;
            let (gpus, cores, host) = next;
            if cores < part.cores {
                from = (gpus, part.cores, 0);
            } else if free.fits(host, part) {
                return Some(next);
            } else {
                from = (gpus, cores, host + 1);
            }
        }
    }
}
