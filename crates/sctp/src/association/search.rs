//! Larger packets where all paths carry them (RFC 8899; RFC 9260 §7.3).

use core::cmp::Ordering;

use festina_units::Instant;

use super::context::Purpose;
use super::packet::header_to;
use super::path::Path;
use super::{Association, Fragmentation, Transmit};
use crate::event::Event;
use crate::path_id::PathId;
use crate::send::{Probe, Search};
use crate::wire::{COMMON_HEADER_BYTES, ChunkOut, PacketBuilder};

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;

/// A HEARTBEAT with the nonce of a probe.
const HEARTBEAT_BYTES: usize = 16;

impl Association {
    /// Looks for larger packets if more is queued than one of the present ones holds. Thin streams of small messages never do.
    #[cold]
    pub(super) fn search_if_worthwhile(&mut self, now: Instant) {
        let sending = &self.paths.primary().sending;
        if self.sender.queued_bytes() <= sending.packet_bytes_max() {
            return;
        }
        let overhead_bytes = self.context.config().carrier.overhead_bytes;
        for path in self.paths.iter_mut() {
            let header_bytes = header_bytes(path) + overhead_bytes;
            path.sending.search(now, header_bytes);
        }
    }

    pub(super) fn handle_search_timeouts(&mut self, now: Instant) {
        let (mut has_searched, may_probe) = (false, self.state.sends_data());
        let is_ending = !self.state.takes_messages();
        for path in self.paths.iter_mut() {
            let (size, ceiling) = (path.sending.packet_bytes_max(), path.sending.searched_max());
            if let Some(search) = path.sending.searching_mut() {
                if may_probe {
                    search.handle_timeout(now, size, ceiling);
                } else if is_ending {
                    search.end();
                }
                has_searched = true;
            }
        }
        if has_searched {
            self.apply_packet_sizes(now);
        }
    }

    /// Writes a probe of a packet size, if one leaves now.
    #[inline]
    pub(super) fn write_probe(&mut self, now: Instant, has_header: bool, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let is_ready = |path: &Path| path.sending.searching().is_some_and(|search| search.is_ready(now));
        let any_is_ready = is_ready(self.paths.first()) || self.paths.are_several() && self.paths.iter().any(is_ready);
        if !any_is_ready || !self.state.sends_data() {
            return None;
        }
        self.paths.ids().find_map(|id| self.write_probe_on(now, id, has_header, buffer))
    }

    #[cold]
    fn write_probe_on(&mut self, now: Instant, id: PathId, has_header: bool, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let path = self.paths.of_mut(id);
        if !path.is_confirmed() {
            return None;
        }
        let (rto, tag, remote) = (path.sending.rto(), self.tags.local, path.remote);
        #[expect(clippy::cast_possible_truncation, reason = "64 bits of a hash make the nonce")]
        let nonce = || self.context.derive(Purpose::ProbeNonce, &[tag.into(), now.as_nanos(), id.0.into()]) as u64;
        let Probe { bytes, nonce } = path.sending.searching_mut()?.take(now, rto, nonce)?;
        let packet_bytes = bytes.unwrap_or(COMMON_HEADER_BYTES + HEARTBEAT_BYTES);
        let header = header_to(self.ports, self.tags.peer);
        let mut packet = if has_header {
            PacketBuilder::new(buffer, header, packet_bytes)
        } else {
            PacketBuilder::without_header(buffer, packet_bytes)
        };
        packet.chunk(&ChunkOut::Heartbeat { info: &nonce.to_be_bytes() });
        packet.pad();
        let len = if has_header { packet.finish() } else { packet.finish_unchecked() };
        let transmit = self.note_packet(remote, has_header, (len, festina_units::EcnCodepoint::NotCapable))?;
        Some(Transmit { fragmentation: Fragmentation::Never, ..transmit })
    }

    /// Handles the answer to a probe. Returns whether it is one.
    pub(super) fn is_probe_answer(&mut self, now: Instant, info: &[u8]) -> bool {
        let Ok(nonce) = info.try_into().map(u64::from_be_bytes) else { return false };
        let answers = |path: &mut Path| {
            let ceiling = path.sending.searched_max();
            path.sending.searching_mut().is_some_and(|search| search.answered(now, nonce, ceiling))
        };
        let Some(id) = self.paths.ids().find(|&id| answers(self.paths.of_mut(id))) else { return false };
        self.paths.answered(now, id, &mut self.events);
        self.apply_packet_sizes(now);
        true
    }

    /// Cuts messages for the smallest packets among those of all confirmed paths, since a chunk may be sent again on any (RFC 9260 §6.9).
    pub(super) fn apply_packet_sizes(&mut self, now: Instant) {
        let found = |path: &Path| path.sending.searching().map_or(path.sending.packet_bytes_max(), Search::found);
        let Some(bytes) = self.confirmed_paths().map(found).min() else { return };
        for path in self.paths.iter_mut().filter(|path| path.is_confirmed()) {
            if path.sending.resize(bytes) == Ordering::Less {
                path.sending.shorten_timeout(now);
                self.events.push(Event::PacketSizeLimited { path: path.sending.id(), packet_bytes_max: bytes });
            }
        }
    }
}

/// Bytes of the IP and UDP headers around a packet on this path. Raw IP has no UDP port.
fn header_bytes(path: &Path) -> usize {
    let ip = if path.remote.ip().to_canonical().is_ipv4() { IPV4_HEADER_BYTES } else { IPV6_HEADER_BYTES };
    ip + if path.remote.port() == 0 { 0 } else { UDP_HEADER_BYTES }
}
