//! Processes datagrams.

use core::ops::Range;

use festina_sctp::{Context, Message};
use festina_units::Instant;
use rustls::Side;

use super::{Budget, Channel, RETRIES_MAX, Use};
use crate::error::{DatagramDropped, HandshakeError};
use crate::parameters::{Spare, read_ids};
use crate::path::Path;
use crate::record::{OpenError, Opened};
use crate::tls::Space;
use crate::wire::{Frame, Frames, Header, HeaderError, LONG_HEADER_BYTES, Level, LongHeader, read_header};

/// The contents of a datagram.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// The place of the decrypted chunks in the datagram.
    pub(crate) chunks: Option<Range<usize>>,
    /// How this side uses the connection ID of their packet.
    pub(crate) destination: Option<Use>,
    /// It was sent later than all datagrams that were received before with keys that only the peer has.
    pub(crate) is_newest: bool,
    /// The peer sent handshake bytes that were answered before: the answer was lost, or is late.
    pub(crate) is_repeated: bool,
    /// The first token of a retry.
    pub(crate) token: Option<Vec<u8>>,
    /// Messages of the client's packet with early keys.
    pub(crate) early: Vec<Message>,
    /// Some packet was authentic.
    is_authentic: bool,
    /// The datagram's path, unless it is that of the handshake.
    elsewhere: Option<Path>,
    /// Bytes of the datagram that do not yet count as received from the peer's address.
    uncounted_bytes: usize,
}

