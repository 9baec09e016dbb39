//! Packet keys of logged secrets. rustls makes them: it derives the keys of a cipher suite from secrets that a
//! function of its provider returns, and this one returns secrets of a key log.

use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock, OutputLengthError};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, hmac};
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, PacketKey, Suite, Version};
use rustls::{Side, Tls13CipherSuite};

use crate::record::window::ReplayWindow;
use crate::record::{Unmasked, decrypt, initial_suite, unmask};
use crate::wire::{ConnectionId, SHORT_HEADER_BYTES};

/// Cipher suites whose keys are made of logged secrets.
pub struct Suites {
    initial: Suite,
    logged: Vec<Logged>,
}

/// One of them, and its true key derivation.
#[derive(Clone, Copy)]
struct Logged {
    suite: Suite,
    hkdf: &'static dyn Hkdf,
    secret_bytes: usize,
}

impl Suites {
    /// Takes the cipher suites of a provider; `None` if it lacks the one of Initial packets. Call it once per process: rustls' suites live
    /// forever, so each call leaks some hundred bytes.
    #[must_use]
    pub fn of(provider: &CryptoProvider) -> Option<Self> {
        let initial = initial_suite(provider)?.quic_suite()?;
        let suites = provider.cipher_suites.iter().filter_map(|suite| suite.tls13());
        Some(Self { initial, logged: suites.filter_map(Logged::of).collect() })
    }

    /// The keys of Initial packets of the client and of the server.
    pub(super) fn initial(&self, id: ConnectionId) -> [Direction; 2] {
        let keys = self.initial.keys(&id.0, Side::Server, Version::V1);
        [keys.remote, keys.local].map(|keys| Direction::new(keys, None))
    }

    /// The keys of each cipher suite that may belong to this secret.
    pub(super) fn candidates(&self, secret: &[u8]) -> impl Iterator<Item = Direction> {
        self.logged.iter().filter(|logged| logged.secret_bytes == secret.len()).map(|logged| {
            let updates = Updates::new(*logged, &OkmBlock::new(secret));
            Direction::new(logged.keys(secret), Some(updates))
        })
    }
}

impl core::fmt::Debug for Suites {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Suites").field("count", &self.logged.len()).finish_non_exhaustive()
    }
}

impl Logged {
    fn of(suite: &'static Tls13CipherSuite) -> Option<Self> {
        let (quic, hkdf) = (suite.quic?, suite.hkdf_provider);
        let Tls13CipherSuite { common, aead_alg, .. } = suite;
        let secret_bytes = common.hash_provider.output_len();
        let common = CipherSuiteCommon {
            suite: common.suite,
            hash_provider: common.hash_provider,
            confidentiality_limit: common.confidentiality_limit,
        };
        let given: &'static Given = Box::leak(Box::new(Given(hkdf)));
        let suite = Tls13CipherSuite { common, hkdf_provider: given, aead_alg: *aead_alg, quic: Some(quic) };
        Some(Self { suite: Suite { suite: Box::leak(Box::new(suite)), quic }, hkdf, secret_bytes })
    }

    fn keys(&self, secret: &[u8]) -> DirectionalKeys {
        self.suite.keys(secret, Side::Server, Version::V1).remote
    }
}

