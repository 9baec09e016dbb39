//! A peer behind a NAT whose UDP port changes (RFC 6951 §5.4).

use std::net::SocketAddr;

use festina::{ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, Event, Message, PathId};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::encrypted::configs;
use crate::support::{endpoint, endpoint_with, in_time, until};

/// Passes datagrams between one client and a server. A socket that is sent to it takes the place of the one that the server
/// sees.
struct Nat {
    address: SocketAddr,
    outside: mpsc::Sender<UdpSocket>,
}

impl Nat {
    async fn new(server: SocketAddr, mut outside: UdpSocket) -> Self {
        let inside = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = inside.local_addr().unwrap();
        let (sender, mut receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut client = None;
            let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                tokio::select! {
                    received = inside.recv_from(&mut there) => {
                        let (len, from) = received.unwrap();
                        client = Some(from);
                        outside.send_to(&there[..len], server).await.unwrap();
                    }
                    received = outside.recv_from(&mut back) => {
                        let (len, _) = received.unwrap();
                        inside.send_to(&back[..len], client.unwrap()).await.unwrap();
                    }
                    socket = receiver.recv() => match socket {
                        Some(socket) => outside = socket,
                        None => return,
                    },
                }
            }
        });
        Self { address, outside: sender }
    }
}

async fn socket_at(address: &str) -> UdpSocket {
    UdpSocket::bind(address).await.unwrap()
}

async fn connect(client: &Endpoint, nat: &Nat) -> festina::Association {
    let options = ConnectOptions::default().local_port(7_000);
    in_time(client.connect_with(nat.address, options)).await.unwrap()
}

#[tokio::test]
async fn an_association_follows_its_peer_to_another_udp_port_and_leaves_the_old_one_to_others() {
    let server = endpoint().await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let old = socket_at("127.0.0.1:0").await;
    let old_address = old.local_addr().unwrap().to_string();
    let nat = Nat::new(server.local_addr(), old).await;
    let client = endpoint().await;
    let first = connect(&client, &nat).await;
    let at_server = in_time(listener.accept()).await.unwrap();
    assert_eq!(at_server.remote_addr().to_string(), old_address);

    let new = socket_at("127.0.0.1:0").await;
    let new_address = new.local_addr().unwrap();
    nat.outside.send(new).await.unwrap();
    in_time(first.send(Message::new("from elsewhere"))).await.unwrap();
    assert_eq!(in_time(at_server.recv()).await.unwrap().unwrap().payload, "from elsewhere");
    assert_eq!(at_server.remote_addr(), new_address);
    in_time(at_server.send(Message::new("to there"))).await.unwrap();
    assert_eq!(in_time(first.recv()).await.unwrap().unwrap().payload, "to there");

    // Another client may now have the old UDP port, with the same SCTP ports.
    let other_nat = Nat::new(server.local_addr(), socket_at(&old_address).await).await;
    let other_client = endpoint().await;
    let second = connect(&other_client, &other_nat).await;
    let also_at_server = in_time(listener.accept()).await.unwrap();
    in_time(second.send(Message::new("newcomer"))).await.unwrap();
    assert_eq!(in_time(also_at_server.recv()).await.unwrap().unwrap().payload, "newcomer");

    in_time(first.shutdown()).await.unwrap();
    in_time(second.shutdown()).await.unwrap();
    until("both are gone", || server.stats().associations == 0).await;
}

/// The second address is another loopback address where the system has more than one.
#[tokio::test]
async fn an_encrypted_association_follows_its_client_to_another_address_and_reports_it() {
    let (client_config, server_config) = configs();
    let server = endpoint_with(server_config).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let nat = Nat::new(server.local_addr(), socket_at("127.0.0.1:0").await).await;
    let client = endpoint_with(client_config).await;
    let at_client = connect(&client, &nat).await;
    let at_server = in_time(listener.accept()).await.unwrap();
    for new in [if cfg!(target_os = "linux") { "127.0.0.2:0" } else { "127.0.0.1:0" }, "127.0.0.1:0"] {
        let new = socket_at(new).await;
        let new_address = new.local_addr().unwrap();
        nat.outside.send(new).await.unwrap();
        in_time(at_client.send(Message::new("from elsewhere"))).await.unwrap();
        assert_eq!(in_time(at_server.recv()).await.unwrap().unwrap().payload, "from elsewhere");
        loop {
            if in_time(at_server.event()).await == Some(Event::PeerMoved { path: PathId::PRIMARY, remote: new_address })
            {
                break;
            }
        }
        assert_eq!(at_server.remote_addr(), new_address);
        in_time(at_server.send(Message::new("to there"))).await.unwrap();
        assert_eq!(in_time(at_client.recv()).await.unwrap().unwrap().payload, "to there");
    }
    in_time(at_client.shutdown()).await.unwrap();
    until("it is gone", || server.stats().associations == 0).await;
}
