//! Packets against closed forms, a schedule worked out by hand, and laws on random cases.

use super::*;

/// A message: bytes, route, limit, when it begins.
type Sent<'a> = (u64, &'a [u32], Option<f64>, Time);

/// Arrivals of messages, bytes of links, and events.
fn played(packing: Packing, links: &[(f64, Time)], messages: &[Sent<'_>]) -> (Vec<Time>, Vec<f64>, u64) {
    let mut packets = Packets::new(packing, links.iter().copied());
    let mut queue = Queue::default();
    for (name, (_, route, _, at)) in messages.iter().enumerate() {
        packets.learn(route);
        queue.add(*at, Event::Enter(name as u32));
    }
    packets.ready(|_| false);
    let mut arrived = vec![Time::MAX; messages.len()];
    while let Some((now, event)) = queue.next() {
        match event {
            Event::Enter(name) => {
                let (bytes, route, limit, _) = messages[name as usize];
                packets.begin(name, bytes, route, limit, now, &mut queue).expect("begins");
            }
            Event::Hop(packet) => packets.hop(packet, now, &mut queue).expect("hops"),
            Event::Left(link) => packets.left(link, now, &mut queue).expect("leaves"),
            Event::Paced(slot) => packets.offer(slot, now, &mut queue).expect("is there"),
            Event::Arrive(name) => arrived[name as usize] = now,
            _ => unreachable!(),
        }
    }
    assert!(packets.empty(), "all packets have gone");
    assert!(packets.lanes.iter().all(|l| l.waiting.first == NONE && l.asking.first == NONE && !l.held && !l.granted));
    assert!(packets.crowds.is_empty());
    for (name, lane) in packets.lanes.iter().enumerate() {
        let link = &packets.links[lane.link as usize];
        let held = if link.serving == name as u32 { link.served } else { 0 };
        assert_eq!(lane.room + held, packing.buffer, "all room is free again");
    }
    (arrived, packets.carried(), queue.added())
}

fn packing(payload: u32, header: u32, buffer: u32) -> Packing {
    Packing { payload, header, buffer }
}

/// A small generator, no dependency.
fn generator(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    }
}

#[test]
fn one_message_takes_what_the_closed_form_says() {
    // H equal links: the first packet H times, the others once each, all latencies
    let (bandwidth, latency) = (0.0125, 250_000);
    for hops in 1..5_u64 {
        for bytes in [1, 8191, 8192, 8193, 100_000] {
            let links = vec![(bandwidth, latency); hops as usize];
            let route: Vec<u32> = (0..hops as u32).collect();
            let first = bytes.min(8192);
            let known = (hops * first + bytes - first) * 80 + hops * latency;
            let (arrived, carried, _) = played(Packing::default(), &links, &[(bytes, &route, None, 7)]);
            assert_eq!(arrived, [known + 7]);
            assert_eq!(carried, vec![bytes as f64; hops as usize]);
        }
    }
}

#[test]
fn headers_take_their_time_and_nothing_is_a_packet_too() {
    let links = [(0.01, 1000), (0.01, 1000)];
    // 3 packets of 100 + 20 bytes, the last of 50 + 20
    let (arrived, carried, _) = played(packing(100, 20, 120), &links, &[(250, &[0, 1], None, 0)]);
    assert_eq!(carried, [310.0, 310.0]);
    // buffer of one packet: the second may only begin when the first has left the second link
    assert_eq!(arrived, [12_000 + 1000 + 12_000 + (12_000 + 1000 + 12_000) + (7_000 + 1000 + 7_000) + 1000]);
    let (roomy, _, _) = played(packing(100, 20, 1_200), &links, &[(250, &[0, 1], None, 0)]);
    assert_eq!(roomy, [12_000 + 1000 + 12_000 + 12_000 + 7_000 + 1000]);
    assert_eq!(played(packing(100, 20, 120), &links, &[(0, &[0, 1], None, 0)]).0, [2_000 + 1000 + 2_000 + 1000]);
    assert_eq!(played(packing(100, 0, 100), &links, &[(0, &[0, 1], None, 0)]).0, [2000]);
}

