//! Networks between cards: which links there are, and which of them lead from one card to another.

use std::cmp::Ordering;

use super::super::{RunError, Time};
use super::small;

/// Topologies.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Every card with a link up and a link down to one switch.
    Switch,
    /// The same, and inside the switch one link that all messages cross, whichever way they go.
    Backbone {
        /// Its bandwidth [B/ps].
        bandwidth: f64,
        /// Its latency [ps].
        latency: Time,
    },
    /// XGFT(h; m_1..m_h; w_1..w_h) with p_l parallel cables at level l, routed D-mod-k.
    FatTree {
        /// Children of a switch, from the leaves up.
        down: Vec<u32>,
        /// Parents of what stands below.
        up: Vec<u32>,
        /// Parallel cables.
        cables: Vec<u32>,
    },
    /// A torus of routers with some cards each, routed dimension by dimension, the shorter way round.
    Torus {
        /// Routers along each dimension.
        dims: Vec<u32>,
        /// Cards of a router.
        cards: u32,
    },
    /// A dragonfly: routers of a group all linked, groups linked by the global channels of their routers, routed minimally.
    Dragonfly {
        /// Groups.
        groups: u32,
        /// Routers of a group.
        routers: u32,
        /// Cards of a router.
        cards: u32,
        /// Global channels of a router.
        channels: u32,
    },
}

/// Cards of one network at most.
const MOST_CARDS: u64 = 1 << 24;

/// A shape with its links laid out.
#[derive(Clone, Debug)]
pub(super) struct Laid {
    shape: Shape,
    ports: u32,
    /// Of fat trees.
    levels: Vec<Level>,
    pub(super) links: u32,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// First link up of this level; links down follow.
    first: u32,
    /// Links one way.
    count: u32,
    /// Cards below a node at the level's lower end.
    below: u32,
    /// Parents times cables.
    ways: u32,
}

impl Laid {
    pub(super) fn new(shape: Shape, ports: u32) -> Result<Self, RunError> {
        let mut levels = Vec::new();
        let some = |values: &[u32]| !values.is_empty() && !values.contains(&0);
        let all = |values: &[u32]| values.iter().try_fold(1_u64, |p, v| p.checked_mul(u64::from(*v)).filter(|p| *p <= MOST_CARDS));
        let fits = |places: Option<u64>| places.is_some_and(|p| p >= u64::from(ports) && p <= MOST_CARDS);
        let links = match &shape {
            Shape::Switch => 2 * u64::from(ports),
            Shape::Backbone { bandwidth, .. } => {
                if !(bandwidth.is_finite() && *bandwidth > 0.0) {
                    return Err(RunError::Value);
                }
                2 * u64::from(ports) + 1
            }
            Shape::FatTree { down, up, cables } => {
                let leaves = all(down);
                if !(some(down) && some(up) && some(cables)) || down.len() != up.len() || down.len() != cables.len() || !fits(leaves) {
                    return Err(RunError::Value);
                }
                // nodes at the lower end of level l: what stands above is fewer by m, more by w
                let (mut below, mut wide, mut links) = (1_u64, 1_u64, 0_u64);
                for ((m, w), p) in down.iter().zip(up).zip(cables) {
                    let (m, w, p) = (u64::from(*m), u64::from(*w), u64::from(*p));
                    let ways = w.checked_mul(p).ok_or(RunError::Value)?;
                    let count = (leaves.unwrap_or(0) / below * wide).checked_mul(ways).ok_or(RunError::Value)?;
                    levels.push(Level { first: small(links)?, count: small(count)?, below: small(below)?, ways: small(ways)? });
                    links += 2 * count;
                    below *= m;
                    wide = wide.checked_mul(w).filter(|w| *w <= MOST_CARDS).ok_or(RunError::Value)?;
                }
                links
            }
            Shape::Torus { dims, cards } => {
                let routers = all(dims);
                if !some(dims) || *cards == 0 || !fits(routers.and_then(|r| r.checked_mul(u64::from(*cards)))) {
                    return Err(RunError::Value);
                }
                2 * u64::from(ports) + 2 * routers.unwrap_or(0) * dims.len() as u64
            }
            Shape::Dragonfly { groups, routers, cards, channels } => {
                let (g, a, h) = (u64::from(*groups), u64::from(*routers), u64::from(*channels));
                let places = all(&[*groups, *routers, *cards]);
                // every group reaches every other at least once
                if g == 0 || a == 0 || *cards == 0 || !fits(places) || a * h > MOST_CARDS || a * h + 1 < g {
                    return Err(RunError::Value);
                }
                2 * u64::from(ports) + g * a * a + g * a * h
            }
        };
        Ok(Self { shape, ports, levels, links: small(links)? })
    }

