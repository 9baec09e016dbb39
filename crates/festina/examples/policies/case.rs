//! What one association is to do.

use std::fmt;

use festina::{CongestionControl, Duration, Expiry, Message, Profile, ServerConfig, Transport};

/// Policies of partial reliability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Reliable,
    /// Lifetimes, looked at when an acknowledgement is overdue.
    Lifetime,
    /// Lifetimes, looked at when they end.
    LifetimeAtOnce,
    /// Lifetimes, checked when a chunk below the highest arrived one is missing.
    LifetimeWhenMissing,
    Retransmissions,
    /// The send buffer is small, and more important messages evict others from it.
    Priority,
    Replacing,
    /// All of them in turn, and some at once.
    Mixed,
    /// Lifetimes, also for echoes of several fragments, and interleaved messages of several fragments. Linux 6.1 handles neither as the
    /// RFCs ask (`validation/README.md`).
    Fragments,
}

/// One association: its policy and its agreements with the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) policy: Policy,
    pub(crate) unordered: bool,
    /// I-DATA instead of DATA.
    pub(crate) interleaving: bool,
    /// Streams are reset, by either side, and added while messages are in flight.
    pub(crate) resets: bool,
    pub(crate) profile: Profile,
}

/// The port of the peer's sockets with a small send buffer, which makes the peer evict messages too.
const PORT_SMALL_BUFFER: u16 = 5_001;
/// First UDP and SCTP port on which Festina waits for the peer; the second is for peers with a small buffer.
const FIRST_PORT: u16 = 10_000;
const FIRST_PORT_SMALL_BUFFER: u16 = 20_000;
const SEND_BUFFER_SMALL_BYTES: usize = 16 << 10;
/// Lengths of messages: one fragment or several.
const LEN_MIN: usize = 8;
const LEN_USUAL: usize = 60;
const LEN_LARGE: usize = 4_000;
/// One fragment.
const LEN_LARGE_INTERLEAVED: usize = 1_000;
/// Messages of a burst, and the interval between bursts in messages.
const BURST_MESSAGES: u32 = 30;
const BURST_EVERY_MESSAGES: u32 = 60;
/// One in this many messages is reliable, regardless of the policy.
const RELIABLE_EVERY: u32 = 4;
/// Streams that carry messages in all cases.
const STREAMS: u32 = 4;

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    const POLICIES: [Policy; 9] = [
        Policy::Reliable,
        Policy::Lifetime,
        Policy::LifetimeAtOnce,
        Policy::LifetimeWhenMissing,
        Policy::Retransmissions,
        Policy::Priority,
        Policy::Replacing,
        Policy::Mixed,
        Policy::Fragments,
    ];
    let mut cases = Vec::new();
    for policy in POLICIES {
        for bits in 0..16_u8 {
            let profile = if bits & 8 == 0 { Profile::Festina } else { Profile::Rfc9260 };
            let (unordered, interleaving, resets) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            cases.push(Case { policy, unordered, interleaving, resets, profile });
        }
    }
    cases
}

impl Case {
    pub(crate) fn config(&self) -> ServerConfig {
        // The limits of RFC 9260 would rightly end some associations that lose 20 %.
        let congestion =
            if self.profile == Profile::Festina { CongestionControl::Cubic } else { CongestionControl::Rfc9260 };
        let mut transport = Transport::default()
            .with_profile(self.profile)
            .with_congestion(congestion)
            .with_interleaving(self.interleaving)
            .with_peer_timeout(None)
            .with_streams(8, u16::MAX)
            .with_expert(|expert| {
                expert
                    .with_handshake_retries(40)
                    .with_association_retries(200, Duration::from_secs(300))
                    .with_shutdown_stall(Duration::from_secs(600))
                    .with_streams_added_by_peer(true)
            });
        match self.policy {
            Policy::LifetimeAtOnce => {
                transport = transport.with_expert(|expert| expert.with_expiry(Expiry::AtOnce));
            }
            Policy::LifetimeWhenMissing => {
                transport = transport.with_expert(|expert| expert.with_expiry(Expiry::WhenMissing));
            }
            Policy::Priority => {
                transport = transport
                    .with_send_buffer_bytes(SEND_BUFFER_SMALL_BYTES)
                    .with_expert(|expert| expert.with_send_low_water_bytes(SEND_BUFFER_SMALL_BYTES / 2));
            }
            _ => {}
        }
        ServerConfig::plain().with_transport(transport)
    }