#[test]
fn a_path_of_different_links_and_small_buffers_is_the_recurrence() {
    let mut next = generator(5);
    for _ in 0..300 {
        let hops = 1 + next(5) as usize;
        let links: Vec<(f64, Time)> = (0..hops).map(|_| (0.001 * (1 + next(9)) as f64, next(100_000))).collect();
        let route: Vec<u32> = (0..hops as u32).collect();
        let (count, room) = (1 + next(20) as usize, 1 + next(4) as usize);
        let (arrived, _, _) = played(packing(100, 0, 100 * room as u32), &links, &[(100 * count as u64, &route, None, 0)]);
        // packet i leaves link h: it is there, the one before has left, and the next link has been left by the one `room` before it
        let mut left = vec![vec![0_u64; hops]; count];
        for i in 0..count {
            for h in 0..hops {
                let there = if h == 0 { 0 } else { left[i][h - 1] + links[h - 1].1 };
                let before = if i == 0 { 0 } else { left[i - 1][h] };
                let credit = if i < room || h + 1 == hops { 0 } else { left[i - room][h + 1] };
                left[i][h] = there.max(before).max(credit) + took(100, links[h].0);
            }
        }
        assert_eq!(arrived, [left[count - 1][hops - 1] + links[hops - 1].1], "{links:?} {count} {room}");
    }
}

#[test]
fn two_messages_into_one_link_share_it() {
    let links = [(0.01, 0), (0.01, 0), (0.01, 0)];
    for room in [2, 8, 100] {
        let (arrived, _, _) = played(packing(100, 0, 100 * room), &links, &[(5000, &[0, 2], None, 0), (5000, &[1, 2], None, 0)]);
        // the link is busy from the first packet on; the last packets of both are next to each other
        assert_eq!(arrived, [10_000 + 99 * 10_000, 10_000 + 100 * 10_000], "{room}");
    }
    // with room for one packet no packet comes in while one goes out
    let (arrived, _, _) = played(packing(100, 0, 100), &links, &[(5000, &[0, 2], None, 0), (5000, &[1, 2], None, 0)]);
    assert_eq!(arrived, [99 * 20_000, 100 * 20_000]);
    // messages of one host take turns
    let (arrived, _, _) = played(packing(100, 0, 800), &links, &[(500, &[0, 1], None, 0), (1000, &[0, 2], None, 0)]);
    assert_eq!(arrived, [8 * 10_000 + 10_000, 15 * 10_000 + 10_000]);
}

#[test]
fn what_begins_at_a_link_and_what_comes_take_turns() {
    let links = [(0.01, 0), (0.01, 0)];
    let (arrived, _, _) = played(packing(100, 0, 800), &links, &[(5000, &[0, 1], None, 0), (5000, &[1], None, 0)]);
    assert!(arrived.iter().all(|a| (980_000..=1_000_000).contains(a)), "{arrived:?}");
}

#[test]
fn a_limit_is_one_link_more() {
    let links = [(0.01, 500), (0.01, 500)];
    for limit in [0.001, 0.002, 0.005] {
        let (arrived, _, _) = played(packing(100, 0, 800), &links, &[(450, &[0, 1], Some(limit), 0)]);
        let (as_link, _, _) = played(packing(100, 0, 800), &[(limit, 0), (0.01, 500), (0.01, 500)], &[(450, &[0, 1, 2], None, 0)]);
        assert_eq!(arrived, as_link);
    }
    // what it leaves is for others
    let (arrived, _, _) = played(packing(100, 0, 800), &links, &[(1000, &[0], Some(0.001), 0), (8000, &[0], None, 0)]);
    assert_eq!(arrived, [1_010_500, 880_500]);
}

