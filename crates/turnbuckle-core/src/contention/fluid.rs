//! Flows over links with max-min fair rates; only what a change reaches is solved again.
//!
//! All rates rise together; the first link that is full freezes the flows on it; the rest goes on.  Every flow then has a full
//! link on which nobody is faster, and there is one such set of rates only.  So after a change the flows on the links that it
//! touched are solved beside all others as they are; whoever of these is left without such a link, or is faster than one that has it
//! on the same link, is solved again with them.  Flows that begin or end at one instant are taken together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    /// While solving: its rate to be.
    share: f64,
    /// The full link on which nobody is faster.
    held_by: u32,
}

#[derive(Clone, Debug, Default)]
struct Link {
    capacity: f64,
    flows: Vec<u32>,
    /// Bytes carried.
    carried: f64,
    seen: u32,
    /// While solving: capacity not given away, flows that are solved and not frozen, and what those got that it froze.
    room: f64,
    open: u32,
    gives: f64,
    /// Flows on it that are solved.
    mine: u32,
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
    /// Scratch: links and flows that are solved, links in the order in which they may be full.
    part: Vec<u32>,
    moved: Vec<u32>,
    filling: BinaryHeap<(Reverse<Share>, Reverse<u32>)>,
}

/// Less than this is left of a flow: it has ended [B].
const NOTHING: f64 = 1e-6;
/// Rates that differ by less than this share are the same.
const ALIKE: f64 = 1e-9;
/// Times that what is solved is widened before all that hangs together is.
const WIDENED: u32 = 8;

impl Fluid {
    pub(super) fn new(capacities: impl Iterator<Item = f64>) -> Self {
        let links: Vec<Link> = capacities.map(|capacity| Link { capacity, ..Link::default() }).collect();
        let shared = links.len();
        Self {
            links,
            flows: Vec::new(),
            idle: Vec::new(),
            touched: Vec::new(),
            round: 0,
            shared,
            part: Vec::new(),
            moved: Vec::new(),
            filling: BinaryHeap::new(),
        }
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
        self.part.clear();
        self.moved.clear();
        for link in std::mem::take(&mut self.touched) {
            for place in 0..self.links[link as usize].flows.len() {
                self.take(self.links[link as usize].flows[place]);
            }
        }
        let mut widened = 0;
        loop {
            self.fill();
            let before = self.moved.len();
            if widened < WIDENED {
                self.widen()
            } else {
                self.take_all()
            }
            widened += 1;
            if self.moved.len() == before {
                break;
            }
        }
        for at in 0..self.moved.len() {
            let slot = self.moved[at];
            let flow = &mut self.flows[slot as usize];
            if flow.rate.to_bits() != flow.share.to_bits() {
                flow.left = (flow.left - flow.rate * (now - flow.since) as f64).max(0.0);
                (flow.since, flow.rate) = (now, flow.share);
                flow.version = flow.version.wrapping_add(1);
                let takes = if flow.left <= NOTHING { 0.0 } else { (flow.left / flow.rate).ceil() };
                says(slot, flow.version, now.saturating_add(takes as Time));
            }
        }
    }

    /// A flow is to be solved, with the links on its way.
    fn take(&mut self, slot: u32) {
        let round = self.round;
        let flow = &mut self.flows[slot as usize];
        if std::mem::replace(&mut flow.seen, round) == round {
            return;
        }
        self.moved.push(slot);
        for number in &flow.route {
            let link = &mut self.links[*number as usize];
            if std::mem::replace(&mut link.seen, round) != round {
                link.mine = 0;
                self.part.push(*number);
            }
            link.mine += 1;
        }
    }

