//! A protected channel: TLS, the keys of each level, and the datagrams that carry both. Of SCTP it only knows the chunk headers.

mod input;
mod late;
mod naming;
mod output;
mod spares;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use festina_sctp::wire::COMMON_HEADER_BYTES;
use festina_sctp::{Message, PathId};
use festina_units::Preview;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig, Side};

use crate::error::HandshakeError;
use crate::parameters::{Parameters, ResetToken, Spare};
use crate::path::Path;
use crate::record::{LongKeys, Traffic, initial_keys};
use crate::sessions::Recall;
use crate::tls::{NewKeys, Space, Tls};
use crate::wire::{ConnectionId, Level, LongHeader, SHORT_OVERHEAD_BYTES};

pub(crate) use input::Input;
use late::Late;
pub(crate) use late::{CHALLENGE_BYTES, answers, spare_in};
pub(crate) use output::{retry_salt, seal_retry};
use spares::Chain;
pub(crate) use spares::{SPARE_BYTES_MAX, Use};

/// An answer to an address that is not proved is at most this many times as long as the bytes that it answers (RFC 9000 §8.1).
pub(crate) const AMPLIFICATION_MAX: usize = 3;
/// A peer that wants shorter datagrams gets such ones: the core's packets have 384 bytes at least.
const DATAGRAM_BYTES_MIN: usize = 384 + SHORT_OVERHEAD_BYTES - COMMON_HEADER_BYTES;
/// Maximum number of retries that a client follows.
const RETRIES_MAX: u8 = 2;

/// The connection IDs of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    /// In packets to this side.
    pub(crate) local: ConnectionId,
    /// In packets to the peer, once known.
    pub(crate) peer: Option<ConnectionId>,
    /// The one that the client chose for the server, from which the keys of Initial packets follow.
    pub(crate) original: ConnectionId,
}

/// Bytes exchanged with an address.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    received: usize,
    sent: usize,
    /// The peer has shown that it receives at its address.
    is_verified: bool,
}

impl Budget {
    fn allows(&self, bytes: usize) -> bool {
        self.is_verified || self.sent.saturating_add(bytes) <= self.received.saturating_mul(AMPLIFICATION_MAX)
    }
}

/// The data that a client sends with its hello, and its fate.
#[derive(Default)]
struct Opening {
    /// The token of the last retry.
    token: Vec<u8>,
    retries: u8,
    /// Frames of the packet with early keys.
    early_frames: Vec<u8>,
    /// Messages in them that the server has delivered.
    early_received: u8,
    /// The same on a server, once it has answered.
    early_delivered: Option<u8>,
    /// The hello has to be sent again at once.
    is_changed: bool,
    /// On a server, the first packet with early keys that came before TLS has read the hello.
    early_packet: Option<(LongHeader, Vec<u8>)>,
    /// A client's spare connection ID, until the server has it.
    spare: Option<ConnectionId>,
}

impl fmt::Debug for Opening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { token, retries, early_frames, early_received, early_delivered, is_changed, early_packet, spare } =
            self;
        formatter
            .debug_struct("Opening")
            .field("token", &Preview(token))
            .field("retries", retries)
            .field("early_frames", &Preview(early_frames))
            .field("early_received", early_received)
            .field("early_delivered", early_delivered)
            .field("is_changed", is_changed)
            .field("early_packet", &early_packet.as_ref().map(|(header, bytes)| (header, Preview(bytes))))
            .field("spare", spare)
            .finish()
    }
}

/// What a channel has besides if a side has several addresses, so that observers cannot link them by connection IDs.
#[derive(Debug, Default)]
struct Further {
    /// Connection IDs in packets to the own addresses that are not those of the handshake.
    own: Vec<ConnectionId>,
    /// Connection IDs in packets to such addresses of the peer, by path.
    of_peer: Vec<ConnectionId>,
    /// On a client, the frame with its addresses, until the server has it. On a server, the INIT chunk of that frame.
    addresses: Vec<u8>,
    /// The addresses that came and went since.
    lists: naming::Lists,
}

