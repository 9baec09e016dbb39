//! `wireshark/festina.lua` in tshark: captures of encrypted associations, with and without their secrets.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use festina::lower::{LowerLayer, Several};
use festina::security::{ClientSecurity, Identity, ServerSecurity};
use festina::{
    Association, ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, EndpointConfig, ListenOptions, MemoryNetwork, Message,
};
use festina_trace::{PcapngWriter, ip};
use festina_units::Instant;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, KeyLog, RootCertStore, ServerConfig};

const SERVER: [&str; 2] = ["10.0.0.1:9899", "10.0.1.1:9899"];
const CLIENT: [&str; 2] = ["10.0.0.2:40000", "10.0.1.2:40000"];
const NAME: &str = "server.test";
/// Bytes of the large message, which is split.
const LARGE_BYTES: usize = 5_000;

/// A datagram with its source and destination.
type Packet = (SocketAddr, SocketAddr, Vec<u8>);

/// Packets and the key log.
#[derive(Debug, Default)]
struct Recorded {
    packets: Vec<Packet>,
    key_log: String,
}

type Shared = Arc<Mutex<Recorded>>;

/// A key log in the format of NSS.
#[derive(Debug)]
struct Logged(Shared);

impl KeyLog for Logged {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        self.0.lock().expect("not poisoned").key_log.push_str(&line);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A provider whose associations have this cipher suite. Initial packets need another one.
fn provider(suite: CipherSuite) -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|known| [suite, CipherSuite::TLS13_AES_128_GCM_SHA256].contains(&known.suite()));
    provider.cipher_suites.sort_by_key(|known| known.suite() != suite);
    Arc::new(provider)
}

/// Settings of a client and a server with this cipher suite.
fn settings(suite: CipherSuite, shared: &Shared) -> [EndpointConfig; 2] {
    let identity = Identity::self_signed(NAME).expect("a key can be made");
    let chain: Vec<CertificateDer<'static>> = identity.chain_der().map(|it| it.to_vec().into()).collect();
    let key = PrivateKeyDer::try_from(identity.key_der().to_vec()).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(chain[0].clone()).expect("a certificate");
    let client = ClientConfig::builder_with_provider(provider(suite)).with_protocol_versions(&[&TLS13]);
    let mut client = client.expect("TLS 1.3").with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider(suite)).with_protocol_versions(&[&TLS13]);
    let server = server.expect("TLS 1.3").with_no_client_auth().with_single_cert(chain, key);
    let mut server = server.expect("key and certificate fit");
    client.enable_early_data = true;
    server.max_early_data_size = u32::MAX;
    client.key_log = Arc::new(Logged(shared.clone()));
    server.ignore_client_order = true;
    let client = festina::ClientConfig::new(ClientSecurity::from_rustls(Arc::new(client)));
    [client.into(), festina::ServerConfig::new(ServerSecurity::from_rustls(Arc::new(server))).into()]
}

async fn deliver(from: &Association, to: &Association, payload: &[u8]) {
    from.send(Message::new(payload.to_vec()).on_stream(3)).await.expect("it is sent");
    let received = to.recv().await.expect("the association lives").expect("a message");
    assert_eq!(*received.payload(), payload);
}

fn tapped(shared: &Shared) -> MemoryNetwork {
    let tap = shared.clone();
    MemoryNetwork::with_filter(move |from, to, packet| {
        tap.lock().expect("not poisoned").packets.push((from, to, packet.to_vec()));
        true
    })
}

