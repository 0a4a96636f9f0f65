//! Networks as data: links with capacity and latency, and the route between two hosts.

use super::{RunError, Time};

/// Overheads and gaps of the LogGPS family, without congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogP {
    /// Latency L [ps].
    pub latency: Time,
    /// Overhead o of sending, and of receiving [ps].
    pub send_overhead: Time,
    /// Overhead of receiving [ps].
    pub receive_overhead: Time,
    /// Gap g between messages of one host [ps].
    pub gap: Time,
    /// G [ps/B].
    pub per_byte: f64,
    /// Processor time a byte O [ps/B], at either end.
    pub overhead_per_byte: f64,
}

/// How messages share the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// LogGOPS: each host's network card sends and receives one message at a time; nothing else is shared.
    LogP,
    /// Flows over links, max-min fair; latency is paid before the first byte.
    Flow,
}

/// Topologies.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Every host with a link up and a link down to one switch.
    Switch,
    /// XGFT(h; m_1..m_h; w_1..w_h) with p_l parallel cables at level l, routed D-mod-k.
    FatTree {
        /// Children of a switch, from the leaves up.
        down: Vec<u32>,
        /// Parents of what stands below.
        up: Vec<u32>,
        /// Parallel cables.
        cables: Vec<u32>,
    },
}

/// Links that are laid out at most: some 4 GB of them.
const MOST_LINKS: u64 = 1 << 26;

/// A network.
#[derive(Clone, Debug)]
pub struct Network {
    /// How it is built.
    pub shape: Shape,
    /// Hosts on it.
    pub hosts: u32,
    /// Bandwidth of a link, one way [B/ps].
    pub bandwidth: f64,
    /// Latency of a link [ps].
    pub hop: Time,
    /// Bandwidth between processes of one host [B/ps], and its latency [ps].
    pub inside: (f64, Time),
    /// Overheads and gaps.
    pub logp: LogP,
    /// How messages share it.
    pub fidelity: Fidelity,
    /// First link and lengths of each level, for fat trees.
    levels: Vec<Level>,
    links: u32,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// First link up of this level; links down follow.
    first: u32,
    /// Links one way.
    count: u32,
    /// Hosts below a node at the level's lower end.
    below: u32,
    /// Parents times cables.
    ways: u32,
}

impl Network {
    /// Lay the links out.
    ///
    /// # Errors
    /// A shape that does not fit the hosts, or a bandwidth that is none.
    pub fn new(
        shape: Shape,
        hosts: u32,
        bandwidth: f64,
        hop: Time,
        inside: (f64, Time),
        logp: LogP,
        fidelity: Fidelity,
    ) -> Result<Self, RunError> {
        let sound = |b: f64| b.is_finite() && b > 0.0;
        let costs = [logp.per_byte, logp.overhead_per_byte].iter().all(|c| c.is_finite() && *c >= 0.0);
        if hosts == 0 || !sound(bandwidth) || !sound(inside.0) || !costs {
            return Err(RunError::Value);
        }
        let mut levels = Vec::new();
        let mut links: u64 = 0;
        match &shape {
            Shape::Switch => links = 2 * u64::from(hosts),
            Shape::FatTree { down, up, cables } => {
                let leaves: u64 = down.iter().map(|m| u64::from(*m)).product();
                if down.len() != up.len() || down.len() != cables.len() || down.is_empty() || leaves < u64::from(hosts) || leaves > 1 << 24
                {
                    return Err(RunError::Value);
                }
                // nodes at the lower end of level l: what stands above is fewer by m, more by w
                let (mut below, mut wide) = (1_u64, 1_u64);
                for ((m, w), p) in down.iter().zip(up).zip(cables) {
                    let (m, w, p) = (u64::from(*m), u64::from(*w), u64::from(*p));
                    if m == 0 || w == 0 || p == 0 {
                        return Err(RunError::Value);
                    }
                    let nodes = leaves / below * wide;
                    let count = nodes * w * p;
                    levels.push(Level { first: small(links)?, count: small(count)?, below: small(below)?, ways: small(w * p)? });
                    links += 2 * count;
                    below *= m;
                    wide *= w;
                }
            }
        }
        links += u64::from(hosts);
        if links > MOST_LINKS {
            return Err(RunError::Value);
        }
        Ok(Self { shape, hosts, bandwidth, hop, inside, logp, fidelity, levels, links: small(links)? })
    }

    /// How many links there are; the last are those inside each host.
    #[must_use]
    pub fn links(&self) -> u32 {
        self.links
    }

    /// Capacity of a link [B/ps].
    #[must_use]
    pub fn capacity(&self, link: u32) -> f64 {
        if link >= self.links - self.hosts { self.inside.0 } else { self.bandwidth }
    }

