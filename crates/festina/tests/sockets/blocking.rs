//! Endpoints without `async`.

use std::collections::VecDeque;
use std::time::Duration;

use festina::blocking::{Association, Endpoint, Listener, ReadyKind, WaitError};
use festina::{
    ConnectError, ConnectOptions, DEFAULT_SCTP_PORT, Message, SendError, SendErrorKind, ServerConfig, Transport,
    TryRecvError,
};
use festina_emulate::UdpProxy;
use festina_netsim::LinkConfig;

use crate::encrypted::{server_settings, with};

const LONG: Duration = Duration::from_secs(30);

struct Pair {
    near: Association,
    far: Association,
    listener: Listener,
    client: Endpoint,
    server: Endpoint,
}

fn endpoint(config: ServerConfig) -> Endpoint {
    Endpoint::server("127.0.0.1:0".parse().unwrap(), config).unwrap()
}

fn pair(config: &ServerConfig) -> Pair {
    let (client, server) = (endpoint(config.clone()), endpoint(config.clone()));
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    assert!(listener.try_accept().is_none());
    let near = client.connect(server.local_addr()).unwrap();
    let far = listener.accept(LONG).unwrap().unwrap();
    Pair { near, far, listener, client, server }
}

#[test]
fn calls_wait_as_long_as_they_may_and_the_end_is_told_by_its_kind() {
    let pair = pair(&ServerConfig::plain());
    assert_eq!(pair.far.recv(Duration::from_millis(10)), Err(WaitError::TimedOut));
    assert_eq!(pair.far.try_recv(), Err(TryRecvError::Empty));
    pair.near.send("once", LONG).unwrap();
    assert_eq!(pair.far.recv(None).unwrap().unwrap().payload(), "once");
    pair.near.drained(LONG).unwrap();
    pair.near.shutdown(LONG).unwrap();
    assert_eq!(pair.far.recv(LONG), Ok(None), "an orderly end is no error");

    let near = pair.client.connect(pair.server.local_addr()).unwrap();
    let far = pair.listener.accept(LONG).unwrap().unwrap();
    near.abort("enough of it");
    let error = far.recv(LONG).unwrap_err();
    assert!(error.to_string().contains("enough of it"), "{error}");
    pair.server.close(LONG).unwrap();
    assert!(pair.listener.accept(None).unwrap().is_none());
}

#[test]
fn an_encrypted_endpoint_is_used_in_the_same_way() {
    let (security, fingerprint) = server_settings();
    let pair = pair(&with(security.with_client(fingerprint)));
    pair.near.send("once", LONG).unwrap();
    assert_eq!(pair.far.recv(LONG).unwrap().unwrap().payload(), "once");
    assert_eq!(pair.near.peer_identity().unwrap().fingerprint(), fingerprint);
    pair.near.shutdown(LONG).unwrap();
    pair.server.close(LONG).unwrap();
}

#[test]
fn fifty_handshakes_over_40_ms_take_far_less_than_fifty_round_trips() {
    let (client, server) = (endpoint(ServerConfig::plain()), endpoint(ServerConfig::plain()));
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
    let proxy = UdpProxy::bind("127.0.0.1:0".parse().unwrap(), server.local_addr(), link.clone(), link, 1)
        .and_then(UdpProxy::spawn)
        .unwrap();
    let host = proxy.local_addr().to_string();
    let begun = festina::now();
    let connecting: Vec<_> = (0..50_u64)
        .map(|token| {
            let connecting = client.start_connect(&host, ConnectOptions::default());
            connecting.set_token(token);
            connecting
        })
        .collect();
    let (mut ready, mut connected) = (Vec::new(), Vec::new());
    while connected.len() < 50 {
        ready.clear();
        client.ready(&mut ready, 16, LONG).unwrap();
        for ready in ready.iter().filter(|ready| ready.kind == ReadyKind::Connect) {
            let handshake = &connecting[usize::try_from(ready.token).unwrap()];
            connected.extend(handshake.try_finish().map(Result::unwrap));
        }
    }
    let took = festina::now() - begun;
    println!("50 handshakes over 40 ms took {} ms", took.as_millis());
    assert!(took >= Duration::from_millis(80), "two round trips each: {took:?}");
    assert!(took < Duration::from_millis(50 * 80), "one by one they take as long: {took:?}");
    assert!((0..50).all(|_| listener.accept(LONG).unwrap().is_some()));
    assert_eq!(connecting[0].finish(None).err(), Some(WaitError::Failed(ConnectError::ResultTaken)));
}

#[test]
fn many_messages_are_taken_from_a_queue_as_far_as_there_is_room() {
    let transport = Transport::default().with_send_buffer_bytes(100_000).with_receive_buffer_bytes(60_000);
    let config = ServerConfig::plain().with_transport(transport);
    let pair = pair(&config);
    let mut queue: VecDeque<Message> = (0..600_u16).map(|number| Message::new(number.to_be_bytes().to_vec())).collect();
    pair.near.send_many(&mut queue, LONG).unwrap();
    assert!(queue.is_empty());
    for number in 0..600_u16 {
        assert_eq!(pair.far.recv(LONG).unwrap().unwrap().into_payload(), number.to_be_bytes().to_vec());
    }
    let mut wrong: VecDeque<Message> = [Message::new(""), Message::new("behind it")].into();
    assert!(matches!(pair.near.try_send_many(&mut wrong), Err(SendError { kind: SendErrorKind::Empty, .. })));
    assert_eq!(wrong.len(), 2);
    // Messages whose acknowledgement is still on its way take room in the buffer.
    pair.near.drained(LONG).unwrap();
    let mut queue: VecDeque<Message> = (0..10_u8).map(|number| Message::new(vec![number; 30_000])).collect();
    assert!(matches!(
        pair.near.send_many(&mut queue, Duration::ZERO),
        Err(SendError { kind: SendErrorKind::BufferFull, .. })
    ));
    let left = queue.len();
    assert!((1..10).contains(&left), "{left}");
    assert_eq!(usize::from(queue[0].payload()[0]), 10 - left, "the first that was not sent is at the front");
    assert!(matches!(
        pair.near.try_send_many(&mut queue),
        Ok(()) | Err(SendError { kind: SendErrorKind::BufferFull, .. })
    ));
}