/// An association whose client moves twice, and then its server, with a message both ways after each move.
async fn roam(shared: &Shared) {
    let network = tapped(shared);
    let bind = async |address: &str, config| {
        let socket = network.bind(address.parse().expect("an address")).expect("it is free");
        Endpoint::bind_on(socket, config).await.expect("sound settings")
    };
    let [client, server] = settings(CipherSuite::TLS13_AES_128_GCM_SHA256, shared);
    let (client, server) = (bind(CLIENT[0], client).await, bind(SERVER[0], server).await);
    let listener = server.listen(DEFAULT_SCTP_PORT).expect("the port is free");
    let connect = client.connect_with(server.local_addr(), ConnectOptions::default().server_name(NAME));
    let (near, far) = tokio::join!(connect, listener.accept());
    let (near, far) = (near.expect("connected"), far.expect("accepted"));
    for (round, address) in
        [None, Some("10.0.2.2:40000"), Some("10.0.3.2:40000"), Some("10.0.3.1:9899")].into_iter().enumerate()
    {
        let (moving, follower) = if round == 3 { (&server, &near) } else { (&client, &far) };
        if let Some(address) = address.map(|address| address.parse().expect("an address")) {
            moving.rebind(address).expect("it is free");
            while follower.remote_addr() != address {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        deliver(&near, &far, format!("to the server {round}").as_bytes()).await;
        deliver(&far, &near, format!("to the client {round}").as_bytes()).await;
    }
    let (ended, _) = tokio::join!(near.shutdown(), far.closed());
    ended.expect("a good end");
}

/// Two associations with this cipher suite: one with messages both ways before and after two key updates, and one with an early message.
async fn exchange(suite: CipherSuite, has_several_addresses: bool, shared: &Shared) {
    let network = tapped(shared);
    let [client, server] = settings(suite, shared);
    let bind = async |[first, second]: [&str; 2], config| {
        let socket = |address: &str| network.bind(address.parse().expect("an address")).expect("it is free");
        let others = has_several_addresses.then(|| Box::new(socket(second)) as Box<dyn LowerLayer>);
        let lower = Several::new(socket(first), others.into_iter().collect());
        Endpoint::bind_on(lower, config).await.expect("sound settings")
    };
    let (client, server) = (bind(CLIENT, client).await, bind(SERVER, server).await);
    let early = ListenOptions::default().on_early(|_, message| assert_eq!(message.payload(), "the early message"));
    let listener = server.listen_with(DEFAULT_SCTP_PORT, early).expect("the port is free");
    let options = |port| ConnectOptions::default().server_name(NAME).token("the token").local_port(port);
    let connect = async |options: ConnectOptions| {
        let (near, far) = tokio::join!(client.connect_with(server.local_addr(), options), listener.accept());
        (near.expect("connected"), far.expect("accepted"))
    };
    let (near, far) = connect(options(5_001)).await;
    for round in 0..3 {
        deliver(&near, &far, format!("to the server {round}").as_bytes()).await;
        deliver(&far, &near, format!("to the client {round}").as_bytes()).await;
        assert!(round == 2 || near.update_keys());
    }
    deliver(&near, &far, &[b'x'; LARGE_BYTES]).await;
    let (ended, _) = tokio::join!(near.shutdown(), far.closed());
    ended.expect("a good end");
    let (near, far) = connect(options(5_002).early_message(Message::new("the early message"))).await;
    assert!(near.is_resumed());
    deliver(&near, &far, b"to the server again").await;
    let (ended, _) = tokio::join!(near.shutdown(), far.closed());
    ended.expect("a good end");
}

fn record(suite: CipherSuite, has_several_addresses: bool) -> Recorded {
    record_of(async |shared| exchange(suite, has_several_addresses, shared).await)
}

fn record_of(exchange: impl AsyncFnOnce(&Shared)) -> Recorded {
    let shared = Shared::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let run = async { tokio::time::timeout(Duration::from_secs(60), exchange(&shared)).await };
    runtime.block_on(run).expect("it ends in time");
    drop(runtime);
    std::mem::take(&mut *shared.lock().expect("not poisoned"))
}

/// A capture with these secrets in front of the packets.
fn pcapng(Recorded { packets, .. }: &Recorded, secrets: &str) -> Vec<u8> {
    let mut capture = PcapngWriter::new(Vec::new()).expect("memory");
    if !secrets.is_empty() {
        capture.write_secrets(secrets).expect("memory");
    }
    let interface = capture.add_interface("wire").expect("memory");
    for (index, (from, to, payload)) in packets.iter().enumerate() {
        let packet = ip::encapsulate_udp(*from, *to, payload).expect("short");
        let at = Instant::from_secs(1_700_000_000 + index as u64);
        capture.write_packet(interface, at, &packet, None).expect("memory");
    }
    capture.finish().expect("memory")
}

/// The same as pcap, with at most this many bytes of each packet.
fn pcap(packets: &[Packet], captured_max: usize) -> Vec<u8> {
    const LINKTYPE_RAW: u32 = 101;
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, LINKTYPE_RAW] {
        file.extend(u32::to_le_bytes(word));
    }
    for (from, to, payload) in packets {
        let packet = ip::encapsulate_udp(*from, *to, payload).expect("short");
        let captured = packet.get(..captured_max).unwrap_or(&packet);
        for word in [0, 0, captured.len(), packet.len()] {
            file.extend(u32::try_from(word).expect("short").to_le_bytes());
        }
        file.extend(captured);
    }
    file
}

/// A folder of this test's own, which holds the files that tshark reads.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wireshark").join(test);
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}

