//! A peer that completes a handshake of its own, and then sends arbitrary packets for a test.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use festina::{AssociationState, Ports, Transport, now};
use festina_sctp::wire::{
    Chunk, ChunkOut, CommonHeader, DataHeader, Packet, PacketBuilder, Ssn, StreamId, Tsn, UnknownChunk,
};
use festina_sctp::{Association, Context};
use festina_units::EcnCodepoint;

/// Maximum payload of a UDP datagram over IPv4.
const PACKET_BYTES_MAX: usize = 65_500;

/// A type of chunk that receivers pass over.
const JUNK: u8 = 0xbf;

/// Maximum wait for an answer before the next packet is sent.
const ANSWER_PATIENCE: Duration = Duration::from_millis(5);

/// A DATA chunk; its TSN counts from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) tsn: u32,
    pub(crate) ssn: u32,
    pub(crate) beginning: bool,
    pub(crate) end: bool,
    pub(crate) len: usize,
}

/// A whole ordered message of one byte.
pub(crate) fn byte(tsn: u32, ssn: u32) -> Piece {
    Piece { tsn, ssn, beginning: true, end: true, len: 1 }
}

/// A fragment that is not the last.
pub(crate) fn fragment(tsn: u32, beginning: bool, len: usize) -> Piece {
    Piece { tsn, ssn: 0, beginning, end: false, len }
}

/// How a peer acknowledges.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acknowledging {
    /// All that came, and it claims to have no room.
    WithoutRoom,
    /// Nothing, again and again.
    Nothing,
}

pub(crate) struct Hostile {
    socket: UdpSocket,
    server: SocketAddr,
    context: Arc<Context>,
    ports: Ports,
    handshakes: u64,
    /// The verification tag that the endpoint expects.
    tag: u32,
    first_tsn: u32,
    /// The TSN before the endpoint's next one.
    received: Option<Tsn>,
    packet: Vec<u8>,
    answer: Vec<u8>,
}

impl Hostile {
    /// An association with the application behind this port.
    pub(crate) fn connect(server: SocketAddr, peer: u16) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        let mut hostile = Self {
            socket,
            server,
            context: Context::new(Transport::default().into_core(), [9; 16]).unwrap(),
            ports: Ports { local: 6_000, peer },
            handshakes: 0,
            tag: 0,
            first_tsn: 0,
            received: None,
            packet: Vec::with_capacity(PACKET_BYTES_MAX),
            answer: vec![0; PACKET_BYTES_MAX],
        };
        hostile.restart();
        hostile
    }

    /// Sets up the association, or restarts it.
    pub(crate) fn restart(&mut self) {
        self.handshakes += 1;
        self.socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut association = Association::connect(now(), &self.context, self.server, self.ports, self.handshakes);
        while association.state() != AssociationState::Established {
            assert_ne!(association.state(), AssociationState::Closed, "the endpoint lets hostile peers in");
            self.packet.clear();
            while association.poll_transmit(now(), &mut self.packet).is_some() {
                self.learn();
                // Packets that exceed the socket's buffer are sent again.
                let _lost = self.socket.send(&self.packet);
                self.packet.clear();
            }
            match self.socket.recv(&mut self.answer) {
                Ok(len) => {
                    let packet = Bytes::copy_from_slice(&self.answer[..len]);
                    self.learn_first(&packet);
                    // Packets for an earlier incarnation are dropped.
                    let _dropped = association.handle_packet(now(), self.server, EcnCodepoint::NotCapable, &packet);
                }
                Err(_) => association.handle_timeout(now()),
            }
        }
        self.socket.set_read_timeout(Some(ANSWER_PATIENCE)).unwrap();
    }

    /// Notes the own first TSN and the tag of the endpoint.
    fn learn(&mut self) {
        let packet = Packet::parse(&self.packet).unwrap();
        for chunk in packet.chunks().flatten() {
            match chunk {
                Chunk::Init(init) => self.first_tsn = init.initial_tsn.0,
                Chunk::CookieEcho(_) => self.tag = packet.header.verification_tag,
                _ => {}
            }
        }
    }

    /// Notes the first TSN of the endpoint.
    fn learn_first(&mut self, packet: &[u8]) {
        for chunk in Packet::parse(packet).unwrap().chunks().flatten() {
            if let Chunk::InitAck(init) = chunk {
                self.received = Some(Tsn(init.initial_tsn.0.wrapping_sub(1)));
            }
        }
    }

    /// Sends these chunks in one packet, filled up to `packet_bytes` with a chunk that receivers pass over, and waits for an answer, but
    /// not for long. Returns whether one came.
    pub(crate) fn give(&mut self, pieces: &[Piece], packet_bytes: usize) -> bool {
        static FILL: [u8; PACKET_BYTES_MAX] = [7; PACKET_BYTES_MAX];
        self.packet.clear();
        let header = self.header();
        let mut packet = PacketBuilder::new(&mut self.packet, header, PACKET_BYTES_MAX);
        for piece in pieces {
            let header = DataHeader {
                tsn: Tsn(self.first_tsn.wrapping_add(piece.tsn)),
                stream: StreamId(0),
                ssn: Ssn((piece.ssn & 0xffff).try_into().unwrap()),
                ppid: 0,
                end: piece.end,
                beginning: piece.beginning,
                unordered: false,
                immediate: true,
            };
            assert!(packet.data(&header, &FILL[..piece.len]));
        }
        let room = packet_bytes.saturating_sub(PACKET_BYTES_MAX - packet.remaining());
        if let Ok(length @ 4..) = u16::try_from(room) {
            let mut junk = vec![0; length.into()];
            junk[..2].copy_from_slice(&[JUNK, 0]);
            junk[2..4].copy_from_slice(&length.to_be_bytes());
            assert!(packet.chunk(&ChunkOut::Unknown(UnknownChunk::from_bytes(&junk).unwrap())));
        }
        packet.finish();
        // Packets that exceed the socket's buffer are lost.
        self.socket.send(&self.packet).is_ok() && self.socket.recv(&mut self.answer).is_ok()
    }

    /// Waits for a packet and acknowledges its contents.
    pub(crate) fn acknowledge(&mut self, how: Acknowledging) {
        let Ok(len) = self.socket.recv(&mut self.answer) else { return };
        let first = self.received;
        for chunk in Packet::parse(&self.answer[..len]).unwrap().chunks().flatten() {
            let Chunk::Data(data) = chunk else { continue };
            let next = self.received.map(|received| Tsn(received.0.wrapping_add(1)));
            if matches!(how, Acknowledging::WithoutRoom) && next == Some(data.header().tsn) {
                self.received = next;
            }
        }
        let Some(cumulative) = self.received.or(first) else { return };
        self.packet.clear();
        let header = self.header();
        let mut packet = PacketBuilder::new(&mut self.packet, header, PACKET_BYTES_MAX);
        packet.sack(cumulative, 0, std::iter::empty(), std::iter::empty());
        packet.finish();
        let _lost = self.socket.send(&self.packet);
    }

    fn header(&self) -> CommonHeader {
        CommonHeader { source_port: self.ports.local, destination_port: self.ports.peer, verification_tag: self.tag }
    }
}
