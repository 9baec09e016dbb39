//! Answers datagrams that belong to no association: makes half-open ones of hellos, in bounded number.

use core::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use festina_sctp::Context;
use festina_units::{EcnCodepoint, Instant};
use rustls::{ServerConfig, Side};

use crate::address::Proofs;
use crate::association::{SecureAssociation, datagram_bytes_max, further_ids, wanted_bytes_max};
use crate::channel::{AMPLIFICATION_MAX, Channel, Ids, retry_salt, seal_retry};
use crate::error::{DatagramDropped, HandshakeError};
use crate::parameters::{Parameters, ResetToken, Spare};
use crate::path::Path;
use crate::record::{LongKeys, initial_keys};
use crate::reset::{ResetKey, write_reset};
use crate::spare::next_id;
use crate::versions::write_versions;
use crate::wire::{
    ConnectionId, Frame, Frames, Header, HeaderError, LONG_HEADER_BYTES, Level, LongHeader, read_header,
};

/// Limits on handshakes that are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOpenLimits {
    /// Maximum number of half-open associations; further hellos are ignored.
    pub total_max: usize,
    /// From this many half-open associations on, hellos without a proof of their address are answered by a retry, which costs no state.
    pub unproved_max: usize,
    /// The same for the number of hellos without a proof in one second, since their cryptography takes CPU time.
    pub unproved_per_second_max: u32,
}

impl HalfOpenLimits {
    /// No limits, for measurements in which associations must not compete.
    pub const UNLIMITED: Self =
        Self { total_max: usize::MAX, unproved_max: usize::MAX, unproved_per_second_max: u32::MAX };
}

impl Default for HalfOpenLimits {
    fn default() -> Self {
        Self { total_max: 1_024, unproved_max: 64, unproved_per_second_max: 256 }
    }
}

/// The part of an endpoint that makes half-open associations of hellos.
#[derive(Debug)]
pub struct Listener {
    context: Arc<Context>,
    tls: Arc<ServerConfig>,
    others: Arc<[Arc<ServerConfig>]>,
    proofs: Arc<Proofs>,
    limits: HalfOpenLimits,
    accepted: u64,
    resets: Option<Arc<ResetKey>>,
    /// Resets written.
    reset: u64,
    /// The current second, and the hellos without a proof accepted in it.
    recent: (u64, u32),
}

/// The judgement on a datagram that matches no association.
#[derive(Debug)]
#[non_exhaustive]
pub enum Checked {
    /// There is nothing to do.
    Ignored(DatagramDropped),
    /// One datagram was appended to the reply buffer, at most three times as long as the one that it answers.
    Reply,
    /// A handshake may [begin](Listener::begin).
    Hello {
        /// The connection ID that the client chose for the server.
        original: ConnectionId,
        /// Whether a token proves the client's address.
        is_proved: bool,
    },
}

/// The consequence of a datagram that matches no association.
#[derive(Debug)]
#[non_exhaustive]
pub enum Incoming {
    /// There is nothing to do.
    Ignored(DatagramDropped),
    /// One datagram was appended to the reply buffer, at most three times as long as the one that it answers.
    Reply,
    /// A handshake has begun: admit or refuse it as soon as its hello is read, and drain it.
    HalfOpen(Box<SecureAssociation>),
}

impl Listener {
    /// Makes a listener with these TLS settings. `secret` must be random: proofs of addresses can be forged with it.
    ///
    /// # Errors
    /// The TLS settings lack the cipher suite of Initial packets.
    pub fn new(
        context: &Arc<Context>,
        tls: Arc<ServerConfig>,
        secret: [u8; 32],
        limits: HalfOpenLimits,
    ) -> Result<Self, HandshakeError> {
        let proofs = Proofs::new(tls.crypto_provider(), secret).ok_or(HandshakeError::NoInitialSuite)?;
        let (context, proofs) = (Arc::clone(context), Arc::new(proofs));
        Ok(Self {
            context,
            tls,
            others: Arc::new([]),
            proofs,
            limits,
            accepted: 0,
            resets: None,
            reset: 0,
            recent: (0, 0),
        })
    }

