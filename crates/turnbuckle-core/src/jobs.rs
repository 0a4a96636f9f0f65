//! A stream of jobs on a cluster whose GPUs stand in pools: which job runs where and when, event by event.
//!
//! A pool is the GPUs that some hosts can reach.  A fixed node is a pool with one host, a composed cluster has pools with many.  A job has equal
//! parts, placed together; each takes cores and memory of one host, and GPUs (or a share of one GPU) of the pool of that host.  A pool may have
//! a trunk: the bandwidth that its jobs have between them (see [`trunk`]).
//!
//! Jobs start in the order in which they came.  Behind a job that does not fit, others may start as the [`Policy`] says.  A part goes where it
//! leaves least: to the pool with the fewest free GPUs that has enough, there to the host with the fewest free cores.

mod cluster;
mod order;
mod reservation;
mod trunk;

use cluster::{Cluster, Part, Placement};
use reservation::Reservation;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use trunk::Trunks;

/// Jobs, one value of each array a job, in the order of arrival.  Cores and GPUs are thousandths of one.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    /// When it is submitted [s], not falling.
    pub arrival: &'a [f64],
    /// How long it runs on fixed nodes [s]; infinite for a job that stays.
    pub work: &'a [f64],
    /// How long it is expected to run there, which backfilling goes by [s].
    pub limit: &'a [f64],
    /// Parts that are placed together.
    pub parts: &'a [u32],
    /// Of each part: cores.
    pub cores: &'a [i64],
    /// Of each part: memory, in any unit.
    pub memory: &'a [i64],
    /// Of each part: GPUs, whole ones, or a share of one.
    pub gpus: &'a [i64],
    /// Its class.
    pub class: &'a [u32],
}

impl Jobs<'_> {
    fn part(&self, job: usize) -> Part {
        Part { cores: self.cores[job], memory: self.memory[job], gpus: self.gpus[job] }
    }
}

/// Hosts and the pools of GPUs that they reach.
#[derive(Clone, Copy, Debug)]
pub struct Hosts<'a> {
    /// Pool of each host; hosts of one pool stand together.
    pub pool: &'a [u32],
    /// Cores of each host, in thousandths.
    pub cores: &'a [i64],
    /// Memory of each host.
    pub memory: &'a [i64],
    /// GPUs of each pool.
    pub gpus: &'a [u32],
    /// Bandwidth that the jobs of each pool have between them [B/s]; infinite where they never wait for it.
    pub trunk: &'a [f64],
}

/// What becomes of a job of some class in a pool.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Run time there over that on fixed nodes.
    pub slowdown: f64,
    /// What each of its GPUs moves over the trunk at full speed, on average [B/s].
    pub bandwidth: f64,
    /// Share of its run time in which it does nothing but move.
    pub exposed: f64,
    /// Share of its run time in which it moves.
    pub moving: f64,
}

/// Who may start before a job that came earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nobody.
    Order,
    /// Whoever does not delay the first job that waits, as far as expected run times say (EASY backfilling, Lifka 1995).
    Backfill,
    /// Whoever fits.
    Any,
}

/// When each job ran, and what was in use.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// When each job started [s]; NaN where it never did.
    pub start: Vec<f64>,
    /// When it ended [s]; infinite where it stays, NaN where it never started.
    pub end: Vec<f64>,
    /// In the window, GPUs in use, times seconds.
    pub gpu_seconds: f64,
    /// In the window, cores in use, times seconds.
    pub core_seconds: f64,
    /// In the window, GPUs that were free while a job for GPUs waited, times seconds.
    pub stranded_gpu_seconds: f64,
    /// In the window, cores that were free while any job waited, times seconds.
    pub stranded_core_seconds: f64,
    /// Submissions and ends.
    pub events: u64,
    /// Whether it was given up, because jobs waited longer than `patience`.
    pub given_up: bool,
}

