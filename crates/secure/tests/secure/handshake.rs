//! The handshake over good and bad links.

use festina_netsim::{LinkConfig, LossModel, Reordering};
use festina_sctp::{AssociationState, Event, Message};
use festina_secure::{HalfOpenLimits, HandshakeError};
use festina_units::{Duration, Probability};

use crate::world::{Setup, World, config, tls};

pub(crate) fn link(lost: &[u64]) -> LinkConfig {
    let (delay, loss) = (Duration::from_millis(50), LossModel::Exact(lost.to_vec()));
    LinkConfig { delay, loss, ..LinkConfig::default() }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn one_round_trip_authenticates_both_and_the_first_message_leaves_with_the_clients_last_bytes() {
    let tls = tls();
    let mut world = World::new(Setup { token: b"ticket", ..Setup::new(&tls, link(&[]), 1) });
    world.send(b"hello");
    let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
    assert_eq!((delivered, milliseconds), (true, 150));
    assert_eq!([world.sent[0].len(), world.sent[1].len()], [2, 2], "as many datagrams as plain SCTP");
    let served = world.established().unwrap();
    assert_eq!(served.received[0].payload(), "hello");
    let hello = served.hello.as_ref().unwrap();
    assert_eq!((&hello.token[..], hello.ports.local, hello.ports.peer), (&b"ticket"[..], 5_000, 5_001));
    assert_eq!(hello.server_name.as_deref(), Some("server.test"));
    assert_eq!(served.association.alpn(), Some(&b"festina-test"[..]));
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.core().state(), AssociationState::Established);
    assert_eq!(world.core().stats().path.in_flight_bytes, 0);
    assert!(world.client.peer_identity().is_some_and(|chain| chain.len() == 1));
    assert_eq!(world.messages(), 1);
}

#[test]
fn a_handshake_takes_at_most_1700_bytes_of_both_ends_and_answers_stay_below_three_times_the_bytes_received() {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    let (established, _) = world.run_until(MINUTE, |world| world.core().state() == AssociationState::Established);
    assert!(established);
    let [client, server] = [0, 1].map(|side| world.bytes_sent(side));
    println!(
        "handshake: {:?} and {:?} bytes",
        world.sent[0].iter().map(Vec::len).collect::<Vec<_>>(),
        world.sent[1].iter().map(Vec::len).collect::<Vec<_>>()
    );
    assert!(client + server <= 1_700, "{client} and {server} bytes");
    assert!(world.sent[1][0].len() <= 3 * world.sent[0][0].len());
}

#[test]
fn clients_that_lose_the_same_datagram_of_the_handshake_repeat_it_at_different_times() {
    let tls = tls();
    // The hello; the hello with a token; the last bytes.
    for (lost, other_half_open) in [(0, 0), (1, HalfOpenLimits::default().unproved_max), (1, 0)] {
        let repeated_at = |spread| {
            let times = (0..16).map(|seed| {
                let mut config = config();
                config.retries.spread = spread;
                let mut world = World::new(Setup { config, ..Setup::new(&tls, link(&[]), seed) });
                world.server.other_half_open = other_half_open;
                world.middlebox.faults = vec![(0, lost, crate::middlebox::Fault::Dropped)];
                world.drain();
                assert!(world.run_until(MINUTE, |world| world.sent[0].len() > lost).0);
                let lost_at = world.now;
                assert!(world.run_until(MINUTE, |world| world.sent[0].len() > lost + 1).0);
                world.now - lost_at
            });
            times.collect::<std::collections::BTreeSet<_>>()
        };
        let (fixed, spread) = (repeated_at(false), repeated_at(true));
        assert_eq!(fixed.len(), 1, "{lost}: {fixed:?}");
        let pause = *fixed.first().unwrap();
        assert!(spread.len() > 8, "{lost}: {spread:?}");
        assert!(spread.iter().all(|time| (pause..=pause * 5 / 4).contains(time)), "{lost}: {pause:?} {spread:?}");
    }
}

#[test]
fn losses_of_the_handshake_cost_as_much_as_those_of_plain_sctp() {
    let tls = tls();
    // As in the core's tests of early copies.
    let cases: [(&[u64], &[u64], u64); 7] = [
        (&[0], &[], 360),
        (&[], &[0], 360),
        (&[0, 1], &[], 570),
        (&[1], &[], 275),
        (&[1, 2], &[], 400),
        (&[], &[1], 150),
        (&[0, 2], &[], 485),
    ];
    for (there, back, expected) in cases {
        let mut setup = Setup::new(&tls, link(there), 1);
        setup.links[1] = link(back);
        let mut world = World::new(setup);
        world.send(b"hello");
        let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
        assert_eq!((delivered, milliseconds), (true, expected), "lost {there:?} there and {back:?} back");
        world.run_for(Duration::from_secs(20));
        assert_eq!((world.messages(), world.core().stats().path.in_flight_bytes), (1, 0));
        assert_eq!(world.core().state(), AssociationState::Established);
    }
}

