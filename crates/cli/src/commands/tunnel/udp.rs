//! Datagrams through a tunnel. A message is the number of a client (32 bits, network byte order) and the datagram; it may
//! overtake others, and is given up when it is too old.
//!
//! - [`entrance`]: where programs send to
//! - [`held`]: datagrams that wait for an association
//! - [`outlet`]: the sockets to the server

mod entrance;
mod held;
mod outlet;

use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use festina::Message;

use super::losses::Losses;

pub(super) use self::entrance::run;
pub(super) use self::outlet::{ExitSettings, take_out};

/// A client that was idle for this long has left. RFC 4787 §4.3 recommends five minutes for UDP mappings.
const IDLE_TIME: Duration = Duration::from_secs(300);
/// No UDP datagram is longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;
const NUMBER_BYTES: usize = 4;

/// Clients that lose their place in a table with this many seats although they may come back.
fn forgotten(clients_max: usize) -> Losses {
    Losses::new(format!(
        "clients were forgotten to make room for new ones although they were not idle: --clients-max is {clients_max}"
    ))
}

fn message(number: u32, datagram: &[u8], lifetime: Duration) -> Message {
    let mut payload = BytesMut::with_capacity(NUMBER_BYTES + datagram.len());
    payload.put_u32(number);
    payload.put_slice(datagram);
    Message::new(payload.freeze()).unordered().with_lifetime(lifetime)
}

/// The client's number and the datagram; `None` if that is no such message.
fn split(mut message: Bytes) -> Option<(u32, Bytes)> {
    Some((message.try_get_u32().ok()?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_client_and_keeps_the_datagram() {
        for datagram in [&b"hello"[..], b""] {
            let message = message(7, datagram, Duration::from_secs(1));
            assert!(message.is_unordered());
            assert_eq!(split(message.into_payload()), Some((7, Bytes::copy_from_slice(datagram))));
        }
        assert_eq!(split(Bytes::from_static(b"abc")), None);
    }
}
