//! The parts of a forged packet.

use arbitrary::Arbitrary;

/// A packet that the attacker invents, with a correct checksum.
#[derive(Arbitrary, Debug)]
pub(crate) struct Forgery {
    pub(crate) tag: TagPlan,
    pub(crate) right_ports: bool,
    pub(crate) chunks: Vec<ChunkPlan>,
}

/// The verification tag of a forged packet.
#[derive(Arbitrary, Debug)]
pub(crate) enum TagPlan {
    /// The receiver's own: the attacker knows it.
    Right,
    /// The tag in packets that the receiver sends.
    Reflected,
    Zero,
    Other(u32),
}

/// TSNs are relative to the right ones.
#[derive(Arbitrary, Debug)]
pub(crate) enum ChunkPlan {
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
    Ecne { tsn: i16 },
    Cwr { tsn: i16 },
}

#[derive(Arbitrary, Debug)]
pub(crate) enum ParameterPlan {
    Cookie { bytes: u16 },
    Preservative(u32),
    HostName { bytes: u16 },
    Extensions(Vec<u8>),
    ForwardTsn,
    Unknown { parameter_type: u16, bytes: u16, repeats: u8 },
    Ecn,
}

#[derive(Arbitrary, Debug)]
pub(crate) enum CausePlan {
    StaleCookie(u32),
    UserAbort { bytes: u16 },
    Violation { bytes: u16 },
    OutOfResource { repeats: u16 },
    NoUserData(u32),
    Unknown { code: u16, bytes: u16 },
}
