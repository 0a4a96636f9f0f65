//! Flows over links with max-min fair rates; only what a change touches is solved again.
//!
//! All rates rise together; the first link that is full freezes the flows on it; the rest goes on.  Every flow then has a full
//! link on which nobody is faster.  Flows that begin or end at one instant are taken together.

use super::Time;

/// A flow under way.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// Links, as a piece of the common list.
    route: Vec<u32>,
    left: f64,
    rate: f64,
    /// Up to when `left` is true.
    since: Time,
    version: u32,
    /// What the caller calls it.
    name: u32,
    alive: bool,
    seen: u32,
    frozen: bool,
}

#[derive(Clone, Debug, Default)]
struct Link {
    capacity: f64,
    flows: Vec<u32>,
    /// Bytes carried.
    carried: f64,
    seen: u32,
    /// While solving: capacity not given away, flows not frozen.
    room: f64,
    open: u32,
}

/// Links and the flows on them.
pub(super) struct Fluid {
    links: Vec<Link>,
    flows: Vec<Flow>,
    idle: Vec<u32>,
    /// Links on which something began or ended since the rates were last settled.
    touched: Vec<u32>,
    round: u32,
    /// Links that flows share; behind them stands one for each flow with a limit of its own.
    shared: usize,
    /// Scratch: links and flows of the touched part.
    part: Vec<u32>,
    moved: Vec<u32>,
}

/// Less than this is left of a flow: it has ended [B].
const NOTHING: f64 = 1e-6;

impl Fluid {
    pub(super) fn new(capacities: impl Iterator<Item = f64>) -> Self {
        let links: Vec<Link> = capacities.map(|capacity| Link { capacity, ..Link::default() }).collect();
        let shared = links.len();
        Self { links, flows: Vec::new(), idle: Vec::new(), touched: Vec::new(), round: 0, shared, part: Vec::new(), moved: Vec::new() }
    }