    /// Links from one card to another, behind what `route` holds.
    pub(super) fn path(&self, from: u32, to: u32, route: &mut Vec<u32>) {
        if from == to {
            return;
        }
        match &self.shape {
            Shape::Switch => route.extend([from, self.ports + to]),
            Shape::Backbone { .. } => route.extend([from, 2 * self.ports, self.ports + to]),
            Shape::FatTree { down, up, cables } => self.through_tree(from, to, (down, up, cables), route),
            Shape::Torus { dims, cards } => {
                route.push(from);
                self.round_torus(from / cards, to / cards, dims, route);
                route.push(self.ports + to);
            }
            Shape::Dragonfly { groups, routers, cards, channels } => {
                route.push(from);
                self.through_groups((from / cards, to / cards), (from, to), (*groups, *routers, *channels), route);
                route.push(self.ports + to);
            }
        }
    }

    /// Bandwidth [B/ps] and latency [ps] of a link that differs from the others.
    pub(super) fn apart(&self, link: u32) -> Option<(f64, Time)> {
        match self.shape {
            Shape::Backbone { bandwidth, latency } if link == 2 * self.ports => Some((bandwidth, latency)),
            _ => None,
        }
    }

    /// Whether a link joins groups of a dragonfly.
    pub(super) fn global(&self, link: u32) -> bool {
        match &self.shape {
            Shape::Dragonfly { groups, routers, .. } => (2 * self.ports + groups * routers * routers..self.links).contains(&link),
            _ => false,
        }
    }

    /// Up until a node stands above both, then down the only way there is.
    fn through_tree(&self, from: u32, to: u32, (down, up, cables): (&[u32], &[u32], &[u32]), route: &mut Vec<u32>) {
        let mut top = 0;
        let (mut a, mut b) = (from, to);
        while a != b {
            a /= down[top];
            b /= down[top];
            top += 1;
        }
        let width = |level: usize| -> u32 { up[..level].iter().product() };
        // which of the parallel ways is taken at each level follows from the destination (D-mod-k)
        let mut across = 0_u32;
        for (at, level) in self.levels[..top].iter().enumerate() {
            let port = (to / width(at)) % level.ways;
            let (parent, cable) = (port % up[at], port / up[at]);
            route.push(level.first + ((from / level.below) * width(at) + across) * level.ways + parent * cables[at] + cable);
            across = across * up[at] + parent;
        }
        for at in (0..top).rev() {
            let level = self.levels[at];
            let port = (to / width(at)) % level.ways;
            let (parent, cable) = (port % up[at], port / up[at]);
            across /= up[at];
            route.push(level.first + level.count + ((to / level.below) * width(at) + across) * level.ways + parent * cables[at] + cable);
        }
    }

    /// One dimension after the other, the shorter way round, forwards where both are as long.
    fn round_torus(&self, from: u32, to: u32, dims: &[u32], route: &mut Vec<u32>) {
        let (mut at, mut stride) = (from, 1);
        for (k, size) in dims.iter().enumerate() {
            let (here, there) = (at / stride % size, to / stride % size);
            let ahead = (there + size - here) % size;
            let (steps, back) = if 2 * ahead <= *size { (ahead, false) } else { (size - ahead, true) };
            let mut place = here;
            for _ in 0..steps {
                let router = at - here * stride + place * stride;
                route.push(2 * self.ports + (router * dims.len() as u32 + k as u32) * 2 + u32::from(back));
                place = if back { (place + size - 1) % size } else { (place + 1) % size };
            }
            at = at - here * stride + there * stride;
            stride *= size;
        }
    }

