//! What a node is made of: parts, the wires between them, and the cards that lead out of it.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::super::{RunError, Time};

/// A wire between two parts; traffic from the first to the second, or both ways over one capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Part at its one end.
    pub from: u32,
    /// Part at its other end; the same for traffic that stays at a part.
    pub to: u32,
    /// Bandwidth [B/ps].
    pub bandwidth: f64,
    /// Latency [ps].
    pub latency: Time,
    /// Whether the way back shares its capacity; otherwise there is none but by another wire.
    pub shared: bool,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// How many parts it has.
    pub parts: u32,
    /// Wires between them.
    pub wires: Vec<Wire>,
    /// Parts where a link to the network ends.
    pub cards: Vec<u32>,
    /// Whether a path may lead through each part.
    pub passes: Vec<bool>,
}

impl Node {
    /// One part, which is its card too; its processes share one wire.
    #[must_use]
    pub fn plain(bandwidth: f64, latency: Time) -> Self {
        Self { parts: 1, wires: vec![Wire { from: 0, to: 0, bandwidth, latency, shared: true }], cards: vec![0], passes: vec![true] }
    }
}

/// Parts of a node at most: the table of ways has its square.
const MOST_PARTS: u32 = 4096;
const NONE: u32 = u32::MAX;

/// A node with all ways found.
#[derive(Clone, Debug)]
pub(super) struct Inside {
    parts: u32,
    wires: Vec<Wire>,
    /// Last wire on the way from one part to another, `from * parts + to`.
    last: Vec<u32>,
    /// A wire at the part itself.
    own: Vec<u32>,
    cards: Vec<u32>,
    /// Card (its place in `cards`) of each part.
    nearest: Vec<u32>,
}

impl Inside {
    pub(super) fn new(node: &Node) -> Result<Self, RunError> {
        let parts = node.parts;
        let known = |p: u32| p < parts;
        let sound = |w: &Wire| known(w.from) && known(w.to) && w.bandwidth.is_finite() && w.bandwidth > 0.0 && w.latency < 1 << 63;
        if parts == 0
            || parts > MOST_PARTS
            || node.passes.len() != parts as usize
            || node.cards.is_empty()
            || !node.cards.iter().all(|c| known(*c))
            || !node.wires.iter().all(sound)
        {
            return Err(RunError::Value);
        }
        let mut leaves: Vec<Vec<u32>> = vec![Vec::new(); parts as usize];
        let mut own = vec![NONE; parts as usize];
        for (w, wire) in node.wires.iter().enumerate() {
            if wire.from == wire.to {
                own[wire.from as usize] = w as u32;
                continue;
            }
            leaves[wire.from as usize].push(w as u32);
            if wire.shared {
                leaves[wire.to as usize].push(w as u32);
            }
        }
        let mut last = vec![NONE; (parts as usize) * (parts as usize)];
        let found: Vec<_> =
            (0..parts).map(|from| ways(node, &leaves, from, &mut last[(from * parts) as usize..][..parts as usize])).collect();
        // there and back: how many wires, and the narrowest
        let far = |part: u32, card: u32| {
            let ((out, wide), (back, broad)) = (&found[part as usize], &found[card as usize]);
            let (out, wide, back, broad) = (out[card as usize], wide[card as usize], back[part as usize], broad[part as usize]);
            if out == NONE || back == NONE { (u32::MAX, Reverse(0)) } else { (out + back, Reverse(wide.min(broad).to_bits())) }
        };
        let mut turns: HashMap<_, usize> = HashMap::new();
        let nearest = (0..parts)
            .map(|part| {
                let best = node.cards.iter().map(|card| far(part, *card)).min().expect("a node has a card");
                // parts alike that are as near to several cards take turns
                let equal: Vec<usize> = (0..node.cards.len()).filter(|c| far(part, node.cards[*c]) == best).collect();
                let turn = turns.entry((best, equal.clone())).or_insert(0);
                *turn += 1;
                equal[(*turn - 1) % equal.len()] as u32
            })
            .collect();
        Ok(Self { parts, wires: node.wires.clone(), last, own, cards: node.cards.clone(), nearest })
    }

    /// Whether wires lead from one part to another.
    pub(super) fn joined(&self, from: u32, to: u32) -> bool {
        from == to || self.last[(from * self.parts + to) as usize] != NONE
    }

    pub(super) fn parts(&self) -> u32 {
        self.parts
    }

    pub(super) fn cards(&self) -> u32 {
        self.cards.len() as u32
    }

    pub(super) fn lanes(&self) -> u32 {
        self.wires.len() as u32
    }

    pub(super) fn capacity(&self, lane: u32) -> f64 {
        self.wires[lane as usize].bandwidth
    }

    pub(super) fn latency(&self, lane: u32) -> Time {
        self.wires[lane as usize].latency
    }

    /// The card of a part.
    pub(super) fn card(&self, part: u32) -> u32 {
        self.nearest[part as usize]
    }

    /// Where a card stands.
    pub(super) fn part_of(&self, card: u32) -> u32 {
        self.cards[card as usize]
    }

    /// A part's own wire, for what stays at it; its latency.
    pub(super) fn stay(&self, part: u32, first: u32, route: &mut Vec<u32>) -> Time {
        let own = self.own[part as usize];
        if own == NONE {
            return 0;
        }
        route.push(first + own);
        self.wires[own as usize].latency
    }

    /// Wires from one part to another behind what `route` holds, and their latency.
    pub(super) fn path(&self, from: u32, to: u32, first: u32, route: &mut Vec<u32>) -> Time {
        let before = route.len();
        let (mut at, mut latency) = (to, 0_u64);
        while at != from {
            let lane = self.last[(from * self.parts + at) as usize];
            route.push(first + lane);
            let wire = &self.wires[lane as usize];
            latency = latency.saturating_add(wire.latency);
            at = if wire.to == at { wire.from } else { wire.to };
        }
        route[before..].reverse();
        latency
    }
}