/// The output of tshark with the dissector and these secrets; `None` if it is not installed.
fn tshark(capture: &Path, keys: &Path, arguments: &[&str]) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wireshark/festina.lua");
    let mut option = OsStr::new("festina.keys:").to_owned();
    option.push(keys);
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-o").arg(option);
    command.args(["-o", "sctp.checksum:CRC 32c"]).args(arguments).arg("-r").arg(capture);
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            assert!(std::env::var_os("CI").is_none(), "CI must have tshark installed");
            println!("skipped: tshark is not installed");
            return None;
        }
        output => output.expect("tshark can be run"),
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    for text in [&stdout, &stderr] {
        assert!(!text.contains("Lua Error") && !text.contains("lua:"), "{text}");
    }
    Some(stdout.into_owned())
}

/// The payload of every DATA chunk, which Wireshark shows as data.
fn payloads(text: &str) -> Vec<String> {
    text.split([',', '\n']).filter(|field| !field.is_empty()).map(str::to_owned).collect()
}

#[test]
fn tshark_decrypts_every_cipher_suite_with_key_updates_and_early_messages() {
    let suites = [
        ("aes-128", CipherSuite::TLS13_AES_128_GCM_SHA256),
        ("aes-256", CipherSuite::TLS13_AES_256_GCM_SHA384),
        ("chacha20", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ];
    for (name, suite) in suites {
        let recorded = record(suite, true);
        let folder = folder(name);
        let [capture, keys] = ["capture.pcapng", "keys.log"].map(|file| folder.join(file));
        std::fs::write(&capture, pcapng(&recorded, "")).expect("it can be written");
        std::fs::write(&keys, &recorded.key_log).expect("it can be written");
        let Some(details) = tshark(&capture, &keys, &["-V"]) else { return };
        for complaint in ["Malformed", "Not decrypted", "incorrect", "Bad"] {
            let line = details.lines().find(|line| line.contains(complaint));
            assert_eq!(line, None, "{name}: tshark says {complaint:?}");
        }
        let fields = |fields: &[&str], passes: &[&str]| {
            let names = fields.iter().flat_map(|field| ["-e", field]);
            let arguments: Vec<&str> = passes.iter().copied().chain(["-T", "fields"]).chain(names).collect();
            tshark(&capture, &keys, &arguments).expect("it is installed")
        };
        for passes in [&[][..], &["-2"]] {
            let data = payloads(&fields(&["data.data"], passes));
            let expected =
                (0..3).flat_map(|round| [format!("to the server {round}"), format!("to the client {round}")]);
            for message in expected.chain(["to the server again".to_owned()]) {
                assert!(data.contains(&hex(message.as_bytes())), "{name}: {message} is not in {data:?}");
            }
            assert!(data.contains(&hex(&[b'x'; LARGE_BYTES])), "{name}: the message in several packets");
        }
        let sources = payloads(&fields(&["ip.src"], &["-Y", "festina.number"]));
        for address in [CLIENT[1], SERVER[1]].map(|address| address.split(':').next().expect("an IP address")) {
            assert!(sources.iter().any(|source| source == address), "{name}: nothing of {address} is decrypted");
        }
        let early = payloads(&fields(&["festina.message.payload"], &[]));
        assert_eq!(early, [hex(b"the early message")], "{name}");
        let updates = payloads(&fields(&["festina.key_updates"], &[]));
        assert!(["0", "1", "2"].iter().all(|count| updates.iter().any(|seen| seen == count)), "{name}: {updates:?}");
        let ports = payloads(&fields(&["festina.client_port", "festina.server_port"], &[]));
        assert!(ports.iter().any(|ports| ports.starts_with("5001\t5000")), "{name}: {ports:?}");
    }
}

#[test]
fn tshark_and_trace_follow_moves_with_other_connection_ids() {
    let recorded = record_of(roam);
    let capture = folder("moves").join("moves.pcapng");
    std::fs::write(&capture, pcapng(&recorded, &recorded.key_log)).expect("it can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_festina")).args(["trace", "thin"]).arg(&capture).output();
    let text = String::from_utf8_lossy(&output.expect("it can be run").stdout).into_owned();
    assert!(text.contains(" with data") && !text.contains("not decrypted"), "{text}");
    for passes in [&[][..], &["-2"]] {
        let arguments = [passes, &["-T", "fields", "-e", "data.data", "-e", "_ws.expert"]].concat();
        let Some(text) = tshark(&capture, &capture, &arguments) else { return };
        for message in (0..4).flat_map(|round| ["server", "client"].map(|side| format!("to the {side} {round}"))) {
            assert!(text.contains(&hex(message.as_bytes())), "{message}: {text}");
        }
        assert!(!text.contains("Not decrypted") && !text.contains("Malformed"), "{text}");
    }
    let shown = tshark(&capture, &capture, &["-V"]).expect("it is installed");
    assert!(shown.contains("spare connection ID") && shown.contains("Connection ID for the next move"), "{shown}");
}

