//! Clocks that nobody aligned: one constant shift a rank, such that no message arrives before it is sent.
//!
//! Each message and each collective says of two ranks that something of the one was not after something of the other: the
//! begin of a send and the return of its receive, the begin of a barrier on one rank and its return on every other.  Those are
//! difference constraints.  Ranks that bound each other from both sides have all shifts they can have in an interval; the middle
//! satisfies every constraint, because shortest paths do and the solutions are convex.  Ranks bounded from one side only start as
//! recorded, or as much later as the bounds need.

use super::calls::{Call, Kind, NO};
use super::definitions::Definitions;
use super::messages::{Process, Side, pairs};
use super::regions::{Does, Needs};
use std::collections::HashMap;

/// Bounds looked at in one search for shortest paths.
const MOST_STEPS: usize = 1 << 31;
/// No bound.
const FAR: i64 = i64::MAX / 4;

/// What the alignment found.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    /// What to add to the times of each process [ns]; 0 for the first rank.
    pub shifts: Vec<i64>,
    /// Half of the widest interval that a shift can lie in [ns], over the ranks that have one.
    pub within: i64,
    /// Ranks that are bounded from one side only.
    pub loose: u64,
    /// Messages and collective calls that it rests on.
    pub messages: u64,
    pub collectives: u64,
}

/// Why there is no alignment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Apart {
    /// Nothing ties these two ranks together.
    Untied(u32, u32),
    /// No shifts satisfy all constraints; with all of them loosened by so much [ns] some would.
    Contradicted(i64),
}

/// `shift[a] - shift[b] <= most`.
#[derive(Debug, Clone, Copy)]
struct Bound {
    a: u32,
    b: u32,
    most: i64,
}

/// The least that is allowed between two ranks, over all they exchanged.
#[derive(Debug, Default)]
struct Tightest(HashMap<(u32, u32), i64>);

impl Tightest {
    fn add(&mut self, a: u32, b: u32, most: i64) {
        let now = self.0.entry((a, b)).or_insert(most);
        *now = most.min(*now);
    }
}

/// All that is known of the shifts: nodes are the ranked processes, then one instant for each collective in which all need all.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    ranks: Vec<(u32, usize)>,
    nodes: usize,
    all: Vec<Bound>,
    messages: u64,
    collectives: u64,
}

impl Bounds {
    /// Collect them from messages whose sides are certain and from collectives that all members recorded.
    pub fn new(processes: &[Process], definitions: &Definitions, sends: &[Side], receives: &[Side]) -> Self {
        let mut ranks: Vec<(u32, usize)> = processes.iter().enumerate().filter_map(|(i, p)| Some((p.rank?, i))).collect();
        ranks.sort_unstable();
        let mut bounds = Self { nodes: ranks.len(), ranks, ..Self::default() };
        let node: HashMap<u32, u32> = bounds.ranks.iter().zip(0..).map(|((rank, _), node)| (*rank, node)).collect();
        let mut tightest = Tightest::default();
        for (sent, received) in pairs(sends, receives) {
            let (Some(&from), Some(&to)) = (node.get(&sent.stream.1), node.get(&sent.stream.2)) else { continue };
            if from == to {
                continue;
            }
            if received.done != NO {
                tightest.add(from, to, received.done.saturating_sub(sent.start));
                bounds.messages += 1;
            }
            if sent.synchronous {
                tightest.add(to, from, sent.end.saturating_sub(received.start));
            }
        }
        bounds.add_collectives(processes, definitions, &node, &mut tightest);
        let mut direct: Vec<_> = tightest.0.into_iter().map(|((a, b), most)| Bound { a, b, most }).collect();
        direct.sort_unstable_by_key(|b| (b.a, b.b));
        bounds.all.extend(direct);
        bounds
    }

