//! Connection IDs that change at a move, so that an observer of two networks cannot link the addresses of a side.
//!
//! Each side has given the other a spare ID. A side that moves sends to the peer's spare from then on. The peer answers on that path to the spare of the
//! side that has moved. Each gives its next spare with the challenge of the new address and with the answer.

use festina_sctp::Context;
use festina_units::{Duration, Instant};

use super::Channel;
use crate::error::DatagramDropped;
use crate::parameters::Spare;
use crate::spare::next_id;
use crate::wire::{CONNECTION_ID_BYTES, ConnectionId};

pub(super) const SPARE: u8 = 0xba;
/// Chunk header and number of a spare.
pub(super) const HEADER_BYTES: usize = 8;
/// Length of a chunk with a spare and its token.
pub(crate) const SPARE_BYTES_MAX: usize = HEADER_BYTES + CONNECTION_ID_BYTES + 16;

/// How a side uses the connection ID of a packet that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is the present one.
    Current,
    /// It is the spare, which takes the place of the present one.
    Next,
    /// Another one has taken its place, but the packet may be late.
    Former,
}

/// The connection IDs of a channel that has moved.
#[derive(Debug)]
pub(super) struct Chain {
    /// In packets to this side.
    local: ConnectionId,
    /// The number of `local` among this side's IDs. That of the handshake has 0.
    number: u32,
    /// The one before `local`, and until when it counts.
    former: Option<(ConnectionId, Instant)>,
    /// In packets to the peer.
    peer: ConnectionId,
    /// The number of the latest spare of the peer.
    number_of_peer: u32,
    /// The peer has moved: in packets to its new address.
    pub(super) elsewhere: Option<Spare>,
    /// This side has moved, and the peer has not yet answered with the spare.
    has_moved: bool,
    /// The next datagrams that are no longer than this are written for the peer's new address.
    diverted_bytes_max: usize,
    /// The latest datagram was.
    is_diverted: bool,
}

impl Channel {
    /// Takes the spare that the peer gave in the handshake.
    pub(crate) fn take_first_spare(&mut self, spare: Spare) {
        self.other.spare = Some(spare);
    }

    /// The peer gives no spare after all, or this side does not.
    pub(crate) fn keep_ids(&mut self) {
        self.other.spare = None;
    }

    /// Returns whether connection IDs change at moves.
    fn changes_ids(&self) -> bool {
        self.other.spare.is_some() || self.other.chain.is_some()
    }

    fn chain(&mut self) -> &mut Chain {
        let (local, peer) = (self.ids.local, self.ids.peer.unwrap_or(self.ids.original));
        self.other.chain.get_or_insert_with(|| {
            Box::new(Chain {
                local,
                number: 0,
                former: None,
                peer,
                number_of_peer: 1,
                elsewhere: None,
                has_moved: false,
                diverted_bytes_max: 0,
                is_diverted: false,
            })
        })
    }

    /// The connection ID that the peer uses.
    pub(crate) fn local_id(&self) -> ConnectionId {
        self.other.chain.as_ref().map_or(self.ids.local, |chain| chain.local)
    }

    /// The connection ID in packets to the peer on the path of the handshake.
    pub(super) fn peer_id(&self) -> Option<ConnectionId> {
        self.other.chain.as_ref().map(|chain| chain.peer).or(self.ids.peer)
    }

    /// Returns how this side uses a connection ID; `None` if it is none of its own.
    pub(crate) fn use_of(&self, id: ConnectionId, now: Instant, context: &Context) -> Option<Use> {
        let local = self.local_id();
        if id == local || self.other.further.as_ref().is_some_and(|further| further.own.contains(&id)) {
            return Some(Use::Current);
        }
        let former = self.other.chain.as_ref().and_then(|chain| chain.former);
        if former.is_some_and(|(former, until)| former == id && now < until) {
            return Some(Use::Former);
        }
        (self.changes_ids() && self.is_complete && next_id(context, local) == id).then_some(Use::Next)
    }

