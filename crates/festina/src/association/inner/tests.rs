//! Tests of who sends when.

use festina_units::Duration;

use super::*;
use crate::{Association, Config, DEFAULT_SCTP_PORT, Endpoint};

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
        let server = Endpoint::bind(address, Config::default()).await.unwrap();
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let client = Endpoint::bind(address, Config::default()).await.unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        Self { client, near: near.unwrap(), far: far.unwrap(), server }
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
        numbers.push(far.recv().await.unwrap().payload);
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
    for _ in 0..20 {
        lock(&near.inner().state).spared.burst.make_busy();
        near.try_send(Message::new("in company")).unwrap();
    }
    assert_eq!(client.stats().packets_sent - before, 1);
    assert_eq!(far.recv().await.unwrap().payload, "alone");
    for _ in 0..20 {
        let received = tokio::time::timeout(Duration::from_secs(30), far.recv()).await;
        assert_eq!(received.expect("it leaves without anybody's help").unwrap().payload, "in company");
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
        silent += usize::from(lock(&near.inner().state).spared.stalled);
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
        // A message that expires is in no burst.
        near.try_send(Message::new("soon").with_lifetime(Duration::from_secs(60))).unwrap();
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
    const EXCHANGES: u64 = 200;
    let mut counted = Vec::new();
    // Now and then a busy machine takes longer for an answer than the sender expects.
    for _ in 0..20 {
        let Pair { client, near, far, server } = Pair::over_loopback().await;
        let calls = || {
            let (there, back) = (client.stats(), server.stats());
            [there.packets_sent + back.packets_sent, there.receive_calls + back.receive_calls]
        };
        let before = calls();
        for _ in 0..EXCHANGES {
            near.send(Message::new("there")).await.unwrap();
            far.recv().await.unwrap();
            far.send(Message::new("and back")).await.unwrap();
            near.recv().await.unwrap();
        }
        let after = calls();
        let counts = [after[0] - before[0], after[1] - before[1]];
        if counts.iter().all(|&count| count <= 2 * EXCHANGES + EXCHANGES / 5) {
            return;
        }
        counted.push(counts);
    }
    panic!("packets sent and calls to receive, of {EXCHANGES} exchanges: {counted:?}");
}
