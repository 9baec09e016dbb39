//! Linux's numbers for RFC 6458: `netinet/sctp.h`, `linux/sctp.h` and `errno.h`.

/// Protocol number of SCTP, and the level of its options and control messages.
pub const IPPROTO_SCTP: i32 = 132;

/// Flags of messages (`sinfo_flags`, `snd_flags`, `rcv_flags`).
pub mod flag {
    /// Deliver regardless of the stream's order.
    pub const UNORDERED: u16 = 1;
    /// Send to the address given instead of the primary one.
    pub const ADDR_OVER: u16 = 2;
    /// Abort the association.
    pub const ABORT: u16 = 4;
    /// Ask for an immediate SACK.
    pub const SACK_IMMEDIATELY: u16 = 8;
    /// Send to all associations of the socket.
    pub const SENDALL: u16 = 64;
    /// Shut the association down after this message.
    pub const EOF: u16 = 0x200;
    /// The bits of the partial-reliability policy.
    pub const POLICY: u16 = 0x30;
    /// Limited lifetime.
    pub const TTL: u16 = 0x10;
    /// Limited number of retransmissions.
    pub const RTX: u16 = 0x20;
    /// Priority.
    pub const PRIO: u16 = 0x30;
}

/// Flags of `recvmsg`.
pub mod msg {
    /// The end of a message.
    pub const EOR: i32 = 0x80;
    /// A notification and not a message.
    pub const NOTIFICATION: i32 = 0x8000;
}

/// Types of control messages.
pub mod cmsg {
    /// `struct sctp_initmsg`.
    pub const INIT: i32 = 0;
    /// `struct sctp_sndrcvinfo`.
    pub const SNDRCV: i32 = 1;
    /// `struct sctp_sndinfo`.
    pub const SNDINFO: i32 = 2;
    /// `struct sctp_rcvinfo`.
    pub const RCVINFO: i32 = 3;
    /// `struct sctp_prinfo`.
    pub const PRINFO: i32 = 5;
}

/// Types of notifications.
pub mod event {
    /// `sctp_data_io_event`, which is no notification: ancillary data with each message.
    pub const DATA_IO: u16 = 0x8000;
    /// The state of an association has changed.
    pub const ASSOC_CHANGE: u16 = 0x8001;
    /// The state of a peer's address has changed.
    pub const PEER_ADDR_CHANGE: u16 = 0x8002;
    /// A message was not delivered, with `sctp_sndrcvinfo`.
    pub const SEND_FAILED: u16 = 0x8003;
    /// The peer has reported an error.
    pub const REMOTE_ERROR: u16 = 0x8004;
    /// The peer has begun to shut down.
    pub const SHUTDOWN: u16 = 0x8005;
    /// Everything sent was acknowledged.
    pub const SENDER_DRY: u16 = 0x8009;
    /// Streams were reset.
    pub const STREAM_RESET: u16 = 0x800a;
    /// Streams were added.
    pub const STREAM_CHANGE: u16 = 0x800c;
    /// Types from `DATA_IO` to the last, `SEND_FAILED_EVENT`.
    pub const COUNT: u16 = 14;
}

/// Options at the level of SCTP.
pub mod option {
    /// `sctp_bindx` with `SCTP_BINDX_ADD_ADDR`.
    pub const BINDX_ADD: i32 = 100;
    /// `sctp_bindx` with `SCTP_BINDX_REM_ADDR`.
    pub const BINDX_REM: i32 = 101;
    /// `sctp_peeloff`.
    pub const PEELOFF: i32 = 102;
    /// `sctp_connectx` of the oldest libraries.
    pub const CONNECTX_OLD: i32 = 107;
    /// `sctp_connectx` as an option that is set.
    pub const CONNECTX: i32 = 110;
    /// `sctp_connectx` as an option that is got, with a pointer to the addresses.
    pub const CONNECTX3: i32 = 111;
    /// `sctp_peeloff_flags`.
    pub const PEELOFF_FLAGS: i32 = 122;
}

/// Errors, by their numbers on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names are those of errno(3)")]
pub enum Errno {
    EIO = 5,
    EBADF = 9,
    ENOMEM = 12,
    EACCES = 13,
    EINVAL = 22,
    EMFILE = 24,
    EPIPE = 32,
    EPROTO = 71,
    EMSGSIZE = 90,
    ENOPROTOOPT = 92,
    ESOCKTNOSUPPORT = 94,
    EOPNOTSUPP = 95,
    EADDRINUSE = 98,
    EADDRNOTAVAIL = 99,
    ENETUNREACH = 101,
    ECONNABORTED = 103,
    ECONNRESET = 104,
    EISCONN = 106,
    ENOTCONN = 107,
    ETIMEDOUT = 110,
    ECONNREFUSED = 111,
    EHOSTUNREACH = 113,
    EALREADY = 114,
    EINPROGRESS = 115,
}
