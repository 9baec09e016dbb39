//! The loopback device of a new network namespace, which is down at first.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// The kernel gives the loopback device this number in every namespace.
const LOOPBACK_INDEX: i32 = 1;

// From <linux/netlink.h>, <linux/rtnetlink.h> and <linux/if.h>.
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const IFF_UP: u32 = 1;
const MESSAGE_BYTES: u32 = 32;

/// Sets the loopback device of the calling thread's namespace up.
pub(super) fn set_up() -> io::Result<()> {
    // Without a protocol it is NETLINK_ROUTE, whose number is zero.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(), SendFlags::empty(), &kernel)?;
    let mut answer = [0; 512];
    let (len, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    outcome(answer.get(..len).unwrap_or_default())
}

/// A `struct nlmsghdr` and a `struct ifinfomsg` behind it.
fn request() -> Vec<u8> {
    const SEQUENCE: u32 = 1;
    const PORT: u32 = 0;
    let mut message = Vec::with_capacity(MESSAGE_BYTES as usize);
    message.extend(MESSAGE_BYTES.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    message.extend(SEQUENCE.to_ne_bytes());
    message.extend(PORT.to_ne_bytes());
    // Any family, padding, any type of device.
    message.extend([0; 4]);
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    // The flags, and which of them change.
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message
}

/// Reads the kernel's answer: an error whose number is zero on success.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..).and_then(|rest| rest.first_chunk()).map(|bytes| u16::from_ne_bytes(*bytes));
    let error = answer.get(16..).and_then(|rest| rest.first_chunk()).map(|bytes| i32::from_ne_bytes(*bytes));
    match (kind, error) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(error)) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        _ => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer about the loopback device is unclear"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_long_as_it_says() {
        assert_eq!(request().len(), MESSAGE_BYTES as usize);
    }

    #[test]
    fn an_answer_is_success_an_error_or_unclear() {
        let answer =
            |kind: u16, error: i32| [&[0; 4][..], &kind.to_ne_bytes(), &[0; 10], &error.to_ne_bytes()].concat();
        assert!(outcome(&answer(NLMSG_ERROR, 0)).is_ok());
        let refused = outcome(&answer(NLMSG_ERROR, -1)).expect_err("not permitted");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(outcome(&answer(RTM_NEWLINK, 0)).is_err());
        assert!(outcome(&[0; 7]).is_err());
    }
}
