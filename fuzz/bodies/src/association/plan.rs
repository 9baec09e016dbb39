//! The meaning of the fuzzer's input: settings, and a list of operations.

use arbitrary::Arbitrary;

use crate::chunks::Forgery;
use crate::settings::{MechanismsPlan, Setup, Side};

/// One run.
#[derive(Arbitrary, Debug)]
pub(crate) struct Plan {
    pub(crate) setup: Setup,
    pub(crate) operations: Vec<Operation>,
}

/// An operation. `to` is the host that gets a packet.
#[derive(Arbitrary, Debug)]
pub(crate) enum Operation {
    /// The genuine packet at this place of the link arrives.
    Deliver {
        to: Side,
        place: u8,
    },
    /// This number of genuine packets arrives, in order.
    DeliverAll {
        to: Side,
        count: u8,
    },
    Drop {
        to: Side,
        place: u8,
    },
    Duplicate {
        to: Side,
        place: u8,
    },
    /// A genuine packet is changed in transit; its checksum is corrected or not.
    Mutate {
        to: Side,
        place: u8,
        offset: u16,
        xor: u8,
        seal: bool,
    },
    /// A packet that was on a link before arrives (again).
    Replay {
        to: Side,
        which: u8,
        port: u8,
    },
    Raw {
        to: Side,
        bytes: Vec<u8>,
    },
    Forge {
        to: Side,
        forgery: Forgery,
    },
    /// A packet for no association.
    ToListener {
        to: Side,
        forgery: Forgery,
        stranger: bool,
    },
    Send {
        from: Side,
        message: MessagePlan,
    },
    Read {
        at: Side,
        count: u8,
    },
    PollEvents {
        at: Side,
    },
    /// Time passes, and timers run.
    Wait {
        milliseconds: u16,
    },
    /// Time advances to the next timer.
    WaitForTimer,
    SetMechanisms {
        at: Side,
        mechanisms: MechanismsPlan,
    },
    Shutdown {
        at: Side,
    },
    Abort {
        at: Side,
        reason_bytes: u16,
    },
    /// The host forgets its association and restarts.
    Restart {
        at: Side,
    },
    StopListening {
        at: Side,
    },
}

#[derive(Arbitrary, Debug)]
pub(crate) struct MessagePlan {
    pub(crate) bytes: u16,
    pub(crate) stream: u8,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) lifetime_ms: Option<u8>,
}
