//! What the fuzzer's input means: settings, and a list of operations.

use arbitrary::Arbitrary;

/// One run.
#[derive(Arbitrary, Debug)]
pub struct Plan {
    pub setup: Setup,
    pub operations: Vec<Operation>,
}

/// Settings of both sides.
#[derive(Arbitrary, Debug)]
pub struct Setup {
    pub mechanisms: MechanismsPlan,
    pub packet_bytes: u16,
    pub receive_buffer_bytes: u16,
    pub send_buffer_bytes: u16,
    pub message_bytes: u16,
    pub streams: u8,
    pub sack_delay_ms: u8,
    pub round_robin: bool,
    pub message_events: bool,
    pub heartbeats: bool,
}

/// How losses are recovered.
#[derive(Arbitrary, Debug)]
pub struct MechanismsPlan {
    /// The profile whose rules hold while the stream is not thin.
    pub normal: u8,
    /// The profile whose rules hold while it is, and which may tell when that is so.
    pub thin: u8,
    pub redundancy: u8,
    /// Whether needless timeouts and cuts are looked for.
    pub doubts: bool,
}

/// One of the two hosts.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Side {
    Client,
    Server,
}

/// One thing that happens. `to` is the host that a packet is given to.
#[derive(Arbitrary, Debug)]
pub enum Operation {
    /// The genuine packet at this place of the link arrives.
    Deliver {
        to: Side,
        place: u8,
    },
    /// As many genuine packets as that arrive, in order.
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
    /// A genuine packet is changed on its way; its checksum is made right again or not.
    Mutate {
        to: Side,
        place: u8,
        offset: u16,
        xor: u8,
        seal: bool,
    },
    /// Some packet that once was on a link arrives (again).
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
    /// Time goes by, timers run.
    Wait {
        milliseconds: u16,
    },
    /// Time goes to the next timer.
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
    /// The host forgets its association and begins anew.
    Restart {
        at: Side,
    },
    StopListening {
        at: Side,
    },
}

#[derive(Arbitrary, Debug)]
pub struct MessagePlan {
    pub bytes: u16,
    pub stream: u8,
    pub unordered: bool,
    pub immediate: bool,
    pub lifetime_ms: Option<u8>,
}

/// A packet that the attacker makes up: its checksum is right.
#[derive(Arbitrary, Debug)]
pub struct Forgery {
    pub tag: TagPlan,
    pub right_ports: bool,
    pub chunks: Vec<ChunkPlan>,
}

/// Which verification tag a forged packet carries.
#[derive(Arbitrary, Debug)]
pub enum TagPlan {
    /// The receiver's own: the attacker knows it.
    Right,
    /// The one that the receiver sends with.
    Reflected,
    Zero,
    Other(u32),
}

/// TSNs are relative to what would be right.
#[derive(Arbitrary, Debug)]
pub enum ChunkPlan {
    Data { tsn: i16, stream: u16, ssn: u16, flags: u8, bytes: u16 },
    DataRow { tsn: i16, step: u8, count: u8, stream: u8, flags: u8, bytes: u8 },
    Sack { tsn: i16, a_rwnd: u32, gaps: Vec<(u16, u16)>, duplicates: Vec<i16> },
    Init { ack: bool, tag: u32, a_rwnd: u32, streams: (u16, u16), tsn: u32, parameters: Vec<ParameterPlan> },
    CookieEcho { which: u8, change: Option<(u8, u8)> },
    CookieAck,
    Heartbeat { bytes: u16 },
    HeartbeatAck { bytes: u16 },
    Error { causes: Vec<CausePlan> },
    Abort { tag_reflected: bool, causes: Vec<CausePlan> },
    Shutdown { tsn: i16 },
    ShutdownAck,
    ShutdownComplete { tag_reflected: bool },
    Unknown { chunk_type: u8, flags: u8, bytes: u16 },
}

#[derive(Arbitrary, Debug)]
pub enum ParameterPlan {
    Cookie { bytes: u16 },
    Preservative(u32),
    HostName { bytes: u16 },
    Extensions(Vec<u8>),
    ForwardTsn,
    Unknown { parameter_type: u16, bytes: u16, repeats: u8 },
}

#[derive(Arbitrary, Debug)]
pub enum CausePlan {
    StaleCookie(u32),
    UserAbort { bytes: u16 },
    Violation { bytes: u16 },
    OutOfResource { repeats: u16 },
    NoUserData(u32),
    Unknown { code: u16, bytes: u16 },
}
