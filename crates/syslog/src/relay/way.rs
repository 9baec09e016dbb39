//! The way to one collector: keeps one association with it open.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use festina::{Association, ClosedReason, ConnectOptions, Duration, Endpoint};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::keys::Client;
use crate::notice::Notice;
use crate::transport;

/// Time limit for the collector's first answer.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// Pauses between attempts to reach the collector: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Silence, with messages to acknowledge, after which a second association is tried. Four retransmission timeouts, if that is longer.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Lengthens a pause by up to a quarter, at random: relays that have lost a collector at the same moment do not return at the same moment.
fn spread(pause: Duration) -> Duration {
    let [random, ..] = RandomState::new().hash_one(()).to_le_bytes();
    pause + pause * u32::from(random) / 1_024
}

/// How to connect to a collector.
pub(super) struct Way {
    /// The number of the collector.
    pub(super) index: usize,
    pub(super) collector: SocketAddr,
    pub(super) client: Client,
    pub(super) endpoint: Endpoint,
    pub(super) connections: mpsc::Sender<(usize, Association)>,
    pub(super) notice: Notice,
}

impl Way {
    /// Keeps one association with the collector open while the receiver exists.
    pub(super) async fn connect(self) {
        let Self { index, collector, client, endpoint, connections, notice } = &self;
        let mut pause = PAUSES.0;
        let mut reported = String::new();
        let mut replacement = None;
        while !connections.is_closed() {
            let connected = match replacement.take() {
                Some(association) => Ok(association),
                None => endpoint.connect_with(*collector, self.options()).await,
            };
            match connected {
                Ok(association) => {
                    let since = Instant::now();
                    if client.met(&association).is_err() {
                        // The next attempt reports it.
                        association.abort("the key is not the known one");
                        continue;
                    }
                    reported.clear();
                    notice(&format!("connected to the collector {collector}"));
                    for (stream, rank) in transport::ranks() {
                        let ranked = association.set_stream_priority(stream, rank);
                        debug_assert!(ranked.is_ok(), "the transport uses priorities: {ranked:?}");
                    }
                    if connections.send((*index, association.clone())).await.is_err() {
                        return;
                    }
                    let ended = self.end_of(&association).await;
                    // A collector that refuses this relay is asked at growing intervals.
                    if since.elapsed() > PAUSES.1 {
                        pause = PAUSES.0;
                    }
                    match ended {
                        Ok(other) => {
                            notice(&format!("the collector {collector} was silent and has accepted a new association"));
                            replacement = Some(other);
                            continue;
                        }
                        Err(reason) => {
                            notice(&format!("the association with the collector {collector} ended: {reason}"));
                        }
                    }
                }
                Err(error) => {
                    let problem = client.explain(&error);
                    if problem != reported {
                        notice(&format!(
                            "cannot reach the collector {collector}: {problem}; reliable lines are spooled; retrying"
                        ));
                        reported = problem;
                    }
                }
            }
            tokio::time::sleep(spread(pause)).await;
            pause = PAUSES.1.min(pause * 2);
        }
    }

    fn options(&self) -> ConnectOptions {
        let options = ConnectOptions::default().peer_port(transport::PORT).handshake_timeout(HANDSHAKE_TIME_MAX);
        match &self.client.server_name {
            Some(name) => options.server_name(name.as_str()),
            None => options,
        }
    }

    /// Waits until the association ends, or until another one is open while this one is silent. A collector that was killed has lost the keys of its
    /// associations and cannot report their end.
    async fn end_of(&self, association: &Association) -> Result<Association, ClosedReason> {
        loop {
            tokio::select! {
                reason = association.closed() => return Err(reason),
                () = silence(association) => {}
            }
            let heard = association.stats().received.packets;
            let other = tokio::select! {
                reason = association.closed() => return Err(reason),
                other = self.endpoint.connect_with(self.collector, self.options()) => other,
            };
            match other {
                Ok(other) if association.stats().received.packets == heard => {
                    association.abort("the collector was silent");
                    return Ok(other);
                }
                Ok(other) => other.abort("the older association is alive"),
                Err(_) => {}
            }
        }
    }
}

/// Returns when nothing has been received for some time although messages wait for acknowledgement.
async fn silence(association: &Association) {
    let (mut heard, mut since) = (None, Instant::now());
    loop {
        let stats = association.stats();
        if stats.path.messages_pending == 0 || heard != Some(stats.received.packets) {
            (heard, since) = (Some(stats.received.packets), Instant::now());
        } else if since.elapsed() >= SILENCE_MAX.max(4 * stats.path.rto) {
            return;
        }
        tokio::time::sleep(SILENCE_MAX / 8).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_that_lost_a_collector_together_return_at_different_times() {
        let pauses: Vec<_> = (0..100).map(|_| spread(PAUSES.1)).collect();
        assert!(pauses.iter().all(|pause| (PAUSES.1..PAUSES.1 * 5 / 4).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
