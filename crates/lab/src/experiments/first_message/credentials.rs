//! TLS settings of the encrypted contenders, and sessions to resume.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use festina_netsim::RandomStream;
use festina_sctp::{Context, PathKnowledge, Ports};
use festina_secure::sessions::ServerSessions;
use festina_secure::{Connect, HalfOpenLimits, HandshakeError, Incoming, Listener, SecureAssociation};
use festina_units::{EcnCodepoint, Instant};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::secure::{ADDRESS, FIRST_PORT, PORT};

const SERVER_NAME: &str = "server.test";
/// Self-signed with [`KEY_SEED`]. Signatures of Ed25519 have a constant length, unlike those of ECDSA.
const CERTIFICATE: &[u8] = include_bytes!("server.der");
/// Header of an Ed25519 key in PKCS #8 (RFC 8410 §7).
const KEY_HEADER: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const KEY_SEED: [u8; 32] = *b"FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF";
/// A day on which the certificate is valid, 2027-01-01: time of day does not advance in the simulator.
const TODAY: Duration = Duration::from_secs(1_798_761_600);
/// More than are ever unused at a time.
const SESSIONS_MAX: usize = 65_536;

/// A client that trusts the server's certificate, and the server.
pub(super) struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Credentials {
    /// `early` allows early messages in resumed sessions.
    pub(super) fn new(early: bool) -> Self {
        let (provider, time) = (Arc::new(ring::default_provider()), Arc::new(Standstill));
        let certificate = CertificateDer::from(CERTIFICATE);
        let key = PrivatePkcs8KeyDer::from([&KEY_HEADER[..], &KEY_SEED].concat()).into();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("the certificate is sound");
        let versions = [&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&time) as Arc<_>)
            .with_protocol_versions(&versions)
            .expect("ring has TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut server = ServerConfig::builder_with_details(provider, time)
            .with_protocol_versions(&versions)
            .expect("ring has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("key and certificate match");
        client.enable_early_data = early;
        server.max_early_data_size = if early { u32::MAX } else { 0 };
        server.session_storage = Arc::new(ServerSessions::new(SESSIONS_MAX));
        Self { client: Arc::new(client), server: Arc::new(server) }
    }

    /// A request for an association, whose connection IDs are these random bytes: first its own, then the one that it chooses for the server.
    pub(super) fn request<'a>(
        &'a self,
        random: [u8; 16],
        ports: Ports,
        known: Option<&'a PathKnowledge>,
    ) -> Connect<'a> {
        let server_name = ServerName::try_from(SERVER_NAME).expect("it is a host name");
        Connect { tls: &self.client, resumption: None, server_name, remote: ADDRESS, ports, token: &[], random, known }
    }

    /// A listener without limits on half-open handshakes: associations do not compete.
    pub(super) fn listener(
        &self,
        context: &Arc<Context>,
        random: &mut RandomStream,
    ) -> Result<Listener, HandshakeError> {
        let [first, second] = [random_bytes(random), random_bytes(random)];
        let mut secret = [0; 32];
        secret[..16].copy_from_slice(&first);
        secret[16..].copy_from_slice(&second);
        Listener::new(context, Arc::clone(&self.server), secret, HalfOpenLimits::UNLIMITED)
    }

    /// Gives the client sessions to resume: an earlier association, whose packets take no time and are not counted.
    pub(super) fn meet(&self, now: Instant, context: &Arc<Context>, random: &mut RandomStream) {
        let mut listener = self.listener(context, random).expect("the settings are those of TLS 1.3");
        let ports = Ports { local: FIRST_PORT, peer: PORT };
        let client = SecureAssociation::connect(now, context, self.request(random_bytes(random), ports, None));
        let mut client = client.expect("the settings are those of TLS 1.3");
        let mut server: Option<Box<SecureAssociation>> = None;
        let mut datagram = Vec::new();
        loop {
            let mut is_quiet = true;
            while client.poll_transmit(now, &mut datagram).is_some() {
                is_quiet = false;
                let bytes = BytesMut::from(&datagram[..]);
                datagram.clear();
                match &mut server {
                    // A dropped datagram fails the handshake, which is checked below.
                    Some(server) => drop(server.handle_datagram(now, ADDRESS, EcnCodepoint::NotCapable, bytes)),
                    None => match listener.handle_datagram(now, ADDRESS, bytes, 0, &mut Vec::new()) {
                        Incoming::HalfOpen(association) => server = Some(association),
                        other => unreachable!("a hello begins a handshake: {other:?}"),
                    },
                }
            }
            let Some(server) = &mut server else { continue };
            server.admit(now);
            while server.poll_transmit(now, &mut datagram).is_some() {
                is_quiet = false;
                let bytes = BytesMut::from(&datagram[..]);
                datagram.clear();
                drop(client.handle_datagram(now, ADDRESS, EcnCodepoint::NotCapable, bytes));
            }
            if is_quiet {
                break;
            }
        }
        assert!(client.is_established(), "nothing is lost, yet the handshake fails: {:?}", client.failure());
    }
}

pub(super) fn random_bytes(random: &mut RandomStream) -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.as_chunks_mut::<8>().0 {
        *half = random.bits().to_le_bytes();
    }
    bytes
}

/// A time of day that never changes.
#[derive(Debug)]
struct Standstill;

impl TimeProvider for Standstill {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(TODAY))
    }
}