    /// A flow begins; `settle` gives it its rate.
    pub(super) fn begin(&mut self, name: u32, bytes: f64, route: &[u32], limit: Option<f64>, now: Time) {
        let slot = self.idle.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            self.flows.len() as u32 - 1
        });
        let flow = &mut self.flows[slot as usize];
        flow.route.clear();
        flow.route.extend_from_slice(route);
        (flow.left, flow.rate, flow.since, flow.name, flow.alive) = (bytes, 0.0, now, name, true);
        flow.version = flow.version.wrapping_add(1);
        if let Some(limit) = limit {
            let own = self.shared + slot as usize;
            if self.links.len() <= own {
                self.links.resize_with(own + 1, Link::default);
            }
            self.links[own].capacity = limit;
            flow.route.push(own as u32);
        }
        for hop in 0..self.flows[slot as usize].route.len() {
            let link = self.flows[slot as usize].route[hop];
            self.links[link as usize].flows.push(slot);
            self.links[link as usize].carried += bytes;
            self.touched.push(link);
        }
    }

    /// A flow drained: its name, if it is still the version that was said to.
    pub(super) fn end(&mut self, slot: u32, version: u32) -> Option<u32> {
        let flow = &mut self.flows[slot as usize];
        if !flow.alive || flow.version != version {
            return None;
        }
        flow.alive = false;
        flow.version = flow.version.wrapping_add(1);
        let name = flow.name;
        for at in 0..self.flows[slot as usize].route.len() {
            let link = self.flows[slot as usize].route[at];
            let on = &mut self.links[link as usize].flows;
            let place = on.iter().position(|f| *f == slot).expect("a flow is on its links");
            on.swap_remove(place);
            self.touched.push(link);
        }
        self.idle.push(slot);
        Some(name)
    }

    /// Whether rates must be settled.
    pub(super) fn stale(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Give what was touched its rates, and say when each flow whose rate changed will end: slot, version, time.
    pub(super) fn settle(&mut self, now: Time, mut says: impl FnMut(u32, u32, Time)) {
        self.round = self.round.wrapping_add(1);
        let round = self.round;
        self.part.clear();
        self.moved.clear();
        // the links and flows that hang together with what was touched
        for link in std::mem::take(&mut self.touched) {
            if self.links[link as usize].seen != round {
                self.links[link as usize].seen = round;
                self.part.push(link);
            }
        }
        let mut at = 0;
        while at < self.part.len() {
            let link = self.part[at] as usize;
            at += 1;
            for place in 0..self.links[link].flows.len() {
                let slot = self.links[link].flows[place];
                if self.flows[slot as usize].seen == round {
                    continue;
                }
                self.flows[slot as usize].seen = round;
                self.flows[slot as usize].frozen = false;
                self.moved.push(slot);
                for hop in 0..self.flows[slot as usize].route.len() {
                    let next = self.flows[slot as usize].route[hop];
                    if self.links[next as usize].seen != round {
                        self.links[next as usize].seen = round;
                        self.part.push(next);
                    }
                }
            }
        }
        for link in &self.part {
            let link = &mut self.links[*link as usize];
            (link.room, link.open) = (link.capacity, link.flows.len() as u32);
        }
        self.fill(now, &mut says);
    }

    /// Progressive filling of `part`.
    fn fill(&mut self, now: Time, says: &mut impl FnMut(u32, u32, Time)) {
        let mut heap: std::collections::BinaryHeap<(std::cmp::Reverse<Share>, std::cmp::Reverse<u32>)> = self
            .part
            .iter()
            .filter(|l| self.links[**l as usize].open > 0)
            .map(|l| {
                let link = &self.links[*l as usize];
                (std::cmp::Reverse(Share(link.room / f64::from(link.open))), std::cmp::Reverse(*l))
            })
            .collect();
        while let Some((std::cmp::Reverse(Share(said)), std::cmp::Reverse(full))) = heap.pop() {
            let link = &self.links[full as usize];
            if link.open == 0 {
                continue;
            }
            let share = link.room / f64::from(link.open);
            if share > said {
                // flows of it were frozen elsewhere, at less: its share has grown since it was put here
                heap.push((std::cmp::Reverse(Share(share)), std::cmp::Reverse(full)));
                continue;
            }
            for place in 0..self.links[full as usize].flows.len() {
                let slot = self.links[full as usize].flows[place];
                if std::mem::replace(&mut self.flows[slot as usize].frozen, true) {
                    continue;
                }
                for hop in 0..self.flows[slot as usize].route.len() {
                    let other = &mut self.links[self.flows[slot as usize].route[hop] as usize];
                    other.room = (other.room - share).max(0.0);
                    other.open -= 1;
                }
                let flow = &mut self.flows[slot as usize];
                if flow.rate.to_bits() != share.to_bits() {
                    flow.left = (flow.left - flow.rate * (now - flow.since) as f64).max(0.0);
                    (flow.since, flow.rate) = (now, share);
                    flow.version = flow.version.wrapping_add(1);
                    let takes = if flow.left <= NOTHING { 0.0 } else { (flow.left / share).ceil() };
                    says(slot, flow.version, now.saturating_add(takes as Time));
                }
            }
        }
    }

    /// How many flows were solved again last.
    pub(super) fn solved(&self) -> usize {
        self.moved.len()
    }

    /// Whether what was said of a flow's end still holds.
    pub(super) fn holds(&self, slot: u32, version: u32) -> bool {
        self.flows.get(slot as usize).is_some_and(|f| f.alive && f.version == version)
    }

    /// Bytes that each link has carried.
    pub(super) fn carried(&self) -> Vec<f64> {
        self.links[..self.shared].iter().map(|l| l.carried).collect()
    }

    /// Rates of the flows under way, by name [B/ps].
    #[cfg(test)]
    pub(super) fn rates(&self) -> Vec<(u32, f64)> {
        self.flows.iter().filter(|f| f.alive).map(|f| (f.name, f.rate)).collect()
    }
}

/// A share of a link, ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share(f64);

