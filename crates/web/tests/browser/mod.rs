//! A native client that speaks to a server as a browser does: ICE's controlling side, DTLS by `dimpl`, the SCTP core. Without sockets and clocks.

#![expect(clippy::unwrap_used, reason = "a client of tests and measurements may end by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use dimpl::{Dtls, DtlsCertificate, Output};
use festina_endpoint::endpoint::Setup;
use festina_endpoint::endpoint::{AssociationId, EndpointEvent};
use festina_endpoint::{Channel as _, Datagram, Endpoint, Protocols};
use festina_sctp::{Config, Context, Event, Message, Ports, ReceivedMessage, StreamId};
use festina_units::{Duration, EcnCodepoint, Instant};
use ring::{digest, hmac};

/// The server inside DTLS.
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5_000);
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// A browser with one connection.
pub(crate) struct Browser {
    dtls: Dtls,
    certificate: DtlsCertificate,
    clock: (Instant, std::time::Instant),
    ufrag: String,
    /// User name and password of requests, once the answer is there.
    credentials: Option<(String, String)>,
    asked: u64,
    ask_at: Instant,
    is_found: bool,
    pub(crate) is_connected: bool,
    endpoint: Endpoint,
    pub(crate) association: Option<AssociationId>,
    datagrams: Vec<Vec<u8>>,
    deadline: Option<Instant>,
}

impl Browser {
    pub(crate) fn new(now: Instant, clock: std::time::Instant, number: u64) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["WebRTC".to_owned()]).unwrap();
        let certificate =
            DtlsCertificate { certificate: made.cert.der().to_vec(), private_key: made.signing_key.serialize_der() };
        let config = dimpl::Config::builder()
            .mtu(1_200)
            .flight_start_rto(Duration::from_millis(150))
            .flight_retries(7)
            .build()
            .unwrap();
        let mut dtls = Dtls::new_auto(Arc::new(config), certificate.clone(), clock);
        dtls.set_active(true);
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&number.to_be_bytes());
        let context = Context::new(Config::default(), secret).unwrap();
        let endpoint = Endpoint::new(Setup {
            context,
            protocols: Protocols::Plain,
            listener: None,
            secret,
            cpu_time: || Duration::ZERO,
        });
        let ufrag = format!("u{number:07}");
        let (credentials, association, deadline) = (None, None, None);
        Self {
            dtls,
            certificate,
            clock: (now, clock),
            ufrag,
            credentials,
            asked: number << 32,
            ask_at: now,
            is_found: false,
            is_connected: false,
            endpoint,
            association,
            datagrams: Vec::new(),
            deadline,
        }
    }

    pub(crate) fn offer(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.certificate.certificate);
        let digits: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let lines = [
            "v=0",
            "o=- 1 2 IN IP4 127.0.0.1",
            "s=-",
            "t=0 0",
            "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
            "c=IN IP4 0.0.0.0",
            &format!("a=ice-ufrag:{}", self.ufrag),
            "a=ice-pwd:abcdefghijklmnopqrstuvwx",
            &format!("a=fingerprint:sha-256 {}", digits.join(":")),
            "a=setup:actpass",
            "a=mid:0",
            "a=sctp-port:5000",
        ];
        lines.join("\r\n")
    }

    /// Takes the answer, and returns the address that it names.
    pub(crate) fn take_answer(&mut self, answer: &str) -> SocketAddr {
        let attribute = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let user = format!("{}:{}", attribute("a=ice-ufrag:"), self.ufrag);
        self.credentials = Some((user, attribute("a=ice-pwd:").to_owned()));
        let candidate: Vec<&str> = attribute("a=candidate:").split(' ').collect();
        SocketAddr::new(candidate[4].parse().unwrap(), candidate[5].parse().unwrap())
    }

    /// A new request of ICE, as after a move.
    pub(crate) fn ask(&mut self) -> Vec<u8> {
        self.asked += 1;
        let (user, password) = self.credentials.as_ref().expect("the answer is there");
        request(self.asked, user, password)
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        match bytes[0] {
            0..=3 => {
                assert_eq!(bytes[..2], [1, 1], "a success");
                if !std::mem::replace(&mut self.is_found, true) {
                    self.handle_timeout(now);
                }
            }
            _ => {
                self.dtls.handle_timeout(self.time(now)).unwrap();
                self.dtls.handle_packet(bytes).unwrap();
                self.flush(now);
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.is_found {
            self.dtls.handle_timeout(self.time(now)).unwrap();
            self.endpoint.handle_timeout(now);
            self.flush(now);
        } else if self.credentials.is_some() && self.ask_at <= now {
            self.ask_at = now + ASK_AGAIN;
            let request = self.ask();
            self.datagrams.push(request);
        }
    }

    pub(crate) fn poll_deadline(&self, now: Instant) -> Option<Instant> {
        let asking = (!self.is_found).then_some(self.ask_at);
        Instant::earliest([asking, self.deadline, self.endpoint.poll_deadline(now)])
    }

    pub(crate) fn poll_datagrams(&mut self, now: Instant) -> Vec<Vec<u8>> {
        if self.is_found {
            self.flush(now);
        }
        std::mem::take(&mut self.datagrams)
    }

    pub(crate) fn send(&mut self, now: Instant, message: Message) {
        let id = self.association.expect("connected");
        self.endpoint
            .change(id, |association| association.send(now, message))
            .expect("it lives")
            .expect("there is room");
    }

    pub(crate) fn recv(&mut self) -> Option<ReceivedMessage> {
        self.endpoint.poll_message(self.association?)
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let EndpointEvent::Association(_, event) = self.endpoint.poll_event()? {
                return Some(event);
            }
        }
    }

    pub(crate) fn reset(&mut self, now: Instant, stream: u16) {
        let id = self.association.expect("connected");
        let reset =
            self.endpoint.change(id, |association| association.core_mut().reset_streams(now, &[StreamId(stream)]));
        reset.expect("it lives").expect("the peer knows RE-CONFIG");
    }

    pub(crate) fn abort(&mut self) {
        self.endpoint
            .change(self.association.expect("connected"), |association| association.abort(b"the page is closed"));
    }

    fn time(&self, now: Instant) -> std::time::Instant {
        self.clock.1 + now.saturating_duration_since(self.clock.0)
    }

    fn flush(&mut self, now: Instant) {
        let mut buffer = [0; 2_048];
        loop {
            let mut packet = Vec::new();
            while self.is_connected && self.endpoint.poll_transmit(now, &mut packet).is_some() {
                // With a full queue the packet is lost.
                let _ = self.dtls.send_application_data(&std::mem::take(&mut packet));
            }
            let mut received = false;
            loop {
                match self.dtls.poll_output(&mut buffer) {
                    Output::Packet(bytes) => self.datagrams.push(bytes.to_vec()),
                    Output::Connected => {
                        self.is_connected = true;
                        let ports = Ports { local: 5_000, peer: 5_000 };
                        self.association =
                            Some(self.endpoint.connect_plain(now, SERVER.into(), ports, self.asked).unwrap());
                        received = true;
                    }
                    Output::ApplicationData(bytes) => {
                        let packet = BytesMut::from(bytes);
                        let from = SERVER.into();
                        self.endpoint.handle_datagram(
                            now,
                            Datagram { from, source: None, ecn: EcnCodepoint::NotCapable, packet },
                        );
                        received = true;
                    }
                    Output::Timeout(at) => {
                        self.deadline = Some(self.clock.0.saturating_add(at.saturating_duration_since(self.clock.1)));
                        break;
                    }
                    _ => {}
                }
            }
            if !received {
                return;
            }
        }
    }
}