    /// To the router with the channel to the other group, through it, and to the router of the card.
    ///
    /// Channel c of group i leads to the group d = c mod (g - 1) after the next; those left over, in pairs, to d = 0 and g - 2, 1 and g - 3
    /// and so on, so that each has one to come back by, and an odd one to the group opposite.  Two cards pick among channels between their groups by a number made of both.
    fn through_groups(
        &self,
        (from, to): (u32, u32),
        (card, other): (u32, u32),
        (groups, routers, channels): (u32, u32, u32),
        route: &mut Vec<u32>,
    ) {
        let local = |a: u32, b: u32| 2 * self.ports + a * routers + b % routers;
        let (here, there) = (from / routers, to / routers);
        if here == there {
            if from != to {
                route.push(local(from, to));
            }
            return;
        }
        let others = groups - 1;
        let (parallel, left) = (routers * channels / others, routers * channels % others);
        let (d, back) = ((there + groups - here - 1) % groups, (here + groups - there - 1) % groups);
        let low = d.min(back);
        let more = if d == back { left % 2 == 1 } else { 2 * low + 1 < left };
        let pick = mixed(card, other) % (parallel + u32::from(more));
        let channel = |d: u32, other: u32| match d.cmp(&other) {
            _ if pick < parallel => pick * others + d,
            Ordering::Equal => parallel * others + left - 1,
            way => parallel * others + 2 * low + u32::from(way == Ordering::Greater),
        };
        let (ahead, back) = (channel(d, back), channel(back, d));
        let (leaves, enters) = (here * routers + ahead / channels, there * routers + back / channels);
        if from != leaves {
            route.push(local(from, leaves));
        }
        route.push(2 * self.ports + groups * routers * routers + here * routers * channels + ahead);
        if enters != to {
            route.push(local(enters, to));
        }
    }
}

