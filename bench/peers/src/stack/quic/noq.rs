//! noq-proto.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use noq_proto as proto;
use proto::{
    Connection, DatagramEvent, Endpoint, EndpointConfig, FourTuple, RandomConnectionIdGenerator, ServerConfig, Transmit,
};

#[path = "adapter.rs"]
#[expect(clippy::duplicate_mod, reason = "the stacks have the same interface but different types")]
mod adapter;

pub use adapter::Factory as Noq;

const NAME: &str = "noq-proto 1.4.0";

fn endpoint(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(config, server, true)
}

fn with_empty_identifiers(config: &mut EndpointConfig) {
    config.cid_generator(Arc::new(|| Box::new(RandomConnectionIdGenerator::new(0))));
}

fn handle(
    endpoint: &mut Endpoint,
    at: Instant,
    from: SocketAddr,
    packet: BytesMut,
    buffer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(at, FourTuple::from_remote(from), None, packet, buffer)
}

fn poll_transmit(connection: &mut Connection, at: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    connection.poll_transmit(at, NonZero::<usize>::MIN, buffer)
}