    fn add_collectives(&mut self, processes: &[Process], definitions: &Definitions, node: &HashMap<u32, u32>, tightest: &mut Tightest) {
        let mut by_comm: HashMap<u32, Vec<(u32, Vec<&Call>)>> = HashMap::new();
        for (rank, process) in &self.ranks {
            let mut mine: HashMap<u32, Vec<&Call>> = HashMap::new();
            for call in processes[*process].calls.iter().filter(|c| c.kind == Kind::Collective && c.comm != super::calls::NONE) {
                mine.entry(call.comm).or_default().push(call);
            }
            for (comm, mut calls) in mine {
                calls.sort_by_key(|c| c.start);
                by_comm.entry(comm).or_default().push((*rank, calls));
            }
        }
        let mut comms: Vec<_> = by_comm.into_iter().collect();
        comms.sort_unstable_by_key(|(comm, _)| *comm);
        for (id, members) in comms {
            let Some(comm) = definitions.comms.get(&id).filter(|c| !c.alone && !c.inter && c.members.len() > 1) else { continue };
            let calls = members[0].1.len();
            if members.len() != comm.members.len() || members.iter().any(|(_, c)| c.len() != calls) {
                continue; // somebody's calls are not all there: the k-th is not the k-th
            }
            for k in 0..calls {
                let met: Vec<(u32, &Call)> = members.iter().filter_map(|(rank, calls)| Some((*node.get(rank)?, calls[k]))).collect();
                let root = comm.members.get(met[0].1.root as usize).and_then(|r| node.get(r)).copied();
                if !self.add_collective(&met, root, tightest) {
                    break;
                }
            }
        }
    }

    /// The k-th collective of one communicator; false where the members disagree which it is.
    fn add_collective(&mut self, met: &[(u32, &Call)], root: Option<u32>, tightest: &mut Tightest) -> bool {
        if met.iter().any(|(_, c)| c.does != met[0].1.does || c.root != met[0].1.root) {
            return false;
        }
        let Does::Collective(needs) = met[0].1.does else { return true };
        let moves = met.iter().all(|(_, c)| c.size > 0 || c.received > 0);
        let of_root = root.and_then(|r| met.iter().find(|(node, _)| *node == r));
        match (needs, of_root) {
            (Needs::Barrier, _) => self.add_instant(met),
            (Needs::All, _) if moves => self.add_instant(met),
            (Needs::Root, Some((root, begun))) if moves => {
                let others = met.iter().filter(|(node, _)| node != root);
                others.for_each(|(node, call)| tightest.add(*root, *node, call.end.saturating_sub(begun.start)));
            }
            (Needs::Members, Some((root, returned))) if moves => {
                let others = met.iter().filter(|(node, _)| node != root);
                others.for_each(|(node, call)| tightest.add(*node, *root, returned.end.saturating_sub(call.start)));
            }
            _ => return true,
        }
        self.collectives += 1;
        true
    }

    /// An instant that every member begins before and returns after.
    fn add_instant(&mut self, met: &[(u32, &Call)]) {
        let instant = self.nodes as u32;
        self.nodes += 1;
        for (node, call) in met {
            self.all.push(Bound { a: *node, b: instant, most: call.start.saturating_neg() });
            self.all.push(Bound { a: instant, b: *node, most: call.end });
        }
    }

    /// Whether the clocks as they are contradict no constraint.
    pub fn hold(&self) -> bool {
        let mut instants = vec![i64::MIN; self.nodes];
        let ranks = self.ranks.len() as u32;
        for bound in self.all.iter().filter(|b| b.b >= ranks) {
            let instant = &mut instants[bound.b as usize];
            *instant = (*instant).max(bound.most.saturating_neg());
        }
        self.all.iter().filter(|b| b.b < ranks).all(|b| if b.a < ranks { b.most >= 0 } else { instants[b.a as usize] <= b.most })
    }

