//! The contention engine against closed forms and known cases.

use super::super::network::{LogP, Node, Shape, Wire};
use super::*;

/// A program as lists.
#[derive(Default)]
struct Made {
    ops: Vec<Vec<(Op, u32)>>,
    durations: Vec<Time>,
    uses: Vec<(u32, Time)>,
    capacity: Vec<u32>,
    place: Vec<u32>,
    rank: Vec<u32>,
    delay: Vec<Time>,
    start: Vec<u32>,
    end: Vec<u32>,
    from: Vec<u32>,
    to: Vec<u32>,
    bytes: Vec<u64>,
    leaves: Vec<u8>,
}

impl Made {
    fn process(&mut self) -> u32 {
        self.ops.push(Vec::new());
        self.place.push(self.place.len() as u32);
        self.place.len() as u32 - 1
    }

    fn work(&mut self, process: u32, takes: Time) {
        self.durations.push(takes);
        self.ops[process as usize].push((Op::Work, self.durations.len() as u32 - 1));
    }

    fn using(&mut self, process: u32, resource: u32, takes: Time) {
        self.uses.push((resource, takes));
        self.ops[process as usize].push((Op::Use, self.uses.len() as u32 - 1));
    }

    fn message(&mut self, from: u32, to: u32, bytes: u64, leaves: Leaves) -> u32 {
        self.from.push(from);
        self.to.push(to);
        self.bytes.push(bytes);
        self.leaves.push(leaves as u8);
        self.from.len() as u32 - 1
    }

    fn op(&mut self, process: u32, op: Op, message: u32) {
        self.ops[process as usize].push((op, message));
    }

    fn run(&self, network: &Network) -> Result<Outcome, RunError> {
        let mut first = vec![0_u32];
        let (mut code, mut arg) = (Vec::new(), Vec::new());
        for list in &self.ops {
            for (op, a) in list {
                code.push(*op as u8);
                arg.push(*a);
            }
            first.push(code.len() as u32);
        }
        let program = Program {
            first: &first,
            code: &code,
            arg: &arg,
            durations: &self.durations,
            resource: &self.uses.iter().map(|u| u.0).collect::<Vec<_>>(),
            takes: &self.uses.iter().map(|u| u.1).collect::<Vec<_>>(),
            rank: &self.rank,
            capacity: &self.capacity,
            place: &self.place,
        };
        let messages = Messages {
            from: &self.from,
            to: &self.to,
            bytes: &self.bytes,
            leaves: &self.leaves,
            limit: &[],
            delay: &self.delay,
            start: &self.start,
            end: &self.end,
        };
        run(program, messages, network, true, &|_| false)
    }
}

fn net(hosts: u32, fidelity: Fidelity, logp: LogP) -> Network {
    Network::new(Shape::Switch, hosts, 0.0125, 500_000, &Node::plain(0.1, 0), logp, fidelity).expect("a network")
}

fn logp() -> LogP {
    LogP { latency: 1_000_000, send_overhead: 500_000, receive_overhead: 500_000, gap: 0, per_byte: 80.0, overhead_per_byte: 0.0 }
}

#[test]
fn one_message_takes_what_the_closed_form_says() {
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let m = made.message(a, b, 100_000, Leaves::Eager);
    made.op(a, Op::Send, m);
    made.op(b, Op::Await, m);
    // o + L + nG + o
    assert_eq!(made.run(&net(2, Fidelity::LogP, logp())).expect("runs").ends, [500_000, 500_000 + 1_000_000 + 8_000_000 + 500_000]);
    // o + 2 hops + n / bandwidth + o
    assert_eq!(made.run(&net(2, Fidelity::Flow, logp())).expect("runs").ends, [500_000, 500_000 + 1_000_000 + 8_000_000 + 500_000]);
}

#[test]
fn a_rendezvous_waits_for_both_ends() {
    for (early, late, begins) in [(0, 7_000_000, 7_000_000), (9_000_000, 0, 9_500_000)] {
        let mut made = Made::default();
        let (a, b) = (made.process(), made.process());
        let m = made.message(a, b, 1_000, Leaves::Ready);
        made.work(a, early);
        made.op(a, Op::Send, m);
        made.op(a, Op::Sent, m);
        made.work(b, late);
        made.op(b, Op::Post, m);
        made.op(b, Op::Await, m);
        let done = made.run(&net(2, Fidelity::LogP, logp())).expect("runs");
        assert_eq!(done.began, [begins]);
        assert_eq!(done.ends[0], done.arrived[0], "the sender's buffer is free when the message has arrived");
    }
}

