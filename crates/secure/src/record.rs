//! Packet protection (RFC 9001 §5) with the keys that rustls derives, and key update (RFC 9001 §6).

pub(crate) mod window;

use rustls::crypto::CryptoProvider;
use rustls::quic::{DirectionalKeys, HeaderProtectionKey, KeyChange, Keys, PacketKey, PacketKeySet, Secrets, Version};
use rustls::{CipherSuite, Side, SupportedCipherSuite, Tls13CipherSuite};

use crate::wire::{
    ConnectionId, FirstByte, LONG_HEADER_BYTES, LONG_PAYLOAD_BYTES_MAX, Level, NUMBER_BYTES, SHORT_HEADER_BYTES,
    TAG_BYTES, WIDE_NUMBER_BYTES, write_long_header, write_short_header,
};
use window::ReplayWindow;

/// Where the sample for header protection begins, counted from the packet number (RFC 9001 §5.4.2).
const SAMPLE_OFFSET: usize = 4;
/// Packets sent since the latest one that the peer has shown to have received, before packet numbers get four bytes: with two, the peer could mistake
/// their order after a long outage (RFC 9000 §17.1).
const NARROW_NUMBERS_MAX: u64 = 1 << 14;
/// Packets between two that the peer has to show to have received.
const PROOF_PACKETS: u64 = 1 << 12;
/// The longest packet whose number may get four bytes. Longer ones may be as long as the path allows already.
const WIDE_PACKET_BYTES_MAX: usize = 384;
/// Key updates that a peer has free, and the packets that each further one takes: an update costs as much CPU time as 90 packets.
const UPDATES_FREE: u64 = 32;
const PACKETS_PER_UPDATE: u64 = 8;
/// The same for this side, which leaves more between its own, since packets are lost.
const OWN_UPDATES_FREE: u64 = 16;
const OWN_PACKETS_PER_UPDATE: u64 = 64;
/// Keys are updated after this many packets at the latest. It is half of the limit that RFC 9001 §6.6 sets for AES-GCM.
const UPDATE_AFTER_PACKETS: u64 = 1 << 22;

/// Returns the keys of Initial packets, which follow from the connection ID that the client chose (RFC 9001 §5.2). `None` if the provider
/// lacks `TLS13_AES_128_GCM_SHA256`, which protects them.
#[must_use]
pub fn initial_keys(provider: &CryptoProvider, id: ConnectionId, side: Side) -> Option<Keys> {
    Some(initial_suite(provider)?.quic_suite()?.keys(&id.0, side, Version::V1))
}

/// The cipher suite of Initial packets and of retry tokens.
pub(crate) fn initial_suite(provider: &CryptoProvider) -> Option<&'static Tls13CipherSuite> {
    let is_initial = |suite: &&SupportedCipherSuite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.iter().find(is_initial)?.tls13()
}

/// The reason why a packet was not protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key has protected as many packets as is safe, and the peer has not confirmed the last update (RFC 9001 §6.6).
    #[error("the key is used up")]
    KeyExhausted,
    /// It holds no whole chunk.
    #[error("the packet is too short")]
    TooShort,
    /// It is longer than the cipher allows.
    #[error("the packet is too long")]
    TooLong,
}

/// The reason why a received packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is too short to be a protected packet.
    #[error("the packet is too short")]
    TooShort,
    /// It was not protected with the keys of this connection.
    #[error("the packet is not authentic")]
    NotAuthentic,
    /// Its number was received before, or is too old to decide.
    #[error("the packet is a duplicate or very late")]
    Duplicate,
    /// It sets bits that must be zero.
    #[error("the packet sets reserved bits")]
    Reserved,
    /// The peer updated its keys before it could know of the last update, or too often (RFC 9001 §6.2).
    #[error("the peer updated its keys too soon")]
    KeyUpdateTooSoon,
    /// More packets were not authentic than is safe (RFC 9001 §6.6).
    #[error("the limit of forged packets is reached")]
    TooManyForgeries,
}

impl OpenError {
    /// Returns whether the connection must end.
    #[must_use]
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::KeyUpdateTooSoon | Self::TooManyForgeries)
    }
}

/// The header of a packet after its protection was removed.
pub(crate) struct Unmasked {
    pub(crate) first: FirstByte,
    pub(crate) number: u64,
    /// Length of the header with its packet number.
    pub(crate) header_bytes: usize,
}