/// A number made of two cards, without the pattern in which cards are numbered.
fn mixed(card: u32, other: u32) -> u32 {
    let mut x = (u64::from(card) << 32 | u64::from(other)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    (x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(shape: Shape, ports: u32) -> Laid {
        Laid::new(shape, ports).expect("a network")
    }

    fn tree(down: &[u32], up: &[u32], cables: &[u32], ports: u32) -> Laid {
        laid(Shape::FatTree { down: down.to_vec(), up: up.to_vec(), cables: cables.to_vec() }, ports)
    }

    fn path(net: &Laid, from: u32, to: u32) -> Vec<u32> {
        let mut route = Vec::new();
        net.path(from, to, &mut route);
        assert!(route.iter().all(|l| *l < net.links));
        let mut once = route.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), route.len(), "no link twice");
        route
    }

    #[test]
    fn routes_go_up_to_the_lowest_common_switch_and_down() {
        let net = tree(&[4, 4], &[1, 4], &[1, 1], 16);
        assert_eq!(path(&net, 0, 1).len(), 2);
        assert_eq!(path(&net, 0, 5).len(), 4);
    }

    #[test]
    fn every_link_is_used_by_shift_traffic_once() {
        // a full fat tree carries any shift of all hosts without two messages on one link
        let net = tree(&[4, 4], &[1, 4], &[1, 1], 16);
        for shift in 1..16 {
            let mut used = vec![0_u32; net.links as usize];
            for from in 0..16 {
                for link in path(&net, from, (from + shift) % 16) {
                    used[link as usize] += 1;
                }
            }
            assert!(used.iter().all(|n| *n <= 1), "shift {shift}: {used:?}");
        }
    }

    #[test]
    fn the_last_link_leads_to_the_destination_alone() {
        let torus = Shape::Torus { dims: vec![3, 2, 2], cards: 1 };
        let dragonfly = Shape::Dragonfly { groups: 3, routers: 2, cards: 2, channels: 1 };
        for net in [tree(&[3, 2, 2], &[1, 2, 3], &[1, 2, 1], 12), laid(torus, 12), laid(dragonfly, 12), laid(Shape::Switch, 12)] {
            let mut last = std::collections::HashMap::new();
            for to in 0..12 {
                for from in (0..12).filter(|f| *f != to) {
                    let end = *path(&net, from, to).last().expect("a link");
                    assert_eq!(*last.entry(to).or_insert(end), end);
                }
            }
            let mut ends: Vec<u32> = last.into_values().collect();
            ends.sort_unstable();
            ends.dedup();
            assert_eq!(ends.len(), 12);
        }
    }

    #[test]
    fn a_torus_goes_the_shorter_way_round() {
        let net = laid(Shape::Torus { dims: vec![5, 4], cards: 2 }, 40);
        // routers 0 and 4 are neighbours round the back; 0 and 2 + 5 * 2 are two and two away
        assert_eq!(path(&net, 0, 8).len(), 3);
        assert_eq!(path(&net, 0, 2 * 12).len(), 6);
        assert_eq!(path(&net, 0, 1).len(), 2, "cards of one router");
        let far = (0..20).map(|r| path(&net, 0, 2 * r + 1).len()).max();
        assert_eq!(far, Some(2 + 2 + 2));
        // there and back: as many links, none the same
        let (there, back) = (path(&net, 0, 38), path(&net, 38, 0));
        assert!(there.len() == back.len() && there.iter().all(|l| !back.contains(l)));
    }

    #[test]
    fn a_dragonfly_takes_one_global_channel_at_most() {
        let (groups, routers, cards, channels) = (9, 4, 2, 2);
        let ports = groups * routers * cards;
        let net = laid(Shape::Dragonfly { groups, routers, cards, channels }, ports);
        let global = 2 * ports + groups * routers * routers;
        let mut used = std::collections::HashMap::new();
        for from in 0..ports {
            for to in (0..ports).filter(|t| *t != from) {
                let route = path(&net, from, to);
                let over: Vec<&u32> = route.iter().filter(|l| **l >= global).collect();
                let apart = from / (routers * cards) != to / (routers * cards);
                assert_eq!(over.len(), usize::from(apart));
                assert!(route.len() <= 5);
                for link in over {
                    // a channel joins two groups only
                    let pair = (from / (routers * cards), to / (routers * cards));
                    assert_eq!(*used.entry(*link).or_insert(pair), pair);
                }
            }
        }
        assert_eq!(used.len() as u32, groups * routers * channels, "every channel is used");
    }

    #[test]
    fn parallel_channels_between_two_groups_are_all_used() {
        for (groups, routers, cards, channels, all) in
            [(2, 2, 2, 2, 8), (4, 4, 4, 2, 32), (5, 3, 4, 2, 30), (4, 4, 4, 1, 16), (6, 4, 4, 2, 48)]
        {
            let ports = groups * routers * cards;
            let net = laid(Shape::Dragonfly { groups, routers, cards, channels }, ports);
            let global = 2 * ports + groups * routers * routers;
            let mut ends = std::collections::HashMap::new();
            for from in 0..ports {
                for to in (0..ports).filter(|t| t / (routers * cards) != from / (routers * cards)) {
                    for link in path(&net, from, to).iter().filter(|l| **l >= global) {
                        let pair = (from / (routers * cards), to / (routers * cards));
                        assert_eq!(*ends.entry(*link).or_insert(pair), pair, "a channel joins two groups");
                    }
                }
            }
            assert_eq!(ends.len(), all, "{groups} groups of {routers} routers with {channels} channels");
        }
    }

    #[test]
    fn cards_numbered_by_node_do_not_all_pick_one_channel() {
        let net = laid(Shape::Dragonfly { groups: 2, routers: 4, cards: 4, channels: 1 }, 32);
        let global = 2 * 32 + 2 * 16;
        let used: std::collections::HashSet<u32> = (0..4).flat_map(|n| path(&net, 4 * n, 16 + 4 * n)).filter(|l| *l >= global).collect();
        assert!(used.len() > 1, "{used:?}");
    }

    #[test]
    fn a_backbone_stands_between_the_links_of_all_cards() {
        let net = laid(Shape::Backbone { bandwidth: 2.0, latency: 7 }, 3);
        assert_eq!(path(&net, 0, 2), [0, 6, 5]);
        assert_eq!(path(&net, 2, 0), [2, 6, 3]);
        assert_eq!((net.apart(6), net.apart(5)), (Some((2.0, 7)), None));
        assert!(Laid::new(Shape::Backbone { bandwidth: 0.0, latency: 0 }, 3).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let tree = |down: u32, cables: u32| Shape::FatTree { down: vec![down], up: vec![1], cables: vec![cables] };
        assert!(Laid::new(tree(2, 1), 3).is_err());
        assert!(Laid::new(tree(2, 0), 2).is_err());
        assert!(Laid::new(Shape::Torus { dims: vec![2, 2], cards: 1 }, 5).is_err());
        assert!(Laid::new(Shape::Torus { dims: vec![], cards: 1 }, 1).is_err());
        assert!(Laid::new(Shape::Torus { dims: vec![1 << 16, 1 << 16], cards: 1 }, 1).is_err());
        let far = Shape::Dragonfly { groups: 6, routers: 2, cards: 1, channels: 2 };
        assert!(Laid::new(far, 12).is_err(), "five other groups, four channels");
    }
}
