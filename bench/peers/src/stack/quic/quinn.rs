//! quinn-proto.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use proto::{Connection, DatagramEvent, Endpoint, EndpointConfig, RandomConnectionIdGenerator, ServerConfig, Transmit};
use quinn_proto as proto;

#[path = "adapter.rs"]
mod adapter;

pub use adapter::Factory as Quinn;

const NAME: &str = "quinn-proto 0.11.19";

fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(config, server, true, None)
}

fn with_empty_identifiers(config: &mut EndpointConfig) {
    config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
}

fn handle(
    endpoint: &mut Endpoint,
    at: Instant,
    from: SocketAddr,
    packet: BytesMut,
    buffer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(at, from, None, None, packet, buffer)
}

fn poll_transmit(connection: &mut Connection, at: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(at, 1, buffer)
}