#[test]
fn an_eager_message_needs_no_receiver() {
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let m = made.message(a, b, 1_000, Leaves::Eager);
    made.op(a, Op::Send, m);
    made.op(a, Op::Sent, m);
    made.work(b, 50_000_000);
    made.op(b, Op::Post, m);
    made.op(b, Op::Await, m);
    let done = made.run(&net(2, Fidelity::LogP, logp())).expect("runs");
    assert_eq!(done.ends, [500_000, 50_500_000]);
    assert_eq!(done.waited, [0, 0]);
}

#[test]
fn a_card_takes_one_message_at_a_time() {
    let mut made = Made::default();
    let (a, b, c) = (made.process(), made.process(), made.process());
    let (m, n) = (made.message(a, c, 100_000, Leaves::Eager), made.message(b, c, 100_000, Leaves::Eager));
    made.op(a, Op::Send, m);
    made.op(b, Op::Send, n);
    made.op(c, Op::Await, m);
    made.op(c, Op::Await, n);
    let done = made.run(&net(3, Fidelity::LogP, logp())).expect("runs");
    assert_eq!(done.arrived, [9_500_000, 17_500_000]);
    // flows share the last link: both end together
    let shared = made.run(&net(3, Fidelity::Flow, logp())).expect("runs");
    assert_eq!(shared.arrived, [17_500_000, 17_500_000]);
    assert_eq!(shared.carried.iter().sum::<f64>(), 400_000.0, "every byte crosses two links");
}

#[test]
fn an_exclusive_resource_serves_in_order_of_arrival() {
    let mut made = Made { capacity: vec![1], ..Made::default() };
    let (a, b, c) = (made.process(), made.process(), made.process());
    made.work(b, 5);
    made.work(c, 3);
    made.using(a, 0, 10);
    made.using(b, 0, 10);
    made.using(c, 0, 10);
    let done = made.run(&net(3, Fidelity::LogP, logp())).expect("runs");
    assert_eq!(done.ends, [10, 30, 20]);
    assert_eq!(done.waited, [0, 15, 7]);
}

#[test]
fn a_faster_part_can_make_the_whole_slower() {
    // a known anomaly of first come, first served: with work of 2 instead of 3 before it, the wrong job goes first
    let ends = |before: Time| {
        let mut made = Made { capacity: vec![1], ..Made::default() };
        let (a, b) = (made.process(), made.process());
        made.work(a, before);
        made.using(a, 0, 8);
        made.work(b, 2);
        made.using(b, 0, 4);
        made.work(b, 10);
        *made.run(&net(2, Fidelity::LogP, logp())).expect("runs").ends.iter().max().expect("an end")
    };
    assert_eq!((ends(3), ends(1)), (16, 23));
}

#[test]
fn an_edge_is_a_delay() {
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let m = made.message(a, b, 42, Leaves::Edge);
    made.work(a, 100);
    made.op(a, Op::Send, m);
    made.work(b, 7);
    made.op(b, Op::Await, m);
    assert_eq!(made.run(&net(2, Fidelity::LogP, logp())).expect("runs").ends, [100, 142]);
}

#[test]
fn a_deadlock_is_named() {
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let (m, n) = (made.message(a, b, 8, Leaves::Ready), made.message(b, a, 8, Leaves::Ready));
    for (p, mine, other) in [(a, m, n), (b, n, m)] {
        made.op(p, Op::Send, mine);
        made.op(p, Op::Sent, mine);
        made.op(p, Op::Post, other);
    }
    assert_eq!(made.run(&net(2, Fidelity::LogP, logp())), Err(RunError::Deadlock(vec![(a, b, 1), (b, a, 4)])));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let m = made.message(a, b, 8, Leaves::Eager);
    made.op(b, Op::Send, m);
    assert_eq!(made.run(&net(2, Fidelity::LogP, logp())), Err(RunError::Unknown(1, 0)));
    let mut twice = Made::default();
    let (a, b) = (twice.process(), twice.process());
    let m = twice.message(a, b, 8, Leaves::Eager);
    twice.op(a, Op::Send, m);
    twice.op(a, Op::Send, m);
    assert_eq!(twice.run(&net(2, Fidelity::LogP, logp())), Err(RunError::Message(m)));
}

#[test]
fn a_receive_posted_during_the_overhead_of_sending_does_not_hasten_it() {
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let m = made.message(a, b, 1_000, Leaves::Ready);
    made.op(a, Op::Send, m);
    made.op(b, Op::Post, m);
    made.op(b, Op::Await, m);
    assert_eq!(made.run(&net(2, Fidelity::LogP, logp())).expect("runs").began, [500_000]);
}

