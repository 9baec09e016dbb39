//! TLS on the way in and on the way out, with certificates made for the test.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{CollectorConfig, RelayConfig};
use festina_syslog::relay::RunningRelay;
use festina_syslog::tls::{Identity, TlsClient, TlsError, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use super::{Directory, PATIENCE, any_address, collector, silent, until};

/// Writes `ca.pem`, and a certificate with key for each name.
pub(crate) fn certificates(directory: &Path, names: &[&str]) -> PathBuf {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let path = directory.join("ca.pem");
    std::fs::write(&path, authority.pem()).expect("it can be written");
    for name in names {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new([(*name).to_owned()]).expect("a name");
        let certificate = parameters.signed_by(&key, &authority).expect("it is signed");
        std::fs::write(directory.join(format!("{name}.pem")), certificate.pem()).expect("it can be written");
        std::fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).expect("it can be written");
    }
    path
}

fn identity(directory: &Path, name: &str) -> Identity {
    Identity { certificate: directory.join(format!("{name}.pem")), key: directory.join(format!("{name}.key")) }
}

/// Sends bytes as a TLS client. A refused client may only notice when it reads the answer.
fn send(client: &TlsClient, to: SocketAddr, bytes: &[u8]) -> std::io::Result<()> {
    let (config, name) = client.config().expect("the files are right");
    let connection = ClientConnection::new(config, name).expect("the name is right");
    let mut stream = StreamOwned::new(connection, TcpStream::connect(to)?);
    stream.write_all(bytes)?;
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.sock.shutdown(std::net::Shutdown::Write)?;
    match stream.read(&mut [0; 1]) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err(error),
        _ => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_come_over_tls_from_those_who_are_let_in_and_from_nobody_else() {
    let directory = Directory::new();
    let authorities = certificates(&directory.0, &["relay.example", "client.example"]);
    let collector = collector(&directory.0, any_address()).await;
    let text = format!(
        "state = {:?}\ncollector = \"{}\"\n[[input]]\nkind = \"tls\"\nlisten = \"127.0.0.1:0\"\ncertificate = {:?}\nkey = {:?}\n\
         clients = {authorities:?}\n",
        directory.0.join("relay"),
        collector.local_addr(),
        directory.0.join("relay.example.pem"),
        directory.0.join("relay.example.key"),
    );
    let config = RelayConfig::parse("relay.toml", &text).expect("the file is right");
    let relay = RunningRelay::start(config, silent()).await.expect("it starts");
    let input = relay.inputs()[0].expect("an address");

    let known = TlsClient {
        authorities,
        name: "relay.example".to_owned(),
        identity: Some(identity(&directory.0, "client.example")),
    };
    let unknown = TlsClient { identity: None, ..known.clone() };
    let (sent, refused) = tokio::task::spawn_blocking(move || {
        let refused = send(&unknown, input, b"11 <11>refused");
        (send(&known, input, b"13 <11>encrypted\n13 <11>two\nlines"), refused)
    })
    .await
    .expect("no panic");
    assert!(refused.is_err(), "clients without a certificate are refused");
    sent.expect("clients with a certificate are accepted");

    until("both lines are taken", || relay.snapshot().received.iter().sum::<u64>() == 2).await;
    let last = relay.stop(PATIENCE).await;
    assert!(last.adds_up() && last.delivered == 2, "{last:?}");
    collector.stop().await;
    assert!(!directory.output().contains("refused"), "{}", directory.output());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_forwarded_over_tls_to_a_peer_that_is_believed() {
    let directory = Directory::new();
    let authorities = certificates(&directory.0, &["logs.example", "collect.example"]);
    let server = TlsServer { identity: identity(&directory.0, "logs.example"), clients: Some(authorities.clone()) };
    let (server, listener) = (server.config().expect("it is right"), TcpListener::bind(any_address()).expect("a port"));
    let forwarded_to = listener.local_addr().expect("an address");
    let (taken_in, taken) = mpsc::channel();
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("somebody comes");
        let mut stream = StreamOwned::new(ServerConnection::new(server).expect("it is right"), socket);
        let mut bytes = [0; 1_000];
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            let _ = taken_in.send(bytes[..length].to_vec());
        }
    });
    let text = format!(
        "state = {:?}\nlisten = \"127.0.0.1:0\"\n[[output]]\nkind = \"file\"\npath = {:?}\n[[output]]\nkind = \"forward\"\n\
         to = \"{forwarded_to}\"\nauthorities = {authorities:?}\nname = \"logs.example\"\ncertificate = {:?}\nkey = {:?}\n\
         [security]\nrelays = \"any\"\n",
        directory.0.join("collect"),
        directory.0.join("lines.log"),
        directory.0.join("collect.example.pem"),
        directory.0.join("collect.example.key"),
    );
    let config = CollectorConfig::parse("collect.toml", &text).expect("the file is right");
    let collector = RunningCollector::start(config, silent()).await.expect("it starts");
    let relay = super::relay(&directory.0, collector.local_addr()).await;
    let mut stream = TcpStream::connect(relay.inputs()[1].expect("an address")).expect("it listens");
    stream.write_all(b"<11>one\n<11>two\n").expect("it is sent");
    drop(stream);

    let expected = b"7 <11>one7 <11>two";
    let forwarded = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        while bytes.len() < expected.len() {
            bytes.extend(taken.recv_timeout(PATIENCE).expect("it comes"));
        }
        bytes
    });
    assert_eq!(forwarded.await.expect("no panic"), expected);
    relay.stop(PATIENCE).await;
    collector.stop().await;
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_name() {
    let directory = Directory::new();
    let authorities = certificates(&directory.0, &["a.example", "b.example"]);
    let (good, missing) = (identity(&directory.0, "a.example"), directory.0.join("missing.pem"));
    let mixed = Identity { key: directory.0.join("b.example.key"), ..good.clone() };
    let empty = directory.0.join("empty.pem");
    std::fs::write(&empty, "").expect("it can be written");
    let server = |identity: &Identity, clients: Option<&PathBuf>| {
        TlsServer { identity: identity.clone(), clients: clients.cloned() }.config()
    };
    assert!(server(&good, Some(&authorities)).is_ok());
    let absent = Identity { certificate: missing.clone(), ..good.clone() };
    assert!(matches!(server(&absent, None), Err(TlsError::File { path, .. }) if path == missing));
    assert!(matches!(server(&good, Some(&empty)), Err(TlsError::Empty(path)) if path == empty));
    assert!(matches!(server(&mixed, None), Err(TlsError::Unusable { .. })), "a key of another certificate");
    let client = TlsClient { authorities, name: "not a name".to_owned(), identity: None };
    assert!(matches!(client.config(), Err(TlsError::Name(_))));
}