/// An end of a job, or of the first of a pool with a trunk, if nothing changed there since.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Job(u32),
    Pool(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Timed(f64, u64, Event);

impl Eq for Timed {}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A time that can be sorted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct At(f64);

impl Eq for At {}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// No job.
const NONE: u32 = u32::MAX;
/// Releases since a shape did not fit up to which their hosts are looked at instead of all.
const FEW_RELEASES: usize = 64;

/// Run all jobs.
///
/// `depth` is how many waiting jobs are looked at behind the first; `window` the time [s] in which use is counted; `patience` what all jobs
/// together may wait [s] before it is given up.
///
/// # Panics
/// Where arrays of jobs differ in length, or a pool or class is not there.
#[must_use]
pub fn run(
    jobs: &Jobs<'_>,
    hosts: &Hosts<'_>,
    classes: &[Class],
    policy: Policy,
    depth: usize,
    window: (f64, f64),
    patience: f64,
) -> Outcome {
    Simulation::new(jobs, hosts, classes, policy, depth, window).run(patience)
}

/// Jobs that fit and have to wait for the first one were asked up to here, and what they were told holds while nothing starts or ends.
#[derive(Clone, Copy, Debug)]
struct Walk {
    changes: u64,
    before: u32,
    looked: usize,
}

struct Simulation<'a> {
    jobs: &'a Jobs<'a>,
    classes: &'a [Class],
    policy: Policy,
    depth: usize,
    window: (f64, f64),
    cluster: Cluster,
    trunks: Trunks,
    ends: BinaryHeap<Reverse<Timed>>,
    placed: Vec<Vec<Placement>>,
    /// Waiting jobs: the next of each, and the last.
    next: Vec<u32>,
    first: u32,
    last: u32,
    waiting_gpus: u64,
    /// Jobs that wait, the sum of their submissions, and what those that started have waited [s].
    waiting: (u64, f64, f64),
    /// Running jobs by expected end.
    running: BTreeSet<(At, u32)>,
    expected: Vec<f64>,
    shape: Vec<u32>,
    never: Vec<bool>,
    /// Of each shape: how many releases there were when it last did not fit.
    failed: Vec<usize>,
    /// Of each shape: how many changes there were when a job was not let before the first that waits.
    refused: Vec<u64>,
    /// Host of each release.
    releases: Vec<u32>,
    /// Starts and ends.
    changes: u64,
    walk: Option<Walk>,
    reservation: Option<Reservation>,
    used: (i64, i64),
    now: f64,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    fn new(jobs: &'a Jobs<'a>, hosts: &Hosts<'_>, classes: &'a [Class], policy: Policy, depth: usize, window: (f64, f64)) -> Self {
        let count = jobs.arrival.len();
        let cluster = Cluster::new(hosts);
        let mut shapes = HashMap::new();
        let (mut shape, mut never) = (Vec::with_capacity(count), Vec::new());
        for job in 0..count {
            let key = (jobs.parts[job], jobs.part(job));
            let id = *shapes.entry(key).or_insert_with(|| {
                never.push(!cluster.could(key.0, key.1));
                never.len() as u32 - 1
            });
            shape.push(id);
        }
        Self {
            jobs,
            classes,
            policy,
            depth,
            window,
            trunks: Trunks::new(hosts.trunk, classes),
            cluster,
            ends: BinaryHeap::new(),
            placed: vec![Vec::new(); count],
            next: vec![NONE; count],
            first: NONE,
            last: NONE,
            waiting_gpus: 0,
            waiting: (0, 0.0, 0.0),
            running: BTreeSet::new(),
            expected: vec![0.0; count],
            shape,
            failed: vec![usize::MAX; never.len()],
            refused: vec![u64::MAX; never.len()],
            never,
            releases: Vec::new(),
            changes: 0,
            walk: None,
            reservation: None,
            used: (0, 0),
            now: f64::NEG_INFINITY,
            outcome: Outcome { start: vec![f64::NAN; count], end: vec![f64::NAN; count], ..Outcome::default() },
        }
    }

    fn run(mut self, patience: f64) -> Outcome {
        let mut arriving = 0;
        loop {
            let arrival = self.jobs.arrival.get(arriving).copied();
            let ending = self.ends.peek().map(|e| e.0.0);
            let time = match (arrival, ending) {
                (Some(a), Some(e)) => a.min(e),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => break,
            };
            self.pass(time);
            while self.ends.peek().is_some_and(|e| e.0.0 <= time) {
                if let Some(Reverse(Timed(_, _, event))) = self.ends.pop() {
                    self.end(event);
                }
            }
            while self.jobs.arrival.get(arriving).is_some_and(|&a| a <= time) {
                self.outcome.events += 1;
                if !self.never[self.shape[arriving] as usize] {
                    self.enqueue(arriving as u32);
                }
                arriving += 1;
            }
            self.schedule();
            self.plan_pools();
            let (count, since, waited) = self.waiting;
            if count as f64 * self.now - since + waited > patience {
                self.outcome.given_up = true;
                break;
            }
        }
        self.outcome
    }

    /// Let time pass, and count what is in use meanwhile.
    fn pass(&mut self, time: f64) {
        let from = self.now.max(self.window.0);
        let seconds = time.min(self.window.1) - from;
        if seconds > 0.0 && from.is_finite() {
            self.outcome.core_seconds += self.used.0 as f64 * seconds / 1000.0;
            self.outcome.gpu_seconds += self.used.1 as f64 * seconds / 1000.0;
            if self.first != NONE {
                self.outcome.stranded_core_seconds += (self.cluster.all_cores - self.used.0) as f64 * seconds / 1000.0;
            }
            if self.waiting_gpus > 0 {
                self.outcome.stranded_gpu_seconds += (self.cluster.all_gpus - self.used.1) as f64 * seconds / 1000.0;
            }
        }
        self.now = time;
    }

    fn end(&mut self, event: Event) {
        match event {
            Event::Job(job) => self.release(job),
            Event::Pool(pool, version) => {
                if self.trunks.version(pool) == version {
                    for job in self.trunks.finished(pool, self.now) {
                        self.release(job);
                    }
                }
            }
        }
    }

    fn release(&mut self, job: u32) {
        let placed = std::mem::take(&mut self.placed[job as usize]);
        let at = job as usize;
        self.cluster.free(&placed, self.jobs.part(at));
        for placement in &placed {
            self.releases.push(placement.host);
            self.trunks.load(placement.pool, self.jobs.class[at], self.jobs.gpus[at], -1.0, self.now);
        }
        self.running.remove(&(At(self.expected[at]), job));
        self.count_use(at, -1);
        self.outcome.end[at] = self.now;
        self.outcome.events += 1;
        self.changes += 1;
        if let Some(reserved) = &mut self.reservation {
            reserved.ended(self.expected[at], self.now);
        }
    }

    fn count_use(&mut self, job: usize, sign: i64) {
        let parts = i64::from(self.jobs.parts[job]) * sign;
        self.used.0 += parts * self.jobs.cores[job];
        self.used.1 += parts * self.jobs.gpus[job];
    }

    fn enqueue(&mut self, job: u32) {
        if self.first == NONE {
            self.first = job;
        } else {
            self.next[self.last as usize] = job;
        }
        self.last = job;
        self.waiting.0 += 1;
        self.waiting.1 += self.jobs.arrival[job as usize];
        self.waiting_gpus += u64::from(self.jobs.gpus[job as usize] > 0);
    }

    /// Take a job out of the queue, behind `before` (none for the first).
    fn dequeue(&mut self, before: u32, job: u32) {
        let after = std::mem::replace(&mut self.next[job as usize], NONE);
        if before == NONE {
            self.first = after;
        } else {
            self.next[before as usize] = after;
        }
        if self.last == job {
            self.last = before;
        }
        let arrival = self.jobs.arrival[job as usize];
        self.waiting = (self.waiting.0 - 1, self.waiting.1 - arrival, self.waiting.2 + self.now - arrival);
        self.waiting_gpus -= u64::from(self.jobs.gpus[job as usize] > 0);
    }

    /// Start what can start.
    fn schedule(&mut self) {
        while self.first != NONE && self.fits(self.first) {
            let job = self.first;
            if let Some(placed) = self.place(job) {
                self.dequeue(NONE, job);
                self.start(job, placed);
            }
        }
        if self.first == NONE || self.policy == Policy::Order || self.next[self.first as usize] == NONE {
            return;
        }
        let changes = self.changes;
        let (mut before, mut looked) = match self.walk {
            Some(walk) if walk.changes == changes && self.reserved() => (walk.before, walk.looked),
            _ => (self.first, 0),
        };
        while looked < self.depth && self.next[before as usize] != NONE {
            let job = self.next[before as usize];
            looked += 1;
            if self.fits(job) && self.overtakes(job) {
                self.dequeue(before, job);
            } else {
                before = job;
            }
        }
        self.walk = Some(Walk { changes, before, looked });
    }

    /// Whether a job may fit: its shape did not fail, or something became free since that is enough.
    fn fits(&mut self, job: u32) -> bool {
        let (at, shape) = (job as usize, self.shape[job as usize] as usize);
        let (parts, part, since) = (self.jobs.parts[at], self.jobs.part(at), self.failed[shape]);
        if since == self.releases.len() {
            return false;
        }
        let found = if parts == 1 && since < self.releases.len() && self.releases.len() - since <= FEW_RELEASES {
            self.releases[since..].iter().any(|&host| self.cluster.opens(host, part))
        } else {
            self.cluster.could(parts, part)
        };
        if !found {
            self.failed[shape] = self.releases.len();
        }
        found
    }

    fn place(&mut self, job: u32) -> Option<Vec<Placement>> {
        let at = job as usize;
        let placed = self.cluster.place(self.jobs.parts[at], self.jobs.part(at));
        if placed.is_none() {
            self.failed[self.shape[at] as usize] = self.releases.len();
        }
        placed
    }

    /// Start a job behind the first that waits, if the policy lets it.
    fn overtakes(&mut self, job: u32) -> bool {
        let (at, shape) = (job as usize, self.shape[job as usize] as usize);
        if self.policy == Policy::Backfill {
            self.reserve();
        }
        let expected = self.now + self.jobs.limit[at] * self.classes[self.jobs.class[at] as usize].slowdown;
        // where one of its shape would be in the way, so would it
        if self.refused[shape] == self.changes && self.reservation.as_ref().is_some_and(|r| expected > r.at) {
            return false;
        }
        let Some(placed) = self.place(job) else { return false };
        if let Some(reserved) = &mut self.reservation
            && !reserved.allows(&placed, self.jobs.part(at), expected)
        {
            self.cluster.free(&placed, self.jobs.part(at));
            self.refused[shape] = self.changes;
            return false;
        }
        self.start(job, placed);
        true
    }

    /// Whether what is known of the first job that waits still holds.
    fn reserved(&self) -> bool {
        self.policy != Policy::Backfill || self.reservation.as_ref().is_some_and(|r| r.holds(self.first, self.now))
    }

    /// Find when the first job that waits can start, as far as expected ends say.
    fn reserve(&mut self) {
        if self.reserved() {
            return;
        }
        let head = self.first as usize;
        let running = self.running.iter().map(|&(At(expected), job)| {
            let one = job as usize;
            (expected, self.placed[one].as_slice(), self.jobs.part(one))
        });
        let free = self.cluster.free.clone();
        self.reservation = Some(Reservation::new(self.first, self.jobs.parts[head], self.jobs.part(head), self.now, free, running));
        self.refused.fill(u64::MAX);
    }

    fn start(&mut self, job: u32, placed: Vec<Placement>) {
        let at = job as usize;
        self.changes += 1;
        let class = self.jobs.class[at];
        let slowdown = self.classes[class as usize].slowdown;
        let seconds = self.jobs.work[at] * slowdown;
        self.outcome.start[at] = self.now;
        self.count_use(at, 1);
        self.expected[at] = self.now + self.jobs.limit[at] * slowdown;
        if self.policy == Policy::Backfill {
            self.running.insert((At(self.expected[at]), job));
        }
        let home = placed.first().map_or(0, |p| p.pool);
        for placement in &placed {
            self.trunks.load(placement.pool, class, self.jobs.gpus[at], 1.0, self.now);
        }
        self.placed[at] = placed;
        if !seconds.is_finite() {
            self.outcome.end[at] = f64::INFINITY;
        } else if self.trunks.shared(home) && self.jobs.gpus[at] > 0 {
            self.trunks.begin(home, class, seconds, job);
        } else {
            self.ends.push(Reverse(Timed(self.now + seconds, u64::from(job), Event::Job(job))));
        }
    }

    /// Put the next end of every pool whose trunk has other jobs now.
    fn plan_pools(&mut self) {
        for pool in self.trunks.changed() {
            if let Some((seconds, version)) = self.trunks.plan(pool) {
                let order = u64::from(u32::MAX) + u64::from(pool);
                self.ends.push(Reverse(Timed(self.now + seconds, order, Event::Pool(pool, version))));
            }
        }
    }
}

#[cfg(test)]
mod tests;
