//! rtc-sctp, the SCTP of the WebRTC.rs project in its sans-IO edition.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::rtc_sctp::{
    Association, AssociationError, AssociationEvent, AssociationHandle, ClientConfig, DatagramEvent, Endpoint,
    EndpointConfig, EndpointEvent, Event, Payload, ReliabilityType, ServerConfig, StreamEvent, TimerConfig,
    TransportConfig, max_payload_size_for_mtu,
};
use bytes::Bytes;

use super::webrtc::{
    ADDRESS, Destination, Endpoints, News, Phase, WebRtcAssociation, WebRtcPeer, refused,
    what_both_libraries_call_alike,
};
use crate::peer::{AbortUnsupported, InReturn, Message, Policy, SendError, Settings, Stack};

/// Factory of rtc-sctp associations.
pub struct RtcSctp {
    endpoints: Endpoints<Association>,
    transport: Arc<TransportConfig>,
}

/// One rtc-sctp association.
pub type RtcSctpPeer = WebRtcPeer<Association>;

impl Stack for RtcSctp {
    type Peer = RtcSctpPeer;

    const NAME: &'static str = "rtc-sctp 0.21.1";
    const ANSWERS_STRAYS: bool = false;
    const LATE_ABORT_IS_ERROR: bool = true;
    // `shutdown` looks only at data in flight, not at queued data.
    const SHUTDOWN_DRAINS: bool = false;
    const CAN_ABORT: bool = true;

    fn new(settings: &Settings) -> Self {
        let mut timers = TimerConfig::default();
        if settings.persistent {
            timers.max_t1_init_retrans = usize::MAX;
            timers.max_t1_cookie_retrans = usize::MAX;
            timers.max_t3_rtx_retrans = usize::MAX;
        }
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(settings.receive_window_bytes)
            .with_max_message_size(settings.message_bytes_max)
            .with_timer_config(timers);
        let mut config = EndpointConfig::new();
        config.max_payload_size(max_payload_size_for_mtu(settings.packet_bytes_max));
        let config = Arc::new(config);
        let server = Arc::new(ServerConfig::new(transport.clone()));
        let endpoint = |server| Endpoint::new(ADDRESS, Default::default(), Arc::clone(&config), server);
        RtcSctp {
            endpoints: Endpoints::new(endpoint(None), endpoint(Some(server)), settings),
            transport: Arc::new(transport),
        }
    }

    fn client(&mut self, now: Duration) -> RtcSctpPeer {
        let config = ClientConfig { transport: Arc::clone(&self.transport) };
        self.endpoints
            .client(now, |endpoint, at| endpoint.connect(at, config, ADDRESS).map_err(|error| error.to_string()))
    }

    fn server(&mut self, _now: Duration) -> RtcSctpPeer {
        self.endpoints.server()
    }
}

impl WebRtcAssociation for Association {
    // `reset_streams_if_any` in `association/mod.rs` keeps no timer for it.
    const IN_RETURN: InReturn = InReturn::ResetsOnce;

    what_both_libraries_call_alike!();

    fn route(endpoint: &mut Endpoint, at: Instant, packet: Bytes) -> Option<(AssociationHandle, DatagramEvent)> {
        endpoint.handle(at, ADDRESS, None, packet)
    }

    fn next_packets(&mut self, at: Instant) -> Option<Vec<Bytes>> {
        let Payload::RawEncode(packets) = self.poll_transmit(at)?.message else { return None };
        Some(packets)
    }

    fn write(&mut self, at: Instant, message: &Message, buffer_bytes: usize) -> Result<(), SendError> {
        let mut stream = self.stream(message.stream).map_err(|error| refused(&error))?;
        if stream.buffered_amount().map_err(|error| refused(&error))? >= buffer_bytes {
            return Err(SendError::WouldBlock);
        }
        stream
            .write_chunk_with_ppi(at, &message.payload, message.ppid.into())
            .map(drop)
            .map_err(|error| refused(&error))
    }

    fn close_stream(&mut self, at: Instant, id: u16) -> Result<(), String> {
        self.stream(id).and_then(|mut stream| stream.close(at)).map_err(|error| error.to_string())
    }

    fn read(&mut self, id: u16) -> Option<Message> {
        let chunks = self.stream(id).ok()?.read_sctp().ok()??;
        // The fragments are private, so even a message of one fragment is copied once.
        let payload = chunks.to_payload(usize::MAX).ok()?.freeze();
        Some(Message { stream: id, ppid: chunks.ppi as u32, unordered: false, payload })
    }

    fn send_abort(&mut self) -> Result<Result<(), String>, AbortUnsupported> {
        Ok(self.abort().map_err(|error| error.to_string()))
    }
}