    /// The peer has used the spare. The ID before it counts for as long as its packets may be late.
    pub(crate) fn advance(&mut self, now: Instant, context: &Context, late: Duration) {
        let spare = self.other.spare;
        let chain = self.chain();
        chain.former = Some((chain.local, now + late));
        chain.local = next_id(context, chain.local);
        chain.number = chain.number.saturating_add(1);
        if !core::mem::take(&mut chain.has_moved) && spare.is_some() {
            chain.elsewhere = spare;
            self.other.spare = None;
        }
    }

    /// The connection ID in packets to an address that is not in use yet, if it is not the one in use.
    pub(crate) fn id_elsewhere(&self) -> Option<ConnectionId> {
        self.other.chain.as_ref()?.elsewhere.map(|spare| spare.id)
    }

    /// This side sends from another address from now on. Returns whether packets to the peer have another ID.
    pub(crate) fn begin_move(&mut self) -> bool {
        let Some(Spare { id, reset_token }) = self.other.spare.take() else { return false };
        let chain = self.chain();
        (chain.peer, chain.has_moved) = (id, true);
        self.reset_token = reset_token;
        true
    }

    /// Packets to the peer have this ID from now on: it has answered at the address to which they were sent.
    pub(crate) fn settle(&mut self, id: ConnectionId) {
        let chain = self.chain();
        chain.peer = id;
        if let Some(Spare { reset_token, .. }) = chain.elsewhere.take_if(|spare| spare.id == id) {
            self.reset_token = reset_token;
        }
    }

    /// Writes the next datagrams for the peer's new address, unless they are longer than `bytes_max`.
    pub(crate) fn divert(&mut self, bytes_max: usize) {
        if let Some(chain) = &mut self.other.chain {
            (chain.diverted_bytes_max, chain.is_diverted) = (bytes_max, false);
        }
    }

    /// Returns whether the latest datagram was written for the peer's new address.
    pub(crate) fn is_diverted(&self) -> bool {
        self.other.chain.as_ref().is_some_and(|chain| chain.is_diverted)
    }

    /// The connection ID of a datagram of this size on the path of the handshake.
    pub(super) fn choose_id(&mut self, bytes: usize) -> Option<ConnectionId> {
        if let Some(chain) = &mut self.other.chain
            && let Some(spare) = chain.elsewhere.filter(|_| bytes <= chain.diverted_bytes_max)
        {
            chain.is_diverted = true;
            return Some(spare.id);
        }
        self.peer_id()
    }

    /// Returns the chunk with this side's next spare, for which `token` makes the token of resets. Empty unless a side has moved.
    pub(crate) fn spare_chunk(
        &self,
        context: &Context,
        token: impl FnOnce(ConnectionId) -> Option<[u8; 16]>,
    ) -> Vec<u8> {
        let Some(chain) = &self.other.chain else { return Vec::new() };
        let id = next_id(context, chain.local);
        let spare = Spare { id, reset_token: token(id) };
        let mut chunk = vec![SPARE, 0, 0, 0];
        chunk.extend_from_slice(&chain.number.saturating_add(1).to_be_bytes());
        spare.write(&mut chunk);
        if let (Ok(length), Some(field)) = (u8::try_from(chunk.len()), chunk.get_mut(3)) {
            *field = length;
        }
        chunk
    }

    /// Takes a spare of the peer, unless it is older than the latest one.
    pub(super) fn take_spare(&mut self, value: &[u8]) -> Result<(), DatagramDropped> {
        let (number, spare) = value.split_first_chunk().ok_or(DatagramDropped::Frames)?;
        let (number, spare) = (u32::from_be_bytes(*number), Spare::read(spare).ok_or(DatagramDropped::Frames)?);
        if self.changes_ids() && number > self.chain().number_of_peer {
            self.chain().number_of_peer = number;
            self.other.spare = Some(spare);
        }
        Ok(())
    }
}