/// Encrypts the payload of the packet at `start`, appends the tag and protects the header (RFC 9001 §5.3, §5.4). The packet number takes
/// the last `number_bytes` before the payload at `payload_at`.
fn protect(
    keys: (&dyn PacketKey, &dyn HeaderProtectionKey),
    number: u64,
    buffer: &mut Vec<u8>,
    (start, payload_at, number_bytes): (usize, usize, usize),
) -> Result<(), SealError> {
    let (packet_key, header_key) = keys;
    let packet = buffer.get_mut(start..).ok_or(SealError::TooShort)?;
    let (header, payload) = packet.split_at_mut_checked(payload_at - start).ok_or(SealError::TooShort)?;
    if payload.len() + number_bytes < SAMPLE_OFFSET {
        return Err(SealError::TooShort);
    }
    let tag = packet_key.encrypt_in_place(number, header, payload).map_err(|_| SealError::TooLong)?;
    buffer.extend_from_slice(tag.as_ref());
    let sample_at = payload_at - number_bytes + SAMPLE_OFFSET;
    let (header, rest) = buffer.split_at_mut(payload_at);
    let sample = rest.get(sample_at - payload_at..).and_then(|rest| rest.get(..header_key.sample_len()));
    let (first, header) = header.get_mut(start..).and_then(<[u8]>::split_first_mut).ok_or(SealError::TooShort)?;
    let number_at = header.len() - number_bytes;
    let truncated = header.get_mut(number_at..).ok_or(SealError::TooShort)?;
    header_key.encrypt_in_place(sample.unwrap_or_default(), first, truncated).map_err(|_| SealError::TooShort)
}

/// Removes the header protection of a packet whose number stands at `number_at` (RFC 9001 §5.4.1).
pub(crate) fn unmask(
    header_key: &dyn HeaderProtectionKey,
    window: &ReplayWindow,
    packet: &mut [u8],
    number_at: usize,
) -> Result<Unmasked, OpenError> {
    let sample_at = number_at + SAMPLE_OFFSET;
    let (header, rest) = packet.split_at_mut_checked(sample_at).ok_or(OpenError::TooShort)?;
    let sample = rest.get(..header_key.sample_len()).ok_or(OpenError::TooShort)?;
    let (first, header) = header.split_first_mut().ok_or(OpenError::TooShort)?;
    let numbers = header.get_mut(number_at - 1..).ok_or(OpenError::TooShort)?;
    header_key.decrypt_in_place(sample, first, numbers).map_err(|_| OpenError::TooShort)?;
    let first = FirstByte(*first);
    let truncated = numbers.get(..first.number_bytes()).ok_or(OpenError::TooShort)?;
    Ok(Unmasked { first, number: window.unwrap(truncated), header_bytes: number_at + truncated.len() })
}

/// Decrypts a packet whose header is already unprotected. On success the payload starts behind the header.
pub(crate) fn decrypt(key: &dyn PacketKey, unmasked: &Unmasked, packet: &mut [u8]) -> Result<usize, OpenError> {
    let (header, payload) = packet.split_at_mut_checked(unmasked.header_bytes).ok_or(OpenError::TooShort)?;
    if payload.len() < TAG_BYTES {
        return Err(OpenError::TooShort);
    }
    let plain = key.decrypt_in_place(unmasked.number, header, payload).map_err(|_| OpenError::NotAuthentic)?;
    Ok(plain.len())
}

/// The payload of a packet with a short header that was decrypted in place.
pub(crate) fn payload(packet: &[u8]) -> Option<&[u8]> {
    let header_bytes = SHORT_HEADER_BYTES + FirstByte(*packet.first()?).number_bytes();
    packet.get(header_bytes..packet.len().checked_sub(TAG_BYTES)?)
}

/// Notes the number of an authentic packet, and checks the bits that could not be trusted before.
fn admit(window: &mut ReplayWindow, unmasked: &Unmasked) -> Result<(), OpenError> {
    if !unmasked.first.reserved_bits_are_zero() {
        return Err(OpenError::Reserved);
    }
    if window.insert(unmasked.number) { Ok(()) } else { Err(OpenError::Duplicate) }
}

/// The keys of one level of the handshake, and its packet numbers.
pub struct LongKeys {
    level: Level,
    keys: Keys,
    next_number: u64,
    window: ReplayWindow,
    failures: u64,
}

impl LongKeys {
    /// Makes the packet protection of a level from its keys.
    #[must_use]
    pub fn new(level: Level, keys: Keys) -> Self {
        Self { level, keys, next_number: 0, window: ReplayWindow::default(), failures: 0 }
    }

