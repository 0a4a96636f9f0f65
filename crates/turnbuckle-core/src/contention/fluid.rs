//! Flows over links with max-min fair rates; only what a change reaches is solved again.
//!
//! All rates rise together; the first link that is full freezes the flows on it; the rest goes on.  Every flow then has a full
//! link on which nobody is faster, and there is one such set of rates only.  So after a change the flows on the links that it
//! touched are solved beside all others as they are; whoever of these is left without such a link, or is faster than one that has it
//! on the same link, is solved again with them.  Flows that begin or end at one instant are taken together.
//!
//! Flows of one route and one limit are a bundle: they have one rate and are solved as one, so that what a change costs is the number of
//! bundles on its links, however many flows these hold.  A bundle counts the bytes that each of its flows has been served; a flow ends when
//! that count comes to where it stood as the flow began, and its bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Time;

/// A flow of a bundle: the served count at which it ends, its number in the order of beginning, and what the caller calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    ends: Share,
    number: u32,
    name: u32,
}

/// Flows under way on one route.
#[derive(Clone, Debug)]
struct Bundle {
    /// Links; behind them its own, where its flows have a limit.
    route: Vec<u32>,
    /// The flow that ends first, if there is any; the others stand apart, as most bundles have none.
    first: Flow,
    count: u32,
    version: u32,
    /// Bytes that each flow has been served up to `since`.
    served: f64,
    /// Of each flow.
    rate: f64,
    since: Time,
    /// While solving: its rate to be.
    share: f64,
    /// The full link on which nobody is faster.
    held_by: u32,
    seen: u32,
    frozen: bool,
    /// Whether its first end must be said again, whatever its rate.
    changed: bool,
}

impl Bundle {
    fn new() -> Self {
        Self {
            route: Vec::new(),
            first: Flow { ends: Share(0.0), number: 0, name: 0 },
            count: 0,
            version: 0,
            served: 0.0,
            rate: 0.0,
            since: 0,
            share: 0.0,
            held_by: 0,
            seen: 0,
            frozen: false,
            changed: false,
        }
    }

    fn push(&mut self, flow: Flow, others: &mut BinaryHeap<Reverse<Flow>>) {
        self.count += 1;
        if self.count == 1 {
            self.first = flow;
        } else {
            let later = flow.max(self.first);
            self.first = flow.min(self.first);
            others.push(Reverse(later));
        }
    }

    /// Take out the flow that ends first; there must be one.
    fn pop(&mut self, others: &mut BinaryHeap<Reverse<Flow>>) -> u32 {
        let name = self.first.name;
        self.count -= 1;
        if let Some(Reverse(next)) = others.pop() {
            self.first = next;
        }
        name
    }

    /// When its first flow ends at the rate it has.
    fn first_end(&self) -> Time {
        let left = self.first.ends.0 - self.served;
        if left <= NOTHING {
            return self.since;
        }
        let takes = left / self.rate;
        let whole = takes as Time;
        self.since.saturating_add(whole.saturating_add(Time::from((whole as f64) < takes)))
    }