impl Channel {
    /// Takes a datagram and decrypts it in place. A half-open server states the path of one that comes from elsewhere than the hello, to answer it there.
    ///
    /// # Errors
    /// The first reason, if no packet of it had an effect.
    pub(crate) fn handle_datagram(
        &mut self,
        datagram: &mut [u8],
        elsewhere: Option<Path>,
        (now, context): (Instant, &Context),
    ) -> Result<Input, DatagramDropped> {
        let mut input = Input { elsewhere, uncounted_bytes: datagram.len(), ..Input::default() };
        let mut dropped = None;
        let mut at = 0;
        while let Some(rest) = datagram.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let result = match read_header(rest) {
                Err(error) => {
                    dropped.get_or_insert(error.into());
                    break;
                }
                Ok(Header::Short(id)) => {
                    let destination = self.use_of(id, now, context);
                    let result = destination.ok_or(DatagramDropped::Unexpected).and_then(|_| self.open_short(rest));
                    let chunks = result.map(|opened| {
                        input.destination = destination;
                        let start = at + opened.start;
                        input.chunks = Some(start..start + opened.bytes);
                        input.is_newest = opened.is_newest;
                    });
                    at = usize::MAX;
                    chunks
                }
                Ok(Header::Long(header)) => {
                    let length = LONG_HEADER_BYTES + header.length;
                    at += length;
                    match rest.get_mut(..length) {
                        Some(packet) => self.handle_long(&header, packet, &mut input),
                        None => break,
                    }
                }
            };
            match result {
                Ok(()) => input.is_authentic = true,
                Err(error) => {
                    dropped.get_or_insert(error);
                }
            }
        }
        if datagram.is_empty() {
            dropped = Some(HeaderError::Truncated.into());
        }
        match dropped {
            Some(dropped) if !input.is_authentic => Err(dropped),
            _ => Ok(input),
        }
    }

    fn open_short(&mut self, packet: &mut [u8]) -> Result<Opened, DatagramDropped> {
        let Some(traffic) = self.keys.traffic.as_mut().filter(|_| self.is_complete) else {
            return Err(DatagramDropped::Unexpected);
        };
        if self.error.is_some() {
            return Err(DatagramDropped::Closed);
        }
        traffic.open(packet).map_err(|error| self.note(error))
    }

    /// Ends the channel if the error is fatal.
    fn note(&mut self, error: OpenError) -> DatagramDropped {
        if error.is_fatal() {
            self.fail(HandshakeError::Keys(error));
        }
        error.into()
    }

    pub(super) fn handle_long(
        &mut self,
        header: &LongHeader,
        packet: &mut [u8],
        input: &mut Input,
    ) -> Result<(), DatagramDropped> {
        let is_server = self.side() == Side::Server;
        let is_ours = header.destination == self.ids.local || is_server && header.destination == self.ids.original;
        if !is_ours || self.ids.peer.is_some_and(|peer| peer != header.source) {
            return Err(DatagramDropped::Unexpected);
        }
        let keys = match header.level {
            Level::Initial => &mut self.keys.initial,
            // The keys follow from the hello, which waits to be admitted.
            Level::Early if is_server && self.tls.is_pending() => {
                if self.opening.early_packet.is_none() && packet.len() <= self.datagram_bytes_max {
                    self.opening.early_packet = Some((*header, packet.to_vec()));
                }
                return Err(DatagramDropped::Unexpected);
            }
            // Only servers receive such packets, and only the first that is whole counts.
            Level::Early if is_server && self.opening.early_delivered.is_none() => &mut self.keys.early,
            Level::Early => return Err(DatagramDropped::Unexpected),
            Level::Handshake => &mut self.keys.handshake,
        };
        let opened = keys.as_mut().ok_or(DatagramDropped::Unexpected)?.open_in_order(packet);
        let (frames, is_newest) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(self.note(error)),
        };
        let uncounted_bytes = core::mem::take(&mut input.uncounted_bytes);
        if uncounted_bytes > 0 {
            self.aside = input.elsewhere.map(|path| (path, Budget::default()));
        }
        let budget = self.budget();
        budget.received = budget.received.saturating_add(uncounted_bytes);
        if header.level == Level::Handshake {
            input.is_newest = is_newest;
            self.has_opened_handshake = true;
            if is_server {
                // The client has read the answer to its hello. It may have sent this datagram from elsewhere, or another host a copy of it.
                self.budget.is_verified = true;
            }
        }
        if self.error.is_some() {
            // The peer repeats itself because it does not know that the handshake failed.
            self.queue_close();
            return Err(DatagramDropped::Failed);
        }
        let handled = Frames(frames).try_for_each(|frame| {
            let frame = frame.map_err(|_| DatagramDropped::Frames)?;
            self.handle_frame(header, &frame, input)
        });
        if header.level == Level::Early {
            match handled {
                Ok(()) => self.opening.early_delivered = Some(u8::try_from(input.early.len()).unwrap_or(u8::MAX)),
                // The messages in front of the malformed frame would not count as delivered.
                Err(_) => input.early.clear(),
            }
        }
        handled
    }

    fn handle_frame(
        &mut self,
        header: &LongHeader,
        frame: &Frame<'_>,
        input: &mut Input,
    ) -> Result<(), DatagramDropped> {
        let (side, level) = (self.side(), header.level);
        match (*frame, level, side) {
            (Frame::Fragment { offset, bytes }, Level::Initial | Level::Handshake, _) => {
                let space = if level == Level::Initial { Space::Initial } else { Space::Handshake };
                if bytes.is_empty() {
                    return Ok(());
                }
                // If this is not the server, TLS detects it, since it reads this fragment.
                if offset == 0 {
                    self.ids.peer.get_or_insert(header.source);
                }
                input.is_repeated |= self.has_answered(space);
                self.take_fragment(space, offset, bytes)
            }
            (Frame::Retry(token), Level::Initial, Side::Client) => {
                if self.opening.retries < RETRIES_MAX && self.opening.token != token {
                    self.opening.retries += 1;
                    self.opening.token = token.to_vec();
                    self.opening.is_changed = true;
                }
                Ok(())
            }
            (Frame::Token(token), Level::Initial, Side::Server) => {
                input.token.get_or_insert_with(|| token.to_vec());
                Ok(())
            }
            (Frame::Close { code }, Level::Handshake, _) => self.note_close(code),
            // Anyone on the path can write Initial packets, so they have no say once better keys exist (RFC 9001 §4.9.1).
            (Frame::Close { code }, Level::Initial, Side::Client) if self.keys.handshake.is_none() => {
                self.note_close(code)
            }
            (Frame::Message { stream, ppid, bytes }, Level::Early, Side::Server) => {
                if input.early.len() < usize::from(u8::MAX) {
                    let message = Message::new(bytes.to_vec()).on_stream(stream).with_ppid(ppid).unordered();
                    input.early.push(message);
                }
                Ok(())
            }
            (Frame::EarlyReceived { count }, Level::Handshake, Side::Client) => {
                self.opening.early_received = count;
                Ok(())
            }
            (Frame::Addresses { ids, init }, Level::Handshake, Side::Server) => {
                let ids = read_ids(ids).ok_or(DatagramDropped::Frames)?;
                if !self.is_complete {
                    self.send_further(ids);
                    self.send_addresses(init.to_vec());
                }
                Ok(())
            }
            (Frame::Spare(id), Level::Handshake, Side::Server) => {
                if !self.is_complete {
                    self.take_first_spare(Spare { id, reset_token: None });
                }
                Ok(())
            }
            // Frames of other levels and sides are ignored.
            _ => Err(DatagramDropped::Unexpected),
        }
    }

    /// The peer has closed the channel, which it does by chunks once it is confirmed.
    fn note_close(&mut self, code: u16) -> Result<(), DatagramDropped> {
        self.error = Some(HandshakeError::of_close(code));
        self.outbox.clear();
        Err(DatagramDropped::Failed)
    }

    /// Returns whether this side has sent its answer to the handshake bytes of a level.
    fn has_answered(&self, space: Space) -> bool {
        match (self.side(), space) {
            (Side::Server, Space::Initial) => !self.is_complete && !self.tls.outgoing(Space::Initial).is_empty(),
            (Side::Server, _) => self.is_complete,
            (Side::Client, _) => false,
        }
    }

    fn take_fragment(&mut self, space: Space, offset: u16, bytes: &[u8]) -> Result<(), DatagramDropped> {
        let hello_bytes = self.tls.outgoing(Space::Initial).len();
        match self.tls.insert(space, offset, bytes) {
            Ok(keys) => {
                self.install(keys);
                // A HelloRetryRequest makes the client extend its hello (RFC 8446 §4.1.4), and refuses early data.
                if self.side() == Side::Client && self.tls.outgoing(Space::Initial).len() > hello_bytes {
                    self.opening.is_changed = true;
                    self.opening.early_frames = Vec::new();
                }
                Ok(())
            }
            Err(error) => {
                self.fail(error);
                Err(DatagramDropped::Failed)
            }
        }
    }
}