    /// Shifts for `processes` processes.
    pub fn align(&self, processes: usize) -> Result<Aligned, Apart> {
        let tied = self.tied();
        if let Some(at) = (1..self.ranks.len()).find(|i| tied[*i] != tied[0]) {
            return Err(Apart::Untied(self.ranks[0].0, self.ranks[at].0));
        }
        let groups = self.mutual();
        let Some((inside, half)) = self.middles(&groups, 0) else { return Err(Apart::Contradicted(self.misses(&groups))) };
        let between = self.between(&groups, &inside);
        let shift = |node: usize| inside[node].saturating_add(between[groups[node] as usize]);
        let zero = if self.ranks.is_empty() { 0 } else { shift(0) };
        let mut aligned =
            Aligned { shifts: vec![0; processes], messages: self.messages, collectives: self.collectives, ..Aligned::default() };
        for (node, (_, process)) in self.ranks.iter().enumerate() {
            aligned.shifts[*process] = shift(node).saturating_sub(zero);
            if groups[node] == groups[0] { aligned.within = aligned.within.max(half[node]) } else { aligned.loose += 1 }
        }
        Ok(aligned)
    }

    /// Number of the piece that each node hangs together with, whatever the direction.
    fn tied(&self) -> Vec<usize> {
        let mut root: Vec<usize> = (0..self.nodes).collect();
        fn find(root: &mut [usize], mut at: usize) -> usize {
            while root[at] != at {
                root[at] = root[root[at]];
                at = root[at];
            }
            at
        }
        for bound in &self.all {
            let (a, b) = (find(&mut root, bound.a as usize), find(&mut root, bound.b as usize));
            root[a.max(b)] = a.min(b);
        }
        (0..self.nodes).map(|at| find(&mut root, at)).collect()
    }

    /// Number of the group of nodes that bound each other from both sides (strongly connected components).  A bound of `a` by
    /// `b` never leads from a group to one with a higher number, so a group's lower bounds come from lower numbers.
    fn mutual(&self) -> Vec<u32> {
        let forth = Lists::new(self.nodes, self.all.iter().map(|b| (b.b, b.a)));
        let back = Lists::new(self.nodes, self.all.iter().map(|b| (b.a, b.b)));
        let mut finished = Vec::with_capacity(self.nodes);
        let mut seen = vec![false; self.nodes];
        let mut stack: Vec<(u32, usize)> = Vec::new();
        for start in 0..self.nodes {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            stack.push((start as u32, 0));
            while let Some((node, next)) = stack.pop() {
                match forth.of(node).get(next) {
                    Some(&to) => {
                        stack.push((node, next + 1));
                        if !std::mem::replace(&mut seen[to as usize], true) {
                            stack.push((to, 0));
                        }
                    }
                    None => finished.push(node),
                }
            }
        }
        let mut group = vec![u32::MAX; self.nodes];
        let mut count = 0;
        let mut todo = Vec::new();
        for &start in finished.iter().rev() {
            if group[start as usize] != u32::MAX {
                continue;
            }
            todo.push(start);
            group[start as usize] = count;
            while let Some(node) = todo.pop() {
                for &from in back.of(node) {
                    if group[from as usize] == u32::MAX {
                        group[from as usize] = count;
                        todo.push(from);
                    }
                }
            }
            count += 1;
        }
        // components were found sources first: bounding ones before bounded ones; lower bounds flow the other way
        group.iter().map(|g| count - 1 - g).collect()
    }

    /// How often bounds can become tighter: the shortest path between two nodes meets a rank at every other step.  Fewer where
    /// that would be more work than any recording of a real program needs.
    fn rounds(&self) -> usize {
        (2 * self.ranks.len() + 2).min((MOST_STEPS / self.all.len().max(1)).max(64))
    }