#[test]
fn a_capture_with_its_secrets_is_enough_for_tshark_and_for_trace() {
    let recorded = record(CipherSuite::TLS13_AES_256_GCM_SHA384, false);
    let folder = folder("secrets");
    let [capture, plain, keys] = ["secrets.pcapng", "bare.pcapng", "keys.log"].map(|file| folder.join(file));
    std::fs::write(&capture, pcapng(&recorded, &recorded.key_log)).expect("it can be written");
    std::fs::write(&plain, pcapng(&recorded, "")).expect("it can be written");
    std::fs::write(&keys, &recorded.key_log).expect("it can be written");

    let trace = |arguments: &[&OsStr]| {
        let output = Command::new(env!("CARGO_BIN_EXE_festina")).args(["trace", "thin"]).args(arguments).output();
        let output = output.expect("it can be run");
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code(), stdout, stderr)
    };
    let (code, inside, complaints) = trace(&[capture.as_os_str()]);
    assert_eq!((code, complaints.as_str()), (Some(0), ""), "{inside}");
    let expected = "10.0.0.2:5001 > 10.0.0.1:5000";
    assert!(inside.contains(expected) && inside.contains(" 3 streams with data"), "{inside}");
    assert!(!inside.contains("decrypted"), "{inside}");
    let (code, beside, _) = trace(&[plain.as_os_str(), OsStr::new("--keys"), keys.as_os_str()]);
    let rows = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((code, rows(&beside)), (Some(0), rows(&inside)));
    let (code, without, _) = trace(&[plain.as_os_str()]);
    let count = recorded.packets.len();
    assert_eq!(code, Some(0));
    assert!(without.contains(&format!("{count} of {count} packets were not decrypted")), "{without}");
    assert!(without.contains("10.0.0.2:40000 > 10.0.0.1:9899"), "as UDP: {without}");
    // Without the first handshake, and with only a part of each packet.
    let begun = &recorded.packets[8..];
    let first = begun.iter().take_while(|packet| packet.2[0] & 0xe0 == 0x60).count();
    assert!(first > 0, "short headers only");
    // None is whole, not even a packet that holds a short chunk alone.
    let shortest = recorded.packets.iter().map(|(from, to, payload)| ip::encapsulate_udp(*from, *to, payload));
    let shortest = shortest.map(|packet| packet.expect("short").len()).min().expect("packets");
    for (packets, captured_max, closed) in [(begun, 65_535, first), (&recorded.packets, shortest - 1, count)] {
        let cut = folder.join("cut.pcap");
        std::fs::write(&cut, pcap(packets, captured_max)).expect("it can be written");
        let (_, text, _) = trace(&[cut.as_os_str(), OsStr::new("--keys"), keys.as_os_str()]);
        assert!(text.contains(&format!("{closed} of {} packets were not decrypted", packets.len())), "{text}");
    }
    let (code, _, complaint) = trace(&[plain.as_os_str(), OsStr::new("--keys"), plain.as_os_str()]);
    assert!(code == Some(1) && complaint.contains("bare.pcapng holds no secret"), "{complaint}");

    let data = ["-T", "fields", "-e", "data.data"];
    let Some(text) = tshark(&capture, &capture, &data) else { return };
    assert!(payloads(&text).contains(&hex(b"to the client 2")), "{text}");
    for keys in [&plain, &folder.join("missing.log"), &folder] {
        let text = tshark(&plain, keys, &data).expect("it is installed");
        assert_eq!(payloads(&text), [""; 0], "nothing is decrypted with {}", keys.display());
    }
    // The hello is readable for anyone.
    let text = tshark(&plain, &plain, &["-V"]).expect("it is installed");
    assert!(
        text.contains("Not decrypted: no keys are known") && text.contains("SCTP port of the server: 5000"),
        "{text}"
    );
}

