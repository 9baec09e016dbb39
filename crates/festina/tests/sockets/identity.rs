//! Peers that encrypted endpoints refuse, and strangers.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use festina::security::{ClientSecurity, Identity, SecurityError, SecurityFailure, ServerSecurity, Trust};
use festina::{
    Admission, Answer, Association, BindError, ClientConfig, ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint,
    ListenError, ListenOptions, MemoryNetwork,
};
use tokio::time::Instant;

use crate::encrypted::{CLIENT, SERVER, configs, encrypted_pair, server_settings, trusting, with};
use crate::support::{Pair, endpoint, endpoint_with, in_time, pair_with};

/// A certificate authority, and an identity that it has signed for a name.
pub(crate) fn signed(name: &str, authority: &str) -> (Vec<u8>, Identity) {
    signed_until(name, authority, 4_000)
}

/// The same, valid until the beginning of a year.
fn signed_until(name: &str, authority: &str, year: i32) -> (Vec<u8>, Identity) {
    let root_key = rcgen::KeyPair::generate().unwrap();
    let mut root = rcgen::CertificateParams::new(Vec::new()).unwrap();
    root.distinguished_name.push(rcgen::DnType::CommonName, format!("root of {authority}"));
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root_certificate = root.self_signed(&root_key).unwrap();
    let issuer = rcgen::Issuer::from_params(&root, &root_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut leaf = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    leaf.not_after = rcgen::date_time_ymd(year, 1, 1);
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    let identity = Identity::from_der([leaf.der().to_vec()], key.serialize_der()).unwrap();
    (root_certificate.der().to_vec(), identity)
}

/// Connects with these settings to a server with those.
async fn connect(client: ClientSecurity, server: ServerSecurity, options: ConnectOptions) -> Result<(), ConnectError> {
    let server = endpoint_with(with(server)).await;
    let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let client = endpoint_with(with(client)).await;
    in_time(client.connect_with(server.local_addr(), options)).await.map(|_| ())
}

fn failure(result: Result<(), ConnectError>) -> SecurityFailure {
    match result {
        Err(ConnectError::Security { failure, .. }) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_chain_is_verified_with_its_name_and_its_root() {
    let (root, identity) = signed("server.test", "one");
    let (other_root, _) = signed("server.test", "other");
    let server = || ServerSecurity::new(identity.clone());
    let roots = |root: &[u8]| ClientSecurity::new(Trust::roots_from_der([root.to_vec()]));
    let named = |name: &str| ConnectOptions::default().server_name(name);
    connect(roots(&root), server(), named("server.test")).await.unwrap();
    let wrong_name = failure(connect(roots(&root), server(), named("other.test")).await);
    assert!(matches!(&wrong_name, SecurityFailure::Untrusted(why) if why.contains("other.test")), "{wrong_name}");
    let address = failure(connect(roots(&root), server(), ConnectOptions::default()).await);
    assert!(matches!(address, SecurityFailure::Untrusted(_)), "the default name is the address: {address}");
    let unsigned = failure(connect(roots(&other_root), server(), named("server.test")).await);
    assert!(
        matches!(&unsigned, SecurityFailure::Untrusted(fault) if fault.starts_with("no trusted root has signed it; ")),
        "{unsigned:?}"
    );
    let no_name = failure(connect(roots(&root), server(), named("not a name")).await);
    assert!(matches!(no_name, SecurityFailure::Settings(_)), "{no_name}");
}

#[tokio::test]
async fn another_key_than_the_pinned_one_is_refused_and_decided_by_a_function() {
    let (server, fingerprint) = server_settings();
    let (_, other) = server_settings();
    let wrong = failure(connect(trusting(other), server.clone(), ConnectOptions::default()).await);
    assert_eq!(wrong, SecurityFailure::Untrusted("its fingerprint is not a trusted one".to_owned()));
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let at_first_use = Trust::deciding(move |seen| {
        count.fetch_add(1, Ordering::Relaxed);
        *seen == fingerprint
    });
    connect(ClientSecurity::new(at_first_use), server, ConnectOptions::default()).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn clients_without_a_trusted_certificate_are_refused_if_one_is_demanded() {
    let (server, fingerprint) = server_settings();
    let (root, signed_client) = signed("client.test", "one");
    let demanding = server.with_client_trust(Trust::roots_from_der([root]));
    let none = failure(connect(trusting(fingerprint), demanding.clone(), ConnectOptions::default()).await);
    assert!(matches!(none, SecurityFailure::Alert { code: 116, .. }), "{none}");
    let unknown = trusting(fingerprint).with_identity(Identity::self_signed("client.test").unwrap());
    let unknown = failure(connect(unknown, demanding.clone(), ConnectOptions::default()).await);
    assert!(matches!(unknown, SecurityFailure::Alert { .. }), "{unknown}");
    assert!(none.is_unknown_certificate() && unknown.is_unknown_certificate());
    let known = trusting(fingerprint).with_identity(signed_client);
    connect(known, demanding, ConnectOptions::default()).await.unwrap();
}

#[tokio::test]
async fn both_sides_name_a_certificate_that_has_expired_and_say_what_to_do() {
    let (root, expired) = signed_until("server.test", "one", 2_001);
    assert!(expired.check_dates().is_err());
    let server = ServerSecurity::new(expired);
    let roots = ClientSecurity::new(Trust::roots_from_der([root]));
    let seen = failure(connect(roots, server, ConnectOptions::default().server_name("server.test")).await);
    let expected = "its certificate is not trusted: it expired on 2001-01-01; renew it, or set the clock of this host";
    assert!(seen.to_string().starts_with(expected), "{seen}");

    let (server, fingerprint) = server_settings();
    let (root, expired) = signed_until("client.test", "one", 2_001);
    let demanding = server.with_client_trust(Trust::roots_from_der([root]));
    let client = trusting(fingerprint).with_identity(expired);
    let told = failure(connect(client, demanding, ConnectOptions::default()).await);
    assert!(
        told.to_string().contains("the certificate of this side has expired or is not valid yet; renew it"),
        "{told}"
    );
    // It is not for the server to admit it.
    assert!(told.is_refused_certificate() && !told.is_unknown_certificate());
}

#[tokio::test]
async fn a_client_whose_trust_was_withdrawn_does_not_resume_its_session() {
    let (server, fingerprint) = server_settings();
    let is_trusted = Arc::new(AtomicBool::new(true));
    let decision = is_trusted.clone();
    let server = server.with_client_trust(Trust::deciding(move |_| decision.load(Ordering::Relaxed)));
    let early = Endpoint::server("127.0.0.1:0".parse().unwrap(), with(server.clone().with_early_messages())).await;
    assert!(matches!(early, Err(BindError::Security(SecurityError::Settings(_)))), "{early:?}");
    let client = trusting(fingerprint).with_identity(Identity::self_signed("client.test").unwrap());
    let (client, server) = (endpoint_with(with(client)).await, endpoint_with(with(server)).await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    in_time(async {
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        // Time for a ticket to arrive, if there were one.
        far.send("hello").await.unwrap();
        near.recv().await.unwrap().unwrap();
        near.shutdown().await.unwrap();
        is_trusted.store(false, Ordering::Relaxed);
        let refused = failure(client.connect(server.local_addr()).await.map(|_| ()));
        assert!(matches!(refused, SecurityFailure::Alert { .. }), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn no_common_protocol_is_an_error() {
    let (server, fingerprint) = server_settings();
    let client = trusting(fingerprint).with_alpn(["one"]);
    let failed = failure(connect(client, server.with_alpn(["other"]), ConnectOptions::default()).await);
    assert!(matches!(failed, SecurityFailure::Alert { code: 120, .. }), "{failed}");
}

#[tokio::test]
async fn the_acceptor_sees_the_token_first_and_refuses_by_it() {
    let (client, server) = configs();
    let (client, server) = (endpoint_with(client).await, endpoint_with(server).await);
    let by_token = ListenOptions::default().decide(|request| match &request.token[..] {
        [1, ..] => Answer::Accept,
        [2, ..] => Answer::Refuse,
        _ => Answer::Ignore,
    });
    let listener = server.listen_with(DEFAULT_SCTP_PORT, by_token).unwrap();
    let connect = async |token: Vec<u8>, timeout| {
        let options = ConnectOptions::default().token(token).server_name("a.test").handshake_timeout(timeout);
        client.connect_with(server.local_addr(), options).await
    };
    let patient = Duration::from_secs(60);
    in_time(async {
        let token = vec![1; 1_024];
        let (near, far) = tokio::join!(connect(token.clone(), patient), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        let request = far.request().unwrap();
        assert_eq!((request.token, request.server_name.as_deref()), (token, Some("a.test")));
        assert_eq!(request.remote, client.local_addr());
        assert!(near.request().is_none());
        let refused = connect(vec![2], patient).await.map(|_| ());
        assert_eq!(failure(refused), SecurityFailure::Refused(256));
        let ignored = connect(vec![3], Duration::from_millis(300)).await;
        assert!(matches!(ignored, Err(ConnectError::Timeout { .. })), "{ignored:?}");
        assert!(matches!(failure(connect(vec![1; 1_025], patient).await.map(|_| ())), SecurityFailure::Settings(_)));
        let options = ConnectOptions::default().peer_port(DEFAULT_SCTP_PORT + 1);
        let nothing = client.connect_with(server.local_addr(), options).await;
        assert!(matches!(nothing, Err(ConnectError::NotListening { .. })), "{nothing:?}");
    })
    .await;
}

#[tokio::test]
async fn a_full_endpoint_says_so() {
    let (client, server) = configs();
    let (client, server) = (
        endpoint_with(client).await,
        endpoint_with(server.with_admission(Admission::default().with_associations_max(1))).await,
    );
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    in_time(async {
        let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
        let (near, _far) = (near.unwrap(), far.unwrap());
        let second = client.connect(server.local_addr()).await;
        assert!(matches!(second, Err(ConnectError::PeerFull { .. })), "{second:?}");
        assert_eq!(server.stats().associations_refused, 1);
        // An association that is over takes no place, though it still answers.
        near.shutdown().await.unwrap();
        drop(client.connect(server.local_addr()).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn plain_and_encrypted_endpoints_tell_each_other_apart_at_once() {
    let (client, server) = configs();
    let (secure_client, secure_server) = (endpoint_with(client).await, endpoint_with(server).await);
    let (plain_client, plain_server) = (endpoint().await, endpoint().await);
    let _listeners = [&secure_server, &plain_server].map(|server| server.listen(DEFAULT_SCTP_PORT).unwrap());
    in_time(async {
        let begun = Instant::now();
        let to_plain = secure_client.connect(plain_server.local_addr()).await.unwrap_err();
        assert!(to_plain.to_string().contains("SCTP without encryption"), "{to_plain}");
        assert!(matches!(to_plain, ConnectError::Security { failure: SecurityFailure::OtherProtocol(_), .. }));
        let to_secure = plain_client.connect(secure_server.local_addr()).await.unwrap_err();
        assert!(to_secure.to_string().contains("speaks only encrypted associations"), "{to_secure}");
        assert!(begun.elapsed() < Duration::from_secs(10), "neither waits for the end of its handshake timeout");
        // None has fallen back.
        for endpoint in [&secure_client, &secure_server, &plain_client, &plain_server] {
            assert_eq!(endpoint.stats().associations, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn settings_that_cannot_work_are_named() {
    let address = "127.0.0.1:0".parse().unwrap();
    for client in [with(trusting(server_settings().1)), ClientConfig::plain()] {
        let client = endpoint_with(client).await;
        assert!(matches!(client.listen(DEFAULT_SCTP_PORT), Err(ListenError::Client)));
    }
    let no_client = endpoint_with(with(server_settings().0)).await;
    let failed = in_time(no_client.connect(no_client.local_addr())).await.map(|_| ());
    let SecurityFailure::Settings(why) = failure(failed) else { panic!("it has no trust") };
    assert!(why.contains("ServerSecurity::with_client"), "{why}");
    let one = Identity::self_signed("one.test").unwrap();
    let other = Identity::self_signed("other.test").unwrap();
    let mixed = Identity::from_der(one.chain_der().map(<[u8]>::to_vec), other.key_der().to_vec()).unwrap();
    let mixed = Endpoint::server(address, with(ServerSecurity::new(mixed))).await;
    assert!(matches!(mixed, Err(BindError::Security(SecurityError::PrivateKey(_)))), "{mixed:?}");
    #[cfg(unix)]
    {
        let raw = Endpoint::bind_raw("127.0.0.1".parse().unwrap(), with(server_settings().0)).await;
        assert!(matches!(raw, Err(BindError::Security(SecurityError::Settings(_)))), "{raw:?}");
    }
    for protocol in [vec![], vec![b'a'; 256]] {
        let alpn = Endpoint::client(address, with(ClientSecurity::default().with_alpn([protocol]))).await;
        assert!(matches!(alpn, Err(BindError::Security(SecurityError::Settings(_)))), "{alpn:?}");
    }
    let malformed = ClientSecurity::new(Trust::roots_from_der([vec![1, 2, 3]]));
    assert!(Endpoint::client(address, with(malformed)).await.is_err());
}

/// Random bytes, the same each time.
fn noise(state: &mut u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|_| {
            *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (*state >> 56) as u8
        })
        .collect()
}

/// The median of the round trips of messages that are answered one by one for this long, at least 50 of them.
async fn median_ping(pair: &Pair, span: Duration) -> Duration {
    let (begun, mut pings) = (Instant::now(), Vec::new());
    while begun.elapsed() < span || pings.len() < 50 {
        let sent_at = Instant::now();
        pair.client.send("ping").await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "ping");
        pair.server.send("pong").await.unwrap();
        assert_eq!(pair.client.recv().await.unwrap().unwrap().payload(), "pong");
        pings.push(sent_at.elapsed());
    }
    pings.sort_unstable();
    pings[pings.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_garbage_and_hellos_leaves_a_live_association_alone() {
    let pair = in_time(encrypted_pair()).await;
    let (target, over) = (pair.server_endpoint.local_addr(), Arc::new(AtomicBool::new(false)));
    // Hellos as a client writes them, to be sent again with connection IDs changed.
    let hellos: Arc<std::sync::Mutex<Vec<Vec<u8>>>> = Arc::default();
    let tap = hellos.clone();
    let network = MemoryNetwork::with_filter(move |_, _, packet| {
        tap.lock().unwrap().push(packet.to_vec());
        true
    });
    let _silent = network.bind(SERVER.parse().unwrap()).unwrap();
    let lower = network.bind(CLIENT.parse().unwrap()).unwrap();
    let client = Endpoint::bind_on(lower, with(trusting(server_settings().1))).await.unwrap();
    for _ in 0..64 {
        let options = ConnectOptions::default().handshake_timeout(Duration::from_millis(1));
        assert!(client.connect_with(SERVER, options).await.is_err());
    }
    let hellos = std::mem::take(&mut *hellos.lock().unwrap());
    assert!(hellos.len() >= 64);
    let quiet = in_time(median_ping(&pair, Duration::from_millis(500))).await;
    let flood = std::thread::spawn({
        let over = over.clone();
        move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let (mut state, mut sent) = (1, 0_u64);
            while !over.load(Ordering::Relaxed) {
                for hello in &hellos {
                    let mut garbage = noise(&mut state, 64 + hello.len() % 600);
                    garbage[0] = [0x60, 0xc0, 0xd0, 0xe0, garbage[0]][usize::from(garbage[1]) % 5];
                    if garbage[0] >= 0xc0 {
                        garbage[1..5].copy_from_slice(b"FST\x01");
                    }
                    let mut cut = hello.clone();
                    cut.truncate(usize::from(garbage[2]) * 4);
                    for datagram in [hello, &garbage, &cut] {
                        // A full buffer of the socket loses packets as a network does.
                        let _lost = socket.send_to(datagram, target);
                        sent += 1;
                    }
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            sent
        }
    });
    in_time(async {
        // The goal is three times as long; a busy machine may keep either end waiting for a while.
        let allowed = 3 * quiet + Duration::from_millis(5);
        let mut busy = Vec::new();
        while busy.len() < 5 && busy.last().is_none_or(|&last| last > allowed) {
            busy.push(median_ping(&pair, Duration::from_secs(2)).await);
        }
        println!("median ping: {quiet:?}, {busy:?} during the flood");
        assert!(busy.last().is_some_and(|&last| last <= allowed), "{quiet:?}, {busy:?} during the flood");
        assert_eq!(pair.server_endpoint.stats().associations, 1, "hellos alone make none");
        // A client that means well still gets in: a loaded server has it prove its address.
        let (near, far) = tokio::join!(pair.client_endpoint.connect(target), pair.listener.accept());
        near.unwrap().send("through").await.unwrap();
        assert_eq!(far.unwrap().recv().await.unwrap().unwrap().payload(), "through");
    })
    .await;
    over.store(true, Ordering::Relaxed);
    assert!(flood.join().unwrap() > 1_000);
    assert!(pair.server_endpoint.stats().packets_dropped > 100);
}

#[tokio::test]
async fn peers_connect_to_each_other_from_the_endpoints_on_which_they_listen() {
    let identities = [(); 2].map(|()| Identity::self_signed("peer.test").unwrap());
    let trust = Trust::fingerprints(identities.each_ref().map(Identity::fingerprint));
    let config = |own: &Identity| {
        let client = ClientSecurity::new(trust.clone()).with_identity(own.clone());
        with(ServerSecurity::new(own.clone()).with_client_trust(trust.clone()).with_client(client))
    };
    let endpoints = [endpoint_with(config(&identities[0])).await, endpoint_with(config(&identities[1])).await];
    let listeners = endpoints.each_ref().map(|endpoint| endpoint.listen(DEFAULT_SCTP_PORT).unwrap());
    for (from, to) in [(0, 1), (1, 0)] {
        let connecting = endpoints[from].connect(endpoints[to].local_addr());
        let (near, far) = in_time(async { tokio::join!(connecting, listeners[to].accept()) }).await;
        let fingerprint = |association: Association| association.peer_identity().unwrap().fingerprint();
        assert_eq!(fingerprint(near.unwrap()), identities[to].fingerprint());
        assert_eq!(fingerprint(far.unwrap()), identities[from].fingerprint());
    }
}

#[tokio::test]
async fn a_server_is_known_by_the_host_that_the_user_typed() {
    let (root, identity) = signed("localhost", "one");
    let server = endpoint_with(with(ServerSecurity::new(identity))).await;
    let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let client = endpoint_with(ClientConfig::new(Trust::roots_from_der([root]))).await;
    in_time(client.connect(format!("localhost:{}", server.local_addr().port()))).await.unwrap();
    let by_address = failure(in_time(client.connect(server.local_addr())).await.map(|_| ()));
    assert!(matches!(&by_address, SecurityFailure::Untrusted(why) if why.contains("127.0.0.1")), "{by_address}");
}

#[tokio::test]
async fn by_default_an_endpoint_is_encrypted_and_says_what_it_lacks() {
    let endpoint = endpoint_with(ClientConfig::default()).await;
    let no_identity = endpoint.listen(DEFAULT_SCTP_PORT).unwrap_err();
    assert!(no_identity == ListenError::Client && no_identity.to_string().contains("Endpoint::server"));
    let server = endpoint_with(with(server_settings().0)).await;
    let _listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    // Which of the two depends on whether the machine has roots.
    let failed = failure(in_time(endpoint.connect(server.local_addr())).await.map(|_| ()));
    assert!(matches!(failed, SecurityFailure::Untrusted(_) | SecurityFailure::Settings(_)), "{failed}");
}

#[tokio::test]
async fn refused_clients_take_no_place_from_those_that_follow() {
    let (server_settings, fingerprint) = server_settings();
    let (server, client) =
        (endpoint_with(with(server_settings)).await, endpoint_with(with(trusting(fingerprint))).await);
    let by_token = ListenOptions::default().decide(|request| match &request.token[..] {
        b"in" => Answer::Accept,
        _ => Answer::Refuse,
    });
    let _listener = server.listen_with(DEFAULT_SCTP_PORT, by_token).unwrap();
    // More than the half-open handshakes that one address may have, with and without a proof of it.
    for number in 0..160 {
        let refused = in_time(client.connect(server.local_addr())).await;
        assert!(matches!(refused, Err(ConnectError::Security { .. })), "{number}: {refused:?}");
    }
    in_time(client.connect_with(server.local_addr(), ConnectOptions::default().token(b"in"))).await.unwrap();
}

#[tokio::test]
async fn a_function_that_decides_on_servers_is_asked_at_every_connection() {
    let (server, fingerprint) = server_settings();
    let (is_trusted, asked) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU32>::default());
    let (decision, count) = (is_trusted.clone(), asked.clone());
    let trust = Trust::deciding(move |seen| {
        count.fetch_add(1, Ordering::Relaxed);
        *seen == fingerprint && decision.load(Ordering::Relaxed)
    });
    let client = endpoint_with(with(ClientSecurity::new(trust))).await;
    let server = endpoint_with(with(server)).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    in_time(async {
        for number in 0..3 {
            let (near, far) = tokio::join!(client.connect(server.local_addr()), listener.accept());
            let (near, far) = (near.unwrap(), far.unwrap());
            assert_eq!((near.is_resumed(), asked.load(Ordering::Relaxed)), (number > 0, number + 1));
            // By the time that an answer has come, a ticket has.
            near.send("one").await.unwrap();
            far.recv().await.unwrap();
            far.send("two").await.unwrap();
            near.recv().await.unwrap();
        }
        is_trusted.store(false, Ordering::Relaxed);
        let refused = failure(client.connect(server.local_addr()).await.map(|_| ()));
        assert_eq!(refused, SecurityFailure::Untrusted("its fingerprint is not a trusted one".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn raw_public_keys_identify_both_sides() {
    let [server, client] = [(); 2].map(|()| Identity::raw_key().unwrap());
    let knows = |identity: &Identity| Trust::fingerprints([identity.fingerprint()]).of_raw_keys();
    let near = ClientSecurity::new(knows(&server)).with_identity(client.clone());
    let far = ServerSecurity::new(server.clone());
    let pair = in_time(pair_with(with(near.clone()), with(far.clone().with_client_trust(knows(&client))))).await;
    let (server_seen, client_seen) = (pair.client.peer_identity().unwrap(), pair.server.peer_identity().unwrap());
    assert!(server_seen.is_raw_key() && client_seen.is_raw_key());
    assert_eq!((server_seen.fingerprint(), client_seen.fingerprint()), (server.fingerprint(), client.fingerprint()));
    // A server that asks for nothing takes clients with a raw key, with a certificate, and without any.
    let certified = Identity::self_signed("client.test").unwrap();
    let anonymous = ClientSecurity::new(knows(&server));
    for client in [near.clone(), anonymous.clone().with_identity(certified), anonymous] {
        let pair = in_time(pair_with(with(client), with(far.clone()))).await;
        assert!(pair.server.peer_identity().is_none() && !pair.client.is_resumed());
    }
    let stranger = Identity::raw_key().unwrap();
    let near = ClientSecurity::new(knows(&stranger)).with_identity(client);
    let refused = failure(connect(near, far, ConnectOptions::default()).await);
    assert_eq!(refused, SecurityFailure::Untrusted("its fingerprint is not a trusted one".to_owned()));
}

#[tokio::test]
async fn a_certificate_where_a_raw_key_is_expected_is_named_and_the_other_way_round() {
    let (raw, certified) = (Identity::raw_key().unwrap(), Identity::self_signed("server.test").unwrap());
    let trust = |identity: &Identity| Trust::fingerprints([identity.fingerprint()]);
    let client = |trust| ClientSecurity::new(trust);
    let server = |identity: &Identity| ServerSecurity::new(identity.clone());
    let raw_client = |identity: &Identity| client(trust(&raw).of_raw_keys()).with_identity(identity.clone());
    for (client, server) in [
        (client(trust(&certified).of_raw_keys()), server(&certified)),
        (client(trust(&raw)), server(&raw)),
        (raw_client(&certified), server(&raw).with_client_trust(trust(&certified).of_raw_keys())),
        (raw_client(&raw), server(&raw).with_client_trust(trust(&raw))),
        (client(trust(&raw).of_raw_keys()), server(&raw).with_client_trust(trust(&raw).of_raw_keys())),
    ] {
        let failed = failure(connect(client, server, ConnectOptions::default()).await);
        assert!(matches!(failed, SecurityFailure::Alert { code: 40, .. }), "{failed}");
        assert!(failed.to_string().contains("kind of key"));
    }
    let address = "127.0.0.1:0".parse().unwrap();
    let roots = ClientSecurity::new(Trust::platform_roots().of_raw_keys());
    let checking = server(&raw).with_client_trust(Trust::roots_from_der([]).of_raw_keys());
    for bound in [Endpoint::client(address, with(roots)).await, Endpoint::server(address, with(checking)).await] {
        let Err(BindError::Security(SecurityError::Settings(why))) = bound else { panic!("{bound:?}") };
        assert!(why.contains("raw public keys"), "{why}");
    }
}