/// Connection IDs other than those of the handshake.
#[derive(Debug, Default)]
struct OtherIds {
    further: Option<Box<Further>>,
    /// The one that takes the place of the peer's at the next move, if it has given one.
    spare: Option<Spare>,
    /// Once a side has moved.
    chain: Option<Box<Chain>>,
}

/// The keys of all levels.
#[derive(Default)]
struct KeyRing {
    initial: Option<LongKeys>,
    early: Option<LongKeys>,
    handshake: Option<LongKeys>,
    traffic: Option<Traffic>,
}

/// One end of a protected channel.
pub(crate) struct Channel {
    tls: Tls,
    ids: Ids,
    other: OtherIds,
    keys: KeyRing,
    budget: Budget,
    /// The path of the latest datagram, with a budget of its own, if it came from elsewhere during a server's handshake. It is answered there: the client
    /// may have another port since its hello, or another host has copied the datagram.
    aside: Option<(Path, Budget)>,
    opening: Opening,
    late: Late,
    /// Datagrams to send.
    outbox: VecDeque<Vec<u8>>,
    datagram_bytes_max: usize,
    /// As [`wanted_bytes_max`](Self::wanted_bytes_max) says.
    wanted_bytes_max: usize,
    /// The token of the server's stateless resets.
    reset_token: Option<ResetToken>,
    error: Option<HandshakeError>,
    is_complete: bool,
    /// The peer has shown that it has the keys of Handshake packets.
    has_opened_handshake: bool,
}

impl Channel {
    /// Creates a client's end, before its hello is sent.
    pub(crate) fn client(
        (config, recall): (&Arc<ClientConfig>, Option<Recall>),
        server_name: ServerName<'static>,
        ids: Ids,
        parameters: &Parameters,
        datagram_bytes_max: usize,
    ) -> Result<Self, HandshakeError> {
        let (tls, keys) = Tls::client(config, server_name, parameters.to_bytes(), recall)?;
        let mut channel = Self::new(tls, config.crypto_provider(), ids, datagram_bytes_max)?;
        channel.install(keys);
        Ok(channel)
    }

    /// Creates a server's end, before it has read the client's hello.
    pub(crate) fn server(
        (config, others): (&Arc<ServerConfig>, &Arc<[Arc<ServerConfig>]>),
        ids: Ids,
        parameters: &Parameters,
        datagram_bytes_max: usize,
    ) -> Result<Self, HandshakeError> {
        let tls = Tls::server((config, others), parameters.to_bytes())?;
        Self::new(tls, config.crypto_provider(), ids, datagram_bytes_max)
    }

    fn new(tls: Tls, provider: &CryptoProvider, ids: Ids, datagram_bytes_max: usize) -> Result<Self, HandshakeError> {
        let keys = initial_keys(provider, ids.original, tls.side()).ok_or(HandshakeError::NoInitialSuite)?;
        let initial = Some(LongKeys::new(Level::Initial, keys));
        Ok(Self {
            tls,
            ids,
            other: OtherIds::default(),
            keys: KeyRing { initial, ..KeyRing::default() },
            budget: Budget::default(),
            aside: None,
            opening: Opening::default(),
            late: Late::default(),
            outbox: VecDeque::new(),
            datagram_bytes_max,
            wanted_bytes_max: usize::MAX,
            reset_token: None,
            error: None,
            is_complete: false,
            has_opened_handshake: false,
        })
    }

