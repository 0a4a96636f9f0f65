//! The first job that waits: when it can start, as far as expected ends say, and what is free by then.

use super::cluster::{Free, Part, Placement};

/// A job that is running, as the reservation sees it: its expected end [s], where it is, and what each part takes.
pub(super) type Running<'a> = (f64, &'a [Placement], Part);

/// It holds until the job starts, or until a job ends before it was expected to.  A job that ends as expected was counted, and one that starts
/// later is taken off what is free.
pub(super) struct Reservation {
    pub(super) job: u32,
    pub(super) at: f64,
    parts: u32,
    part: Part,
    free: Free,
    /// A host on which a job of one part can start then.
    host: Option<u32>,
    stale: bool,
}

impl Reservation {
    /// Find when a job can start; `running` by expected end.
    pub(super) fn new<'a>(job: u32, parts: u32, part: Part, now: f64, mut free: Free, running: impl Iterator<Item = Running<'a>>) -> Self {
        // of each pool whether one of its hosts has the cores, once it was looked for
        let mut hosts: Vec<Option<bool>> = vec![None; free.pools.len()];
        let mut at = f64::INFINITY;
        let mut spot = None;
        for (expected, placed, each) in running {
            free.free(placed, each);
            spot = if parts == 1 { placed.iter().find_map(|one| opened(&free, &mut hosts, *one, part)) } else { None };
            if spot.is_some() || (parts > 1 && free.could(parts, part)) {
                at = expected.max(now);
                break;
            }
        }
        Self { job, at, parts, part, free, host: spot, stale: false }
    }

    /// Whether it is still that of a job.
    pub(super) fn holds(&self, job: u32, now: f64) -> bool {
        !self.stale && self.job == job && self.at >= now
    }

    /// A job ended: what was expected of it no longer holds where it ended early, or was not counted.
    pub(super) fn ended(&mut self, expected: f64, now: f64) {
        self.stale |= now < expected || expected >= self.at;
    }

    /// Whether another job may start where it is placed, and be there until `expected`; it is taken off what is free then.
    pub(super) fn allows(&mut self, placed: &[Placement], part: Part, expected: f64) -> bool {
        if expected <= self.at {
            self.stale |= expected == self.at && expected.is_finite();
            return true;
        }
        if !self.free.take(placed, part) {
            return false;
        }
        if self.parts > 1 {
            if self.free.could(self.parts, self.part) {
                return true;
            }
        } else {
            let host = self.host.filter(|&host| self.free.fits(host, self.part)).or_else(|| self.free.spot(self.part));
            if host.is_some() {
                self.host = host;
                return true;
            }
        }
        self.free.free(placed, part);
        false
    }
}

/// A host on which a part fits, now that something of its pool became free.
fn opened(free: &Free, hosts: &mut [Option<bool>], freed: Placement, part: Part) -> Option<u32> {
    let pool = &free.pools[freed.pool as usize];
    let fits = free.hosts[freed.host as usize].fits(part);
    if part.gpus == 0 || fits {
        hosts[freed.pool as usize] = if fits { Some(true) } else { hosts[freed.pool as usize] };
        return (fits && pool.fit(part.gpus).is_some()).then_some(freed.host);
    }
    pool.fit(part.gpus)?;
    if hosts[freed.pool as usize].get_or_insert_with(|| free.spot_in(pool, part).is_some()) == &false {
        return None;
    }
    free.spot_in(pool, part)
}