    /// Inside each group: the middle of the interval that each shift can lie in, against the group's first node, and half of its
    /// width; `None` where a group contradicts itself with all bounds loosened by `slack`.
    fn middles(&self, groups: &[u32], slack: i64) -> Option<(Vec<i64>, Vec<i64>)> {
        let inside: Vec<Bound> = self.all.iter().copied().filter(|b| groups[b.a as usize] == groups[b.b as usize]).collect();
        let mut first = vec![true; self.nodes];
        let mut taken = vec![false; self.nodes];
        for (node, group) in groups.iter().enumerate() {
            first[node] = !std::mem::replace(&mut taken[*group as usize], true);
        }
        let start = || first.iter().map(|f| if *f { 0 } else { FAR }).collect::<Vec<i64>>();
        let (mut high, mut low) = (start(), start());
        let rounds = self.rounds();
        for (far, forth) in [(&mut high, true), (&mut low, false)] {
            let mut changed = true;
            for _ in 0..=rounds {
                changed = false;
                for bound in &inside {
                    let (from, to) = if forth { (bound.b, bound.a) } else { (bound.a, bound.b) };
                    let reach = far[from as usize].saturating_add(bound.most).saturating_add(slack);
                    if far[from as usize] < FAR && reach < far[to as usize] {
                        far[to as usize] = reach;
                        changed = true;
                    }
                }
                if !changed {
                    break;
                }
            }
            if changed || first.iter().zip(far.iter()).any(|(first, far)| *first && *far < 0) {
                return None;
            }
        }
        let middle = high.iter().zip(&low).map(|(h, l)| h.saturating_sub(*l).div_euclid(2)).collect();
        let half = high.iter().zip(&low).map(|(h, l)| h.saturating_add(*l) / 2).collect();
        Some((middle, half))
    }

    /// Shift of each group: 0, or as much more as its lower bounds need.
    fn between(&self, groups: &[u32], inside: &[i64]) -> Vec<i64> {
        let count = groups.iter().max().map_or(0, |g| *g as usize + 1);
        let mut shift = vec![i64::MIN; count];
        for node in 0..self.ranks.len() {
            shift[groups[node] as usize] = 0;
        }
        let mut across: Vec<&Bound> = self.all.iter().filter(|b| groups[b.a as usize] != groups[b.b as usize]).collect();
        // a group is complete once all bounds into it are seen: its number is higher than those it is bounded by
        across.sort_by_key(|b| groups[b.b as usize]);
        for bound in across {
            let (from, to) = (groups[bound.a as usize] as usize, groups[bound.b as usize] as usize);
            let from = if shift[from] == i64::MIN { 0 } else { shift[from] };
            let least = from.saturating_add(inside[bound.a as usize]).saturating_sub(inside[bound.b as usize]).saturating_sub(bound.most);
            shift[to] = shift[to].max(least);
        }
        shift.iter().map(|s| if *s == i64::MIN { 0 } else { *s }).collect()
    }

    /// How much all bounds have to be loosened for shifts to exist [ns]; 0 where that is not worked out.
    fn misses(&self, groups: &[u32]) -> i64 {
        if self.all.len() * self.rounds() > MOST_STEPS >> 5 {
            return 0; // to find out would take longer than to read the archive
        }
        let (mut bad, mut good) = (0i64, 1i64);
        while good < FAR / 8 && self.middles(groups, good).is_none() {
            bad = good;
            good = good.saturating_mul(2);
        }
        while good - bad > (good >> 10).max(1) {
            let half = bad + (good - bad) / 2;
            if self.middles(groups, half).is_none() { bad = half } else { good = half }
        }
        good
    }
}

/// Neighbours of each node, one after the other.
struct Lists {
    from: Vec<usize>,
    to: Vec<u32>,
}

