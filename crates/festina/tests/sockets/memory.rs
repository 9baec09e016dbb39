//! Endpoints over a lower layer in memory, and over one that a program brings.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use festina::lower::{LowerLayer, Received, Transmit};
use festina::{BindError, DEFAULT_SCTP_PORT, Endpoint, MemoryNetwork, MemorySocket, Message, ServerConfig, Transport};

use crate::support::{Pair, in_time, pair_between};

const SERVER: &str = "10.0.0.1:9899";
const CLIENT: &str = "10.0.0.2:9899";

async fn pair_over(network: &MemoryNetwork) -> Pair {
    let bind = async |address: &str| {
        let lower = network.bind(address.parse().unwrap()).unwrap();
        Endpoint::bind_on(lower, ServerConfig::plain()).await.unwrap()
    };
    let (client, server) = (bind(CLIENT).await, bind(SERVER).await);
    pair_between(client, server, SERVER.parse().unwrap()).await
}

async fn echo(pair: &Pair, count: u32) {
    for number in 0..count {
        pair.client.send(Message::new(number.to_be_bytes().to_vec())).await.unwrap();
    }
    for number in 0..count {
        assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), number.to_be_bytes().to_vec());
    }
}

#[tokio::test]
async fn an_endpoint_in_memory_repairs_what_its_network_loses_and_frees_its_address() {
    let packets = AtomicU32::new(0);
    let network = MemoryNetwork::with_filter(move |from, _, _| {
        from != CLIENT.parse::<SocketAddr>().unwrap() || packets.fetch_add(1, Ordering::Relaxed) % 5 != 4
    });
    let pair = in_time(pair_over(&network)).await;
    in_time(async {
        for _ in 0..20 {
            echo(&pair, 5).await;
        }
    })
    .await;
    assert!(pair.client.stats().sent.retransmitted.total() > 0);
    let address = pair.client_endpoint.local_addr();
    assert!(network.bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse));
    in_time(pair.client_endpoint.close()).await;
    assert!(network.bind(address).is_ok());
}

#[tokio::test]
async fn messages_larger_than_a_packet_cross_memory_in_trains() {
    let pair = in_time(pair_over(&MemoryNetwork::new())).await;
    in_time(async {
        pair.client.send(vec![7; 200_000]).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), vec![7; 200_000]);
    })
    .await;
    let stats = pair.client_endpoint.stats();
    assert!(stats.send_calls < stats.packets_sent, "{stats:?}");
}

/// A lower layer as a program writes one: it scrambles packets, which only its like understands.
#[derive(Debug)]
struct Scrambling {
    below: MemorySocket,
    calls: Arc<AtomicU32>,
}

impl LowerLayer for Scrambling {
    fn local_addr(&self) -> SocketAddr {
        self.below.local_addr()
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        if remote.is_ipv4() { Ok(remote) } else { Err("only IPv4 is scrambled") }
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let scrambled: Vec<u8> = packets.contents.iter().map(|byte| byte ^ 0x5a).collect();
        let mut below = *packets;
        below.contents = &scrambled;
        self.below.try_send(&below)
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        let count = self.below.try_receive(buffers, incoming)?;
        for (buffer, incoming) in buffers.iter_mut().zip(&*incoming).take(count) {
            buffer[..incoming.bytes].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        Ok(count)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.below.poll_readable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.below.poll_writable(context)
    }
}

#[tokio::test]
async fn a_program_brings_its_own_lower_layer() {
    let (network, calls) = (MemoryNetwork::new(), Arc::<AtomicU32>::default());
    let bind = async |address: &str| {
        let below = network.bind(address.parse().unwrap()).unwrap();
        Endpoint::bind_on(Scrambling { below, calls: calls.clone() }, ServerConfig::plain()).await.unwrap()
    };
    let (client, server) = (bind(CLIENT).await, bind(SERVER).await);
    let error = client.connect("[2001:db8::1]:9899").await.unwrap_err();
    assert!(error.to_string().contains("only IPv4 is scrambled"), "{error}");
    let pair = in_time(pair_between(client, server, SERVER.parse().unwrap())).await;
    in_time(echo(&pair, 30)).await;
    assert!(calls.load(Ordering::Relaxed) > 4);
    // An endpoint that does not scramble understands nothing.
    let plain = Endpoint::bind_on(network.bind("10.0.0.3:1".parse().unwrap()).unwrap(), ServerConfig::plain()).await;
    let options = festina::ConnectOptions::default()
        .peer_port(DEFAULT_SCTP_PORT)
        .handshake_timeout(std::time::Duration::from_millis(100));
    assert!(plain.unwrap().connect_with(SERVER, options).await.is_err());
    let wrong = ServerConfig::plain().with_transport(Transport::default().with_packet_bytes_max(1));
    let lower = network.bind("10.0.0.4:1".parse().unwrap()).unwrap();
    assert!(matches!(Endpoint::bind_on(lower, wrong).await, Err(BindError::Config(_))));
}