    /// The same for a side that keeps no state of the packets it sends. Their numbers lie in the upper half of the peer's window, so that they do not
    /// collide with those of a side that does. `salt` chooses among them, so that packets of different contents or times have different numbers.
    #[must_use]
    pub fn stateless(level: Level, keys: Keys, salt: impl Into<u64>) -> Self {
        let half = window::WINDOW_NUMBERS / 2;
        Self { next_number: half + salt.into() % half, ..Self::new(level, keys) }
    }

    /// Numbers the packets that `seal` appends as [`stateless`](Self::stateless) does, since the state may be gone before the next one.
    pub(crate) fn without_state<R>(&mut self, salt: u64, seal: impl FnOnce(&mut Self) -> R) -> R {
        let half = window::WINDOW_NUMBERS / 2;
        let next = std::mem::replace(&mut self.next_number, half + salt % half);
        let sealed = seal(self);
        self.next_number = next;
        sealed
    }

    /// Appends a packet with these frames.
    ///
    /// # Errors
    /// The key is used up, or the frames are too short or too long for a packet. The buffer is unchanged then.
    pub fn seal(
        &mut self,
        buffer: &mut Vec<u8>,
        destination: ConnectionId,
        source: ConnectionId,
        frames: &[u8],
    ) -> Result<(), SealError> {
        let DirectionalKeys { packet, header } = &self.keys.local;
        if self.next_number >= packet.confidentiality_limit() {
            return Err(SealError::KeyExhausted);
        }
        if frames.len() > LONG_PAYLOAD_BYTES_MAX {
            return Err(SealError::TooLong);
        }
        let number = self.next_number;
        let start = buffer.len();
        write_long_header(buffer, self.level, destination, source, number, frames.len());
        let payload_at = buffer.len();
        buffer.extend_from_slice(frames);
        let sealed = protect((&**packet, &**header), number, buffer, (start, payload_at, NUMBER_BYTES));
        match sealed {
            Ok(()) => self.next_number += 1,
            Err(_) => buffer.truncate(start),
        }
        sealed
    }

    /// Decrypts one packet in place, and returns its frames.
    ///
    /// # Errors
    /// The packet is dropped. Only [fatal](OpenError::is_fatal) errors concern the connection.
    pub fn open<'p>(&mut self, packet: &'p mut [u8]) -> Result<&'p [u8], OpenError> {
        self.open_in_order(packet).map(|(frames, _)| frames)
    }

    /// The same, and whether the packet was sent later than all that were opened before.
    pub(crate) fn open_in_order<'p>(&mut self, packet: &'p mut [u8]) -> Result<(&'p [u8], bool), OpenError> {
        let DirectionalKeys { packet: packet_key, header } = &self.keys.remote;
        if self.failures >= packet_key.integrity_limit() {
            return Err(OpenError::TooManyForgeries);
        }
        let unmasked = unmask(&**header, &self.window, packet, LONG_HEADER_BYTES)?;
        let plain_bytes = decrypt(&**packet_key, &unmasked, packet).inspect_err(|_| self.failures += 1)?;
        let is_newest = self.window.is_newest(unmasked.number);
        admit(&mut self.window, &unmasked)?;
        let frames = packet.get(unmasked.header_bytes..unmasked.header_bytes + plain_bytes);
        Ok((frames.ok_or(OpenError::TooShort)?, is_newest))
    }
}

/// The keys of an established connection. Both directions change keys together (RFC 9001 §6).
pub(crate) struct Traffic {
    local_header: Box<dyn HeaderProtectionKey>,
    remote_header: Box<dyn HeaderProtectionKey>,
    current: PacketKeySet,
    /// Derived ahead of time, so that a forged key phase costs no derivation (RFC 9001 §6.3).
    next: PacketKeySet,
    /// Opens packets of the last phase that arrive late (RFC 9001 §6.5).
    previous: Option<Box<dyn PacketKey>>,
    secrets: Secrets,
    phase: Phase,
    numbers: Numbers,
    window: ReplayWindow,
    /// Packets that were not authentic, with any key (RFC 9001 §6.6).
    failures: u64,
    /// Packets received, minus those taken by the peer's key updates.
    update_credit: u64,
    /// Packets sent, minus those taken by updates that the application wanted.
    own_update_credit: u64,
}

/// The current key phase.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    /// The bit of its packets.
    bit: bool,
    /// The first packet number sent in it.
    first_sent: u64,
    /// The lowest packet number received in it. `None` while an update by this side is not confirmed (RFC 9001 §6.1).
    lowest_received: Option<u64>,
}

