//! Two endpoints with a bad network between them: the emulator's.

use std::time::Duration;

use festina::{
    Association, ClientConfig, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, Message, ServerConfig, Transport,
};
use festina_emulate::{RunningProxy, UdpProxy};
use festina_netsim::{LinkConfig, LossModel, Reordering};
use festina_sctp::{Mechanisms, Profile};
use festina_units::Probability;

/// A minimum RTO, which a loss on a thin stream costs without Festina, that no machine is slow enough to wait for.
const ENDLESS_RTO: Duration = Duration::from_secs(3_600);

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// Everything that can happen to a packet.
fn bad_link() -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(5),
        loss: LossModel::Independent(Probability::from_percent(5)),
        reordering: Reordering { probability: Probability::from_percent(5), hold_back: Duration::from_millis(2) },
        duplication: Probability::from_percent(2),
        corruption: Probability::from_percent(2),
        ..LinkConfig::default()
    }
}

/// Festina's repair of thin streams alone: its timeout is far beyond the end of the test.
fn without_timeouts() -> Transport {
    let festina = Profile::Festina.mechanisms();
    let mut thin = festina.thin;
    thin.rto_min = ENDLESS_RTO;
    // A machine that pauses for seconds makes a silence, after which Festina would leave the rest to the timeout; with linear
    // timeouts without a cap it does not.
    thin.backoff = Profile::Petlund2010.mechanisms().thin.backoff;
    let mechanisms = Mechanisms { thin, normal: thin, ..festina };
    Transport::default().with_expert(|expert| expert.with_mechanisms(mechanisms).with_rto_max(ENDLESS_RTO))
}

/// Two ends of an association through a proxy.
struct Pair {
    near: Association,
    far: Association,
    proxy: RunningProxy,
    /// It stays open after the association's end: if the last packet, SHUTDOWN COMPLETE, gets lost, the far end asks for it again, and a
    /// socket that is gone does not answer.
    _client: Endpoint,
}

async fn pair_through(link: LinkConfig, transport: Transport, seed: u64) -> Pair {
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::server(address, ServerConfig::plain()).await.unwrap();
    let client = Endpoint::client(address, ClientConfig::plain().with_transport(transport)).await.unwrap();
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let proxy = UdpProxy::bind(address, server.local_addr(), link.clone(), link, seed).unwrap().spawn().unwrap();
    let patient = ConnectOptions::default().handshake_timeout(Duration::from_secs(60));
    let (near, far) = tokio::join!(client.connect_with(proxy.local_addr(), patient), listener.accept());
    Pair { near: near.unwrap(), far: far.unwrap(), proxy, _client: client }
}

/// A message whose number and size can be checked: sizes from 1 byte to several packets.
fn numbered(number: u32) -> Message {
    let size = 4 + usize::try_from(number * 97 % 5_000).unwrap();
    let mut payload = vec![u8::try_from(number % 251).unwrap(); size];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    Message::new(payload)
}

async fn send_all(association: &Association, messages: u32) {
    for number in 0..messages {
        association.send(numbered(number)).await.unwrap();
    }
}

async fn receive_all(association: &Association, messages: u32) {
    for number in 0..messages {
        assert!(
            association.recv().await.unwrap().unwrap().into_payload() == numbered(number).payload(),
            "message {number}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_arrives_once_and_in_order_through_a_bad_network_in_both_directions() {
    const MESSAGES: u32 = 500;
    let Pair { near, far, proxy, _client } = pair_through(bad_link(), Transport::default(), 1).await;
    let exchange = async {
        tokio::join!(
            send_all(&near, MESSAGES),
            send_all(&far, MESSAGES),
            receive_all(&near, MESSAGES),
            receive_all(&far, MESSAGES),
        );
        near.shutdown().await.unwrap();
        assert_eq!(far.closed().await, festina::ClosedReason::Shutdown);
    };
    let in_time = tokio::time::timeout(PATIENCE, exchange).await;
    assert!(in_time.is_ok(), "it is stuck: {near:?} {:#?}, {far:?} {:#?}", near.stats(), far.stats());
    let counters = proxy.stop().unwrap();
    for link in [counters.forward, counters.backward] {
        assert!(link.lost > 0 && link.reordered > 0 && link.duplicated > 0 && link.corrupted > 0, "{link:?}");
    }
    assert!(near.stats().sent.retransmitted.total() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thin_streams_losses_are_repaired_without_waiting_for_a_timeout() {
    const MESSAGES: usize = 200;
    let link = LinkConfig {
        delay: Duration::from_millis(20),
        loss: LossModel::Independent(Probability::from_percent(5)),
        ..LinkConfig::default()
    };
    let Pair { near, far, proxy, _client } = pair_through(link, without_timeouts(), 2).await;
    let sending = tokio::spawn(async move {
        for _ in 0..MESSAGES {
            near.send(Message::new(festina::now().as_nanos().to_be_bytes().to_vec())).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        near.drained().await.unwrap();
        near.stats()
    });
    let receiving = async {
        let mut worst = Duration::ZERO;
        for _ in 0..MESSAGES {
            let message = far.recv().await.unwrap().unwrap();
            let sent_at = u64::from_be_bytes(*message.payload().first_chunk().unwrap());
            let delay = festina::now().saturating_duration_since(festina::Instant::from_nanos(sent_at));
            worst = worst.max(delay);
        }
        (worst, sending.await.unwrap())
    };
    // Seconds are enough; a loss that waits for the timeout would take an hour.
    let (worst, stats) = tokio::time::timeout(PATIENCE, receiving).await.expect("a loss waits for the timeout");
    assert!(proxy.stop().unwrap().forward.lost > 0 && stats.sent.retransmitted.total() > 0, "{stats:?}");
    assert_eq!(stats.sent.timeouts, 0, "{stats:?}");
    println!("worst delivery delay {worst:?}; {:?}", stats.sent);
}