    /// The peer's SCTP port.
    pub(crate) fn peer_port(&self) -> u16 {
        if self.policy == Policy::Priority { PORT_SMALL_BUFFER } else { festina::DEFAULT_SCTP_PORT }
    }

    /// Festina's own port where it accepts; `index` distinguishes cases.
    pub(crate) fn own_port(&self, index: u16) -> u16 {
        index + if self.policy == Policy::Priority { FIRST_PORT_SMALL_BUFFER } else { FIRST_PORT }
    }

    /// Returns whether the message of this number, and its echo, are reliable.
    pub(crate) fn is_reliable(&self, number: u32) -> bool {
        self.policy == Policy::Reliable || number.is_multiple_of(RELIABLE_EVERY)
    }

    /// Returns how long to wait before the next message.
    pub(crate) fn pause_after(&self, number: u32) -> Duration {
        let in_burst = number % BURST_EVERY_MESSAGES < BURST_MESSAGES;
        Duration::from_millis(if in_burst { 0 } else { 15 })
    }

    /// Returns the message of this number, with a wish for its echo in front.
    pub(crate) fn message(&self, number: u32) -> Message {
        let has_fragments = number.is_multiple_of(7) && (!self.interleaving || self.policy == Policy::Fragments);
        let len = match number {
            _ if has_fragments => LEN_LARGE,
            _ if number.is_multiple_of(7) => LEN_LARGE_INTERLEAVED,
            _ if number.is_multiple_of(11) => LEN_MIN,
            _ => LEN_USUAL,
        };
        let policy = match self.policy {
            _ if self.is_reliable(number) => Policy::Reliable,
            Policy::Mixed => {
                [Policy::Lifetime, Policy::Retransmissions, Policy::Replacing, Policy::Mixed][number as usize % 4]
            }
            policy => policy,
        };
        let lifetime_ms = if number.is_multiple_of(2) { 30 } else { 150 };
        let retransmissions = u16::try_from(number % 3).expect("it is small");
        let priority = u16::try_from(number % 5).expect("it is small");
        let (wish, value) = match policy {
            _ if has_fragments && self.policy != Policy::Fragments => (0, 0),
            Policy::Lifetime
            | Policy::LifetimeAtOnce
            | Policy::LifetimeWhenMissing
            | Policy::Mixed
            | Policy::Fragments => (1, lifetime_ms),
            Policy::Retransmissions => (2, retransmissions),
            Policy::Priority => (3, priority + 1),
            Policy::Reliable | Policy::Replacing => (0, 0),
        };
        let stream = u16::try_from(number % STREAMS).expect("there are few streams");
        let message = Message::new(payload(b'E', wish, value, number, len)).on_stream(stream);
        let message = message.unordered_if(self.unordered);
        let lifetime = Duration::from_millis(u64::from(lifetime_ms));
        match policy {
            Policy::Reliable => message,
            Policy::Lifetime | Policy::LifetimeAtOnce | Policy::LifetimeWhenMissing | Policy::Fragments => {
                message.with_lifetime(lifetime)
            }
            Policy::Retransmissions => message.with_max_retransmissions(retransmissions),
            Policy::Priority => message.with_priority(priority),
            Policy::Replacing => message.replacing(u64::from(number % 2)),
            Policy::Mixed => message.with_lifetime(lifetime).with_max_retransmissions(1).replacing(2).with_priority(1),
        }
    }
}

/// Returns the bytes of a message: the action for the peer, the policy that the peer uses for it, and a number.
pub(crate) fn payload(wish: u8, policy: u8, value: u16, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![wish, policy];
    bytes.extend(value.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    let filler = (bytes.len()..len).map(|index| (number as usize * 31 + index * 7).to_le_bytes()[0]);
    bytes.extend(filler.collect::<Vec<_>>());
    bytes
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self.policy {
            Policy::Reliable => "reliable",
            Policy::Lifetime => "lifetime",
            Policy::LifetimeAtOnce => "lifetime-at-once",
            Policy::LifetimeWhenMissing => "lifetime-when-missing",
            Policy::Retransmissions => "retransmissions",
            Policy::Priority => "priority",
            Policy::Replacing => "replacing",
            Policy::Mixed => "mixed",
            Policy::Fragments => "fragments",
        };
        let order = if self.unordered { "unordered" } else { "ordered" };
        let framing = if self.interleaving { "i-data" } else { "data" };
        let resets = if self.resets { "resets" } else { "no-resets" };
        write!(formatter, "{policy},{order},{framing},{resets},{}", self.profile)
    }
}