/// A binding request as of RFC 8489 §14 and RFC 8445 §7.1, written without this crate's own code.
pub(crate) fn request(transaction: u64, user: &str, password: &str) -> Vec<u8> {
    let mut bytes = vec![0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42, 0, 0, 0, 0];
    bytes.extend(transaction.to_be_bytes());
    let put = |bytes: &mut Vec<u8>, kind: u16, value: &[u8]| {
        bytes.extend(kind.to_be_bytes());
        bytes.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let length = u16::try_from(bytes.len() - 20).unwrap();
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
    };
    put(&mut bytes, 0x0006, user.as_bytes());
    put(&mut bytes, 0x802A, &[9; 8]);
    put(&mut bytes, 0x0024, &[0x6E, 0, 1, 0xFF]);
    put(&mut bytes, 0x0025, &[]);
    // Length and tag cover each other: the header counts the tag, the tag covers everything before it.
    let mut covered = bytes.clone();
    put(&mut covered, 0x0008, &[0; 20]);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
    let tag = hmac::sign(&key, &covered[..bytes.len()]);
    put(&mut bytes, 0x0008, tag.as_ref());
    let mut counted = bytes.clone();
    put(&mut counted, 0x8028, &[0; 4]);
    let checksum = crc32fast::hash(&counted[..bytes.len()]) ^ 0x5354_554E;
    put(&mut bytes, 0x8028, &checksum.to_be_bytes());
    bytes
}