    /// Links from one host to another into `route`, and the latency of all of them [ps].
    pub fn route(&self, from: u32, to: u32, route: &mut Vec<u32>) -> Time {
        route.clear();
        if from == to {
            route.push(self.links - self.hosts + from);
            return self.inside.1;
        }
        match &self.shape {
            Shape::Switch => route.extend([from, self.hosts + to]),
            Shape::FatTree { down, up, cables } => {
                // up until a node stands above both, then down the only way there is
                let mut top = 0;
                let (mut a, mut b) = (from, to);
                while a != b {
                    a /= down[top];
                    b /= down[top];
                    top += 1;
                }
                // which of the parallel ways is taken at each level follows from the destination (D-mod-k)
                let mut across = 0_u32;
                let mut spread = 1_u32;
                for (level, at) in self.levels.iter().zip(0..top) {
                    let port = (to / spread) % level.ways;
                    let (parent, cable) = (port % up[at], port / up[at]);
                    let width = self.width(at);
                    route.push(level.first + ((from / level.below) * width + across) * level.ways + parent * cables[at] + cable);
                    across = across * up[at] + parent;
                    spread = spread.saturating_mul(up[at]);
                }
                for at in (0..top).rev() {
                    let level = self.levels[at];
                    let port = (to / self.spread(at)) % level.ways;
                    let (parent, cable) = (port % up[at], port / up[at]);
                    across /= up[at];
                    let width = self.width(at);
                    route
                        .push(level.first + level.count + ((to / level.below) * width + across) * level.ways + parent * cables[at] + cable);
                }
            }
        }
        self.hop.saturating_mul(route.len() as Time)
    }

    /// Switches that stand above one host at the lower end of a level.
    fn width(&self, level: usize) -> u32 {
        match &self.shape {
            Shape::Switch => 1,
            Shape::FatTree { up, .. } => up[..level].iter().product(),
        }
    }

    fn spread(&self, level: usize) -> u32 {
        self.width(level)
    }
}

fn small(value: u64) -> Result<u32, RunError> {
    u32::try_from(value).map_err(|_| RunError::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(down: &[u32], up: &[u32], cables: &[u32], hosts: u32) -> Network {
        let shape = Shape::FatTree { down: down.to_vec(), up: up.to_vec(), cables: cables.to_vec() };
        Network::new(shape, hosts, 0.0125, 250_000, (0.1, 0), LogP::default(), Fidelity::Flow).expect("a network")
    }

    #[test]
    fn routes_go_up_to_the_lowest_common_switch_and_down() {
        let net = tree(&[4, 4], &[1, 4], &[1, 1], 16);
        let mut route = Vec::new();
        assert_eq!(net.route(0, 1, &mut route), 500_000);
        assert_eq!(route.len(), 2);
        assert_eq!(net.route(0, 5, &mut route), 1_000_000);
        assert_eq!(route.len(), 4);
    }

    #[test]
    fn every_link_is_used_by_shift_traffic_once() {
        // a full fat tree carries any shift of all hosts without two messages on one link
        let net = tree(&[4, 4], &[1, 4], &[1, 1], 16);
        let mut route = Vec::new();
        for shift in 1..16 {
            let mut used = vec![0_u32; net.links() as usize];
            for from in 0..16 {
                net.route(from, (from + shift) % 16, &mut route);
                for link in &route {
                    used[*link as usize] += 1;
                }
            }
            assert!(used.iter().all(|n| *n <= 1), "shift {shift}: {used:?}");
        }
    }

    #[test]
    fn the_last_link_leads_to_the_destination_alone() {
        let net = tree(&[3, 2, 2], &[1, 2, 3], &[1, 2, 1], 12);
        let mut route = Vec::new();
        let mut last = std::collections::HashMap::new();
        for to in 0..12 {
            for from in (0..12).filter(|f| *f != to) {
                net.route(from, to, &mut route);
                assert!(route.iter().all(|l| *l < net.links()));
                assert_eq!(*last.entry(to).or_insert(*route.last().expect("a link")), *route.last().expect("a link"));
                let mut once = route.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), route.len());
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let shape = Shape::FatTree { down: vec![2], up: vec![1], cables: vec![1] };
        assert!(Network::new(shape, 3, 1.0, 0, (1.0, 0), LogP::default(), Fidelity::Flow).is_err());
        assert!(Network::new(Shape::Switch, 0, 1.0, 0, (1.0, 0), LogP::default(), Fidelity::Flow).is_err());
        let wide = Shape::FatTree { down: vec![2], up: vec![1], cables: vec![1 << 30] };
        assert!(Network::new(wide, 2, 1.0, 0, (1.0, 0), LogP::default(), Fidelity::Flow).is_err(), "more links than memory");
        assert!(Network::new(Shape::Switch, 2, f64::NAN, 0, (1.0, 0), LogP::default(), Fidelity::Flow).is_err());
    }
}
