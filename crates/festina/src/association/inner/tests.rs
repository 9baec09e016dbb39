//! Tests of the division of work between sending threads.

use festina_units::Duration;

use super::*;
use crate::{Association, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, ServerConfig};

/// Two endpoints on loopback with an association between them.
struct Pair {
    client: Endpoint,
    near: Association,
    far: Association,
    server: Endpoint,
}

impl Pair {
    async fn over_loopback() -> Self {
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(address, ServerConfig::plain()).await.unwrap();
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let client = Endpoint::client(address, ClientConfig::plain()).await.unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        Self { client, near: near.unwrap(), far: far.unwrap(), server }
    }
}

/// The same with many associations.
struct Crowd {
    client: Endpoint,
    nears: Vec<Association>,
    fars: Vec<Association>,
    server: Endpoint,
}

impl Crowd {
    async fn over_loopback(associations: usize) -> Self {
        let Pair { client, near, far, server } = Pair::over_loopback().await;
        let listener = server.listen(DEFAULT_SCTP_PORT + 1).unwrap();
        let (mut nears, mut fars) = (vec![near], vec![far]);
        while nears.len() < associations {
            let options = crate::ConnectOptions::default().peer_port(DEFAULT_SCTP_PORT + 1);
            let (near, far) = tokio::join!(client.connect_with(server.local_addr(), options), listener.accept());
            nears.push(near.unwrap());
            fars.push(far.unwrap());
        }
        Self { client, nears, fars, server }
    }
}

#[tokio::test]
async fn what_threads_send_while_they_wait_for_each_other_leaves_in_one_packet() {
    const THREADS: usize = 8;
    let Pair { client, near, far, server: _server } = Pair::over_loopback().await;
    let (inner, before) = (near.inner(), client.stats().packets_sent);
    std::thread::scope(|scope| {
        let held = lock(&inner.state);
        for number in 0..THREADS {
            scope.spawn(move || inner.try_send(Message::new(number.to_be_bytes().to_vec()), Watch::No).unwrap());
        }
        while inner.successors.load(Ordering::Relaxed) < THREADS {
            std::thread::yield_now();
        }
        drop(held);
    });
    assert_eq!(client.stats().packets_sent - before, 1);
    let mut numbers = Vec::new();
    for _ in 0..THREADS {
        numbers.push(far.recv().await.unwrap().unwrap().into_payload());
    }
    numbers.sort_unstable();
    assert!((0..THREADS).zip(numbers).all(|(number, received)| received == number.to_be_bytes()[..]));
}

#[tokio::test]
async fn a_lone_message_leaves_from_within_the_call_and_one_of_a_burst_with_the_driver() {
    let Pair { client, near, far, server: _server } = Pair::over_loopback().await;
    let before = client.stats().packets_sent;
    near.try_send(Message::new("alone")).unwrap();
    assert_eq!(client.stats().packets_sent - before, 1);
    for number in 0..20 {
        lock(&near.inner().state).departure.make_busy();
        let message = Message::new("in company");
        let expires = number % 2 == 1;
        near.try_send(if expires { message.with_lifetime(Duration::from_secs(60)) } else { message }).unwrap();
    }
    assert_eq!(client.stats().packets_sent - before, 1);
    assert_eq!(far.recv().await.unwrap().unwrap().payload(), "alone");
    for _ in 0..20 {
        let received = tokio::time::timeout(Duration::from_secs(30), far.recv()).await;
        assert_eq!(received.expect("it leaves without anybody's help").unwrap().unwrap().payload(), "in company");
    }
    assert!(client.stats().packets_sent - before < 10, "twenty messages share packets");
}