#[test]
fn processes_of_a_host_share_its_card_in_order_of_time() {
    // the second pays no overhead for an empty message of its own first, and is ready before the first
    let mut made = Made::default();
    let (a, b, c) = (made.process(), made.process(), made.process());
    made.place = vec![0, 0, 1];
    let (m, n) = (made.message(a, c, 100_000, Leaves::Eager), made.message(b, c, 10_000, Leaves::Eager));
    made.op(a, Op::Send, m);
    made.op(b, Op::Send, n);
    made.op(c, Op::Await, m);
    made.op(c, Op::Await, n);
    let per_byte = LogP { overhead_per_byte: 1.0, ..logp() };
    let done = made.run(&net(2, Fidelity::LogP, per_byte)).expect("runs");
    assert_eq!(done.began, [600_000, 510_000]);
    assert_eq!(done.arrived[1], 510_000 + 1_000_000 + 800_000, "the shorter is ready first, and first on the card");
}

#[test]
fn a_rendezvous_goes_to_the_card_before_what_is_sent_after_it() {
    // ready at 0.7 us, while the sender still pays the overhead of its next message
    let mut made = Made::default();
    let (a, b, c) = (made.process(), made.process(), made.process());
    let (m, n) = (made.message(a, b, 1_000, Leaves::Ready), made.message(a, c, 100_000, Leaves::Eager));
    made.op(a, Op::Send, m);
    made.op(a, Op::Send, n);
    made.work(b, 700_000);
    made.op(b, Op::Post, m);
    made.op(b, Op::Await, m);
    made.op(c, Op::Await, n);
    let done = made.run(&net(3, Fidelity::LogP, logp())).expect("runs");
    assert_eq!(done.arrived, [700_000 + 1_000_000 + 80_000, 1_000_000 + 1_000_000 + 8_000_000]);
}

#[test]
fn a_message_is_posted_and_awaited_once() {
    for twice in [Op::Post, Op::Await] {
        let mut made = Made::default();
        let (a, b) = (made.process(), made.process());
        let m = made.message(a, b, 8, Leaves::Ready);
        made.op(a, Op::Send, m);
        made.op(b, twice, m);
        made.op(b, twice, m);
        assert_eq!(made.run(&net(2, Fidelity::Flow, logp())), Err(RunError::Message(m)));
    }
}

#[test]
fn what_takes_longer_than_can_be_counted_is_refused() {
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let m = made.message(a, b, 1 << 62, Leaves::Eager);
    made.op(a, Op::Send, m);
    made.op(b, Op::Await, m);
    let slow = Network::new(Shape::Switch, 2, 1e-9, 0, &Node::plain(1.0, 0), LogP::default(), Fidelity::Flow).expect("a network");
    assert_eq!(made.run(&slow), Err(RunError::Value));
    let far =
        Network::new(Shape::Switch, 2, 1.0, Time::MAX / 2 + 1, &Node::plain(1.0, 0), LogP::default(), Fidelity::Flow).expect("a network");
    assert_eq!(made.run(&far), Err(RunError::Value));
    let dear = LogP { send_overhead: 1 << 62, gap: 1 << 63, overhead_per_byte: 1e9, per_byte: 1e9, ..LogP::default() };
    assert_eq!(made.run(&net(2, Fidelity::LogP, dear)), Err(RunError::Value));
    let gap = LogP { gap: Time::MAX, ..LogP::default() };
    let mut small = Made::default();
    let (a, b) = (small.process(), small.process());
    let m = small.message(a, b, 8, Leaves::Eager);
    small.op(a, Op::Send, m);
    small.op(b, Op::Await, m);
    assert_eq!(small.run(&net(2, Fidelity::LogP, LogP { per_byte: 1.0, ..gap })), Err(RunError::Value));
}

#[test]
fn a_resource_is_kept_until_it_is_given_back_and_ranks_decide_who_is_next() {
    let mut made = Made { capacity: vec![1], ..Made::default() };
    let p: Vec<u32> = (0..3).map(|_| made.process()).collect();
    // 0 takes it, works 10; 1 and 2 come at 1 and 2, 2 goes first
    for (process, comes) in [(p[0], 0), (p[1], 1), (p[2], 2)] {
        made.work(process, comes);
        made.uses.push((0, 0));
        made.op(process, Op::Take, process);
        made.work(process, 10);
        made.op(process, Op::Give, process);
    }
    made.rank = vec![0, 1, 0];
    let done = made.run(&net(3, Fidelity::Flow, LogP::default())).expect("ends");
    assert_eq!(done.ends, [10, 30, 20]);
    assert_eq!(done.waited, [0, 19, 8]);
    made.rank.clear();
    assert_eq!(made.run(&net(3, Fidelity::Flow, LogP::default())).expect("ends").ends, [10, 20, 30], "first come, first served");
    // what is kept is refused, as is what is given back without being held
    let kept = made.ops[0].pop().expect("give");
    assert_eq!(made.run(&net(3, Fidelity::Flow, LogP::default())).err(), Some(RunError::Held(0)));
    made.ops[0].insert(0, kept);
    assert_eq!(made.run(&net(3, Fidelity::Flow, LogP::default())).err(), Some(RunError::Held(0)));
}