#[test]
fn a_check_looks_at_the_dates_of_certificates_that_authorities_vouch_for() {
    let directory = Directory::new();
    let path = |name: &str| directory.0.join(name);
    let authorities = certificates(&directory.0, &["valid.example"]);
    let key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::new(["expired.example".to_owned()]).expect("a name");
    parameters.not_after = rcgen::date_time_ymd(2_001, 2, 3);
    let expired = parameters.self_signed(&key).expect("it is signed");
    std::fs::write(path("expired.example.pem"), expired.pem()).expect("it can be written");
    std::fs::write(path("expired.example.key"), key.serialize_pem()).expect("it can be written");
    let own = |name: &str| {
        format!("certificate = {:?}\nkey = {:?}\n", path(&format!("{name}.pem")), path(&format!("{name}.key")))
    };
    let relay = |text: &str| {
        let config = RelayConfig::parse("relay.toml", &format!("state = \"s\"\ncollector = \"127.0.0.1:1\"\n{text}"));
        config.expect("it can be read").check_files().map_err(|error| error.to_string())
    };
    let collector = |text: &str| {
        let output = "[[output]]\nkind = \"file\"\npath = \"lines\"\n";
        let config =
            CollectorConfig::parse("c.toml", &format!("state = \"s\"\nlisten = \"127.0.0.1:1\"\n{output}{text}"));
        config.expect("it can be read").check_files().map_err(|error| error.to_string())
    };
    let input = |own: &str| relay(&format!("[[input]]\nkind = \"tls\"\nlisten = \"127.0.0.1:6514\"\n{own}"));
    let secured = |trust: &str, own: &str| relay(&format!("[[input]]\nkind = \"stdin\"\n[security]\n{trust}{own}"));
    let relays = |trust: &str, own: &str| collector(&format!("[security]\n{trust}{own}"));
    let vouched = format!("authorities = {authorities:?}\n");
    let forward =
        |own: &str| collector(&format!("[[output]]\nkind = \"forward\"\nto = \"127.0.0.1:1\"\n{vouched}{own}"));
    let (valid, expired) = (own("valid.example"), own("expired.example"));
    for checked in [input(&expired), secured(&vouched, &expired), relays(&vouched, &expired), forward(&expired)] {
        let error = checked.expect_err("it has expired");
        assert!(
            error.contains("expired.example.pem") && error.contains("it expired on 2001-02-03; renew it"),
            "{error}"
        );
    }
    for checked in [input(&valid), secured(&vouched, &valid), relays(&vouched, &valid), forward(&valid)] {
        assert_eq!(checked, Ok(()));
    }
    // Peers that know the fingerprint ignore the dates.
    assert_eq!((secured("", &expired), relays("relays = \"any\"\n", &expired)), (Ok(()), Ok(())));
}