impl Eq for Share {}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(fluid: &mut Fluid, now: Time) -> Vec<(u32, u32, Time)> {
        let mut said = Vec::new();
        fluid.settle(now, |slot, version, at| said.push((slot, version, at)));
        said
    }

    #[test]
    fn a_known_case() {
        // two links of 10; one flow over both, one on the first, four on the second: 2, 8, 2
        let mut fluid = Fluid::new([10.0, 10.0].into_iter());
        fluid.begin(0, 100.0, &[0, 1], None, 0);
        fluid.begin(1, 100.0, &[0], None, 0);
        for name in 2..6 {
            fluid.begin(name, 100.0, &[1], None, 0);
        }
        settled(&mut fluid, 0);
        let mut rates = fluid.rates();
        rates.sort_by_key(|r| r.0);
        assert_eq!(rates, [(0, 2.0), (1, 8.0), (2, 2.0), (3, 2.0), (4, 2.0), (5, 2.0)]);
    }

    #[test]
    fn rates_are_fair_whatever_the_order() {
        // a small generator, no dependency
        let mut seed = 12_345_u64;
        let mut next = move |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..200 {
            let links = 2 + next(6) as usize;
            let capacity: Vec<f64> = (0..links).map(|_| 1.0 + next(9) as f64).collect();
            let mut fluid = Fluid::new(capacity.iter().copied());
            let mut routes = Vec::new();
            for name in 0..1 + next(12) as u32 {
                let mut route: Vec<u32> = (0..1 + next(3)).map(|_| next(links as u64) as u32).collect();
                route.sort_unstable();
                route.dedup();
                fluid.begin(name, 1e9, &route, None, 0);
                routes.push(route);
                if next(2) == 0 {
                    settled(&mut fluid, 0);
                }
            }
            settled(&mut fluid, 0);
            let rates: std::collections::HashMap<u32, f64> = fluid.rates().into_iter().collect();
            let load: Vec<f64> = (0..links as u32)
                .map(|l| routes.iter().enumerate().filter(|(_, r)| r.contains(&l)).map(|(n, _)| rates[&(n as u32)]).sum())
                .collect();
            for (used, has) in load.iter().zip(&capacity) {
                assert!(*used <= has * (1.0 + 1e-9), "{load:?} {capacity:?}");
            }
            for (name, route) in routes.iter().enumerate() {
                let mine = rates[&(name as u32)];
                let held = route.iter().any(|l| {
                    let full = load[*l as usize] >= capacity[*l as usize] * (1.0 - 1e-9);
                    full && routes.iter().enumerate().all(|(n, r)| !r.contains(l) || rates[&(n as u32)] <= mine * (1.0 + 1e-9))
                });
                assert!(held, "flow {name} could be faster");
            }
        }
    }

    #[test]
    fn a_flow_with_a_limit_leaves_the_rest_to_others() {
        let mut fluid = Fluid::new([10.0].into_iter());
        fluid.begin(0, 100.0, &[0], Some(2.0), 0);
        fluid.begin(1, 100.0, &[0], None, 0);
        settled(&mut fluid, 0);
        let mut rates = fluid.rates();
        rates.sort_by_key(|r| r.0);
        assert_eq!(rates, [(0, 2.0), (1, 8.0)]);
        assert_eq!(fluid.carried(), [200.0]);
    }

    #[test]
    fn what_ends_makes_room() {
        let mut fluid = Fluid::new([1.0].into_iter());
        fluid.begin(7, 100.0, &[0], None, 0);
        fluid.begin(8, 50.0, &[0], None, 0);
        let said = settled(&mut fluid, 0);
        assert_eq!(said.iter().map(|s| s.2).collect::<Vec<_>>(), [200, 100]);
        assert_eq!(fluid.end(said[1].0, said[1].1), Some(8));
        let later = settled(&mut fluid, 100);
        assert_eq!(later.iter().map(|s| s.2).collect::<Vec<_>>(), [150]);
        assert_eq!(fluid.end(said[0].0, said[0].1), None, "what was said before no longer holds");
        assert_eq!(fluid.carried(), [150.0]);
    }
}
