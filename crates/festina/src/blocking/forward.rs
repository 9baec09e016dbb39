//! The calls of associations that never wait, which are the same without `async`.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use festina_sctp::recovery::redundancy::Redundancy;
use festina_sctp::{
    AbandonedStats, AssociationState, ClosedReason, Message, MessageId, PathId, PathStats, PathStatus, Ports,
    ReconfigureError, SendError, Stats, StreamId,
};

use super::Association;
use crate::Streams;
use crate::endpoint::Request;
use crate::error::WrongScheduler;
use crate::recovery::Profile;
use crate::security::PeerIdentity;

/// Calls of this name and these arguments on the association that the handle keeps.
macro_rules! forward {
    ($($(#[$more:meta])* $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = concat!(
                "As [`festina::Association::", stringify!($name), "`](crate::Association::", stringify!($name), ")."
            )]
            $(#[$more])*
            pub fn $name(&self, $($argument: $kind),*) $(-> $result)? {
                self.native().$name($($argument),*)
            }
        )*
    };
}

/// Calls that never wait.
impl Association {
    forward! {
        /// # Errors
        /// As there. Each returns the message.
        try_send(message: impl Into<Message>) -> Result<MessageId, SendError>;
        /// # Errors
        /// As there. The message that failed is at the front of the queue.
        try_send_many(messages: &mut VecDeque<Message>) -> Result<(), SendError>;
        message_bytes_max() -> usize;
        events_missed() -> u64;
        close_reason() -> Option<ClosedReason>;
        abort(reason: &str);
        stats() -> Stats;
        path_stats() -> Vec<PathStats>;
        paths() -> Vec<PathStatus>;
        set_primary_path(path: PathId) -> bool;
        id() -> u64;
        #[doc(alias = "peer_addr")]
        remote_addr() -> SocketAddr;
        peer_addresses() -> Vec<IpAddr>;
        ports() -> Ports;
        state() -> AssociationState;
        profile() -> Option<Profile>;
        set_profile(profile: Profile);
        set_redundancy(redundancy: Redundancy);
    }
}

impl Association {
    /// Exports the counters of the association as [`Metrics::show_association`](crate::Metrics::show_association) does. Returns whether there was room.
    #[cfg(feature = "prometheus")]
    pub fn show_in(&self, metrics: &crate::Metrics) -> bool {
        metrics.show_association(self.native())
    }
}

/// Streams.
impl Association {
    forward! {
        streams() -> Streams;
        abandoned_on(stream: impl Into<StreamId>) -> AbandonedStats;
        /// # Errors
        /// As there.
        set_stream_priority(stream: impl Into<StreamId>, priority: u16) -> Result<(), WrongScheduler>;
        /// # Errors
        /// As there.
        set_stream_weight(stream: impl Into<StreamId>, weight: u16) -> Result<(), WrongScheduler>;
        /// # Errors
        /// As there.
        reset_streams(streams: &[StreamId]) -> Result<(), ReconfigureError>;
        /// # Errors
        /// As there.
        reset_all_streams() -> Result<(), ReconfigureError>;
        /// # Errors
        /// As there.
        request_reset(streams: &[StreamId]) -> Result<(), ReconfigureError>;
        /// # Errors
        /// As there.
        request_reset_all() -> Result<(), ReconfigureError>;
        /// # Errors
        /// As there.
        add_streams(outbound: u16, inbound: u16) -> Result<(), ReconfigureError>;
        discard_stream(stream: impl Into<StreamId>) -> usize;
        resume_stream(stream: impl Into<StreamId>);
    }
}

/// Encryption and identity.
impl Association {
    forward! {
        is_encrypted() -> bool;
        peer_identity() -> Option<PeerIdentity>;
        alpn() -> Option<Vec<u8>>;
        request() -> Option<Request>;
        is_resumed() -> bool;
        try_recv_early() -> Option<Message>;
        update_keys() -> bool;
    }
}
