//! How relay and collector use the transport: streams, their order, limits.

use festina::{
    Association, CongestionControl, Duration, Profile, ReceivedMessage, Redundancy, StreamScheduler, Transport,
};

use crate::policy::PRIORITIES;
use crate::sender::STREAMS;

/// The SCTP port of a collector.
pub(crate) const PORT: u16 = 6_514;

/// Silence after which a peer counts as gone. The relay then connects again, to the same collector or to another.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum delay of an acknowledgement: short, since both ends watch how long messages take.
const SACK_DELAY: Duration = Duration::from_millis(20);

/// Bytes that wait to be sent or acknowledged.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// The transport counts this for each message in the send buffer, in addition to its payload.
pub(crate) const MESSAGE_OVERHEAD_BYTES: u64 = 128;

/// A welcome with all ranges that a collector may remember is the longest message.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Maximum number of messages received at once.
const RECEIVED_AT_ONCE: usize = 32;

/// Configuration of a relay's association for important lines.
pub(crate) fn for_important(redundancy: Redundancy) -> Transport {
    settings().with_redundancy(redundancy)
}

/// Configuration of a relay's association for fresh lines, which yields to the important ones and to other traffic.
pub(crate) fn for_fresh() -> Transport {
    settings().with_congestion(CongestionControl::Background)
}

/// Streams that a relay uses.
const STREAMS_MAX: u16 = 1 + PRIORITIES as u16 * (STREAMS as u16 + 1);

/// Configuration of a collector's associations, and what those of a relay have in common. A relay fills slow links, where the probes of the default
/// profile would lengthen the queue that makes them necessary. In the answers of a collector its I bits and copies would take a tenth of the
/// bytes of the lines.
pub(crate) fn settings() -> Transport {
    Transport::default()
        .with_profile(Profile::Rack)
        .with_scheduler(StreamScheduler::Priority)
        .with_interleaving(true)
        .with_peer_timeout(PEER_TIMEOUT)
        .with_sack_delay(SACK_DELAY)
        .with_streams(STREAMS_MAX, STREAMS_MAX)
        .with_send_buffer_bytes(SEND_BUFFER_BYTES)
        .with_receive_buffer_bytes(MESSAGE_BYTES_MAX)
        .with_message_bytes_max(MESSAGE_BYTES_MAX)
}

/// Waits for messages of a peer. Returns `false` if the association has ended; never ready without one.
pub(crate) async fn receive(association: Option<&Association>, messages: &mut Vec<ReceivedMessage>) -> bool {
    match association {
        Some(association) => matches!(association.recv_many(messages, RECEIVED_AT_ONCE).await, Ok(Some(_))),
        None => std::future::pending().await,
    }
}

/// The stream of a slot of a priority. Stream 0 carries everything other than lines.
pub(crate) fn reliable_stream(priority: u8, slot: u8) -> u16 {
    1 + u16::from(priority) * u16::from(STREAMS) + u16::from(slot)
}

/// The stream for lines of a priority that are not repeated.
pub(crate) fn fresh_stream(priority: u8) -> u16 {
    reliable_stream(PRIORITIES, 0) + u16::from(priority)
}

/// Each stream with its rank in the scheduler: priorities in their order, and in each the reliable lines first.
pub(crate) fn ranks() -> impl Iterator<Item = (u16, u16)> {
    (0..PRIORITIES).flat_map(|priority| {
        let rank = 1 + u16::from(priority) * 2;
        let reliable = (0..STREAMS).map(move |slot| (reliable_stream(priority, slot), rank));
        reliable.chain([(fresh_stream(priority), rank + 1)])
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_stream_is_used_once_and_all_of_them_are_asked_for() {
        let streams: BTreeSet<u16> = ranks().map(|(stream, _)| stream).collect();
        assert_eq!(streams.len(), ranks().count());
        assert_eq!(streams, (1..STREAMS_MAX).collect());
        for config in [for_important(Redundancy::Off), for_fresh(), settings()] {
            assert!(config.validate().is_ok());
        }
    }
}