#[test]
fn a_full_queue_holds_up_who_wants_elsewhere() {
    // 0 and 1 lead into 2 and 3; 2 is slow: who waits for it holds up the packet behind, which wants into 3
    let links = [(0.01, 0), (0.01, 0), (0.001, 0), (0.01, 0)];
    let messages: [Sent<'_>; 3] = [(1000, &[0, 1, 2], None, 0), (100, &[0, 1, 3], None, 1), (100, &[0, 1, 3], None, 1)];
    let tight = played(packing(100, 0, 100), &links, &messages).0;
    let roomy = played(packing(100, 0, 10_000), &links, &messages).0;
    assert_eq!(roomy, [20_000 + 1_000_000, 50_000, 60_000]);
    assert!(tight[1] > roomy[1] && tight[0] >= roomy[0], "{tight:?}");
}

#[test]
fn a_ring_that_is_full_goes_on() {
    // every link of a ring is full of packets that want two links on: without lanes nothing could move
    for links in 3..9_u32 {
        for hops in 2..links {
            let routes: Vec<Vec<u32>> = (0..links).map(|l| (0..hops).map(|h| (l + h) % links).collect()).collect();
            let messages: Vec<Sent<'_>> = routes.iter().map(|r| (5000, r.as_slice(), None, 0)).collect();
            let (arrived, carried, _) = played(packing(100, 0, 100), &vec![(0.01, 100); links as usize], &messages);
            // not later than one after the other, packet by packet
            assert!(arrived.iter().all(|a| *a <= u64::from(links * 50 * hops) * 10_100), "{arrived:?}");
            assert_eq!(carried, vec![5000.0 * f64::from(hops); links as usize]);
        }
    }
}

#[test]
fn laws_hold_on_random_cases() {
    let mut next = generator(77);
    for case in 0..3_000 {
        let count = 1 + next(7);
        let links: Vec<(f64, Time)> = (0..count).map(|_| (0.01 * (1 + next(4)) as f64, next(3) * 5_000)).collect();
        let payload = 50 + next(100) as u32;
        let header = next(2) as u32 * 10;
        let how = packing(payload, header, (payload + header) * (1 + next(3) as u32) + next(30) as u32);
        let routes: Vec<Vec<u32>> = (0..1 + next(12))
            .map(|_| {
                // any way over links, each once
                let mut route: Vec<u32> = (0..count as u32).collect();
                for at in (1..route.len()).rev() {
                    route.swap(at, next(at as u64 + 1) as usize);
                }
                route.truncate(1 + next(count) as usize);
                route
            })
            .collect();
        let messages: Vec<Sent<'_>> = routes
            .iter()
            .map(|r| (next(1500), r.as_slice(), if next(4) == 0 { Some(0.002 * (1 + next(9)) as f64) } else { None }, next(4) * 20_000))
            .collect();
        let found = played(how, &links, &messages);
        assert_eq!(found, played(how, &links, &messages), "the same again");
        let (arrived, carried, _) = found;
        let wire = |bytes: u64| bytes + u64::from(header) * bytes.div_ceil(u64::from(payload)).max(1);
        for (link, (capacity, latency)) in links.iter().enumerate() {
            let over = || messages.iter().zip(&arrived).filter(|(m, _)| m.1.contains(&(link as u32)));
            let bytes: u64 = over().map(|(m, _)| wire(m.0)).sum();
            assert_eq!(carried[link], bytes as f64, "case {case}: bytes are conserved");
            if let (Some(first), Some(last)) = (over().map(|(m, _)| m.3).min(), over().map(|(_, a)| *a).max()) {
                // whole picoseconds: half of one for each packet
                let slack = 1500 * 12 / 50;
                assert!((last - first - latency + slack) as f64 * capacity >= bytes as f64, "case {case}: link {link} is overrun");
            }
        }
        for (message, (sent, arrived)) in messages.iter().zip(&arrived).enumerate() {
            assert!(*arrived != Time::MAX, "case {case}: message {message} has arrived");
            // alone, with room for all, nothing is faster
            let alone = played(packing(payload, header, 1 << 20), &links, &[*sent]).0[0];
            assert!(*arrived >= alone, "case {case}: message {message}");
        }
    }
}

#[test]
fn what_takes_too_long_or_does_not_fit_is_refused() {
    assert!(!packing(0, 0, 100).sound() && !packing(100, 1, 100).sound() && !packing(u32::MAX, 1, u32::MAX).sound());
    assert!(packing(100, 0, 100).sound());
    let mut packets = Packets::new(Packing::default(), [(1e-300, 0)].into_iter());
    packets.learn(&[0]);
    packets.ready(|_| false);
    assert_eq!(packets.begin(0, 1, &[0], None, 0, &mut Queue::default()), Err(RunError::Value));
}

/// A lane: a link, and its number; what begins at a link has none.
type Before = (u32, Option<u32>);

/// The same rules without economy: every packet is an event when it has left and when it is there, and what a queue holds is
/// counted anew.  None if two things happen at one time: their order is not laid down here.
fn by_hand(packing: Packing, links: &[(f64, Time)], messages: &[Sent<'_>]) -> Option<Vec<Time>> {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum What {
        Left(usize),
        There(usize, usize, u32),
        Begin(usize),
    }
    let mut turns = Turns::default();
    messages.iter().for_each(|m| turns.add(m.1));
    let datelines = turns.datelines(links.len(), |_| false);
    let lanes: Vec<Vec<Before>> = messages
        .iter()
        .map(|m| {
            let number = |hop: usize| m.1[..=hop].windows(2).filter(|w| datelines.contains(&(w[0], w[1]))).count() as u32;
            (0..m.1.len()).map(|h| (m.1[h], if h == 0 { None } else { Some(number(h)) })).collect()
        })
        .collect();
    let mut events: std::collections::BTreeSet<(Time, usize, What)> =
        messages.iter().enumerate().map(|(m, sent)| (sent.3, m, What::Begin(m))).collect();
    let mut left: Vec<u64> = messages.iter().map(|m| m.0).collect();
    let mut arrived = vec![Time::MAX; messages.len()];
    // packets before a link in order: message, hop, bytes; of a message that begins, one that stands for all its packets
    let mut waiting: std::collections::BTreeMap<Before, Vec<(usize, usize, u32)>> = Default::default();
    // packets that have room in a lane: not yet left
    let mut inside: std::collections::BTreeMap<Before, u32> = Default::default();
    // who waits for room: a lane, or a message that begins, with its bytes; where it waits
    let mut asking: Vec<(Before, (usize, usize, u32), Before)> = Vec::new();
    // messages behind one of their host that waits for the same room
    let mut crowd: Vec<(Before, (usize, usize, u32), Before)> = Vec::new();
    let mut granted: std::collections::BTreeSet<(Before, Option<usize>)> = Default::default();
    let mut sending: Vec<Option<(Before, u32)>> = vec![None; links.len()];
    let mut order = messages.len();
    while let Some((now, _, what)) = events.pop_first() {
        if events.first().is_some_and(|e| e.0 == now) {
            return None;
        }
        match what {
            What::Begin(m) => {
                let bytes = left[m].min(u64::from(packing.payload)) as u32;
                waiting.entry(lanes[m][0]).or_default().push((m, 0, bytes));
            }
            What::There(m, hop, bytes) => waiting.entry(lanes[m][hop]).or_default().push((m, hop, bytes)),
            What::Left(link) => {
                let (lane, wire) = sending[link].take().expect("was sending");
                if lane.1.is_some() {
                    *inside.get_mut(&lane).expect("was in") -= wire;
                }
            }
        }
        // first who waits for room, in order; then every link that can send does
        loop {
            let mut moved = false;
            let (mut blocked, mut again) = (Vec::new(), Vec::new());
            asking.retain(|(who, first, for_room)| {
                let wire = first.2 + packing.header;
                let has = inside.entry(*for_room).or_default();
                if blocked.contains(for_room) || *has + wire > packing.buffer {
                    blocked.push(*for_room);
                    return true;
                }
                *has += wire;
                granted.insert((*who, who.1.is_none().then_some(first.0)));
                if who.1.is_none() {
                    waiting.get_mut(who).expect("has been there").push(*first);
                    if let Some(next) = crowd.iter().position(|c| (c.0, c.2) == (*who, *for_room)) {
                        again.push(crowd.remove(next));
                    }
                }
                false
            });
            moved |= !again.is_empty();
            asking.append(&mut again);
            for link in 0..links.len() {
                let all: Vec<_> = waiting.range((link as u32, None)..=(link as u32, Some(u32::MAX))).map(|(l, _)| *l).collect();
                let all: Vec<_> = all.iter().flat_map(|l| vec![*l; waiting[l].len()]).collect();
                for lane in all {
                    let Some((m, hop, bytes)) = waiting[&lane].first().copied() else { continue };
                    let begins = lane.1.is_none();
                    if sending[link].is_some() || !begins && asking.iter().any(|a| a.0 == lane) {
                        continue;
                    }
                    let wire = bytes + packing.header;
                    let whose = (lane, begins.then_some(m));
                    if let Some(to) = lanes[m].get(hop + 1).filter(|_| !granted.contains(&whose)) {
                        let has = inside.entry(*to).or_default();
                        if asking.iter().any(|a| a.2 == *to) || *has + wire > packing.buffer {
                            let there = begins && asking.iter().any(|a| (a.0, a.2) == (lane, *to));
                            if there { &mut crowd } else { &mut asking }.push((lane, (m, hop, bytes), *to));
                            if begins {
                                waiting.get_mut(&lane).expect("is there").remove(0);
                            }
                            continue;
                        }
                        *has += wire;
                    }
                    granted.remove(&whose);
                    moved = true;
                    waiting.get_mut(&lane).expect("is there").remove(0);
                    if hop == 0 {
                        left[m] -= u64::from(bytes);
                        if left[m] > 0 {
                            let next = left[m].min(u64::from(packing.payload)) as u32;
                            waiting.get_mut(&lane).expect("is there").push((m, 0, next));
                        }
                    }
                    let free = now + took(wire, links[link].0);
                    sending[link] = Some((lane, wire));
                    order += 1;
                    events.insert((free, order, What::Left(link)));
                    let there = free + links[link].1;
                    if hop + 1 < lanes[m].len() {
                        events.insert((there, order, What::There(m, hop + 1, bytes)));
                    } else {
                        // packets of a message keep their order
                        arrived[m] = there;
                    }
                }
            }
            if !moved {
                break;
            }
        }
    }
    Some(arrived)
}

#[test]
fn every_packet_by_hand_gives_the_same() {
    let mut next = generator(2026);
    let mut alike = 0;
    for case in 0..1_200 {
        // links of their own bandwidth and latency, so that no two packets from elsewhere come at one time
        let count = 2 + next(6);
        let links: Vec<(f64, Time)> = (0..count).map(|_| (0.01 + next(1 << 30) as f64 * 1e-11, 1000 + next(30_000))).collect();
        let how = packing(100, 8 * next(2) as u32, 108 * (1 + next(3) as u32));
        let routes: Vec<Vec<u32>> = (0..1 + next(8))
            .map(|_| {
                // forward only: then each link has two lanes at most, that of what begins and that of what comes
                let mut route: Vec<u32> = (0..count as u32).filter(|_| next(3) > 0).collect();
                if route.is_empty() {
                    route.push(0);
                }
                route
            })
            .collect();
        let messages: Vec<Sent<'_>> = routes.iter().map(|r| (1 + next(1500), r.as_slice(), None, next(200_000))).collect();
        // one lane a link where nothing begins in the middle: there turns do not matter
        let plain = messages.iter().all(|a| messages.iter().all(|b| !b.1[1..].contains(&a.1[0])));
        if let Some(known) = plain.then(|| by_hand(how, &links, &messages)).flatten() {
            assert_eq!(played(how, &links, &messages).0, known, "case {case}: {links:?} {messages:?}");
            alike += 1;
        }
    }
    assert!(alike > 200, "{alike}");
}