#[tokio::test]
async fn the_timer_never_comes_after_the_deadline_however_many_messages_wait() {
    let Pair { client: _client, near, far: _far, server: _server } = Pair::over_loopback().await;
    let is_armed = || {
        let state = lock(&near.inner().state);
        state.core.poll_deadline().is_none_or(|deadline| state.entry.at <= deadline)
    };
    let mut silent = 0;
    for number in 0..2_000_u64 {
        near.try_send(Message::new(vec![7; 1_000])).unwrap();
        assert!(is_armed(), "after message {number}");
        silent += usize::from(lock(&near.inner().state).departure.stalled);
        if number % 100 == 99 {
            let lifetime = Duration::from_micros(60_000_000 / number);
            near.try_send(Message::new("soon or never").with_lifetime(lifetime)).unwrap();
            assert!(is_armed(), "after a message that expires");
        }
        if number % 250 == 249 {
            tokio::task::yield_now().await;
            assert!(is_armed(), "after a turn of the driver");
        }
    }
    assert!(silent > 100, "{silent} messages could not leave at once");
}

#[tokio::test]
async fn packets_are_not_left_to_those_who_come_after_for_ever() {
    let Pair { client, near, far: _far, server: _server } = Pair::over_loopback().await;
    let before = client.stats().packets_sent;
    near.inner().successors.store(1, Ordering::Relaxed);
    for _ in 0..100 {
        near.inner().queue(Message::new("soon")).unwrap();
        near.inner().flush();
    }
    assert!(client.stats().packets_sent > before);
    near.inner().successors.store(0, Ordering::Relaxed);
}

#[tokio::test]
async fn an_entry_of_the_timers_that_comes_up_while_it_moves_leaves_one() {
    let Pair { client: _client, near, far: _far, server: _server } = Pair::over_loopback().await;
    let inner = near.inner();
    near.try_send(Message::new("there is a deadline")).unwrap();
    let (now, entry_at) = {
        let mut state = lock(&inner.state);
        let (now, before) = (clock::now(), state.entry);
        let nearer = before.follow(now, before.at - Duration::from_micros(1)).unwrap();
        inner.shared.timers.arm(now, inner, before, nearer);
        state.entry = nearer;
        (now, before.at)
    };
    inner.handle_timer(now, entry_at);
    assert_eq!(inner.shared.timers.entries(), 1);
}

