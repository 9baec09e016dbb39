//! sctp-proto, the sans-IO SCTP of str0m.
//!
//! `PayloadQueue::push` (`queue/payload_queue.rs`) sorts the TSNs of all chunks in flight each time one is added, so the
//! cost of a message grows with the window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::sctp_proto::{
    Association, AssociationError, AssociationEvent, AssociationHandle, ClientConfig, DatagramEvent, Endpoint,
    EndpointConfig, EndpointEvent, Event, Payload, ReliabilityType, ServerConfig, StreamEvent, TransportConfig,
};
use bytes::Bytes;

use super::webrtc::{
    ADDRESS, Destination, Endpoints, News, Phase, WebRtcAssociation, WebRtcPeer, refused,
    what_both_libraries_call_alike,
};
use crate::peer::{AbortUnsupported, InReturn, Message, Policy, SendError, Settings, Stack};

/// Common header and DATA chunk header, in bytes.
const HEADER_BYTES: u32 = 12 + 16;

/// The default of its first retransmission timeout.
const RTO_INITIAL: Duration = Duration::from_secs(3);

/// Factory of sctp-proto associations.
pub struct SctpProto {
    endpoints: Endpoints<Association>,
    transport: Arc<TransportConfig>,
}

/// One sctp-proto association.
pub type SctpProtoPeer = WebRtcPeer<Association>;

impl Stack for SctpProto {
    type Peer = SctpProtoPeer;

    const NAME: &'static str = "sctp-proto 0.10.8";
    const ANSWERS_STRAYS: bool = false;
    const LATE_ABORT_IS_ERROR: bool = true;
    // `shutdown` looks only at data in flight, not at queued data.
    const SHUTDOWN_DRAINS: bool = false;
    const CAN_ABORT: bool = false;

    fn new(settings: &Settings) -> Self {
        SctpProto::with_rto(settings, None)
    }

    fn client(&mut self, now: Duration) -> SctpProtoPeer {
        let mut config = ClientConfig::new();
        config.transport = Arc::clone(&self.transport);
        self.endpoints.client(now, |endpoint, _| endpoint.connect(config, ADDRESS).map_err(|error| error.to_string()))
    }

    fn server(&mut self, _now: Duration) -> SctpProtoPeer {
        self.endpoints.server()
    }
}

impl SctpProto {
    /// A client that connects at time zero, and its server, in a factory of their own. If `rto` is given, their retransmission timer is
    /// always that.
    ///
    /// The library starts the first timer of a client at a time that it reads off the clock itself, so that is made time zero.
    #[must_use]
    pub fn pair(settings: &Settings, rto: Option<Duration>) -> [SctpProtoPeer; 2] {
        let mut stack = SctpProto::with_rto(settings, rto);
        let [client, server] = [stack.client(Duration::ZERO), stack.server(Duration::ZERO)];
        stack.endpoints.set_clock_by(&client, rto.unwrap_or(RTO_INITIAL));
        [client, server]
    }

    fn with_rto(settings: &Settings, rto: Option<Duration>) -> Self {
        let tune = |transport: TransportConfig| match rto.and_then(|rto| u64::try_from(rto.as_millis()).ok()) {
            Some(ms) => transport.with_rto_initial_ms(ms).with_rto_min_ms(ms).with_rto_max_ms(ms),
            None => transport,
        };
        let transport = || {
            let limits = TransportConfig::default()
                .with_max_receive_buffer_size(settings.receive_window_bytes)
                .with_max_send_message_size(settings.message_bytes_max)
                .with_max_receive_message_size(settings.message_bytes_max);
            tune(if settings.persistent { limits.with_max_init_retransmits(None) } else { limits })
        };
        let mut config = EndpointConfig::new();
        // A multiple of four, so that the padding stays inside the packet.
        config.max_payload_size((settings.packet_bytes_max - HEADER_BYTES) & !3);
        let config = Arc::new(config);
        let mut server = ServerConfig::new();
        server.transport = Arc::new(transport());
        let endpoint = |server| Endpoint::new(Arc::clone(&config), server);
        SctpProto {
            endpoints: Endpoints::new(endpoint(None), endpoint(Some(Arc::new(server))), settings),
            transport: Arc::new(transport()),
        }
    }
}

impl WebRtcAssociation for Association {
    const IN_RETURN: InReturn = InReturn::Resets;

    what_both_libraries_call_alike!();

    fn route(endpoint: &mut Endpoint, at: Instant, packet: Bytes) -> Option<(AssociationHandle, DatagramEvent)> {
        endpoint.handle(at, ADDRESS, None, None, packet)
    }

    fn next_packets(&mut self, at: Instant) -> Option<Vec<Bytes>> {
        let Payload::RawEncode(packets) = self.poll_transmit(at)?.payload else { return None };
        Some(packets)
    }

    fn write(&mut self, _at: Instant, message: &Message, buffer_bytes: usize) -> Result<(), SendError> {
        let mut stream = self.stream(message.stream).map_err(|error| refused(&error))?;
        if stream.buffered_amount().map_err(|error| refused(&error))? >= buffer_bytes {
            return Err(SendError::WouldBlock);
        }
        // The only call that does not copy the message.
        stream.write_chunks(&mut [message.payload.clone()]).map(drop).map_err(|error| refused(&error))
    }

    fn close_stream(&mut self, _at: Instant, id: u16) -> Result<(), String> {
        self.stream(id).and_then(|mut stream| stream.close()).map_err(|error| error.to_string())
    }

    fn read(&mut self, id: u16) -> Option<Message> {
        let mut chunks = self.stream(id).ok()?.read_sctp().ok()??;
        // The fragments are private, so even a message of one fragment is copied once.
        let payload = chunks.next(chunks.len())?.bytes;
        Some(Message { stream: id, ppid: chunks.ppi as u32, unordered: false, payload })
    }

    fn send_abort(&mut self) -> Result<Result<(), String>, AbortUnsupported> {
        Err(AbortUnsupported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    #[test]
    fn the_first_timer_of_a_client_runs_from_virtual_time_zero() {
        for rto in [None, Some(Duration::from_millis(110))] {
            let [client, _] = SctpProto::pair(&Settings::bulk(), rto);
            assert_eq!(client.deadline(), Some(rto.unwrap_or(RTO_INITIAL)));
        }
    }
}