/// The ways from one part to all others: fewest wires, the widest of these, the first named of these.
///
/// Fills the last wire of each way; gives how many wires each has, and the bandwidth of its narrowest.
fn ways(node: &Node, leaving: &[Vec<u32>], from: u32, last: &mut [u32]) -> (Vec<u32>, Vec<f64>) {
    let mut wires = vec![NONE; leaving.len()];
    let mut width = vec![0.0_f64; leaving.len()];
    (wires[from as usize], width[from as usize]) = (0, f64::INFINITY);
    let mut reached = vec![from];
    for far in 1.. {
        let mut next: Vec<u32> = Vec::new();
        for part in reached {
            if part != from && !node.passes[part as usize] {
                continue;
            }
            for lane in &leaving[part as usize] {
                let wire = &node.wires[*lane as usize];
                let to = if wire.from == part { wire.to } else { wire.from };
                let t = to as usize;
                if wires[t] == NONE {
                    wires[t] = far;
                    next.push(to);
                }
                let wide = width[part as usize].min(wire.bandwidth);
                if wires[t] == far && (wide > width[t] || (wide.to_bits() == width[t].to_bits() && *lane < last[t])) {
                    (width[t], last[t]) = (wide, *lane);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        reached = next;
    }
    (wires, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(from: u32, to: u32, bandwidth: f64) -> Wire {
        Wire { from, to, bandwidth, latency: 1, shared: false }
    }

    /// Two sockets (0, 1) with a card each (2, 3), two GPUs (4, 5) meshed.
    fn node(mesh: bool) -> Node {
        let mut wires = Vec::new();
        for (a, b, bandwidth) in [(0, 1, 40.0), (0, 2, 16.0), (1, 3, 16.0), (0, 4, 50.0), (1, 5, 50.0)] {
            wires.extend([wire(a, b, bandwidth), wire(b, a, bandwidth)]);
        }
        if mesh {
            wires.extend([wire(4, 5, 100.0), wire(5, 4, 100.0)]);
        }
        Node { parts: 6, wires, cards: vec![2, 3], passes: vec![true, true, false, false, false, false] }
    }

    fn path(inside: &Inside, from: u32, to: u32) -> (Vec<u32>, Time) {
        let mut route = Vec::new();
        let latency = inside.path(from, to, 0, &mut route);
        (route, latency)
    }

    #[test]
    fn the_way_of_fewest_wires_is_taken() {
        let apart = Inside::new(&node(false)).expect("a node");
        assert_eq!(path(&apart, 4, 5), (vec![7, 0, 8], 3));
        let meshed = Inside::new(&node(true)).expect("a node");
        assert_eq!(path(&meshed, 4, 5), (vec![10], 1));
        // a GPU is no way through
        assert_eq!(path(&meshed, 0, 5), (vec![0, 8], 2));
    }

    #[test]
    fn the_nearest_card_is_used_and_equals_take_turns() {
        let inside = Inside::new(&node(true)).expect("a node");
        assert_eq!((inside.card(4), inside.card(5)), (0, 1));
        let wires = (1..5).flat_map(|p| [wire(0, p, 1.0), wire(p, 0, 1.0)]).collect();
        let inside = Inside::new(&Node { parts: 5, wires, cards: vec![3, 4], passes: vec![true; 5] }).expect("a node");
        assert_eq!((inside.card(1), inside.card(2)), (0, 1));
    }

    #[test]
    fn parts_whose_numbers_stride_take_turns_and_a_card_needs_a_way_back() {
        // host 0; GPUs at 1, 3, 5, 7, something at 2, 4, 6, 8; two cards 9, 10 at the host
        let both = |a, b| [wire(a, b, 1.0), wire(b, a, 1.0)];
        let mut wires: Vec<Wire> = (1..11).flat_map(|p| both(0, p)).collect();
        let passes: Vec<bool> = (0..11).map(|p| p == 0).collect();
        let made = |wires: &[Wire]| {
            Inside::new(&Node { parts: 11, wires: wires.to_vec(), cards: vec![9, 10], passes: passes.clone() }).expect("a node")
        };
        let inside = made(&wires);
        let cards: Vec<u32> = (1..9).map(|p| inside.card(p)).collect();
        assert_eq!(cards.iter().filter(|c| **c == 0).count(), 4);
        // nothing comes back from card 9
        wires.retain(|w| w.from != 9);
        assert!((1..9).all(|p| made(&wires).card(p) == 1));
    }

    #[test]
    fn of_equally_short_ways_the_widest_is_taken() {
        let wires = vec![wire(0, 1, 1.0), wire(1, 3, 9.0), wire(0, 2, 5.0), wire(2, 3, 5.0), wire(3, 0, 1.0)];
        let inside = Inside::new(&Node { parts: 4, wires, cards: vec![0], passes: vec![true; 4] }).expect("a node");
        assert_eq!(path(&inside, 0, 3).0, [2, 3]);
    }

    #[test]
    fn a_part_out_of_reach_is_told() {
        let node = Node { parts: 2, wires: vec![wire(0, 1, 1.0)], cards: vec![0], passes: vec![true; 2] };
        let inside = Inside::new(&node).expect("a node");
        assert!(inside.joined(0, 1) && inside.joined(1, 1) && !inside.joined(1, 0));
        assert!(Inside::new(&Node { parts: 0, wires: vec![], cards: vec![0], passes: vec![] }).is_err());
    }
}