    /// Progressive filling: rates to be of what is solved, beside all others as they are.
    fn fill(&mut self) {
        let round = self.round;
        for at in &self.part {
            let link = &self.links[*at as usize];
            let others = |given: f64, slot: &u32| {
                let flow = &self.flows[*slot as usize];
                if flow.seen == round { given } else { given + flow.rate }
            };
            let given = if link.mine as usize == link.flows.len() { 0.0 } else { link.flows.iter().fold(0.0, others) };
            let link = &mut self.links[*at as usize];
            (link.room, link.open, link.gives) = ((link.capacity - given).max(0.0), link.mine, f64::INFINITY);
            if link.open > 0 {
                self.filling.push((Reverse(Share(link.room / f64::from(link.open))), Reverse(*at)));
            }
        }
        for slot in &self.moved {
            self.flows[*slot as usize].frozen = false;
        }
        while let Some((Reverse(Share(said)), Reverse(full))) = self.filling.pop() {
            let link = &self.links[full as usize];
            if link.open == 0 {
                continue;
            }
            let share = link.room / f64::from(link.open);
            if share > said {
                // flows of it were frozen elsewhere, at less: its share has grown since it was put here
                self.filling.push((Reverse(Share(share)), Reverse(full)));
                continue;
            }
            self.links[full as usize].gives = share;
            for place in 0..self.links[full as usize].flows.len() {
                let slot = self.links[full as usize].flows[place] as usize;
                if self.flows[slot].seen != round || std::mem::replace(&mut self.flows[slot].frozen, true) {
                    continue;
                }
                (self.flows[slot].share, self.flows[slot].held_by) = (share, full);
                for hop in 0..self.flows[slot].route.len() {
                    let other = &mut self.links[self.flows[slot].route[hop] as usize];
                    other.room = (other.room - share).max(0.0);
                    other.open -= 1;
                }
            }
        }
    }

    /// Who was left as it was and cannot stay so is to be solved too.
    fn widen(&mut self) {
        let round = self.round;
        for at in 0..self.part.len() {
            let number = self.part[at];
            let link = &self.links[number as usize];
            if link.mine as usize == link.flows.len() {
                continue;
            }
            let full = link.room <= link.capacity * ALIKE;
            let fastest = |most: f64, slot: &u32| {
                let flow = &self.flows[*slot as usize];
                if flow.seen == round { most.max(flow.share) } else { most }
            };
            let most = link.flows.iter().fold(0.0, fastest);
            let gives = link.gives * (1.0 + ALIKE);
            for place in 0..link.flows.len() {
                let slot = self.links[number as usize].flows[place];
                let flow = &self.flows[slot as usize];
                // it has lost the link that held it, or it is faster than those that this link holds
                let free = flow.held_by == number && !(full && flow.rate * (1.0 + ALIKE) >= most);
                if flow.seen != round && (free || flow.rate > gives) {
                    self.take(slot);
                }
            }
        }
    }

    /// All that hangs together with what is solved is to be solved too.
    fn take_all(&mut self) {
        let mut at = 0;
        while at < self.part.len() {
            let link = self.part[at] as usize;
            at += 1;
            for place in 0..self.links[link].flows.len() {
                self.take(self.links[link].flows[place]);
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
    fn rates_after_any_change_are_those_of_all_flows_solved_at_once() {
        let mut seed = 4_711_u64;
        let mut next = move |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..40 {
            let links = 4 + next(40) as usize;
            let capacity: Vec<f64> = (0..links).map(|_| 1.0 + next(5) as f64).collect();
            let mut fluid = Fluid::new(capacity.iter().copied());
            let mut alive: std::collections::BTreeMap<u32, (Vec<u32>, Option<f64>)> = std::collections::BTreeMap::new();
            for name in 0..120_u32 {
                if next(3) > 0 || alive.is_empty() {
                    let mut route: Vec<u32> = (0..1 + next(4)).map(|_| next(links as u64) as u32).collect();
                    route.sort_unstable();
                    route.dedup();
                    let limit = (next(4) == 0).then(|| 0.1 + next(10) as f64 / 7.0);
                    fluid.begin(name, 1e9, &route, limit, 0);
                    alive.insert(name, (route, limit));
                } else {
                    let gone = *alive.keys().nth(next(alive.len() as u64) as usize).expect("a flow");
                    let (slot, flow) = fluid.flows.iter().enumerate().find(|(_, f)| f.alive && f.name == gone).expect("its slot");
                    let (slot, version) = (slot as u32, flow.version);
                    assert_eq!(fluid.end(slot, version), Some(gone));
                    alive.remove(&gone);
                }
                settled(&mut fluid, 0);
                let mut whole = Fluid::new(capacity.iter().copied());
                for (name, (route, limit)) in &alive {
                    whole.begin(*name, 1e9, route, *limit, 0);
                }
                settled(&mut whole, 0);
                let expected: std::collections::HashMap<u32, f64> = whole.rates().into_iter().collect();
                for (name, rate) in fluid.rates() {
                    assert!((rate / expected[&name] - 1.0).abs() < 1e-7, "flow {name}: {rate} for {}", expected[&name]);
                }
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
