//! Notifications (RFC 6458 §6) in Linux's layout.

use std::net::SocketAddr;

use crate::address;
use crate::numbers::event;

/// `sac_state` of an association that is up.
pub(super) const COMM_UP: u16 = 0;
/// `sac_state` of an association that has failed.
pub(super) const COMM_LOST: u16 = 1;
/// `sac_state` of an association whose peer has restarted.
pub(super) const RESTART: u16 = 2;
/// `sac_state` of an association that was shut down.
pub(super) const SHUTDOWN_COMP: u16 = 3;
/// `sac_state` of an association that could not be set up.
pub(super) const CANT_STR_ASSOC: u16 = 4;
/// `spc_state` of an address that answers again.
pub(super) const ADDR_AVAILABLE: i32 = 0;
/// `spc_state` of an address that does not answer.
pub(super) const ADDR_UNREACHABLE: i32 = 1;
/// `spc_state` of an address that has answered for the first time.
pub(super) const ADDR_CONFIRMED: i32 = 5;

/// Begins a notification. [`finish`] fills in its length.
fn begin(kind: u16, flags: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes
}

fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes[4..8].copy_from_slice(&length.to_ne_bytes());
    bytes
}

/// `struct sctp_assoc_change`.
pub(super) fn association_change(state: u16, error: u16, (outbound, inbound): (u16, u16), association: i32) -> Vec<u8> {
    let mut bytes = begin(event::ASSOC_CHANGE, 0);
    for number in [state, error, outbound, inbound] {
        bytes.extend(number.to_ne_bytes());
    }
    bytes.extend(association.to_ne_bytes());
    finish(bytes)
}

/// `struct sctp_paddr_change`.
pub(super) fn address_change(peer: SocketAddr, state: i32, association: i32) -> Vec<u8> {
    let mut bytes = begin(event::PEER_ADDR_CHANGE, 0);
    address::write_storage(peer, &mut bytes);
    bytes.extend(state.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(association.to_ne_bytes());
    finish(bytes)
}

/// `struct sctp_send_failed`: the error, `struct sctp_sndrcvinfo` and the data.
pub(super) fn send_failed(was_sent: bool, error: u32, info: &[u8], data: &[u8], association: i32) -> Vec<u8> {
    let mut bytes = begin(event::SEND_FAILED, u16::from(was_sent));
    bytes.extend(error.to_ne_bytes());
    bytes.extend(info);
    bytes.extend(association.to_ne_bytes());
    bytes.extend(data);
    finish(bytes)
}

/// `struct sctp_remote_error`.
pub(super) fn remote_error(code: u16, info: &[u8], association: i32) -> Vec<u8> {
    let mut bytes = begin(event::REMOTE_ERROR, 0);
    bytes.extend(code.to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(association.to_ne_bytes());
    bytes.extend(info);
    finish(bytes)
}

/// `struct sctp_shutdown_event` and `struct sctp_sender_dry_event`.
pub(super) fn plain(kind: u16, association: i32) -> Vec<u8> {
    let mut bytes = begin(kind, 0);
    bytes.extend(association.to_ne_bytes());
    finish(bytes)
}

/// `struct sctp_stream_reset_event`.
pub(super) fn stream_reset(flags: u16, streams: &[u16], association: i32) -> Vec<u8> {
    let mut bytes = begin(event::STREAM_RESET, flags);
    bytes.extend(association.to_ne_bytes());
    bytes.extend(streams.iter().flat_map(|stream| stream.to_ne_bytes()));
    finish(bytes)
}

/// `struct sctp_stream_change_event`.
pub(super) fn stream_change(flags: u16, (inbound, outbound): (u16, u16), association: i32) -> Vec<u8> {
    let mut bytes = begin(event::STREAM_CHANGE, flags);
    bytes.extend(association.to_ne_bytes());
    bytes.extend(inbound.to_ne_bytes());
    bytes.extend(outbound.to_ne_bytes());
    finish(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_structures() {
        let peer = "127.0.0.1:7".parse().unwrap();
        let lengths = [
            association_change(COMM_UP, 0, (1, 2), 3),
            address_change(peer, ADDR_AVAILABLE, 3),
            send_failed(true, 0, &[0; 32], b"", 3),
            remote_error(3, b"", 3),
            plain(event::SHUTDOWN, 3),
        ]
        .map(|bytes| (bytes.len(), u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])));
        assert_eq!(lengths, [(20, 20), (148, 148), (48, 48), (16, 16), (12, 12)]);
    }
}