/// The first packets of `festina ping -i 20ms` over a path of 100 ms that lost 5 % each way.
#[test]
fn tshark_shows_sums_of_chunks() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/sums.pcapng");
    let fields = ["festina.repair.row", "festina.repair.first", "festina.repair.mask"];
    let arguments: Vec<&str> = ["-T", "fields"].into_iter().chain(fields.iter().flat_map(|it| ["-e", it])).collect();
    let Some(text) = tshark(&capture, &capture, &arguments) else { return };
    assert!(text.contains("1,0\t1507942678,1507942678\t0x0003,0x0003"), "{text}");
}

/// The next of a sequence of numbers that look random (Marsaglia's xorshift).
fn next(state: &mut usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Damages a datagram.
fn damage(state: &mut usize, datagram: &mut Vec<u8>) {
    for _ in 0..next(state) % 4 {
        let at = next(state) % datagram.len().max(1);
        match next(state) % 6 {
            0 => datagram.truncate(at),
            1 => datagram.extend(std::iter::repeat_n(b'x', at)),
            2 => datagram.rotate_left(at),
            3 => datagram.first_mut().into_iter().for_each(|first| *first = 0x60 | at.to_le_bytes()[0] & 0x9f),
            // Behind the header, where the payload begins.
            4 => datagram.get_mut(27..40).into_iter().flatten().for_each(|byte| *byte ^= at.to_le_bytes()[0]),
            _ => datagram.get_mut(at).into_iter().for_each(|byte| *byte = next(state).to_le_bytes()[0]),
        }
    }
}

#[test]
fn damaged_and_hostile_captures_draw_no_error_of_lua() {
    let recorded = record(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, false);
    let folder = folder("damaged");
    let [capture, keys] = ["damaged.pcap", "keys.log"].map(|file| folder.join(file));
    std::fs::write(&keys, &recorded.key_log).expect("it can be written");
    let mut state = 0x5eed;
    let mut damaged = Vec::new();
    for _ in 0..20 {
        for (from, to, payload) in &recorded.packets {
            let mut payload = payload.clone();
            damage(&mut state, &mut payload);
            damaged.push((*from, *to, payload));
        }
        // So that later packets have keys, wherever the damage was.
        damaged.extend(recorded.packets.iter().take(8).cloned());
    }
    for captured_max in [65_535, 100, 60, 40] {
        std::fs::write(&capture, pcap(&damaged, captured_max)).expect("it can be written");
        for passes in [&["-V"][..], &["-2", "-V"]] {
            let Some(text) = tshark(&capture, &keys, passes) else { return };
            assert!(captured_max < 60 || text.contains("Festina protected packets, Initial"));
        }
    }
}

/// A pcap of these packets, each with at most this many bytes.
fn cut(packets: &[(&Packet, usize)]) -> Vec<u8> {
    let records =
        packets.iter().flat_map(|(packet, captured_max)| pcap(&[(*packet).clone()], *captured_max).split_off(24));
    pcap(&[], 0).into_iter().chain(records).collect()
}

#[test]
fn packets_of_which_a_part_was_captured_are_decrypted_as_far_as_they_go() {
    let recorded = record(CipherSuite::TLS13_AES_128_GCM_SHA256, false);
    let folder = folder("cut");
    let [capture, keys] = ["cut.pcap", "keys.log"].map(|file| folder.join(file));
    std::fs::write(&keys, &recorded.key_log).expect("it can be written");
    let (hello, rest) = recorded.packets.split_first().expect("packets");

    // Cut within the tag.
    let whole = 28 + hello.2.len();
    let lengths: Vec<_> = (whole - 17..=whole).map(|captured_max| (hello, captured_max)).collect();
    std::fs::write(&capture, cut(&lengths)).expect("it can be written");
    let Some(text) = tshark(&capture, &keys, &["-V"]) else { return };
    assert_eq!(text.matches("Handshake bytes of TLS").count(), 18, "{text}");
    assert_eq!(text.matches("[The capture has only a part of this packet]").count(), 17, "{text}");

    // Cut within the hello, and within a message.
    for (hello_max, rest_max) in [(100, 100), (whole, 60)] {
        let rest = rest.iter().map(|packet| (packet, rest_max));
        let packets: Vec<_> = [(hello, hello_max)].into_iter().chain(rest).collect();
        std::fs::write(&capture, cut(&packets)).expect("it can be written");
        let text = tshark(&capture, &keys, &["-V"]).expect("it is installed");
        assert!(text.contains("The capture has only a part of this packet"), "{text}");
        assert!(text.contains("DATA chunk"), "{hello_max}, {rest_max}: {text}");
    }

    // Captured before the system segments the datagrams of the same direction.
    let mut joined: Vec<Packet> = Vec::new();
    for packet in &recorded.packets {
        match joined.last_mut().filter(|last| last.0 == packet.0 && packet.2[0] & 0xe0 == 0x60) {
            Some(last) => last.2.extend(&packet.2),
            None => joined.push(packet.clone()),
        }
    }
    std::fs::write(&capture, pcap(&joined, 65_535)).expect("it can be written");
    let text = tshark(&capture, &keys, &["-T", "fields", "-e", "data.data"]).expect("it is installed");
    assert!(payloads(&text).contains(&hex(&[b'x'; LARGE_BYTES])), "{text}");
}

#[test]
fn secrets_beyond_their_block_are_not_read() {
    let recorded = record(CipherSuite::TLS13_AES_128_GCM_SHA256, false);
    let folder = folder("overlapping");
    let [capture, keys] = ["capture.pcapng", "keys.pcapng"].map(|file| folder.join(file));
    std::fs::write(&capture, pcapng(&recorded, "")).expect("it can be written");
    let mut hostile = pcapng(&recorded, &recorded.key_log);
    let data = ["-T", "fields", "-e", "data.data"];
    for is_read in [true, false] {
        std::fs::write(&keys, &hostile).expect("it can be written");
        let Some(text) = tshark(&capture, &keys, &data) else { return };
        assert_eq!(!payloads(&text).is_empty(), is_read);
        // The length of the block behind the section header.
        let section_bytes = usize::from(hostile[4]);
        hostile[section_bytes + 4..][..4].copy_from_slice(&[20, 0, 0, 0]);
    }
}
