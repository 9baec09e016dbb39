//! Twenty thousand associations from one address. It looks at the memory of the process.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use festina::{
    Admission, AssociationState, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig, Transport, now,
};
use festina_sctp::{Association, Context, Ports};
use festina_units::EcnCodepoint;

use crate::alone;
use crate::pings::ping;
use crate::resident::resident_bytes;

/// Associations that one host asks for.
const ATTEMPTS: u16 = 20_000;

/// Memory limit of all associations admitted by default, with room for buffers. All requested ones would need more.
const GROWTH_BYTES_MAX: u64 = 28 << 20;

/// Round trips measured before the crowd comes.
const QUIET_PINGS: usize = 200;

/// A busy machine may add this to the median of the round trips, and five times as much to the worst tenth of them.
const DELAY_FLOOR: Duration = Duration::from_millis(20);

/// A host that sets up associations and forgets them at once.
struct Host {
    socket: UdpSocket,
    server: SocketAddr,
    context: Arc<Context>,
}

impl Host {
    fn new(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        Self { socket, server, context: Context::new(Transport::default().into_core(), [7; 16]).unwrap() }
    }

    /// Whether the server took the association.
    fn attempt(&self, number: u16) -> bool {
        let ports = Ports { local: 10_000 + number, peer: DEFAULT_SCTP_PORT };
        let mut association = Association::connect(now(), &self.context, self.server, ports, number.into());
        let (mut packet, mut buffer) = (Vec::new(), [0; 2_048]);
        loop {
            match association.state() {
                AssociationState::Established => return true,
                AssociationState::Closed => return false,
                _ => {}
            }
            while association.poll_transmit(now(), &mut packet).is_some() {
                self.socket.send(&packet).unwrap();
                packet.clear();
            }
            match self.socket.recv(&mut buffer) {
                // Packets for an earlier one are dropped.
                Ok(len) => drop(association.handle_packet(
                    now(),
                    self.server,
                    EcnCodepoint::NotCapable,
                    &Bytes::copy_from_slice(&buffer[..len]),
                )),
                Err(_) => association.handle_timeout(now()),
            }
        }
    }
}

#[test]
fn one_address_gets_as_many_associations_as_the_default_allows_whatever_it_asks_for() {
    alone(2, || async {
        let server = Endpoint::server("127.0.0.1:0".parse().unwrap(), ServerConfig::plain()).await.unwrap();
        let allowed = Admission::default().associations_per_address_max();
        let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
        let client = Endpoint::client("127.0.0.1:0".parse().unwrap(), ClientConfig::plain()).await.unwrap();
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        tokio::spawn(async move {
            while let Ok(Some(message)) = far.recv().await {
                far.send(Message::new(message.into_payload())).await.unwrap();
            }
        });
        let accepting = tokio::spawn(async move {
            let mut accepted = Vec::new();
            while let Some(association) = listener.accept().await {
                accepted.push(association);
            }
        });
        let (quiet, _) = ping(&near, |pings| pings >= QUIET_PINGS).await;
        let before = resident_bytes(std::process::id());
        let host = Host::new(server.local_addr());
        let crowd = tokio::task::spawn_blocking(move || (0..ATTEMPTS).filter(|number| host.attempt(*number)).count());
        let (crowded, _) = ping(&near, |pings| pings >= QUIET_PINGS && crowd.is_finished()).await;
        // The one that was there before has the same address. A client that a busy machine keeps waiting may give up although the server took it.
        let taken = 1 + crowd.await.unwrap();
        assert!((allowed - 10..=allowed).contains(&taken), "{taken} of {allowed}");
        assert_eq!(server.stats().associations, allowed as u64);
        assert!(server.stats().associations_refused >= u64::from(ATTEMPTS) - allowed as u64);
        if let Some(((before, _), (_, most))) = before.zip(resident_bytes(std::process::id())) {
            let growth = most.saturating_sub(before);
            println!("{} KiB more", growth / 1_024);
            assert!(growth <= GROWTH_BYTES_MAX, "{} KiB more", growth / 1_024);
        }
        println!("{crowded:?}, {quiet:?} when quiet");
        assert!(crowded.median <= quiet.median * 10 + DELAY_FLOOR, "{crowded:?}, {quiet:?} when quiet");
        assert!(crowded.worst_tenth <= quiet.worst_tenth * 10 + 5 * DELAY_FLOOR, "{crowded:?}, {quiet:?} when quiet");
        accepting.abort();
    });
}
