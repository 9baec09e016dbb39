//! Packets of an association: one that is being processed, and the shape of those to the peer.

use std::net::SocketAddr;

use bytes::Bytes;
use festina_units::{EcnCodepoint, Instant};

use super::context::Ports;
use crate::config::PACKET_BYTES_MIN;
use crate::path_id::PathId;
use crate::wire::{ChunkOut, CommonHeader, PacketBuilder};

/// A packet being processed by the chunk handlers.
pub(super) struct Arrival<'p> {
    pub(super) now: Instant,
    pub(super) from: SocketAddr,
    pub(super) path: PathId,
    pub(super) ecn: EcnCodepoint,
    pub(super) tag: u32,
    pub(super) bytes: &'p Bytes,
    pub(super) had_data: bool,
    pub(super) had_sack: bool,
    pub(super) had_ecne: bool,
}

/// The header of a packet to the peer.
pub(super) fn header_to(ports: Ports, verification_tag: u32) -> CommonHeader {
    CommonHeader { source_port: ports.local, destination_port: ports.peer, verification_tag }
}

/// A packet with one chunk. This side bounds its contents, never the peer, so that it fits into the smallest packet.
pub(super) fn lone_packet(header: CommonHeader, chunk: &ChunkOut<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut packet = PacketBuilder::new(&mut bytes, header, PACKET_BYTES_MIN);
    let fits = packet.chunk(chunk);
    debug_assert!(fits, "{chunk:?} is larger than any chunk of this kind may be");
    packet.finish();
    bytes
}
