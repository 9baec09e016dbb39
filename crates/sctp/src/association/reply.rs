//! Chunks that are due: by name, and answers to the peer's chunks.

use crate::path_id::PathId;
use crate::wire::{ReConfigResult, StreamId};

/// Control chunks that are due once, by name; the state has their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due(pub(super) u8);

impl Due {
    pub(crate) const INIT: Self = Self(1);
    pub(crate) const COOKIE_ECHO: Self = Self(2);
    pub(crate) const COOKIE_ACK: Self = Self(4);
    pub(crate) const SHUTDOWN: Self = Self(8);
    pub(crate) const SHUTDOWN_ACK: Self = Self(16);
    pub(crate) const RE_CONFIG: Self = Self(32);
}

/// A chunk that answers something the peer sent. It holds copies, since a slice would keep its whole packet alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    HeartbeatAck { path: PathId, info: Box<[u8]> },
    InvalidStream(StreamId),
    UnrecognizedChunk(Box<[u8]>),
    UnrecognizedParameters(Box<[u8]>),
    CookieWhileShuttingDown,
    ReConfigResponse { response: u32, result: ReConfigResult },
    BadReConfig,
}

impl Reply {
    /// The path by which it leaves: a HEARTBEAT is answered to its source (RFC 9260 §8.3).
    pub(crate) fn path(&self) -> Option<PathId> {
        match self {
            Self::HeartbeatAck { path, .. } => Some(*path),
            _ => None,
        }
    }
}
