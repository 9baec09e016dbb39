//! The meaning of the fuzzer's input: settings, and a list of operations.

use arbitrary::{Arbitrary, Unstructured};

use crate::chunks::Forgery;
use crate::settings::{MechanismsPlan, Setup, Side};

/// One run.
#[derive(Arbitrary, Debug)]
pub(crate) struct Plan {
    pub(crate) setup: Setup,
    /// Seed of the links' random decisions.
    pub(crate) seed: u64,
    pub(crate) opening: Opening,
    pub(crate) ending: Ending,
    pub(crate) operations: Operations,
}

/// All operations in the input. The number is not random, so that long dialogues are as common as short ones.
#[derive(Debug)]
pub(crate) struct Operations(pub(crate) Vec<Operation>);

/// Maximum number of operations of one run.
const OPERATIONS_MAX: usize = 300;

impl<'a> Arbitrary<'a> for Operations {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let mut operations = Vec::new();
        while !input.is_empty() && operations.len() < OPERATIONS_MAX {
            operations.push(input.arbitrary()?);
        }
        Ok(Self(operations))
    }
}

/// The side that begins.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Client,
    Both,
    /// Both, and one side restarts while their handshakes cross.
    Torn(Tear),
}

/// One side loses its state after some packets and timers, and connects again. Its earlier packets are delayed, so that
/// the other side may receive those of the new incarnation first.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tear {
    pub(crate) at: Side,
    pub(crate) steps: u8,
    pub(crate) late_ms: u8,
}

/// The end of a run, over a link that has recovered.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything is delivered, then one side shuts down.
    Drained(Side),
    /// One side shuts down at once.
    AtOnce(Side),
    /// One side shuts down although the other does not read any more.
    Deaf(Side),
}

/// An operation.
#[derive(Arbitrary, Debug)]
pub(crate) enum Operation {
    Send {
        from: Side,
        message: MessagePlan,
        count: u8,
    },
    Read {
        at: Side,
        count: u8,
    },
    /// From now on messages are read as soon as they arrive, or not.
    ReadAll {
        at: Side,
        on: bool,
    },
    /// Time passes, from nanoseconds to hours.
    Wait(Span),
    /// Time advances to the next packet or timer.
    Step,
    /// The link towards a host changes.
    Link {
        to: Side,
        link: LinkPlan,
    },
    /// The packets in transit towards a host are delayed, so that later ones overtake them.
    Late {
        to: Side,
        by: Span,
    },
    /// The next packets towards a host are padded.
    Pad {
        to: Side,
        packets: u8,
        padding: Padding,
    },
    SetMechanisms {
        at: Side,
        mechanisms: MechanismsPlan,
    },
    /// Resets streams on which the host sends, or asks the peer to reset those on which the peer sends. An empty list
    /// means all.
    Reset {
        at: Side,
        asked: bool,
        stream: Option<u8>,
    },
    AddStreams {
        at: Side,
        outbound: u8,
        inbound: u8,
    },
    /// Sets the scheduler's value for a stream.
    SetStreamValue {
        at: Side,
        stream: u8,
        value: u8,
    },
    Connect {
        at: Side,
    },
    Shutdown {
        at: Side,
    },
    Abort {
        at: Side,
    },
    /// The host loses all its state, and restarts or waits.
    Restart {
        at: Side,
        connects: bool,
    },
    /// The host's packets come from another UDP port from now on.
    Rebind {
        at: Side,
    },
    /// An attacker that knows the tags sends a packet.
    Attack {
        to: Side,
        forgery: Forgery,
    },
}

/// `mantissa` times two to the power of `exponent` nanoseconds.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) mantissa: u8,
    pub(crate) exponent: u8,
}

/// Probabilities are in 256ths.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkPlan {
    pub(crate) delay: Span,
    pub(crate) jitter: Span,
    pub(crate) loss: u8,
    pub(crate) duplication: u8,
    pub(crate) corruption: u8,
}

/// A chunk that is added behind those of a packet.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Padding {
    /// The low bits of a chunk type whose highest bit means that it is to be skipped.
    pub(crate) chunk_type: u8,
    pub(crate) bytes: u16,
}

#[derive(Arbitrary, Debug)]
pub(crate) struct MessagePlan {
    pub(crate) bytes: u16,
    pub(crate) stream: u8,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) lifetime: Option<Span>,
    /// A lifetime that ends at a point in time, from now on.
    pub(crate) deadline: Option<Span>,
    pub(crate) retransmissions: Option<u8>,
    pub(crate) priority: Option<u8>,
    /// The message replaces an older one with this key.
    pub(crate) key: Option<u8>,
}
