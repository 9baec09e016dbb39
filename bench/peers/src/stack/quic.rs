//! QUIC by quinn-proto or by noq-proto, the sans-IO cores of the stacks quinn and noq, with TLS by rustls and ring. noq is a fork of
//! quinn, so one adapter serves both.
//!
//! The server's certificate is self-signed and short, so that its whole flight fits into one packet; real chains take more.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::time_provider::TimeProvider;

use crate::peer::{Peer, SendError};

mod noq;
mod quinn;

pub use noq::Noq;
pub use quinn::Quinn;

/// The name in the certificate.
pub(super) const SERVER_NAME: &str = "localhost";
/// The time of day, in seconds since 1970: certificates and tickets ask for one.
const TIME_OF_DAY: Duration = Duration::from_secs(1_700_000_000);
/// On one stream, the length of a message goes before it.
const LENGTH_BYTES: usize = 2;

/// What carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// One stream carries all, each behind its length in two bytes. In order.
    OneStream,
    /// Each has a stream of its own. Reliable, without order.
    StreamPerMessage,
    /// Each is a datagram (RFC 9221). Lost ones are not retransmitted.
    Datagrams,
}

/// How the stack is set.
#[derive(Clone, Copy, Debug)]
pub struct QuicSettings {
    /// What carries a message.
    pub carriage: Carriage,
    /// `None`: the defaults. Otherwise all that lowers delay or saves bytes is set, for a path with this round-trip time: it is the
    /// initial estimate; every packet is acknowledged at once, and the sender does not allow for a delay (ACK frequency); one later
    /// packet proves a loss; connection identifiers are empty; no MTU discovery.
    pub tuned_for: Option<Duration>,
    /// Each client has been connected before, without loss, and sends its first message with its first packet (0-RTT).
    pub resumes: bool,
}

/// A QUIC stack: makes pairs of a client and its server.
pub trait Quic: Sized {
    /// Name and version of the stack.
    const NAME: &'static str;

    /// A factory with a certificate of its own.
    fn new(settings: QuicSettings) -> Self;

    /// A client that connects, and its server. The seed determines the stack's random numbers.
    fn pair(&self, seed: u64) -> [Box<dyn Peer>; 2];
}

/// A client and a server that know each other by a fresh certificate.
pub(super) fn credentials(resumes: bool) -> (rustls::ClientConfig, rustls::ServerConfig) {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("ring makes such keys");
    let mut parameters = rcgen::CertificateParams::new([SERVER_NAME.to_owned()]).expect("the name is sound");
    // Of one length always; that of a random one varies.
    parameters.serial_number = Some(1_u64.into());
    let certificate = parameters.self_signed(&key).expect("the key is sound");
    let certificate = CertificateDer::from(certificate.der().to_vec());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("the certificate is sound");
    let (provider, time) = (Arc::new(ring::default_provider()), Arc::new(Standstill));
    let versions = [&rustls::version::TLS13];
    let mut client = rustls::ClientConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&time) as Arc<_>)
        .with_protocol_versions(&versions)
        .expect("ring has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.enable_early_data = resumes;
    let mut server = rustls::ServerConfig::builder_with_details(provider, time)
        .with_protocol_versions(&versions)
        .expect("ring has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .expect("key and certificate match");
    server.max_early_data_size = if resumes { u32::MAX } else { 0 };
    (client, server)
}

/// A time of day that never changes.
#[derive(Debug)]
struct Standstill;

impl TimeProvider for Standstill {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(TIME_OF_DAY))
    }
}

/// Lets a pair exchange packets at one instant until none is left: afterwards the client can resume.
pub(super) fn meet([mut client, mut server]: [impl Peer; 2]) {
    let now = Duration::ZERO;
    loop {
        let mut quiet = true;
        while let Some(packet) = client.poll_packet(now) {
            server.handle_packet(now, packet);
            quiet = false;
        }
        while let Some(packet) = server.poll_packet(now) {
            client.handle_packet(now, packet);
            quiet = false;
        }
        if quiet {
            return;
        }
    }
}

/// The first message of a stream, once it is complete.
fn take_framed(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = bytes.get(..LENGTH_BYTES).map(|mut head| usize::from(head.get_u16()))?;
    if bytes.len() < LENGTH_BYTES + length {
        return None;
    }
    bytes.advance(LENGTH_BYTES);
    Some(bytes.split_to(length).freeze())
}

fn refused(error: &(impl ToString + ?Sized)) -> SendError {
    SendError::Refused(error.to_string())
}
