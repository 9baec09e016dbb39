//! Round trips of messages.

use std::time::Duration;

use festina::{Association, Message, ReceivedMessage, now};

/// Pause between two messages.
const PAUSE: Duration = Duration::from_millis(1);

/// Round-trip times of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrips {
    pub(crate) median: Duration,
    /// A tenth of them took longer.
    pub(crate) worst_tenth: Duration,
}

/// Sends messages one after the other to an application that answers each, until `enough`; returns the last answer as well.
pub(crate) async fn ping(association: &Association, enough: impl Fn(usize) -> bool) -> (RoundTrips, ReceivedMessage) {
    let mut round_trips = Vec::new();
    loop {
        let sent = now();
        association.send(Message::new("ping")).await.unwrap();
        let answer = association.recv().await.unwrap().unwrap();
        round_trips.push(now() - sent);
        if enough(round_trips.len()) {
            round_trips.sort_unstable();
            let at = |tenth: usize| round_trips[(round_trips.len() - 1) * tenth / 10];
            return (RoundTrips { median: at(5), worst_tenth: at(9) }, answer);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