    /// The endpoint has the addresses of another context now, which has the same secret.
    pub fn use_addresses(&mut self, context: &Arc<Context>) {
        self.context = Arc::clone(context);
    }

    /// Adds TLS settings for clients with another kind of keys: certificates or raw public keys (RFC 7250). They are tried in turn for a client to
    /// which the certificate resolver (`ResolvesServerCert`) of those before shows nothing. The resolver has to compare the kinds of the client's
    /// keys, because rustls does so only after it has taken the client's session or asked for another hello. All settings must have the same
    /// cryptography.
    #[must_use]
    pub fn with_other_keys(mut self, others: impl IntoIterator<Item = Arc<ServerConfig>>) -> Self {
        self.others = others.into_iter().collect();
        self
    }

    /// Gives tokens of this key to clients, and answers packets of connections that are not known any more by resets (RFC 9000 §10.3). The caller limits
    /// their rate.
    #[must_use]
    pub fn with_resets(mut self, key: ResetKey) -> Self {
        self.resets = Some(Arc::new(key));
        self
    }

    /// Handles a datagram whose connection ID belongs to no association. `half_open` is the number of associations that are not established.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: impl Into<Path>,
        datagram: BytesMut,
        half_open: usize,
        reply: &mut Vec<u8>,
    ) -> Incoming {
        let from = from.into();
        match self.check(now, from, &datagram, half_open, reply) {
            Checked::Ignored(dropped) => Incoming::Ignored(dropped),
            Checked::Reply => Incoming::Reply,
            Checked::Hello { is_proved: true, .. } if half_open >= self.limits.total_max => {
                Incoming::Ignored(DatagramDropped::TooManyHalfOpen)
            }
            Checked::Hello { original, is_proved } => self.begin(now, from, (original, is_proved), datagram),
        }
    }

    /// Judges a datagram whose connection ID belongs to no association, without state for its sender. A hello can wait before its handshake
    /// [begins](Self::begin). From [`HalfOpenLimits::unproved_max`] half-open associations on, only those with a proof of their address are passed.
    pub fn check(
        &mut self,
        now: Instant,
        from: impl Into<Path>,
        datagram: &[u8],
        half_open: usize,
        reply: &mut Vec<u8>,
    ) -> Checked {
        let path = from.into();
        let from = path.remote;
        let ip = from.ip();
        if ip.is_multicast() || ip.is_unspecified() || from.port() == 0 {
            return Checked::Ignored(DatagramDropped::Unexpected);
        }
        let header = match read_header(datagram) {
            Ok(Header::Long(header)) if header.level == Level::Initial => header,
            Ok(Header::Short(id)) => return self.reset(path, id, datagram.len(), reply),
            Ok(_) => return Checked::Ignored(DatagramDropped::Unexpected),
            Err(error @ HeaderError::Version(_)) => {
                let mut answer = Vec::new();
                let is_answered = write_versions(datagram, &mut answer) && answer.len() <= datagram.len();
                reply.extend_from_slice(if is_answered { &answer } else { &[] });
                return if is_answered { Checked::Reply } else { Checked::Ignored(error.into()) };
            }
            Err(error) => return Checked::Ignored(error.into()),
        };
        let original = header.destination;
        let is_loaded =
            half_open >= self.limits.unproved_max || self.hellos_in_second(now) >= self.limits.unproved_per_second_max;
        if !is_loaded {
            self.recent.1 += 1;
            return Checked::Hello { original, is_proved: false };
        }
        match self.check_proof(now, from, &header, datagram) {
            Ok(true) => Checked::Hello { original, is_proved: true },
            Ok(false) => self.retry(now, from, &header, datagram.len(), reply),
            Err(dropped) => Checked::Ignored(dropped),
        }
    }

    fn reset(&mut self, path: Path, id: ConnectionId, bytes: usize, reply: &mut Vec<u8>) -> Checked {
        if let Some(token) = self.token(id, path) {
            self.reset += 1;
            if write_reset(reply, bytes, self.proofs.reset_bytes(self.reset), token) {
                return Checked::Reply;
            }
        }
        Checked::Ignored(DatagramDropped::Unexpected)
    }

    fn token(&self, id: ConnectionId, path: Path) -> Option<ResetToken> {
        self.resets.as_ref()?.token(id, path.local)
    }

    /// The connection ID of a client's packets after the first move of either side.
    fn spare(&self, local: ConnectionId, path: Path) -> Spare {
        let id = next_id(&self.context, local);
        Spare { id, reset_token: self.token(id, path) }
    }

    fn hellos_in_second(&mut self, now: Instant) -> u32 {
        let second = now.as_nanos() / 1_000_000_000;
        if self.recent.0 != second {
            self.recent = (second, 0);
        }
        self.recent.1
    }

    /// Returns whether the first token of a hello proves its address; others would each cost an HMAC. The datagram is left as it is.
    fn check_proof(
        &self,
        now: Instant,
        from: SocketAddr,
        header: &LongHeader,
        datagram: &[u8],
    ) -> Result<bool, DatagramDropped> {
        let mut keys = self.initial_keys(header.destination, 0_u8)?;
        let packet = datagram.get(..LONG_HEADER_BYTES + header.length).ok_or(HeaderError::Truncated)?;
        let mut packet = packet.to_vec();
        let frames = keys.open(&mut packet)?;
        let first = Frames(frames).find_map(|frame| match frame {
            Ok(Frame::Token(token)) => Some(token),
            _ => None,
        });
        Ok(first.is_some_and(|token| self.proofs.is_valid(now, from, header.destination, token)))
    }

    fn initial_keys(&self, original: ConnectionId, salt: impl Into<u64>) -> Result<LongKeys, DatagramDropped> {
        let keys = initial_keys(self.tls.crypto_provider(), original, Side::Server);
        keys.map(|keys| LongKeys::stateless(Level::Initial, keys, salt)).ok_or(DatagramDropped::Unexpected)
    }

    fn retry(
        &self,
        now: Instant,
        from: SocketAddr,
        header: &LongHeader,
        datagram_bytes: usize,
        reply: &mut Vec<u8>,
    ) -> Checked {
        let original = header.destination;
        let token = self.proofs.token(now, from, original);
        let start = reply.len();
        let sealed = self
            .initial_keys(original, retry_salt(now, &token))
            .is_ok_and(|mut keys| seal_retry(&mut keys, reply, (header.source, original), &token).is_ok());
        if sealed && reply.len() - start <= datagram_bytes.saturating_mul(AMPLIFICATION_MAX) {
            return Checked::Reply;
        }
        reply.truncate(start);
        Checked::Ignored(DatagramDropped::Unexpected)
    }

    /// Begins the handshake of a hello that was [checked](Self::check), whether or not its address is proved.
    pub fn begin(
        &mut self,
        now: Instant,
        from: Path,
        (original, is_address_proved): (ConnectionId, bool),
        datagram: BytesMut,
    ) -> Incoming {
        self.accepted += 1;
        let local = self.proofs.connection_id(self.accepted, original);
        let nonce = u64::from_be_bytes(local.0);
        let parameters = Parameters {
            original_destination: Some(original),
            reset_token: self.token(local, from),
            datagram_bytes_max: u16::try_from(wanted_bytes_max(&self.context)).ok(),
            initial_source: Some(local),
            init: self.context.init_chunk(nonce, Some(from.remote.ip())),
            further_ids: self.context.is_multihomed().then(|| further_ids(&self.context, local).collect()),
            spare: (!self.context.is_multihomed()).then(|| self.spare(local, from)),
            ..Parameters::default()
        };
        let ids = Ids { local, peer: None, original };
        let Ok(channel) =
            Channel::server((&self.tls, &self.others), ids, &parameters, datagram_bytes_max(&self.context))
        else {
            return Incoming::Ignored(DatagramDropped::Failed);
        };
        let mut association =
            SecureAssociation::half_open(now, &self.context, channel, from, (nonce, &self.proofs, self.resets.clone()));
        if is_address_proved {
            association.prove_address();
        }
        match association.handle_datagram(now, from, EcnCodepoint::NotCapable, datagram) {
            Err(dropped) if association.failure().is_none() => Incoming::Ignored(dropped),
            // A failed one reports the reason to its peer.
            _ => Incoming::HalfOpen(Box::new(association)),
        }
    }
}
