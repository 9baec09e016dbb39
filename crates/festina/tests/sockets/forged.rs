//! Packets that no association sends.

use festina::DEFAULT_SCTP_PORT;
use festina_sctp::wire::{ChunkOut, CommonHeader, InitOut, PacketBuilder, Tsn};

/// An INIT from this SCTP port to the usual one, of 32 bytes.
pub(crate) fn init(source_port: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = CommonHeader { source_port, destination_port: DEFAULT_SCTP_PORT, verification_tag: 0 };
    let mut packet = PacketBuilder::new(&mut bytes, header, 1_000);
    packet.chunk(&ChunkOut::Init(InitOut {
        initiate_tag: u32::from(source_port) << 8 | 1,
        a_rwnd: 100_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: &[],
    }));
    packet.finish();
    bytes
}