    fn install(&mut self, keys: Vec<NewKeys>) {
        for keys in keys {
            match keys {
                // TLS returns them again while it waits for the rest of a ServerHello. Packet numbers must not restart with the same keys.
                NewKeys::Early(keys) => {
                    self.keys.early.get_or_insert_with(|| LongKeys::new(Level::Early, keys));
                }
                NewKeys::Handshake(keys) => self.keys.handshake = Some(LongKeys::new(Level::Handshake, keys)),
                NewKeys::Traffic(change) => self.keys.traffic = Traffic::new(change),
            }
        }
        self.is_complete |= self.keys.traffic.is_some()
            && match self.tls.side() {
                Side::Client => true,
                Side::Server => !self.tls.is_handshaking(),
            };
        if self.is_complete {
            // Anyone can write packets with these keys, and they are not needed any more (RFC 9001 §4.9.1).
            self.keys.initial = None;
        }
    }

    /// Returns whether the peer is authenticated and chunks may be exchanged.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete && self.error.is_none()
    }

    /// Has a server's TLS answer the hello. Returns early messages that came with it.
    pub(crate) fn read_hello(&mut self) -> Vec<Message> {
        match self.tls.read_hello() {
            Ok(keys) => self.install(keys),
            Err(error) => self.fail(error),
        }
        let mut input = Input::default();
        if let Some((header, mut packet)) = self.opening.early_packet.take() {
            // One that is not authentic is lost, and the client sends the messages again.
            let _dropped = self.handle_long(&header, &mut packet, &mut input);
        }
        input.early
    }

    pub(crate) fn ids(&self) -> Ids {
        self.ids
    }

    /// Takes packets with these connection IDs, too.
    pub(crate) fn take_further(&mut self, own: Vec<ConnectionId>) {
        if !own.is_empty() {
            self.other.further.get_or_insert_default().own = own;
        }
    }

    /// Sends packets to further addresses of the peer with these connection IDs, one for each path.
    pub(crate) fn send_further(&mut self, of_peer: Vec<ConnectionId>) {
        if !of_peer.is_empty() {
            self.other.further.get_or_insert_default().of_peer = of_peer;
        }
    }

    /// Sends a client's spare connection ID with its last handshake bytes.
    pub(crate) fn send_first_spare(&mut self, spare: ConnectionId) {
        self.opening.spare = Some(spare);
    }

    /// Sends this frame with a client's last handshake bytes.
    pub(crate) fn send_addresses(&mut self, frame: Vec<u8>) {
        self.other.further.get_or_insert_default().addresses = frame;
    }

    /// The INIT with a client's addresses, on a server. Authentic once the channel is complete.
    pub(crate) fn take_addresses(&mut self) -> Option<Vec<u8>> {
        let further = self.other.further.as_mut()?;
        Some(core::mem::take(&mut further.addresses)).filter(|init| !init.is_empty())
    }

    /// The connection ID of a datagram of this size on this path.
    fn id_on(&mut self, path: PathId, bytes: usize) -> Option<ConnectionId> {
        let further = || self.other.further.as_ref()?.of_peer.get(path.index().checked_sub(1)?).copied();
        further().or_else(|| self.choose_id(bytes))
    }

    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    pub(crate) fn side(&self) -> Side {
        self.tls.side()
    }

    pub(crate) fn error(&self) -> Option<&HandshakeError> {
        self.error.as_ref()
    }

    /// The peer's parameters. They are authentic once the channel is complete.
    pub(crate) fn peer_parameters(&self) -> Result<Parameters, HandshakeError> {
        let blob = self.tls.peer_parameters().unwrap_or_default();
        Parameters::read(blob).map_err(|_| HandshakeError::Parameters)
    }

    /// Returns whether a client has received an answer to its hello: handshake bytes or a retry.
    pub(crate) fn has_answer(&self) -> bool {
        self.ids.peer.is_some() || self.opening.retries > 0
    }

    /// Returns whether the hello has to be sent again at once.
    pub(crate) fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.opening.is_changed)
    }

    /// Returns whether early messages can be sent: a session is resumed that allows it.
    pub(crate) fn has_early_keys(&self) -> bool {
        self.keys.early.is_some()
    }

    /// Messages of the packet with early keys that the server has delivered.
    pub(crate) fn early_received(&self) -> u8 {
        self.opening.early_received
    }

    /// The budget of the address from which the latest datagram came.
    fn budget(&mut self) -> &mut Budget {
        self.aside.as_mut().map_or(&mut self.budget, |(_, budget)| budget)
    }

    /// The path of the answer to the latest datagram, unless it is that of the handshake.
    pub(crate) fn aside(&self) -> Option<Path> {
        self.aside.map(|(path, _)| path)
    }

    /// Answers only on the path of the handshake from now on.
    pub(crate) fn end_aside(&mut self) {
        self.aside = None;
    }

    /// The peer has shown that it receives at the address from which the latest datagram came.
    pub(crate) fn verify_address(&mut self) {
        self.budget().is_verified = true;
    }

    /// Returns whether the peer has shown that it receives at its address in the handshake.
    pub(crate) fn is_address_verified(&self) -> bool {
        self.budget.is_verified
    }

    /// Sends no datagrams that are longer than the peer wants to receive.
    pub(crate) fn limit_datagram_bytes(&mut self, wanted: Option<u16>) {
        self.wanted_bytes_max = wanted.map_or(usize::MAX, |bytes| usize::from(bytes).max(DATAGRAM_BYTES_MIN));
        self.datagram_bytes_max = self.datagram_bytes_max.min(self.wanted_bytes_max);
    }

    /// The longest datagram that the peer wants to receive.
    pub(crate) fn wanted_bytes_max(&self) -> usize {
        self.wanted_bytes_max
    }

    /// The server resets this connection by a datagram that ends in `token`.
    pub(crate) fn set_reset_token(&mut self, token: Option<ResetToken>) {
        self.reset_token = token;
    }

    pub(crate) fn reset_token(&self) -> Option<ResetToken> {
        self.reset_token
    }

    /// The longest datagram that this side sends.
    pub(crate) fn datagram_bytes_max(&self) -> usize {
        self.datagram_bytes_max
    }

    /// None of the early messages is delivered, so that the client sends them again.
    pub(crate) fn refuse_early(&mut self) {
        self.opening.early_delivered = Some(0);
    }

    /// Returns whether a server asks for another hello.
    pub(crate) fn has_hello_retry(&self) -> bool {
        self.tls.peer_parameters().is_none() && !self.tls.outgoing(Space::Initial).is_empty()
    }

    /// Begins the next key phase, unless the peer has not confirmed the current one, or there were too many.
    pub(crate) fn update_keys(&mut self) -> bool {
        self.keys.traffic.as_mut().is_some_and(Traffic::update_keys_early)
    }

    /// Expects packets of slow paths behind many of fast ones.
    pub(crate) fn expect_several_paths(&mut self) {
        if let Some(traffic) = &mut self.keys.traffic {
            traffic.expect_several_paths();
        }
    }

    /// Notes which TSNs the peer has not acknowledged.
    pub(crate) fn note_outstanding(&mut self, tsns: core::ops::Range<u64>) {
        if let Some(traffic) = &mut self.keys.traffic {
            traffic.note_outstanding(tsns);
        }
    }

    /// Ends the channel and tells the peer.
    pub(crate) fn fail(&mut self, error: HandshakeError) {
        if self.error.is_none() {
            self.error = Some(error);
            self.outbox.clear();
            self.queue_close();
        }
    }

    /// Forgets the handshake bytes: the peer has this side's last ones, or does not need them.
    pub(crate) fn forget_handshake(&mut self) {
        self.keys.initial = None;
        self.keys.early = None;
        self.keys.handshake = None;
        self.opening = Opening::default();
        if let Some(further) = &mut self.other.further {
            further.addresses = Vec::new();
        }
        for space in [Space::Initial, Space::Handshake] {
            self.tls.forget(space);
        }
    }
}

impl core::fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (ids, error, is_complete) = (&self.ids, &self.error, &self.is_complete);
        let mut fields = formatter.debug_struct("Channel");
        fields.field("ids", ids).field("error", error).field("is_complete", is_complete).finish_non_exhaustive()
    }
}