impl Lists {
    fn new(nodes: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut from = vec![0; nodes + 1];
        for (node, _) in edges.clone() {
            from[node as usize + 1] += 1;
        }
        for node in 0..nodes {
            from[node + 1] += from[node];
        }
        let mut to = vec![0; from[nodes]];
        let mut at = from.clone();
        for (node, next) in edges {
            to[at[node as usize]] = next;
            at[node as usize] += 1;
        }
        Self { from, to }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.to[self.from[node as usize]..self.from[node as usize + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(ranks: u32, all: &[(u32, u32, i64)]) -> Bounds {
        let nodes = all.iter().map(|(a, b, _)| a.max(b) + 1).max().unwrap_or(0).max(ranks) as usize;
        let ranks = (0..ranks).map(|r| (r, r as usize)).collect();
        Bounds { ranks, nodes, all: all.iter().map(|&(a, b, most)| Bound { a, b, most }).collect(), messages: 0, collectives: 0 }
    }

    fn satisfied(bounds: &Bounds, shifts: &[i64]) -> bool {
        // an instant is as late as what comes before it, and no later than what comes after
        let ranks = bounds.ranks.len();
        let mut at = vec![i64::MIN; bounds.nodes];
        at[..ranks].copy_from_slice(shifts);
        for b in bounds.all.iter().filter(|b| b.b as usize >= ranks) {
            at[b.b as usize] = at[b.b as usize].max(at[b.a as usize] - b.most);
        }
        bounds.all.iter().all(|b| at[b.a as usize] == i64::MIN || at[b.a as usize] - at[b.b as usize] <= b.most)
    }

    #[test]
    fn two_ways_pin_a_shift_to_the_middle() {
        let b = bounds(2, &[(0, 1, -90), (1, 0, 110)]);
        let a = b.align(2).expect("aligned");
        assert_eq!((a.shifts.clone(), a.within, a.loose), (vec![0, 100], 10, 0));
        assert!(satisfied(&b, &a.shifts));
        assert!(!b.hold());
        assert!(bounds(2, &[(0, 1, 5), (1, 0, 5)]).hold());
    }

    #[test]
    fn one_way_shifts_no_more_than_needed() {
        let b = bounds(3, &[(0, 2, -40), (1, 2, 10), (0, 1, 7)]);
        let a = b.align(3).expect("aligned");
        assert_eq!((a.shifts.clone(), a.loose), (vec![0, 0, 40], 2));
        assert!(satisfied(&b, &a.shifts));
    }

    #[test]
    fn a_contradiction_says_by_how_much() {
        let b = bounds(2, &[(0, 1, -100), (1, 0, 80)]);
        assert_eq!(b.align(2).expect_err("apart"), Apart::Contradicted(10));
    }

    #[test]
    fn ranks_that_never_met_are_not_aligned() {
        assert_eq!(bounds(3, &[(0, 1, 5), (1, 0, 5)]).align(3).expect_err("apart"), Apart::Untied(0, 2));
        assert_eq!(bounds(1, &[]).align(1).expect("alone").shifts, vec![0]);
        assert_eq!(bounds(0, &[]).align(2).expect("none").shifts, vec![0, 0]);
    }

    #[test]
    fn a_barrier_is_one_instant() {
        // begins 10, 25, 31 and returns 40, 52, 60 on clocks that are 0, 1000, -500 ahead
        let (begin, ends) = ([10, 1025, -469], [40, 1052, -440]);
        let all: Vec<_> = (0..3).flat_map(|r| [(r, 3, -begin[r as usize]), (3, r, ends[r as usize])]).collect();
        let b = bounds(3, &all);
        let a = b.align(3).expect("aligned");
        assert!(satisfied(&b, &a.shifts));
        assert!((a.shifts[1] + 1000).abs() <= a.within && (a.shifts[2] - 500).abs() <= a.within, "{a:?}");
    }

    #[test]
    fn random_clocks_come_back_within_the_interval() {
        let mut state = 7u64;
        let mut next = |n: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as i64 % n
        };
        for _ in 0..200 {
            let ranks = 2 + next(6) as usize;
            let ahead: Vec<i64> = (0..ranks).map(|r| if r == 0 { 0 } else { next(1_000_000) - 500_000 }).collect();
            let mut all = Vec::new();
            for k in 0..60 {
                let (from, to) = (next(ranks as i64) as usize, next(ranks as i64) as usize);
                if from != to {
                    let (sent, took) = (k * 1000, 1 + next(300));
                    all.push((from as u32, to as u32, sent + took + ahead[to] - sent - ahead[from]));
                }
            }
            let b = bounds(ranks as u32, &all);
            let Ok(a) = b.align(ranks) else { continue };
            assert!(satisfied(&b, &a.shifts), "{all:?}");
            if a.loose == 0 {
                for rank in 0..ranks {
                    assert!((a.shifts[rank] + ahead[rank]).abs() <= 2 * a.within + 1, "{a:?} {ahead:?}");
                }
            }
        }
    }
}