#[tokio::test]
async fn over_loopback_an_exchange_costs_a_packet_and_a_call_each_way() {
    const EXCHANGES: u64 = 400;
    let mut counted = Vec::new();
    // Now and then a busy machine takes longer for an answer than the sender expects.
    for _ in 0..40 {
        let Pair { client, near, far, server } = Pair::over_loopback().await;
        let calls = || {
            let (there, back) = (client.stats(), server.stats());
            [there.packets_sent + back.packets_sent, there.receive_calls + back.receive_calls]
        };
        let before = calls();
        for _ in 0..EXCHANGES {
            near.send(Message::new("there")).await.unwrap();
            far.recv().await.unwrap().unwrap();
            far.send(Message::new("and back")).await.unwrap();
            near.recv().await.unwrap().unwrap();
        }
        let after = calls();
        let counts = [after[0] - before[0], after[1] - before[1]];
        if counts.iter().all(|&count| count <= 2 * EXCHANGES + EXCHANGES / 5) {
            return;
        }
        counted.push(counts);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("packets sent and calls to receive, of {EXCHANGES} exchanges: {counted:?}");
}

#[tokio::test]
async fn a_message_does_not_overtake_what_waits_in_the_tray() {
    let Pair { client, near, far, server: _server } = Pair::over_loopback().await;
    let (inner, before) = (near.inner(), client.stats());
    inner.queue(Message::new("first")).unwrap();
    let lies_in_the_tray = |state: &mut State| state.fill(clock::now(), &inner.shared, Way::WithDriver);
    assert_eq!(lies_in_the_tray(&mut lock(&inner.state)), Ok(true));
    assert_eq!(client.stats().packets_sent, before.packets_sent);
    near.try_send(Message::new("second")).unwrap();
    let after = client.stats();
    assert_eq!((after.packets_sent - before.packets_sent, after.send_calls - before.send_calls), (2, 1));
    for expected in ["first", "second"] {
        assert_eq!(far.recv().await.unwrap().unwrap().into_payload(), expected);
    }
}

#[tokio::test]
async fn what_waits_for_others_that_do_not_come_leaves_with_the_driver() {
    let Pair { client: _client, near, far, server: _server } = Pair::over_loopback().await;
    let inner = near.inner();
    // The packets after the handshake must have been exchanged.
    tokio::time::sleep(Duration::from_millis(300)).await;
    inner.queue(Message::new("first of a rush")).unwrap();
    let filled = lock(&inner.state).fill(clock::now(), &inner.shared, Way::WithOthers);
    assert_eq!(filled, Ok(true));
    // No timer knows of it yet.
    let received = tokio::time::timeout(Duration::from_secs(5), far.recv()).await;
    assert_eq!(received.expect("the driver is woken").unwrap().unwrap().payload(), "first of a rush");
}

#[tokio::test]
async fn an_abort_leaves_at_once_whoever_makes_it() {
    let Pair { client, near, far: _far, server: _server } = Pair::over_loopback().await;
    let (inner, before) = (near.inner(), client.stats().packets_sent);
    inner.change_by(Change::Any, Way::WithDriver, |state, _| state.core.abort(b"the end"));
    assert_eq!(client.stats().packets_sent - before, 1);
}

#[tokio::test]
async fn messages_on_many_associations_of_one_peer_share_calls_both_ways() {
    const ASSOCIATIONS: usize = 200;
    let Crowd { client, nears, fars, server } = Crowd::over_loopback(ASSOCIATIONS).await;
    let mut counted = Vec::new();
    // A machine that stops this thread between two messages ends the rush.
    for _ in 0..20 {
        let before = [client.stats(), server.stats()];
        for near in &nears {
            near.try_send(Message::new("to each")).unwrap();
        }
        for far in &fars {
            assert_eq!(far.recv().await.unwrap().unwrap().payload(), "to each");
        }
        for near in &nears {
            near.drained().await.unwrap();
        }
        let after = [client.stats(), server.stats()];
        let calls = [0, 1].map(|end| after[end].send_calls - before[end].send_calls);
        if calls.iter().all(|&calls| calls <= ASSOCIATIONS as u64 / 4) {
            return;
        }
        counted.push(calls);
    }
    panic!("calls to send of both ends, for {ASSOCIATIONS} associations: {counted:?}");
}

#[tokio::test]
async fn associations_whose_time_has_come_are_called_in_order_and_none_is_left_behind() {
    let Crowd { client: _client, nears, fars, server: _server } = Crowd::over_loopback(200).await;
    let timers = &nears[0].inner().shared.timers;
    let now = clock::now();
    // The messages leave only when their associations are called.
    for (near, micros) in nears.iter().rev().zip(0..) {
        let inner = near.inner();
        inner.queue(Message::new("when called")).unwrap();
        let mut state = lock(&inner.state);
        let entry = Entry::NONE.follow(now, now + Duration::from_micros(micros)).unwrap();
        timers.arm(now, inner, state.entry, entry);
        state.entry = entry;
    }
    let mut due = Vec::new();
    timers.take_due(now, now + Duration::from_secs(1), 3, &mut due);
    let first: Vec<_> = nears.iter().rev().take(3).map(|near| near.inner().id).collect();
    assert_eq!(due.iter().map(|(_, inner)| inner.id).collect::<Vec<_>>(), first);
    due.iter().for_each(|(at, inner)| inner.handle_timer(clock::now(), *at));
    for far in &fars {
        let received = tokio::time::timeout(Duration::from_secs(20), far.recv()).await;
        assert_eq!(received.expect("its time has come").unwrap().unwrap().payload(), "when called");
    }
}