/// A host (0) with a card, and two GPUs (1, 2) on wires of their own to it.
fn with_gpus() -> Node {
    let wire = |from, to| Wire { from, to, bandwidth: 0.01, latency: 1000, shared: false };
    Node { parts: 3, wires: vec![wire(0, 1), wire(1, 0), wire(0, 2), wire(2, 0)], cards: vec![0], passes: vec![true, false, false] }
}

#[test]
fn a_message_to_oneself_is_a_copy_and_copies_share_their_wire() {
    for (fidelity, second) in [(Fidelity::Flow, 1000 + 2 * 100_000), (Fidelity::LogP, 1000 + 100_000)] {
        let network = Network::new(Shape::Switch, 2, 0.0125, 500, &with_gpus(), LogP::default(), fidelity).expect("a network");
        let mut made = Made::default();
        for process in 0..2 {
            made.process();
            let copy = made.message(process, process, 1000, Leaves::Eager);
            made.op(process, Op::Send, copy);
            made.op(process, Op::Await, copy);
        }
        // both from the host to GPU 1 of node 1
        (made.place, made.start, made.end) = (vec![3, 3], vec![3, 3], vec![4, 4]);
        assert_eq!(made.run(&network).expect("ends").ends, [second; 2]);
        // to GPUs of their own
        made.end = vec![4, 5];
        assert_eq!(made.run(&network).expect("ends").ends, [101_000; 2]);
        // what stays where it is takes no time
        made.end = vec![3, 3];
        assert_eq!(made.run(&network).expect("ends").ends, [0, 0]);
        made.end = vec![3, 6];
        assert_eq!(made.run(&network).err(), Some(RunError::Value), "no such place");
    }
}

#[test]
fn from_device_to_device_over_both_cards() {
    let network = Network::new(Shape::Switch, 2, 0.0125, 500, &with_gpus(), LogP::default(), Fidelity::Flow).expect("a network");
    let mut made = Made::default();
    let (a, b) = (made.process(), made.process());
    let sent = made.message(a, b, 1000, Leaves::Eager);
    made.op(a, Op::Send, sent);
    made.op(b, Op::Await, sent);
    (made.place, made.start, made.end) = (vec![0, 3], vec![1], vec![5]);
    let done = made.run(&network).expect("ends");
    // two wires and two links of latency, then the slowest of them
    assert_eq!(done.ends[1], 1000 + 1000 + 2 * 500 + 100_000);
    let used: Vec<usize> = (0..done.carried.len()).filter(|l| done.carried[*l] > 0.0).collect();
    assert_eq!(used, [0, 3, 4 + 1, 4 + 4 + 2]);
}

#[test]
fn a_rendezvous_pays_for_its_handshake_and_for_what_delays_it() {
    for fidelity in [Fidelity::Flow, Fidelity::LogP] {
        let mut network = net(2, fidelity, logp());
        let mut made = Made::default();
        let (a, b) = (made.process(), made.process());
        let sent = made.message(a, b, 1000, Leaves::Ready);
        made.op(a, Op::Send, sent);
        made.op(a, Op::Sent, sent);
        made.op(b, Op::Post, sent);
        made.op(b, Op::Await, sent);
        let plain = made.run(&network).expect("ends").ends[1];
        // overhead, latency, 80 ps a byte, overhead
        assert_eq!(plain, 500_000 + 1_000_000 + 80_000 + 500_000);
        made.delay = vec![4_000_000];
        assert_eq!(made.run(&network).expect("ends").ends[1], plain + 4_000_000);
        network.handshake = true;
        assert_eq!(made.run(&network).expect("ends").ends[1], plain + 4_000_000 + 2 * 1_000_000);
        // a receive posted late meets a message that was pinned and announced long ago: its answer remains to be told
        made.work(b, 50_000_000);
        let late = made.ops[1].pop().expect("work");
        made.ops[1].insert(0, late);
        assert_eq!(made.run(&network).expect("ends").ends[1], 50_000_000 + 1_000_000 + plain - 500_000);
        made.leaves[0] = Leaves::Eager as u8;
        made.delay.clear();
        assert_eq!(made.run(&network).expect("ends").ends[1], 50_000_000 + 500_000, "eager needs none");
    }
}