#[test]
fn messages_arrive_once_and_in_order_over_links_that_lose_reorder_repeat_and_corrupt() {
    let tls = tls();
    for seed in 0..60 {
        let percent = [0, 5, 20][usize::try_from(seed % 3).unwrap()];
        let p = |percent| Probability::from_percent(percent);
        let bad = LinkConfig {
            delay: Duration::from_millis(20),
            loss: LossModel::Independent(p(percent)),
            reordering: Reordering { probability: p(10), hold_back: Duration::from_millis(15) },
            duplication: p(10),
            corruption: p(5),
            ..LinkConfig::default()
        };
        let mut world = World::new(Setup::new(&tls, bad, seed));
        for number in 0..50_u8 {
            world.send(&[number; 700]);
        }
        let (delivered, _) = world.run_until(MINUTE * 3, |world| world.messages() == 50);
        assert!(delivered, "seed {seed}: {} messages, {:?}", world.messages(), world.client.failure());
        let served = world.established().unwrap();
        let order: Vec<_> = served.received.iter().map(|message| message.payload()[0]).collect();
        assert_eq!(order, (0..50).collect::<Vec<_>>(), "seed {seed}");
        world.client.shutdown(world.now);
        let (closed, _) = world.run_until(MINUTE * 5, |world| world.core().is_closed());
        assert!(closed, "seed {seed}");
        world.run_for(MINUTE * 5);
        assert_eq!(world.messages(), 50);
        assert!(world.client.is_finished(world.now), "seed {seed}");
        assert!(world.served.iter().all(|served| served.association.is_finished(world.now)), "seed {seed}");
    }
}

#[test]
fn a_server_under_load_asks_for_a_proof_of_the_address_at_the_price_of_a_round_trip() {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.server.other_half_open = HalfOpenLimits::default().unproved_max;
    world.send(b"hello");
    let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
    assert_eq!((delivered, milliseconds), (true, 250));
    assert_eq!(world.served.len(), 1, "the retry left no state");
    assert!(world.served[0].hello.as_ref().unwrap().is_address_proved);
    world.run_for(Duration::from_secs(5));
    let srtt = world.core().stats().path.srtt.unwrap();
    assert!(srtt < Duration::from_millis(110), "the retry does not count as a round trip: {srtt:?}");
}

#[test]
fn a_flood_of_hellos_without_proofs_makes_few_half_open_associations() {
    let tls = tls();
    let limits = HalfOpenLimits { total_max: 8, unproved_max: 4, unproved_per_second_max: 100 };
    let mut world = World::new(Setup { limits, ..Setup::new(&tls, link(&[]), 1) });
    let mut hellos = Vec::new();
    for seed in 0..30 {
        let mut client = World::new(Setup::new(&tls, link(&[]), 100 + seed));
        client.drain();
        hellos.push(client.sent[0][0].clone());
    }
    for hello in &hellos {
        world.deliver(1, hello);
    }
    assert_eq!(world.served.len(), 4);
    assert!(world.bytes_sent(1) <= 3 * hellos.iter().map(Vec::len).sum::<usize>());
    world.run_for(Duration::from_secs(31));
    // The client of this world has proved its address in the meantime.
    let established: Vec<_> = world.served.iter().map(|served| served.association.is_established()).collect();
    assert_eq!(established, [true], "the others are forgotten");
}

#[test]
fn an_answer_longer_than_three_times_the_hello_waits_for_a_proof() {
    let (client, server) = crate::identity::long_chain();
    let tls = (client, server);
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"hello");
    let (delivered, milliseconds) = world.run_until(MINUTE, |world| world.messages() == 1);
    assert_eq!((delivered, milliseconds), (true, 250));
    assert!(world.sent[1][0].len() < 100, "a retry");
    assert!(world.sent[1][1..].iter().map(Vec::len).sum::<usize>() > 3 * world.sent[0][0].len());
}

#[test]
fn a_client_without_an_answer_gives_up_and_says_what_it_heard() {
    let tls = tls();
    for (foreign, text) in [
        (None, "the peer did not complete the handshake"),
        (Some(vec![22, 254, 253, 0]), "the peer did not complete the handshake; it speaks DTLS"),
        (Some(vec![1, 1, 0, 0]), "the peer did not complete the handshake; it speaks STUN"),
    ] {
        let mut config = config();
        config.retries.init_max = 2;
        let mut world = World::new(Setup { config, ..Setup::new(&tls, link(&(0..100).collect::<Vec<_>>()), 1) });
        if let Some(foreign) = foreign {
            world.deliver(0, &foreign);
        }
        let (ended, _) = world.run_until(MINUTE * 10, |world| world.client.failure().is_some());
        assert!(ended);
        assert_eq!(world.client.failure().unwrap().to_string(), text);
        assert!(matches!(world.client_events[..], [Event::Closed(_)]), "{:?}", world.client_events);
    }
}

