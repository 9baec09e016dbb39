//! Networks that come and go while associations live.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use festina::{
    Association, BindError, ClientConfig, Endpoint, MemoryNetwork, Message, PathState, PathStatus, ServerConfig,
    Transport,
};

use crate::support::{Pair, in_time, pair_between, until};

/// The addresses of client and server, on three networks.
const ADDRESSES: [[&str; 3]; 2] =
    [["10.0.0.2:9899", "10.0.1.2:9899", "10.0.2.2:9899"], ["10.0.0.1:9899", "10.0.1.1:9899", "10.0.2.1:9899"]];

fn address(host: usize, network: usize) -> SocketAddr {
    ADDRESSES[host][network].parse().unwrap()
}

/// Two hosts on the first of three networks, which may have more. A bit of `dead` is set for each network that passes nothing.
async fn pair(is_encrypted: bool, dead: &Arc<AtomicU8>) -> Pair {
    let dead = Arc::clone(dead);
    let network = MemoryNetwork::with_filter(move |from, to, _| {
        let networks = [from, to].map(|end| match end {
            SocketAddr::V4(end) => end.ip().octets()[2],
            SocketAddr::V6(_) => 0,
        });
        networks[0] == networks[1] && dead.load(Ordering::Relaxed) >> networks[0] & 1 == 0
    });
    let transport = || Transport::default().with_paths_max(4);
    let [client, server] = [0, 1].map(|host| network.bind(address(host, 0)).unwrap());
    let identity = festina::security::Identity::self_signed("three.example").unwrap();
    let (of_client, of_server) = if is_encrypted {
        (ClientConfig::new(identity.fingerprint()), ServerConfig::new(identity))
    } else {
        (ClientConfig::plain(), ServerConfig::plain())
    };
    let client = Endpoint::bind_on(client, of_client.with_transport(transport())).await.unwrap();
    let server = Endpoint::bind_on(server, of_server.with_transport(transport())).await.unwrap();
    pair_between(client, server, address(1, 0)).await
}

/// Addresses of the peer in use.
fn remotes(association: &Association) -> Vec<SocketAddr> {
    let active = association.paths().into_iter().filter(|path| path.state == PathState::Active);
    active.map(|path| path.remote).collect()
}

async fn both_ways(pair: &Pair, text: &'static str) {
    in_time(pair.client.send(Message::new(text))).await.unwrap();
    assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), text);
    in_time(pair.server.send(Message::new(text))).await.unwrap();
    assert_eq!(in_time(pair.client.recv()).await.unwrap().unwrap().payload(), text);
}

#[tokio::test]
async fn an_encrypted_association_walks_over_three_networks_of_which_it_knew_one() {
    let dead = Arc::default();
    let pair = in_time(pair(true, &dead)).await;
    for network in 1..3 {
        pair.client_endpoint.add_address(address(0, network)).unwrap();
        pair.server_endpoint.add_address(address(1, network)).unwrap();
        until("the new addresses answer", || {
            remotes(&pair.client).contains(&address(1, network)) && remotes(&pair.server).contains(&address(0, network))
        })
        .await;
        both_ways(&pair, "over two").await;
        pair.client_endpoint.remove_address(address(0, network - 1).ip()).unwrap();
        pair.server_endpoint.remove_address(address(1, network - 1).ip()).unwrap();
        dead.fetch_or(1 << (network - 1), Ordering::Relaxed);
        both_ways(&pair, "over one").await;
        until("the old addresses are left", || {
            let expected = [address(1, network), address(0, network)];
            [&pair.client, &pair.server].into_iter().zip(expected).all(|(end, remote)| {
                let is_left = |path: &PathStatus| path.state == PathState::Closed || path.remote == remote;
                remotes(end) == [remote] && end.paths().iter().all(is_left)
            })
        })
        .await;
        both_ways(&pair, "over one still").await;
    }
    assert_eq!(pair.client_endpoint.local_addrs(), [address(0, 2)]);
    in_time(pair.client.shutdown()).await.unwrap();
    until("both are gone", || pair.server_endpoint.stats().associations == 0).await;
}

#[tokio::test]
async fn a_plain_association_goes_on_from_an_address_that_its_peer_knows() {
    let dead = Arc::default();
    let first = in_time(pair(false, &dead)).await;
    for (host, endpoint) in [&first.client_endpoint, &first.server_endpoint].into_iter().enumerate() {
        endpoint.add_address(address(host, 1)).unwrap();
    }
    both_ways(&first, "the peer was not told").await;
    assert_eq!(remotes(&first.client), [address(1, 0)]);
    // An association that begins later names both.
    let listener = first.server_endpoint.listen(9).unwrap();
    let options = festina::ConnectOptions::default().peer_port(9);
    let later = in_time(first.client_endpoint.connect_with(address(1, 0), options)).await.unwrap();
    let at_server = in_time(listener.accept()).await.unwrap();
    until("both know both", || [&later, &at_server].iter().all(|end| remotes(end).len() == 2)).await;
    first.client_endpoint.remove_address(address(0, 0).ip()).unwrap();
    dead.store(1, Ordering::Relaxed);
    in_time(later.send(Message::new("from the other"))).await.unwrap();
    assert_eq!(in_time(at_server.recv()).await.unwrap().unwrap().payload(), "from the other");
}

#[tokio::test]
async fn addresses_that_cannot_come_or_go_are_refused_and_change_nothing() {
    let pair = in_time(pair(true, &Arc::default())).await;
    let endpoint = &pair.client_endpoint;
    assert!(matches!(endpoint.add_address("224.0.0.1:1".parse().unwrap()), Err(BindError::Addresses(_))));
    assert!(matches!(endpoint.add_address(address(0, 0)), Err(BindError::Addresses(_))), "it is there");
    assert!(matches!(endpoint.add_address(address(1, 0)), Err(BindError::Socket { .. })), "it is another's");
    assert!(matches!(endpoint.remove_address(address(0, 0).ip()), Err(BindError::Removal { .. })), "it is the last");
    endpoint.add_address(address(0, 1)).unwrap();
    assert!(matches!(endpoint.remove_address(address(0, 2).ip()), Err(BindError::Removal { .. })), "there is none");
    assert_eq!(endpoint.local_addrs(), [address(0, 0), address(0, 1)]);
    both_ways(&pair, "as before").await;
    let single = Endpoint::bind_on(MemoryNetwork::new().bind(address(0, 0)).unwrap(), ClientConfig::plain());
    let refused = single.await.unwrap().add_address(address(0, 1)).unwrap_err();
    assert!(refused.to_string().contains(&address(0, 1).to_string()), "{refused}");
}

#[tokio::test]
async fn a_network_whose_socket_is_replaced_at_the_same_address_goes_on() {
    let config = || ClientConfig::plain().with_other_addresses(["127.0.0.2".parse().unwrap()]);
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap(), config()).await.unwrap();
    let before = endpoint.local_addrs();
    endpoint.rebind("127.0.0.1:0".parse().unwrap()).unwrap();
    let after = endpoint.local_addrs();
    assert!(after[0].ip() == before[0].ip() && after[0] != before[0] && after[1] == before[1], "{after:?}");
}
