//! A UDP datagram as a packet of a link.

use festina_netsim::LinkPacket;
use festina_units::ByteCount;

use super::clients::ClientId;
use crate::client_socket::ClientAddr;

/// A datagram on the proxy's links.
#[derive(Debug, Clone)]
pub(super) struct Datagram {
    pub(super) client: ClientId,
    pub(super) client_addr: ClientAddr,
    pub(super) payload: Vec<u8>,
}

const UDP_HEADER_BYTES: u64 = 8;
const IPV4_HEADER_BYTES: u64 = 20;
const IPV6_HEADER_BYTES: u64 = 40;

impl LinkPacket for Datagram {
    fn size(&self) -> ByteCount {
        let is_ipv4 = self.client_addr.canonical_remote().is_ipv4();
        let headers = UDP_HEADER_BYTES + if is_ipv4 { IPV4_HEADER_BYTES } else { IPV6_HEADER_BYTES };
        self.payload.size() + ByteCount::from_bytes(headers)
    }

    fn corrupt(&mut self, entropy: u64) {
        self.payload.corrupt(entropy);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn datagram(client_addr: &str) -> Datagram {
        Datagram {
            client: ClientId::default(),
            client_addr: client_addr.parse::<SocketAddr>().expect("a socket address").into(),
            payload: vec![0; 100],
        }
    }

    #[test]
    fn headers_count_towards_the_size() {
        assert_eq!(datagram("127.0.0.1:1").size(), ByteCount::from_bytes(128));
        assert_eq!(datagram("[::1]:1").size(), ByteCount::from_bytes(148));
    }

    #[test]
    fn corruption_touches_the_payload_only() {
        let mut datagram = datagram("127.0.0.1:1");
        datagram.corrupt(9);
        let flipped: u32 = datagram.payload.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(flipped, 1);
    }
}
