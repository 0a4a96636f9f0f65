//! Networks as data: nodes made of parts, a network between their cards, and the route from one place to another.
//!
//! A place is a part of a node.  Inside a node a message takes the path of fewest wires, the widest of these; to another node it goes to
//! the card nearest to it, over the links of the [`Shape`], and from the card nearest to its end.

use super::{Packing, RunError, Time};

mod node;
mod shape;

pub use node::{Node, Wire};
pub use shape::Shape;

use node::Inside;
use shape::Laid;

/// Overheads and gaps of the LogGPS family, without congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogP {
    /// Latency L [ps].
    pub latency: Time,
    /// Overhead o of sending, and of receiving [ps].
    pub send_overhead: Time,
    /// Overhead of receiving [ps].
    pub receive_overhead: Time,
    /// Gap g between messages of one card [ps].
    pub gap: Time,
    /// G [ps/B].
    pub per_byte: f64,
    /// Processor time a byte O [ps/B], at either end.
    pub overhead_per_byte: f64,
}

/// How messages share the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// LogGOPS: each network card sends and receives one message at a time; nothing else is shared.
    LogP,
    /// Flows over links, max-min fair; latency is paid before the first byte.
    Flow,
    /// Packets in queues of finite room before each link.
    Packet,
}

/// Links that are laid out at most: some 4 GB of them.
const MOST_LINKS: u64 = 1 << 26;

/// A network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Nodes on it.
    pub nodes: u32,
    /// Bandwidth of a link between nodes, one way [B/ps].
    pub bandwidth: f64,
    /// Latency of a link between nodes [ps].
    pub hop: Time,
    /// Overheads and gaps.
    pub logp: LogP,
    /// How messages share it.
    pub fidelity: Fidelity,
    /// Whether a rendezvous pays for telling the receiver, and for its answer, a latency each.
    pub handshake: bool,
    /// How messages are cut (packet).
    pub packing: Packing,
    inside: Inside,
    laid: Laid,
    links: u32,
}

impl Network {
    /// Lay the links out: those of the shape first, then those inside each node, node by node.
    ///
    /// # Errors
    /// A shape that does not fit the cards, or a bandwidth that is none.
    pub fn new(shape: Shape, nodes: u32, bandwidth: f64, hop: Time, node: &Node, logp: LogP, fidelity: Fidelity) -> Result<Self, RunError> {
        let costs = [logp.per_byte, logp.overhead_per_byte].iter().all(|c| c.is_finite() && *c >= 0.0);
        if nodes == 0 || !(bandwidth.is_finite() && bandwidth > 0.0) || !costs {
            return Err(RunError::Value);
        }
        let inside = Inside::new(node)?;
        let laid = Laid::new(shape, nodes.checked_mul(inside.cards()).ok_or(RunError::Value)?)?;
        let links = u64::from(laid.links) + u64::from(nodes) * u64::from(inside.lanes());
        if links > MOST_LINKS || u64::from(nodes) * u64::from(inside.parts()) > u64::from(u32::MAX) {
            return Err(RunError::Value);
        }
        Ok(Self { nodes, bandwidth, hop, logp, fidelity, handshake: false, packing: Packing::default(), inside, laid, links: links as u32 })
    }

    /// How many links there are.
    #[must_use]
    pub fn links(&self) -> u32 {
        self.links
    }

    /// How many of them are between nodes; these come first.
    #[must_use]
    pub fn between(&self) -> u32 {
        self.laid.links
    }

    /// Places: parts of nodes.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.nodes * self.inside.parts()
    }

    /// Cards of all nodes.
    #[must_use]
    pub fn ports(&self) -> u32 {
        self.nodes * self.inside.cards()
    }

    /// Capacity of a link [B/ps].
    #[must_use]
    pub fn capacity(&self, link: u32) -> f64 {
        match link.checked_sub(self.laid.links) {
            None => self.laid.apart(link).map_or(self.bandwidth, |own| own.0),
            Some(lane) => self.inside.capacity(lane % self.inside.lanes()),
        }
    }

    /// Latency of a link [ps].
    #[must_use]
    pub fn latency(&self, link: u32) -> Time {
        match link.checked_sub(self.laid.links) {
            None => self.laid.apart(link).map_or(self.hop, |own| own.1),
            Some(lane) => self.inside.latency(lane % self.inside.lanes()),
        }
    }

    /// Whether packets wait in lanes of their own behind a link: those that come from another group of a dragonfly (Kim et al. 2008).
    #[must_use]
    pub fn rises(&self, link: u32) -> bool {
        self.laid.global(link)
    }

    /// The card that a message uses at a place, or none where both ends stand on one node.
    #[must_use]
    pub fn port(&self, at: u32, other: u32) -> Option<u32> {
        let parts = self.inside.parts();
        let (node, part) = (at / parts, at % parts);
        (node != other / parts).then(|| node * self.inside.cards() + self.inside.card(part))
    }

    /// Whether there is a way from one place to another.
    #[must_use]
    pub fn joined(&self, from: u32, to: u32) -> bool {
        let parts = self.inside.parts();
        let (a, b) = (from % parts, to % parts);
        if from / parts == to / parts {
            return self.inside.joined(a, b);
        }
        let (out, into) = (self.inside.card(a), self.inside.card(b));
        self.inside.joined(a, self.inside.part_of(out)) && self.inside.joined(self.inside.part_of(into), b)
    }

    /// Links from one place to another into `route`, and the latency of all of them [ps].
    pub fn route(&self, from: u32, to: u32, route: &mut Vec<u32>) -> Time {
        route.clear();
        let parts = self.inside.parts();
        let (here, there) = (from / parts, to / parts);
        let (a, b) = (from % parts, to % parts);
        if here == there {
            let first = self.first_lane(here);
            return if a == b { self.inside.stay(a, first, route) } else { self.inside.path(a, b, first, route) };
        }
        let (out, into) = (self.inside.card(a), self.inside.card(b));
        let cards = self.inside.cards();
        let mut latency = self.inside.path(a, self.inside.part_of(out), self.first_lane(here), route);
        let before = route.len();
        self.laid.path(here * cards + out, there * cards + into, route);
        latency = route[before..].iter().fold(latency, |sum, link| sum.saturating_add(self.latency(*link)));
        latency.saturating_add(self.inside.path(self.inside.part_of(into), b, self.first_lane(there), route))
    }

    /// Latency of a message without bytes [ps].
    pub fn told(&self, from: u32, to: u32, route: &mut Vec<u32>) -> Time {
        match (self.fidelity, self.port(from, to)) {
            (Fidelity::LogP, Some(_)) => self.logp.latency,
            _ => self.route(from, to, route),
        }
    }

    /// Bandwidth of the narrowest link of a route [B/ps].
    #[must_use]
    pub fn narrowest(&self, route: &[u32]) -> f64 {
        route.iter().map(|l| self.capacity(*l)).fold(f64::INFINITY, f64::min)
    }

    fn first_lane(&self, node: u32) -> u32 {
        self.laid.links + node * self.inside.lanes()
    }
}

fn small(value: u64) -> Result<u32, RunError> {
    u32::try_from(value).map_err(|_| RunError::Value)
}