/// The numbers of the packets sent.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    next: u64,
    /// The peer has received a packet with this number or a later one.
    proved: u64,
    /// A number, and a TSN that is sent with it or with a later one.
    awaited: Option<(u64, u64)>,
}

/// Where [`Traffic::open`] found the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Where the payload starts.
    pub(crate) start: usize,
    /// Its length.
    pub(crate) bytes: usize,
    /// The packet was sent later than all that were opened before.
    pub(crate) is_newest: bool,
}

impl Traffic {
    /// Takes the keys from rustls. Returns `None` for a change to other keys than those of an established connection.
    #[must_use]
    pub(crate) fn new(change: KeyChange) -> Option<Self> {
        let KeyChange::OneRtt { keys, next: mut secrets } = change else { return None };
        let Keys { local, remote } = keys;
        Some(Self {
            local_header: local.header,
            remote_header: remote.header,
            current: PacketKeySet { local: local.packet, remote: remote.packet },
            next: secrets.next_packet_keys(),
            previous: None,
            secrets,
            phase: Phase::default(),
            numbers: Numbers::default(),
            window: ReplayWindow::default(),
            failures: 0,
            update_credit: UPDATES_FREE * PACKETS_PER_UPDATE,
            own_update_credit: OWN_UPDATES_FREE * OWN_PACKETS_PER_UPDATE,
        })
    }

    /// Leaves room for the header of the next packet at the end of `buffer`, behind which its chunks are to be written. [`seal`](Self::seal) follows.
    pub(crate) fn reserve(&self, buffer: &mut Vec<u8>) {
        buffer.resize(buffer.len() + SHORT_HEADER_BYTES + NUMBER_BYTES, 0);
    }

    /// Expects packets of slow paths behind many of fast ones.
    pub(crate) fn expect_several_paths(&mut self) {
        self.window.widen();
    }

    /// Notes which TSNs are outstanding now: the peer's acknowledgements are the only proof that it has received a packet.
    pub(crate) fn note_outstanding(&mut self, tsns: core::ops::Range<u64>) {
        let Numbers { next, proved, awaited } = &mut self.numbers;
        if let Some((number, _)) = awaited.take_if(|(_, tsn)| *tsn < tsns.start) {
            *proved = number;
        }
        if awaited.is_none() && *next - *proved > PROOF_PACKETS {
            *awaited = Some((*next, tsns.end));
        }
    }

    /// Gives a short packet at `start` a packet number of four bytes, if the peer may mistake one of two. Returns the length of the packet number.
    fn widen(&self, buffer: &mut Vec<u8>, start: usize) -> usize {
        let Numbers { next, proved, .. } = self.numbers;
        let is_wide = next - proved > NARROW_NUMBERS_MAX && buffer.len() - start <= WIDE_PACKET_BYTES_MAX;
        if is_wide {
            let payload_at = start + SHORT_HEADER_BYTES + NUMBER_BYTES;
            buffer.splice(payload_at..payload_at, [0; WIDE_NUMBER_BYTES - NUMBER_BYTES]);
        }
        if is_wide { WIDE_NUMBER_BYTES } else { NUMBER_BYTES }
    }

    /// Makes a packet of everything in `buffer` from `start` on, in place: the room that was [reserved](Self::reserve) there, and chunks.
    ///
    /// # Errors
    /// The key is used up, or the chunks are too short or too long for a packet. The buffer ends at `start` then.
    pub(crate) fn seal(
        &mut self,
        buffer: &mut Vec<u8>,
        start: usize,
        destination: ConnectionId,
    ) -> Result<(), SealError> {
        let sealed = self.try_seal(buffer, start, destination);
        match sealed {
            Ok(()) => {
                self.numbers.next += 1;
                self.own_update_credit = (self.own_update_credit + 1).min(OWN_UPDATES_FREE * OWN_PACKETS_PER_UPDATE);
            }
            // No packet was sent with this number, so the next one may have it.
            Err(_) => buffer.truncate(start),
        }
        sealed
    }

    fn try_seal(&mut self, buffer: &mut Vec<u8>, start: usize, destination: ConnectionId) -> Result<(), SealError> {
        let limit = self.current.local.confidentiality_limit();
        let used = self.numbers.next - self.phase.first_sent;
        if used >= UPDATE_AFTER_PACKETS.min(limit / 2) && !self.update_keys() && used >= limit {
            return Err(SealError::KeyExhausted);
        }
        if buffer.len() < start + SHORT_HEADER_BYTES + NUMBER_BYTES {
            return Err(SealError::TooShort);
        }
        let (number, number_bytes) = (self.numbers.next, self.widen(buffer, start));
        let payload_at = start + SHORT_HEADER_BYTES + number_bytes;
        let header = buffer.get_mut(start..payload_at).ok_or(SealError::TooShort)?;
        write_short_header(header, destination, self.phase.bit, number);
        let keys = (&*self.current.local, &*self.local_header);
        protect(keys, number, buffer, (start, payload_at, number_bytes))
    }

