//! Trunks: the bandwidth that the jobs of a pool have between them.
//!
//! While all jobs together move less than a trunk carries, each runs at full speed.  Beyond that every move takes phi times as long, the smallest
//! phi at which they fit: a job of a class runs at 1 / max(1 - exposed + exposed phi, moving phi) of its speed.  Progress of a class is one clock,
//! so that a change of speed touches classes, not jobs.

use super::{At, Class};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Halvings in which phi is found: more than a double has digits.
const HALVINGS: u32 = 60;
/// How far a clock may be off by rounding [s].
const ROUNDING: f64 = 1e-6;
const MOST_PHI: f64 = 1e9;

#[derive(Clone, Debug, Default)]
struct Progress {
    /// GPUs that jobs of the class hold, in thousandths.
    gpus: i64,
    /// Seconds of work that each of its jobs has done since the clock began.
    clock: f64,
    rate: f64,
    /// Its jobs by the clock at which they end.
    ends: BinaryHeap<Reverse<(At, u32)>>,
}

#[derive(Clone, Debug)]
struct Trunk {
    bandwidth: f64,
    classes: Vec<Progress>,
    since: f64,
    version: u32,
    changed: bool,
}

pub(super) struct Trunks {
    trunks: Vec<Trunk>,
    classes: Vec<Class>,
    changed: Vec<u32>,
}

impl Trunks {
    pub(super) fn new(bandwidths: &[f64], classes: &[Class]) -> Self {
        let progress = |bandwidth: f64| if bandwidth.is_finite() { vec![Progress::default(); classes.len()] } else { Vec::new() };
        let trunks =
            bandwidths.iter().map(|&bandwidth| Trunk { bandwidth, classes: progress(bandwidth), since: 0.0, version: 0, changed: false });
        Self { trunks: trunks.collect(), classes: classes.to_vec(), changed: Vec::new() }
    }

    /// Whether jobs of a pool may have to wait for its trunk.
    pub(super) fn shared(&self, pool: u32) -> bool {
        self.trunks[pool as usize].bandwidth.is_finite()
    }

    pub(super) fn version(&self, pool: u32) -> u32 {
        self.trunks[pool as usize].version
    }

    /// Pools whose jobs changed since it was asked last.
    pub(super) fn changed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Add GPUs of a class to the load of a trunk, or take them away.
    pub(super) fn load(&mut self, pool: u32, class: u32, gpus: i64, sign: f64, now: f64) {
        let trunk = &mut self.trunks[pool as usize];
        if !trunk.bandwidth.is_finite() || gpus == 0 {
            return;
        }
        trunk.pass(now);
        trunk.classes[class as usize].gpus += if sign > 0.0 { gpus } else { -gpus };
        self.touch(pool);
    }

    fn touch(&mut self, pool: u32) {
        let trunk = &mut self.trunks[pool as usize];
        if !std::mem::replace(&mut trunk.changed, true) {
            self.changed.push(pool);
        }
    }

    /// Begin a job of so many seconds at full speed; its GPUs were loaded at the same time.
    pub(super) fn begin(&mut self, pool: u32, class: u32, seconds: f64, job: u32) {
        let progress = &mut self.trunks[pool as usize].classes[class as usize];
        progress.ends.push(Reverse((At(progress.clock + seconds), job)));
        self.touch(pool);
    }

    /// Jobs that end now; at least the one for which this time was planned.
    pub(super) fn finished(&mut self, pool: u32, now: f64) -> Vec<u32> {
        let trunk = &mut self.trunks[pool as usize];
        trunk.pass(now);
        let mut out = Vec::new();
        for progress in &mut trunk.classes {
            while let Some(&Reverse((At(end), job))) = progress.ends.peek() {
                if end > progress.clock + ROUNDING.max(1e-12 * now.abs()) {
                    break;
                }
                progress.ends.pop();
                out.push(job);
            }
        }
        self.touch(pool);
        out
    }

    /// Find the speed of each class; return the seconds until the next job ends, and the number of this plan.
    pub(super) fn plan(&mut self, pool: u32) -> Option<(f64, u32)> {
        let trunk = &mut self.trunks[pool as usize];
        trunk.changed = false;
        trunk.version = trunk.version.wrapping_add(1);
        let phi = trunk.phi(&self.classes);
        let mut soonest: Option<f64> = None;
        for (progress, class) in trunk.classes.iter_mut().zip(&self.classes) {
            progress.rate = speed(class, phi);
            if let Some(&Reverse((At(end), _))) = progress.ends.peek() {
                let seconds = ((end - progress.clock) / progress.rate).max(0.0);
                soonest = Some(soonest.map_or(seconds, |s| s.min(seconds)));
            }
        }
        soonest.map(|seconds| (seconds, trunk.version))
    }
}

impl Trunk {
    fn pass(&mut self, now: f64) {
        let seconds = now - self.since;
        self.since = now;
        for progress in &mut self.classes {
            if progress.ends.is_empty() {
                progress.clock = 0.0;
            } else {
                progress.clock += seconds * progress.rate;
            }
        }
    }

    /// How many times as long every move takes.
    fn phi(&self, classes: &[Class]) -> f64 {
        let wanted = |phi: f64| -> f64 {
            let each = self.classes.iter().zip(classes);
            each.map(|(progress, class)| progress.gpus as f64 / 1000.0 * class.bandwidth * speed(class, phi)).sum()
        };
        if wanted(1.0) <= self.bandwidth {
            return 1.0;
        }
        let (mut low, mut high) = (1.0, 2.0);
        while wanted(high) > self.bandwidth && high < MOST_PHI {
            low = high;
            high *= 2.0;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if wanted(middle) > self.bandwidth {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

fn speed(class: &Class, phi: f64) -> f64 {
    1.0 / (1.0 - class.exposed + class.exposed * phi).max(class.moving * phi).max(1.0)
}
