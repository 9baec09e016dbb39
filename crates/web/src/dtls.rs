//! One DTLS association with a browser (RFC 8261): SCTP packets in, datagrams out.

use std::sync::Arc;

use dimpl::{Dtls, DtlsCertificate, Output};
use festina_units::{Duration, Instant};
use ring::digest;

/// Bytes of the largest datagram sent. Every path with IPv6 carries it.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 1_200;
/// Bytes of the largest SCTP packet: a datagram without the largest header and tag of DTLS 1.2 with AES-GCM.
pub(crate) const PACKET_BYTES_MAX: usize = 1_160;
/// First retransmission timeout of the handshake. RFC 9147 §5.8.2 asks for 1 s on unknown networks and allows less where the application needs it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(150);
/// Retransmissions of a flight, with doubled timeouts: as many as fit into the patience.
const HANDSHAKE_RETRIES: usize = 7;
/// The handshake is given up after this time.
pub(crate) const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(20);
/// Records that wait for those before them.
const QUEUE_MAX: usize = 32;

/// A certificate of this side, of its own making.
#[derive(Clone)]
pub(crate) struct Certificate {
    pair: DtlsCertificate,
    /// SHA-256 of the certificate, which the answer names.
    pub(crate) fingerprint: [u8; 32],
    config: Arc<dimpl::Config>,
    /// DTLS counts time from here: the same moment on both clocks.
    origin: (Instant, std::time::Instant),
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Certificate").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl Certificate {
    pub(crate) fn new(now: Instant, clock: std::time::Instant) -> Result<Self, CertificateError> {
        let made = rcgen::generate_simple_self_signed(vec!["festina".to_owned()])?;
        let config = dimpl::Config::builder()
            .mtu(DATAGRAM_BYTES_MAX)
            .max_queue_rx(QUEUE_MAX)
            .max_queue_tx(QUEUE_MAX)
            .require_client_certificate(true)
            // ICE has found the peer at its address, and `Gateway` limits the bytes sent there before the handshake ends.
            .use_server_cookie(false)
            .flight_start_rto(HANDSHAKE_TIMEOUT)
            .flight_retries(HANDSHAKE_RETRIES)
            .handshake_timeout(HANDSHAKE_PATIENCE)
            .build()?;
        let certificate = made.cert.der().to_vec();
        let pair = DtlsCertificate { certificate, private_key: made.signing_key.serialize_der() };
        let fingerprint = fingerprint(&pair.certificate);
        Ok(Self { pair, fingerprint, config: Arc::new(config), origin: (now, clock) })
    }

    fn clock(&self, now: Instant) -> std::time::Instant {
        self.origin.1 + now.saturating_duration_since(self.origin.0)
    }
}

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The key or the certificate.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The settings of DTLS.
    #[error("cannot set up DTLS: {0}")]
    Dtls(#[from] dimpl::Error),
}

/// Returns the SHA-256 of a certificate in DER.
pub(crate) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    bytes
}

/// What a session has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// A datagram for the peer.
    Datagram(&'a [u8]),
    /// An SCTP packet of the peer, whose certificate was the right one.
    Packet(&'a [u8]),
    /// The handshake is complete, and the certificate was the right one.
    Connected,
}

/// The association is over: closed by the peer, with another certificate than announced, or by a violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Over(pub(crate) &'static str);

/// A DTLS association in the server's role.
pub(crate) struct Session {
    dtls: Dtls,
    /// SHA-256 of the certificate that the peer has announced.
    expected: [u8; 32],
    is_verified: bool,
    is_connected: bool,
    pub(crate) deadline: Option<Instant>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("is_connected", &self.is_connected).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(now: Instant, certificate: &Certificate, expected: [u8; 32]) -> Self {
        let dtls = Dtls::new_auto(certificate.config.clone(), certificate.pair.clone(), certificate.clock(now));
        Self { dtls, expected, is_verified: false, is_connected: false, deadline: None }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Handles a datagram of the peer.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        datagram: &[u8],
        say: impl FnMut(Said<'_>),
    ) -> Result<(), Over> {
        self.dtls.handle_timeout(certificate.clock(now)).map_err(|error| failed(&error))?;
        match self.dtls.handle_packet(datagram) {
            // Protected, so the peer's own: others are not looked at any more.
            Err(error @ dimpl::Error::SecurityError(_)) if self.is_connected => return Err(failed(&error)),
            // Anybody can send records from the peer's address; they are ignored (RFC 9147 §4.5.2). A handshake that goes on no more ends in time.
            Err(error) => tracing::debug!(%error, "a DTLS record is ignored"),
            Ok(()) => {}
        }
        self.flush(certificate, say)
    }

    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        certificate: &Certificate,
        say: impl FnMut(Said<'_>),
    ) -> Result<(), Over> {
        self.dtls.handle_timeout(certificate.clock(now)).map_err(|error| failed(&error))?;
        self.flush(certificate, say)
    }

    /// Protects a packet. Before the handshake is complete it is lost.
    pub(crate) fn send(
        &mut self,
        certificate: &Certificate,
        packet: &[u8],
        say: impl FnMut(Said<'_>),
    ) -> Result<(), Over> {
        if !self.is_connected {
            return Ok(());
        }
        self.dtls.send_application_data(packet).map_err(|error| failed(&error))?;
        self.flush(certificate, say)
    }

    /// Tells the peer that no more packets follow.
    pub(crate) fn close(&mut self, certificate: &Certificate, say: impl FnMut(Said<'_>)) {
        if self.dtls.close().is_ok() {
            let _ = self.flush(certificate, say);
        }
    }

    fn flush(&mut self, certificate: &Certificate, mut say: impl FnMut(Said<'_>)) -> Result<(), Over> {
        let mut buffer = [0; 2_048];
        let mut larger = Vec::new();
        let mut is_refused = false;
        loop {
            let room = if larger.is_empty() { &mut buffer[..] } else { &mut larger[..] };
            match self.dtls.poll_output(room) {
                Output::Packet(datagram) => say(Said::Datagram(datagram)),
                Output::ApplicationData(packet) if self.is_connected => say(Said::Packet(packet)),
                Output::PeerCert(der) if fingerprint(der) == self.expected => self.is_verified = true,
                Output::Connected if self.is_verified => {
                    self.is_connected = true;
                    say(Said::Connected);
                }
                // Without this alert the page believes in the connection for seconds.
                Output::Connected => {
                    is_refused = true;
                    let _ = self.dtls.close();
                }
                Output::CloseNotify => return Err(Over("the peer has closed the connection")),
                Output::BufferTooSmall { needed } => larger.resize(needed, 0),
                Output::Timeout(_) if is_refused => {
                    return Err(Over("the certificate is not the one that the offer announced"));
                }
                Output::Timeout(at) => {
                    let (origin, clock) = certificate.origin;
                    self.deadline = Some(origin.saturating_add(at.saturating_duration_since(clock)));
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}

fn failed(error: &dimpl::Error) -> Over {
    tracing::debug!(%error, "a DTLS association has failed");
    Over("DTLS has failed")
}