    /// Decrypts a packet with a short header in place.
    ///
    /// # Errors
    /// The packet is dropped. Only [fatal](OpenError::is_fatal) errors concern the connection.
    pub(crate) fn open(&mut self, packet: &mut [u8]) -> Result<Opened, OpenError> {
        if self.failures >= self.current.remote.integrity_limit() {
            return Err(OpenError::TooManyForgeries);
        }
        let unmasked = unmask(&*self.remote_header, &self.window, packet, SHORT_HEADER_BYTES)?;
        let is_current = unmasked.first.key_phase() == self.phase.bit;
        let (bytes, is_update) = self.decrypt(&unmasked, is_current, packet).inspect_err(|_| self.failures += 1)?;
        if is_update && (self.numbers.next == self.phase.first_sent || self.update_credit < PACKETS_PER_UPDATE) {
            return Err(OpenError::KeyUpdateTooSoon);
        }
        let is_newest = self.window.is_newest(unmasked.number);
        admit(&mut self.window, &unmasked)?;
        self.update_credit = (self.update_credit + 1).min(UPDATES_FREE * PACKETS_PER_UPDATE);
        if is_update {
            self.update_credit -= PACKETS_PER_UPDATE;
            self.rotate(Some(unmasked.number));
        } else if is_current {
            let lowest = self.phase.lowest_received.map_or(unmasked.number, |lowest| lowest.min(unmasked.number));
            self.phase.lowest_received = Some(lowest);
        }
        Ok(Opened { start: unmasked.header_bytes, bytes, is_newest })
    }

    /// Decrypts a packet with the key of its phase. Returns the number of its bytes, and whether the peer has begun the next phase.
    fn decrypt(&self, unmasked: &Unmasked, is_current: bool, packet: &mut [u8]) -> Result<(usize, bool), OpenError> {
        let open = |key: &dyn PacketKey, packet: &mut [u8]| decrypt(key, unmasked, packet);
        match (is_current, self.phase.lowest_received, &self.previous) {
            (true, ..) => open(&*self.current.remote, packet).map(|bytes| (bytes, false)),
            (false, Some(lowest), Some(previous)) if unmasked.number < lowest => {
                open(&**previous, packet).map(|bytes| (bytes, false))
            }
            (false, None, Some(previous)) => {
                // The last phase has the same bit as the next, which the peer may have begun although nothing of the current one was received.
                let mut copy = packet.to_vec();
                if let Ok(bytes) = open(&**previous, &mut copy) {
                    packet.copy_from_slice(&copy);
                    return Ok((bytes, false));
                }
                open(&*self.next.remote, packet).map(|bytes| (bytes, true))
            }
            (false, ..) => open(&*self.next.remote, packet).map(|bytes| (bytes, true)),
        }
    }

    /// Begins the next key phase. Returns `false`, without effect, if the peer has not confirmed the current one (RFC 9001 §6.1).
    pub(crate) fn update_keys(&mut self) -> bool {
        let may_update = self.phase.lowest_received.is_some();
        if may_update {
            self.rotate(None);
        }
        may_update
    }

    /// As [`update_keys`](Self::update_keys), but not so often that the peer refuses.
    pub(crate) fn update_keys_early(&mut self) -> bool {
        let is_updated = self.own_update_credit >= OWN_PACKETS_PER_UPDATE && self.update_keys();
        self.own_update_credit -= if is_updated { OWN_PACKETS_PER_UPDATE } else { 0 };
        is_updated
    }

    fn rotate(&mut self, lowest_received: Option<u64>) {
        let next = core::mem::replace(&mut self.next, self.secrets.next_packet_keys());
        let current = core::mem::replace(&mut self.current, next);
        self.previous = Some(current.remote);
        self.phase = Phase { bit: !self.phase.bit, first_sent: self.numbers.next, lowest_received };
    }

    #[cfg(test)]
    pub(crate) fn phase_bit(&self) -> bool {
        self.phase.bit
    }
}

impl core::fmt::Debug for LongKeys {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("LongKeys").field("level", &self.level).finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Traffic {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Traffic").field("phase", &self.phase).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
