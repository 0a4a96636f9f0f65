//! Where packets must change lanes so that links can never wait for each other in a circle.
//!
//! A packet on one link waits for room before the next.  If no chain of such turns leads back to where it began, somebody can
//! always go on.  Otherwise enough turns are made datelines that the others lead nowhere back; a packet that crosses one goes
//! on in a lane one higher, with room of its own.  Along every way lanes never sink, and within one lane the order of the
//! links holds: there is no circle left (Dally and Seitz 1987; a ring has one dateline, as on a torus).

/// Turns from one link into the next.
#[derive(Default)]
pub(super) struct Turns {
    pairs: Vec<(u32, u32)>,
    /// Turns that were left when those met before were last dropped.
    left: usize,
}

/// Shorter lists are kept as they are.
const SHORT: usize = 1 << 16;

impl Turns {
    /// The turns of a route.
    pub(super) fn add(&mut self, route: &[u32]) {
        self.pairs.extend(route.windows(2).map(|w| (w[0], w[1])));
        if self.pairs.len() > 2 * self.left + SHORT {
            self.sort();
            self.left = self.pairs.len();
        }
    }

    fn sort(&mut self) {
        self.pairs.sort_unstable();
        self.pairs.dedup();
    }

    /// The turns at which a lane ends, sorted: those from links after which it does so anyway, and enough others that nothing leads back.
    pub(super) fn datelines(mut self, links: usize, rises: impl Fn(u32) -> bool) -> Vec<(u32, u32)> {
        self.sort();
        // turns of each link stand together
        let mut first = vec![0_usize; links + 1];
        for (from, _) in &self.pairs {
            first[*from as usize + 1] += 1;
        }
        for link in 0..links {
            first[link + 1] += first[link];
        }
        let (mut way, mut back) = (Way::new(links), Vec::new());
        for root in 0..links as u32 {
            way.enter(root, first[root as usize]);
            while let Some((from, at)) = way.top() {
                if at == first[from as usize + 1] {
                    way.leave();
                    continue;
                }
                let to = self.pairs[at].1;
                if rises(from) || way.on(to) {
                    back.push((from, to));
                } else {
                    way.enter(to, first[to as usize]);
                }
            }
        }
        back.sort_unstable();
        back
    }
}

/// A walk over the links, each once: depth first.
struct Way {
    /// Link, and which of its turns is next.
    stack: Vec<(u32, usize)>,
    seen: Vec<Seen>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    OnTheWay,
    Done,
}

impl Way {
    fn new(links: usize) -> Self {
        Self { stack: Vec::new(), seen: vec![Seen::Never; links] }
    }

    fn enter(&mut self, link: u32, first: usize) {
        if self.seen[link as usize] == Seen::Never {
            self.seen[link as usize] = Seen::OnTheWay;
            self.stack.push((link, first));
        }
    }

    /// The last link entered and its next turn, which then counts as looked at.
    fn top(&mut self) -> Option<(u32, usize)> {
        let (link, at) = self.stack.last_mut()?;
        *at += 1;
        Some((*link, *at - 1))
    }

    fn leave(&mut self) {
        if let Some((link, _)) = self.stack.pop() {
            self.seen[link as usize] = Seen::Done;
        }
    }

    fn on(&self, link: u32) -> bool {
        self.seen[link as usize] == Seen::OnTheWay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datelines(routes: &[Vec<u32>], links: usize) -> Vec<(u32, u32)> {
        let mut turns = Turns::default();
        for route in routes {
            turns.add(route);
        }
        turns.datelines(links, |_| false)
    }

    #[test]
    fn what_leads_nowhere_back_needs_none() {
        assert_eq!(datelines(&[vec![0, 1, 2], vec![0, 2], vec![3, 1]], 4), []);
        assert_eq!(datelines(&[], 3), []);
    }

    #[test]
    fn a_ring_has_one() {
        let ring: Vec<Vec<u32>> = (0..5).map(|l| vec![l, (l + 1) % 5, (l + 2) % 5]).collect();
        assert_eq!(datelines(&ring, 5), [(4, 0)]);
        // two rings, from the first into the second: one each
        let mut both = ring;
        both.extend((0..5).map(|l| vec![5 + l, 5 + (l + 1) % 5]));
        both.extend((0..5).map(|l| vec![l, 5 + l]));
        assert_eq!(datelines(&both, 10).len(), 2);
    }

    #[test]
    fn where_lanes_rise_anyway_nothing_leads_back() {
        let mut turns = Turns::default();
        (0..5).for_each(|l| turns.add(&[l, (l + 1) % 5]));
        assert_eq!(turns.datelines(5, |link| link == 2), [(2, 3)]);
    }

    #[test]
    fn what_is_left_leads_nowhere_back() {
        let mut seed = 4_u64;
        let mut next = move |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let links = 2 + next(9);
            let routes: Vec<Vec<u32>> = (0..next(12)).map(|_| (0..1 + next(5)).map(|_| next(links) as u32).collect()).collect();
            let back = datelines(&routes, links as usize);
            let mut left: Vec<(u32, u32)> = routes.iter().flat_map(|r| r.windows(2).map(|w| (w[0], w[1]))).collect();
            left.retain(|turn| !back.contains(turn));
            // take away what nothing leads to, until nothing is left
            for _ in 0..links {
                let into: Vec<u32> = left.iter().map(|t| t.1).collect();
                left.retain(|(from, _)| into.contains(from));
            }
            assert_eq!(left, [], "{routes:?}");
        }
    }
}