    /// Count what has been served up to now.  A flow alone counts what is left of it, so that nothing is lost where counts are large.
    fn advance(&mut self, now: Time) {
        let more = self.rate * (now - self.since) as f64;
        self.since = now;
        if self.count == 1 {
            self.first.ends = Share((self.first.ends.0 - self.served - more).max(0.0));
            self.served = 0.0;
        } else {
            self.served += more;
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Link {
    capacity: f64,
    bundles: Vec<u32>,
    /// Flows on it.
    count: u32,
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
    bundles: Vec<Bundle>,
    /// Flows of each bundle but the first.
    others: Vec<BinaryHeap<Reverse<Flow>>>,
    idle: Vec<u32>,
    /// Flows that have begun.
    begun: u32,
    /// Links on which something began or ended since the rates were last settled.
    touched: Vec<u32>,
    round: u32,
    /// Links that flows share; behind them stands one for each bundle with a limit, which gives that to each of its flows.
    shared: usize,
    /// Scratch: links and bundles that are solved, links in the order in which they may be full.
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
            bundles: Vec::new(),
            others: Vec::new(),
            idle: Vec::new(),
            begun: 0,
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
        let beside = route.first().map_or(&[][..], |first| &self.links[*first as usize].bundles[..]);
        let alike = |slot: &&u32| match (limit, self.bundles[**slot as usize].route.split_last()) {
            (Some(limit), Some((own, way))) => *own as usize >= self.shared && way == route && self.links[*own as usize].capacity == limit,
            _ => self.bundles[**slot as usize].route == route,
        };
        let slot = match beside.iter().find(alike).copied() {
            Some(slot) => slot,
            None => self.bundled(route, limit, now),
        };
        self.begun = self.begun.wrapping_add(1);
        let bundle = &mut self.bundles[slot as usize];
        bundle.advance(now);
        bundle.push(Flow { ends: Share(bundle.served + bytes), number: self.begun, name }, &mut self.others[slot as usize]);
        bundle.changed = true;
        for number in &bundle.route {
            let link = &mut self.links[*number as usize];
            link.carried += bytes;
            link.count += 1;
            self.touched.push(*number);
        }
    }

    /// A new bundle, without flows.
    fn bundled(&mut self, route: &[u32], limit: Option<f64>, now: Time) -> u32 {
        let slot = self.idle.pop().unwrap_or_else(|| {
            self.bundles.push(Bundle::new());
            self.others.push(BinaryHeap::new());
            self.bundles.len() as u32 - 1
        });
        let bundle = &mut self.bundles[slot as usize];
        bundle.route.clear();
        bundle.route.extend_from_slice(route);
        (bundle.served, bundle.rate, bundle.since) = (0.0, 0.0, now);
        if let Some(limit) = limit {
            let own = self.shared + slot as usize;
            if self.links.len() <= own {
                self.links.resize_with(own + 1, Link::default);
            }
            self.links[own].capacity = limit;
            bundle.route.push(own as u32);
        }
        for link in &bundle.route {
            self.links[*link as usize].bundles.push(slot);
        }
        slot
    }

    /// The first flow of a bundle drained, and all that end with it: their names, in the order of their ends, if what was said still holds.
    pub(super) fn end(&mut self, slot: u32, version: u32, now: Time, mut names: impl FnMut(u32)) {
        let bundle = &mut self.bundles[slot as usize];
        if bundle.version != version {
            return;
        }
        let before = bundle.count;
        while bundle.count > 0 && (before == 1 || bundle.first_end() <= now) {
            names(bundle.pop(&mut self.others[slot as usize]));
        }
        bundle.version = bundle.version.wrapping_add(1);
        bundle.changed = true;
        for number in &bundle.route {
            let link = &mut self.links[*number as usize];
            link.count -= before - bundle.count;
            self.touched.push(*number);
            if bundle.count == 0 {
                let place = link.bundles.iter().position(|f| *f == slot).expect("a bundle is on its links");
                link.bundles.swap_remove(place);
            }
        }
        if bundle.count == 0 {
            self.idle.push(slot);
        }
    }

    /// Whether rates must be settled.
    pub(super) fn stale(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Give what was touched its rates, and say when the first flow of each bundle that changed will end: slot, version, time.
    pub(super) fn settle(&mut self, now: Time, mut says: impl FnMut(u32, u32, Time)) {
        self.round = self.round.wrapping_add(1);
        self.part.clear();
        self.moved.clear();
        let mut touched = std::mem::take(&mut self.touched);
        for number in touched.drain(..) {
            let link = &self.links[number as usize];
            // one on which several began or ended stands here as often
            if link.seen != self.round || link.mine != link.count {
                for place in 0..link.bundles.len() {
                    self.take(self.links[number as usize].bundles[place]);
                }
            }
        }
        self.touched = touched;
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
            let bundle = &mut self.bundles[slot as usize];
            let faster = bundle.rate.to_bits() != bundle.share.to_bits();
            if faster {
                bundle.advance(now);
                bundle.rate = bundle.share;
            }
            if std::mem::take(&mut bundle.changed) | faster {
                bundle.version = bundle.version.wrapping_add(1);
                says(slot, bundle.version, bundle.first_end().max(now));
            }
        }
    }

    /// A bundle is to be solved, with the links on its way.
    fn take(&mut self, slot: u32) {
        let round = self.round;
        let bundle = &mut self.bundles[slot as usize];
        if std::mem::replace(&mut bundle.seen, round) == round {
            return;
        }
        self.moved.push(slot);
        for number in &bundle.route {
            let link = &mut self.links[*number as usize];
            if std::mem::replace(&mut link.seen, round) != round {
                link.mine = 0;
                self.part.push(*number);
            }
            link.mine += bundle.count;
        }
    }

    /// Progressive filling: rates to be of what is solved, beside all others as they are.
    fn fill(&mut self) {
        let round = self.round;
        for at in &self.part {
            let link = &self.links[*at as usize];
            let others = |given: f64, slot: &u32| {
                let bundle = &self.bundles[*slot as usize];
                if bundle.seen == round { given } else { given + bundle.rate * f64::from(bundle.count) }
            };
            let given = if link.mine == link.count { 0.0 } else { link.bundles.iter().fold(0.0, others) };
            let shared = (*at as usize) < self.shared;
            let link = &mut self.links[*at as usize];
            // a limit is that of each of its flows
            let whole = if shared { link.capacity } else { link.capacity * f64::from(link.mine) };
            (link.room, link.open, link.gives) = ((whole - given).max(0.0), link.mine, f64::INFINITY);
            if link.open > 0 {
                self.filling.push((Reverse(Share(link.room / f64::from(link.open))), Reverse(*at)));
            }
        }
        for slot in &self.moved {
            self.bundles[*slot as usize].frozen = false;
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
            for place in 0..self.links[full as usize].bundles.len() {
                let slot = self.links[full as usize].bundles[place] as usize;
                let bundle = &mut self.bundles[slot];
                if bundle.seen != round || std::mem::replace(&mut bundle.frozen, true) {
                    continue;
                }
                (bundle.share, bundle.held_by) = (share, full);
                let (count, taken) = (bundle.count, share * f64::from(bundle.count));
                for number in &bundle.route {
                    let other = &mut self.links[*number as usize];
                    other.room = if other.room > taken { other.room - taken } else { 0.0 };
                    other.open -= count;
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
            if link.mine == link.count {
                continue;
            }
            let full = link.room <= link.capacity * ALIKE;
            let fastest = |most: f64, slot: &u32| {
                let bundle = &self.bundles[*slot as usize];
                if bundle.seen == round { most.max(bundle.share) } else { most }
            };
            let most = link.bundles.iter().fold(0.0, fastest);
            let gives = link.gives * (1.0 + ALIKE);
            for place in 0..link.bundles.len() {
                let slot = self.links[number as usize].bundles[place];
                let bundle = &self.bundles[slot as usize];
                // it has lost the link that held it, or it is faster than those that this link holds
                let free = bundle.held_by == number && !(full && bundle.rate * (1.0 + ALIKE) >= most);
                if bundle.seen != round && (free || bundle.rate > gives) {
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
            for place in 0..self.links[link].bundles.len() {
                self.take(self.links[link].bundles[place]);
            }
        }
    }

    /// How many bundles were solved again last.
    pub(super) fn solved(&self) -> usize {
        self.moved.len()
    }

    /// Whether what was said of a bundle's first end still holds.
    pub(super) fn holds(&self, slot: u32, version: u32) -> bool {
        self.bundles.get(slot as usize).is_some_and(|bundle| bundle.version == version)
    }

    /// Bytes that each link has carried.
    pub(super) fn carried(&self) -> Vec<f64> {
        self.links[..self.shared].iter().map(|l| l.carried).collect()
    }

    /// Rates of the flows under way, by name [B/ps].
    #[cfg(test)]
    pub(super) fn rates(&self) -> Vec<(u32, f64)> {
        (0..self.bundles.len())
            .flat_map(|slot| self.names(slot).into_iter().map(move |name| (name, slot)))
            .map(|(n, s)| (n, self.bundles[s].rate))
            .collect()
    }

    /// Flows of a bundle.
    #[cfg(test)]
    fn names(&self, slot: usize) -> Vec<u32> {
        let others = self.others[slot].iter().map(|Reverse(flow)| flow.name);
        others.chain((self.bundles[slot].count > 0).then_some(self.bundles[slot].first.name)).collect()
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

    fn ended(fluid: &mut Fluid, said: (u32, u32, Time)) -> Vec<u32> {
        let mut names = Vec::new();
        fluid.end(said.0, said.1, said.2, |name| names.push(name));
        names
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
                    let slot = (0..fluid.bundles.len()).find(|slot| fluid.names(*slot).contains(&gone)).expect("its bundle");
                    // whatever is left of all its flows: they end now
                    let bundle = &mut fluid.bundles[slot];
                    bundle.served = 1e10;
                    let version = bundle.version;
                    for name in ended(&mut fluid, (slot as u32, version, 0)) {
                        assert!(alive.remove(&name).is_some());
                    }
                    assert!(!alive.contains_key(&gone));
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
        let mut fluid = Fluid::new([1.0, 9.0, 9.0].into_iter());
        fluid.begin(7, 100.0, &[0, 1], None, 0);
        fluid.begin(8, 50.0, &[0, 2], None, 0);
        let said = settled(&mut fluid, 0);
        assert_eq!(said.iter().map(|s| s.2).collect::<Vec<_>>(), [200, 100]);
        assert_eq!(ended(&mut fluid, said[1]), [8]);
        let later = settled(&mut fluid, 100);
        assert_eq!(later.iter().map(|s| s.2).collect::<Vec<_>>(), [150]);
        assert!(ended(&mut fluid, said[0]).is_empty(), "what was said before no longer holds");
        assert_eq!(fluid.carried(), [150.0, 100.0, 50.0]);
    }

    #[test]
    fn flows_of_one_route_and_one_limit_are_solved_as_one() {
        let mut fluid = Fluid::new([10.0, 40.0, 7.0].into_iter());
        for name in 0..1000 {
            fluid.begin(name, f64::from(1 + name), &[0, 1], None, 0);
        }
        fluid.begin(1000, 1e6, &[1], Some(3.0), 0);
        fluid.begin(1001, 1e6, &[1], Some(3.0), 0);
        fluid.begin(1002, 1e6, &[1], None, 0);
        // not one with its limit as another's next link
        fluid.begin(1003, 1e6, &[1, 2], None, 0);
        fluid.begin(1004, 1e6, &[1], Some(7.0), 0);
        let said = settled(&mut fluid, 0);
        assert_eq!(fluid.solved(), 5);
        let rates: std::collections::HashMap<u32, f64> = fluid.rates().into_iter().collect();
        assert_eq!([0, 999, 1000, 1001].map(|name| rates[&name]), [0.01, 0.01, 3.0, 3.0]);
        assert_eq!([1003, 1004].map(|name| rates[&name]), [7.0, 7.0]);
        assert!((rates[&1002] - 10.0).abs() < 1e-12);
        assert_eq!(said.iter().map(|s| s.2).min(), Some(100));
    }

    /// Flows one by one on links of their own kind: who ends when, by steps from end to end.
    fn alone(capacity: f64, flows: &[(Time, f64)]) -> Vec<f64> {
        let mut left: Vec<f64> = flows.iter().map(|flow| flow.1).collect();
        let mut ends = vec![f64::NAN; flows.len()];
        let mut now = 0.0;
        while ends.iter().any(|end| end.is_nan()) {
            let open: Vec<usize> = (0..flows.len()).filter(|i| ends[*i].is_nan() && flows[*i].0 as f64 <= now).collect();
            let begins = flows.iter().map(|flow| flow.0 as f64).filter(|at| *at > now).fold(f64::INFINITY, f64::min);
            let rate = capacity / open.len().max(1) as f64;
            let first = open.iter().map(|i| now + left[*i] / rate).fold(f64::INFINITY, f64::min).min(begins);
            for i in open {
                left[i] -= rate * (first - now);
                if left[i] <= 1e-9 {
                    ends[i] = first;
                }
            }
            now = first;
        }
        ends
    }

    #[test]
    fn flows_of_a_bundle_end_as_they_would_one_by_one() {
        let mut seed = 99_u64;
        let mut next = move |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..100 {
            let flows: Vec<(Time, f64)> = (0..1 + next(20)).map(|_| (next(500_000), 1.0 + next(9000) as f64)).collect();
            let expected = alone(0.0125, &flows);
            let mut fluid = Fluid::new([0.0125].into_iter());
            // what happens, in order: begins (no version), and ends that are said
            let mut queue: std::collections::BTreeSet<(Time, u32, u32, bool)> =
                flows.iter().enumerate().map(|(name, flow)| (flow.0, name as u32, 0, true)).collect();
            let mut ends = vec![0; flows.len()];
            while let Some((now, which, version, begins)) = queue.pop_first() {
                if begins {
                    fluid.begin(which, flows[which as usize].1, &[0], None, now);
                } else {
                    fluid.end(which, version, now, |name| ends[name as usize] = now);
                }
                if fluid.stale() && queue.first().is_none_or(|event| event.0 > now) {
                    fluid.settle(now, |slot, version, at| _ = queue.insert((at, slot, version, false)));
                }
            }
            for (end, due) in ends.iter().zip(&expected) {
                // an end is a whole picosecond, and each may push those after it by one
                assert!((*end as f64 - due).abs() <= 1.0 + flows.len() as f64, "{end} for {due}");
            }
        }
    }
}