/// A key derivation whose first step, from a connection ID to the secrets of Initial packets, returns its input.
struct Given(&'static dyn Hkdf);

impl Hkdf for Given {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        self.0.extract_from_zero_ikm(salt)
    }

    fn extract_from_secret(&self, _salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        Box::new(Fixed(OkmBlock::new(secret)))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        self.0.expander_for_okm(okm)
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> hmac::Tag {
        self.0.hmac_sign(key, message)
    }
}

/// Returns the same secret for every label.
struct Fixed(OkmBlock);

impl HkdfExpander for Fixed {
    fn expand_slice(&self, _info: &[&[u8]], _output: &mut [u8]) -> Result<(), OutputLengthError> {
        Err(OutputLengthError)
    }

    fn expand_block(&self, _info: &[&[u8]]) -> OkmBlock {
        self.0.clone()
    }

    fn hash_len(&self) -> usize {
        self.0.as_ref().len()
    }
}

/// A capture may lack this many times 65,536 packets of a direction in a row, as the two bytes of packet numbers count.
const GAPS_MAX: u64 = 8;

/// Keys of one direction at one level.
pub(super) struct Direction {
    header: Box<dyn HeaderProtectionKey>,
    current: Box<dyn PacketKey>,
    window: ReplayWindow,
    /// `None` for keys that are never updated.
    updates: Option<Updates>,
}

/// The key phase (RFC 9001 §6).
struct Updates {
    suite: Logged,
    /// The secret of the next phase.
    secret: OkmBlock,
    next: Box<dyn PacketKey>,
    previous: Option<Box<dyn PacketKey>>,
    bit: bool,
    /// The lowest packet number seen in this phase.
    lowest: u64,
}

impl Updates {
    /// The phase that begins with this secret.
    fn new(suite: Logged, secret: &OkmBlock) -> Self {
        let secret = suite.updated(secret);
        let next = suite.keys(secret.as_ref()).packet;
        Self { suite, secret, next, previous: None, bit: false, lowest: u64::MAX }
    }

    /// Begins the next phase with a packet of this number.
    fn rotate(&mut self, current: &mut Box<dyn PacketKey>, number: u64) {
        self.secret = self.suite.updated(&self.secret);
        let next = core::mem::replace(&mut self.next, self.suite.keys(self.secret.as_ref()).packet);
        self.previous = Some(core::mem::replace(current, next));
        (self.bit, self.lowest) = (!self.bit, number);
    }
}

impl Logged {
    /// The secret of the phase after the one of this secret (RFC 9001 §6.1, RFC 8446 §7.1).
    fn updated(&self, secret: &OkmBlock) -> OkmBlock {
        const LABEL: &[u8] = b"tls13 quic ku";
        let length = u16::try_from(self.secret_bytes).unwrap_or(u16::MAX).to_be_bytes();
        let label_bytes = u8::try_from(LABEL.len()).unwrap_or(u8::MAX);
        self.hkdf.expander_for_okm(secret).expand_block(&[&length, &[label_bytes], LABEL, &[0]])
    }
}

impl Direction {
    fn new(keys: DirectionalKeys, updates: Option<Updates>) -> Self {
        Self { header: keys.header, current: keys.packet, window: ReplayWindow::default(), updates }
    }

    /// Decrypts a packet whose number stands at `number_at`; `None` if it is not authentic. It may have been opened before.
    pub(super) fn open(&mut self, packet: &[u8], number_at: usize) -> Option<Vec<u8>> {
        let mut packet = packet.to_vec();
        let mut unmasked = unmask(&*self.header, &self.window, &mut packet, number_at).ok()?;
        let is_short = number_at == SHORT_HEADER_BYTES;
        let (nearest, bits) = (unmasked.number, 8 * (unmasked.header_bytes - number_at));
        let payload = (0..=if is_short { GAPS_MAX } else { 0 }).find_map(|gap| {
            unmasked.number = nearest.saturating_add(gap << bits);
            self.payload(&unmasked, &packet, is_short)
        })?;
        self.window.insert(unmasked.number);
        unmasked.first.reserved_bits_are_zero().then_some(payload)
    }

    /// Decrypts a packet with a key of the phase that it may belong to.
    fn payload(&mut self, unmasked: &Unmasked, packet: &[u8], is_short: bool) -> Option<Vec<u8>> {
        let plain = |key: &dyn PacketKey| plain(key, unmasked, packet);
        Some(match &mut self.updates {
            Some(updates) if is_short && unmasked.first.key_phase() != updates.bit => {
                let late = updates.previous.as_deref().filter(|_| unmasked.number < updates.lowest);
                match late.and_then(plain) {
                    Some(payload) => payload,
                    None => {
                        let payload = plain(&*updates.next)?;
                        updates.rotate(&mut self.current, unmasked.number);
                        payload
                    }
                }
            }
            Some(updates) => {
                let payload = plain(&*self.current)?;
                updates.lowest = updates.lowest.min(unmasked.number);
                payload
            }
            None => plain(&*self.current)?,
        })
    }
}

impl core::fmt::Debug for Direction {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Direction").finish_non_exhaustive()
    }
}

/// The payload of a packet whose header is unprotected, if it is authentic.
fn plain(key: &dyn PacketKey, unmasked: &Unmasked, packet: &[u8]) -> Option<Vec<u8>> {
    let mut copy = packet.to_vec();
    let bytes = decrypt(key, unmasked, &mut copy).ok()?;
    copy.truncate(unmasked.header_bytes + bytes);
    copy.drain(..unmasked.header_bytes);
    Some(copy)
}
