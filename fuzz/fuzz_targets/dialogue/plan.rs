//! What the fuzzer's input means: settings, and a list of operations.

use arbitrary::{Arbitrary, Unstructured};

use crate::chunks::Forgery;
use crate::settings::{MechanismsPlan, Setup, Side};

/// One run.
#[derive(Arbitrary, Debug)]
pub struct Plan {
    pub setup: Setup,
    /// What the links make of their probabilities.
    pub seed: u64,
    pub opening: Opening,
    pub ending: Ending,
    pub operations: Operations,
}

/// As many operations as the input holds: one more is not a matter of chance, so that long dialogues are as common as short ones.
#[derive(Debug)]
pub struct Operations(pub Vec<Operation>);

/// Operations of one run.
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

/// Who begins.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Client,
    Both,
    /// Both, and one side restarts while their handshakes cross.
    Torn(Tear),
}

/// One side loses its memory after some packets and timers, and connects again. Its earlier packets come late, so that the other
/// side may learn of the new incarnation first.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tear {
    pub at: Side,
    pub steps: u8,
    pub late_ms: u8,
}

/// How it ends, over a link that has healed.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything is delivered, then one side shuts down.
    Drained(Side),
    /// One side shuts down at once.
    AtOnce(Side),
    /// One side shuts down although the other reads nothing any more.
    Deaf(Side),
}

/// One thing that happens.
#[derive(Arbitrary, Debug)]
pub enum Operation {
    Send {
        from: Side,
        message: MessagePlan,
        count: u8,
    },
    Read {
        at: Side,
        count: u8,
    },
    /// From now on messages are read as soon as they come, or not.
    ReadAll {
        at: Side,
        on: bool,
    },
    /// Time goes by, from nanoseconds to hours.
    Wait(Span),
    /// Time goes to the next packet or timer.
    Step,
    /// The link towards a host changes.
    Link {
        to: Side,
        link: LinkPlan,
    },
    /// The packets under way towards a host are late, so that those sent later overtake them.
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
    /// Resets streams: those that the host sends on, or those that it asks its peer to reset. None stands for all.
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
    /// What the scheduler goes by for a stream.
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
    /// The host loses all its memory, and restarts or waits.
    Restart {
        at: Side,
        connects: bool,
    },
    /// The host's packets come from another UDP port from now on.
    Rebind {
        at: Side,
    },
    /// An attacker who knows the tags sends a packet.
    Attack {
        to: Side,
        forgery: Forgery,
    },
}

/// `mantissa` times two to the power of `exponent` nanoseconds.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub mantissa: u8,
    pub exponent: u8,
}

/// Probabilities are in 256ths.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    pub delay: Span,
    pub jitter: Span,
    pub loss: u8,
    pub duplication: u8,
    pub corruption: u8,
}

/// A chunk that is added behind those of a packet.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Padding {
    /// The low bits of a chunk type whose highest bit says that it is to be skipped.
    pub chunk_type: u8,
    pub bytes: u16,
}

#[derive(Arbitrary, Debug)]
pub struct MessagePlan {
    pub bytes: u16,
    pub stream: u8,
    pub unordered: bool,
    pub immediate: bool,
    pub lifetime: Option<Span>,
    /// A lifetime that ends at a point in time, from now on.
    pub deadline: Option<Span>,
    pub retransmissions: Option<u8>,
    pub priority: Option<u8>,
    /// The message replaces an older one with this key.
    pub key: Option<u8>,
}
