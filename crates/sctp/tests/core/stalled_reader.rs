//! A peer whose application reads nothing, while its transport acknowledges.

use festina_netsim::LinkConfig;
use festina_sctp::{ClosedReason, Config, Message, SendError};
use festina_units::{Duration, Instant};

use crate::pair::Pair;

/// The documented limit on an orderly end without progress.
const STALL: Duration = Duration::from_secs(30);

/// Two hosts; the second one reads nothing, and has acknowledged all that its buffer holds. The first one has `waiting` more messages.
fn stalled(message: &impl Fn() -> Message, waiting: usize) -> Pair {
    let link = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
    let mut reader = Config::default();
    reader.limits.receive_buffer_bytes = 16 << 10;
    let mut pair = Pair::new([Config::default(), reader], [link.clone(), link], 1);
    pair.connect(0, 1);
    pair.run_for(Duration::from_secs(1));
    pair.hosts[1].reads = false;
    let mut messages = 0;
    while pair.hosts[0].association().stats().path.peer_window_closed_since.is_none() {
        send(&mut pair, message()).unwrap();
        pair.run_for(Duration::from_millis(100));
        messages += 1;
        assert!(messages < 100, "the window stays open");
    }
    for _ in 0..waiting {
        send(&mut pair, message()).unwrap();
    }
    pair
}

fn send(pair: &mut Pair, message: Message) -> Result<(), SendError> {
    let now = pair.now;
    pair.hosts[0].association().send(now, message).map(drop)?;
    pair.drain(0);
    Ok(())
}

fn shut_down(pair: &mut Pair, index: usize) {
    let now = pair.now;
    pair.hosts[index].association().shutdown(now);
    pair.drain(index);
}

#[test]
fn s9_2_messages_given_up_are_no_progress_of_a_peer_that_reads_nothing() {
    for maximum in [u16::MAX, 0, 1] {
        for peer_begins in [false, true] {
            let message = || Message::new(vec![7; 1_000]).with_max_retransmissions(maximum);
            let mut pair = stalled(&message, 40);
            let start = pair.now;
            shut_down(&mut pair, usize::from(peer_begins));
            pair.run_until(|pair| pair.hosts[0].closed().is_some());
            let time = pair.now - start;
            assert_eq!(pair.hosts[0].closed(), Some(&ClosedReason::ShutdownTimeout), "{maximum}");
            assert!((STALL..=STALL + Duration::from_secs(1)).contains(&time), "{maximum}: {time:?}");
            let sent = pair.hosts[0].association().stats().sent;
            assert!(sent.messages_abandoned > 0);
        }
    }
}

/// The first fragment of each message takes the place that the one before has left, and is acknowledged, but no message arrives.
#[test]
fn s9_2_acknowledged_fragments_of_messages_given_up_are_no_progress_either() {
    for bytes in (1_250..5_000).step_by(250) {
        let message = || Message::new(vec![7; bytes]).unordered().with_max_retransmissions(0);
        let mut pair = stalled(&message, 300_000 / bytes);
        let start = pair.now;
        shut_down(&mut pair, 0);
        pair.run_until(|pair| pair.hosts[0].closed().is_some());
        assert_eq!(pair.hosts[0].closed(), Some(&ClosedReason::ShutdownTimeout), "{bytes}");
        assert!(pair.now - start <= STALL + Duration::from_secs(1), "{bytes}: {:?}", pair.now - start);
    }
}

#[test]
fn s9_2_a_peer_that_begins_to_read_lets_the_end_finish_though_most_messages_are_given_up() {
    let message = || Message::new(vec![7; 1_000]).with_max_retransmissions(0);
    let mut pair = stalled(&message, 40);
    shut_down(&mut pair, 0);
    pair.run_for(Duration::from_secs(25));
    pair.hosts[1].reads = true;
    pair.drain(1);
    pair.run_until(|pair| pair.hosts[0].closed().is_some());
    assert_eq!(pair.hosts[0].closed(), Some(&ClosedReason::Shutdown));
}

fn closed_since(pair: &mut Pair) -> Option<Instant> {
    pair.hosts[0].association().stats().path.peer_window_closed_since
}

#[test]
fn a_window_that_stays_closed_keeps_the_time_since_which_it_is() {
    for maximum in [u16::MAX, 0] {
        let message = || Message::new(vec![7; 1_000]).with_max_retransmissions(maximum);
        let mut pair = stalled(&message, 5);
        let since = closed_since(&mut pair);
        assert!(since.is_some_and(|since| pair.now - since < Duration::from_secs(2)), "{since:?}");
        for _ in 0..60 {
            pair.run_for(Duration::from_secs(5));
            send(&mut pair, message()).unwrap();
            assert_eq!(closed_since(&mut pair), since, "at {:?}", pair.now);
        }
        assert_eq!(pair.hosts[0].closed(), None, "the transport answers");
        pair.hosts[1].reads = true;
        pair.drain(1);
        pair.run_for(Duration::from_millis(50));
        assert_eq!(closed_since(&mut pair), None, "the application reads");
    }
}

#[test]
fn a_window_that_closes_and_opens_for_a_slow_reader_counts_from_the_last_time() {
    let message = || Message::new(vec![7; 1_000]);
    let mut pair = stalled(&message, 40);
    let first = closed_since(&mut pair).unwrap();
    pair.run_for(Duration::from_secs(2));
    for _ in 0..10 {
        assert!(pair.hosts[1].association().poll_message().is_some());
    }
    pair.drain(1);
    pair.run_for(Duration::from_secs(2));
    assert!(
        closed_since(&mut pair).is_some_and(|since| since > first),
        "some of it was read, and the rest filled it again"
    );
}
