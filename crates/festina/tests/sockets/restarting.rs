//! A server that is killed and started again with the same private key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use festina::security::{ClientSecurity, Identity, ServerSecurity, Trust};
use festina::{ClosedReason, DEFAULT_SCTP_PORT, Endpoint, EndpointConfig, MemoryNetwork};

use crate::encrypted::{CLIENT, SERVER, trusting, with};
use crate::support::{in_time, pair_between};

#[tokio::test]
async fn clients_of_a_restarted_server_end_with_the_reset_and_not_by_timeout() {
    let is_killed = Arc::<AtomicBool>::default();
    let cut = is_killed.clone();
    let network = MemoryNetwork::with_filter(move |_, _, _| !cut.load(Ordering::Relaxed));
    let identity = Identity::self_signed("server.test").unwrap();
    let config = with(ServerSecurity::new(identity.clone()));
    let bind = async |address: &str, config: EndpointConfig| {
        Endpoint::bind_on(network.bind(address.parse().unwrap()).unwrap(), config).await.unwrap()
    };
    let client = bind(CLIENT, with(trusting(identity.fingerprint())).into()).await;
    let server = bind(SERVER, config.clone().into()).await;
    let pair = pair_between(client, server, SERVER.parse().unwrap()).await;
    in_time(async {
        pair.client.send("to the old one").await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "to the old one");
        is_killed.store(true, Ordering::Relaxed);
        pair.server.abort("killed");
        pair.server_endpoint.close().await;
        drop((pair.server, pair.server_endpoint, pair.listener));
        let restarted = loop {
            // The socket is closed by the driver.
            if let Ok(socket) = network.bind(SERVER.parse().unwrap()) {
                break Endpoint::bind_on(socket, config.clone()).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let listener = restarted.listen(DEFAULT_SCTP_PORT).unwrap();
        is_killed.store(false, Ordering::Relaxed);
        pair.client.send("to the new one").await.unwrap();
        assert_eq!(pair.client.closed().await, ClosedReason::PeerReset);
        let (again, accepted) = tokio::join!(pair.client_endpoint.connect(SERVER), listener.accept());
        assert!(again.is_ok() && accepted.is_some());
    })
    .await;
}

#[tokio::test]
async fn settings_that_fit_into_no_handshake_are_refused_at_bind() {
    let protocols = (0..400).map(|number| format!("a-protocol-with-a-long-name-{number}").into_bytes());
    let key = rcgen::KeyPair::generate().unwrap();
    let names: Vec<_> = (0..1_000).map(|number| format!("a-rather-long-name-number-{number}.server.test")).collect();
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let long = Identity::from_der([certificate.der().to_vec()], key.serialize_der()).unwrap();
    let short = Identity::self_signed("server.test").unwrap();
    let many = std::iter::repeat_n(short.chain_der().next().unwrap().to_vec(), 7);
    let many = Identity::from_der(many, short.key_der().to_vec()).unwrap();
    let trusts = || ClientSecurity::new(Trust::fingerprints([short.fingerprint()]));
    for (security, problem) in [
        (trusts().with_alpn(protocols), "application protocols have"),
        (trusts().with_identity(long), "the chain has 1 certificates of"),
        (trusts().with_identity(many), "the chain has 7 certificates of"),
    ] {
        let refused = Endpoint::client("127.0.0.1:0".parse().unwrap(), with(security)).await.unwrap_err();
        assert!(format!("{refused} {refused:?}").contains(problem), "{refused:?}");
    }
}