#[test]
fn a_server_of_another_version_is_named() {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[0]), 1));
    world.drain();
    let hello = world.sent[0][0].clone();
    let answer = [&[0xc0, 0, 0, 0, 0, 8][..], &hello[15..23], &[8], &hello[6..14], &[0, 0, 0, 1]].concat();
    world.deliver(0, &answer);
    assert!(matches!(world.client.failure(), Some(HandshakeError::Version(_))));
    assert_eq!(
        world.client.failure().unwrap().to_string(),
        "the peer does not speak this version of the protocol but 0x00000001 (QUIC)"
    );
    // The server's side of it.
    let mut unknown = hello;
    unknown[4] = 9;
    let before = world.sent[1].len();
    world.deliver(1, &unknown);
    assert_eq!(world.sent[1].len(), before + 1);
    assert!(world.sent[1][before].ends_with(b"FST\x01"));
}

#[test]
fn a_refusal_reaches_the_client_with_its_code() {
    let tls = tls();
    // Under load the client proves its address first, which takes another round trip.
    for (other_half_open, after) in [(0, 100), (HalfOpenLimits::default().unproved_max, 200)] {
        let mut world = World::new(Setup::new(&tls, link(&[]), 1));
        world.server.refuses = Some(700);
        world.server.other_half_open = other_half_open;
        world.send(b"hello");
        let (ended, milliseconds) = world.run_until(MINUTE, |world| world.client.failure().is_some());
        assert_eq!((ended, milliseconds), (true, after));
        assert_eq!(world.client.failure(), Some(&HandshakeError::Refused(700)));
        world.run_for(MINUTE);
        assert_eq!(world.messages(), 0);
        assert!(world.served.is_empty() && world.client.is_finished(world.now));
    }
}

#[test]
fn a_client_without_a_decision_is_refused_after_30_seconds() {
    let tls = tls();
    let mut config = config();
    config.retries.init_max = 30;
    config.timers.rto_max = Duration::from_secs(4);
    let mut world = World::new(Setup { config, ..Setup::new(&tls, link(&[]), 1) });
    world.server.holds = true;
    let (ended, milliseconds) = world.run_until(MINUTE, |world| world.client.failure().is_some());
    assert_eq!((ended, milliseconds), (true, 50 + 30_000 + 50));
    assert_eq!(world.client.failure(), Some(&HandshakeError::Refused(festina_secure::REFUSED)));
}

#[test]
fn a_client_is_refused_at_any_moment_before_its_handshake_is_complete() {
    for lost in [None, Some(0)] {
        let tls = tls();
        let mut world = World::new(Setup::new(&tls, link(&[]), 1));
        // Without the answer the client has only the keys of Initial packets.
        world.middlebox.faults = lost.map(|at| (1, at, crate::middlebox::Fault::Dropped)).into_iter().collect();
        world.send(b"hello");
        assert!(world.run_until(MINUTE, |world| !world.sent[1].is_empty()).0);
        world.served[0].association.refuse(festina_secure::NO_SUCH_PORT);
        let (ended, milliseconds) = world.run_until(MINUTE, |world| world.client.failure().is_some());
        assert_eq!((ended, milliseconds), (true, 100), "{lost:?}");
        let refused = HandshakeError::Refused(festina_secure::NO_SUCH_PORT);
        assert_eq!(world.client.failure(), Some(&refused), "{lost:?}");
    }
}

#[test]
fn both_sides_send_and_an_end_whose_last_chunk_is_lost_is_repeated() {
    let tls = tls();
    let mut world = World::new(Setup::new(&tls, link(&[]), 1));
    world.send(b"hello");
    world.run_until(MINUTE, |world| world.messages() == 1);
    let now = world.now;
    world.served[0].association.send(now, Message::new("answer")).unwrap();
    let (answered, _) = world.run_until(MINUTE, |world| world.client_received.len() == 1);
    assert!(answered);
    world.run_for(Duration::from_secs(1));
    world.client.shutdown(world.now);
    // SHUTDOWN COMPLETE is lost.
    let count = world.links[0].counters().offered;
    world.links[0].set_loss(LossModel::Exact(vec![count + 1]));
    let start = world.now;
    let (closed, _) =
        world.run_until(MINUTE, |world| world.served[0].association.association().is_some_and(|core| core.is_closed()));
    assert!(closed && world.now - start < Duration::from_secs(2), "{:?}", world.now - start);
    world.run_for(Duration::from_secs(60));
    assert!(world.client.is_finished(world.now));
}
