//! Encryption and identity: TLS 1.3 inside the handshake.
//!
//! An endpoint encrypts everything and speaks nothing else, unless its settings are [`ClientConfig::plain`](crate::ClientConfig::plain) or
//! [`ServerConfig::plain`](crate::ServerConfig::plain), or its listeners accept [plain clients](ServerSecurity::with_plain_clients) too. There is no
//! fallback to plain SCTP.
//!
//! ```
//! use festina::security::{ClientSecurity, Identity, ServerSecurity};
//! use festina::{ClientConfig, DEFAULT_SCTP_PORT, Endpoint, ServerConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::self_signed("game.example")?;
//! let known = identity.fingerprint();
//!
//! let config = ServerConfig::new(ServerSecurity::new(identity).with_alpn(["game"]));
//! let server = Endpoint::server("127.0.0.1:0".parse()?, config).await?;
//! let listener = server.listen(DEFAULT_SCTP_PORT)?;
//!
//! let config = ClientConfig::new(ClientSecurity::from(known).with_alpn(["game"]));
//! let client = Endpoint::client("127.0.0.1:0".parse()?, config).await?;
//! let near = client.connect(server.local_addr()).await?;
//! let far = listener.accept().await.ok_or("closed")?;
//! near.send("unreadable on the way").await?;
//! assert_eq!(far.recv().await?.expect("a message").payload(), "unreadable on the way");
//! # Ok(())
//! # }
//! ```

mod bundle;
mod certificates;
mod client;
mod credentials;
mod failure;
mod files;
mod peer_name;
pub(crate) mod platform;
mod reports;
mod server;
mod sessions;
mod settings;
mod stored;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

pub use festina_secure::Foreign;
use festina_secure::reset::ResetKey;
use pem::{EncodeConfig, LineEnding, Pem};
use rustls::CipherSuite;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self as pem_reader, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer};
use zeroize::Zeroize;

use crate::locks::lock;
use crate::{clock, program};

pub use self::certificates::explain_tls_error;
pub use self::client::ClientSecurity;
pub(crate) use self::client::ClientTls;
use self::credentials::{Credentials, is_raw_key, public_key};
pub use self::failure::{ChangedKey, SecurityError, SecurityFailure, StoredError};
use self::reports::Reports;
pub use self::server::ServerSecurity;
pub(crate) use self::server::ServerTls;
pub use self::sessions::Sessions;
pub use self::stored::{Acquaintance, KnownPeers};

/// The cryptography in use, unless the settings are those of rustls.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    // The suite that RFC 8446 §9.1 requires of everybody comes first, as in most implementations of QUIC: it takes less time than AES-256.
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// The SHA-256 hash of a certificate or of a raw public key, by which a peer without a certificate authority is known.
///
/// It is written and parsed as 64 hexadecimal digits. The parser also takes colons between bytes and the prefix `sha256:`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Returns the fingerprint of the first certificate in PEM. Without one it is that of the first public key.
    ///
    /// # Errors
    /// The text has neither.
    pub fn of_pem(pem: &[u8]) -> Result<Self, SecurityError> {
        let certificate = CertificateDer::from_pem_slice(pem).or_else(|error| {
            let key = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| error)?;
            Ok(CertificateDer::from(key.as_ref().to_vec()))
        });
        let certificate = certificate.map_err(|error| SecurityError::Certificate(bundle::explain(&error)))?;
        Ok(Self::of(&certificate))
    }

    fn of(certificate: &CertificateDer<'_>) -> Self {
        let hash = festina_secure::pinned::fingerprint(&provider(), certificate);
        Self(hash.expect("the provider has SHA-256"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(formatter)
    }
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = SecurityError;

    fn from_str(text: &str) -> Result<Self, SecurityError> {
        let digits: Vec<u8> =
            text.strip_prefix("sha256:").unwrap_or(text).bytes().filter(|byte| *byte != b':').collect();
        let (pairs, rest) = digits.as_chunks::<2>();
        let byte = |pair: &[u8; 2]| {
            let pair = str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
            u8::from_str_radix(pair, 16).ok()
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let bytes = bytes.filter(|_| rest.is_empty()).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(SecurityError::Fingerprint)
    }
}

/// A private key, with a certificate chain or as a raw public key (RFC 7250).
pub struct Identity {
    /// The certificates, or the public key alone.
    chain: Vec<CertificateDer<'static>>,
    is_raw: bool,
    key: PrivateKeyDer<'static>,
    /// Shared by clones.
    credentials: Arc<OnceLock<Arc<Credentials>>>,
}

impl Identity {
    /// Reads PEM: the chain, the own certificate first, and the private key (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// # Errors
    /// Nothing usable is in one of the texts, or the key is encrypted.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, SecurityError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| SecurityError::Certificate(bundle::explain(&error)))?;
        Self::new(chain, private_key(key)?)
    }

    /// Checks that all certificates of the chain are valid today. Peers that know a certificate by its fingerprint ignore its dates; those that trust
    /// authorities refuse it.
    ///
    /// # Errors
    /// One has expired or is not valid yet.
    pub fn check_dates(&self) -> Result<(), SecurityError> {
        let fault = self.chain.iter().find_map(certificates::fault_of_dates);
        fault.map_or(Ok(()), |fault| Err(SecurityError::Certificate(fault)))
    }

    /// Writes the chain and the key as PEM (RFC 7468), as [`from_pem`](Self::from_pem) reads them, or the key alone, as
    /// [`raw_key_from_pem`](Self::raw_key_from_pem) reads it. Store the text where only its owner can read it.
    pub fn to_pem(&self) -> String {
        let label = match &self.key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let chain: &[_] = if self.is_raw { &[] } else { &self.chain };
        write_pem(chain, Some(Pem::new(label, self.key_der())))
    }

    /// Takes DER: the chain, the own certificate first, and the private key (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// # Errors
    /// The chain is empty, or the key has another format.
    pub fn from_der(chain: impl IntoIterator<Item = Vec<u8>>, key: Vec<u8>) -> Result<Self, SecurityError> {
        let key = PrivateKeyDer::try_from(key).map_err(|error| SecurityError::PrivateKey(error.to_owned()))?;
        Self::new(chain.into_iter().map(CertificateDer::from).collect(), key)
    }

    /// Makes a new key (ECDSA P-256) and a self-signed certificate for a name. Peers know it by its [`fingerprint`](Self::fingerprint).
    ///
    /// # Errors
    /// The name is no host name and no IP address.
    pub fn self_signed(name: &str) -> Result<Self, SecurityError> {
        let unusable = |error: rcgen::Error| SecurityError::Certificate(error.to_string());
        if ServerName::try_from(name).is_err() {
            return Err(SecurityError::Certificate(format!("{name:?} is no host name and no IP address")));
        }
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(unusable)?;
        let parameters = rcgen::CertificateParams::new([name.to_owned()]).map_err(unusable)?;
        let certificate = parameters.self_signed(&key).map_err(unusable)?;
        Self::from_der([certificate.der().to_vec()], key.serialize_der())
    }

    /// Makes a new key (Ed25519), to be shown without a certificate. A handshake takes 1,132 bytes of both ends instead of 1,440 (docs/secure-format.md).
    /// Peers know the key by its [`fingerprint`](Self::fingerprint), and have to [expect raw public keys](Trust::of_raw_keys).
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn raw_key() -> Result<Self, SecurityError> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519);
        let key = key.map_err(|error| SecurityError::PrivateKey(error.to_string()))?;
        Self::raw_key_from_der(key.serialize_der())
    }

    /// Reads the private key from PEM (PKCS #8, PKCS #1 or SEC 1), to be shown without a certificate. Certificates in the text are ignored.
    ///
    /// # Errors
    /// The text has no usable key.
    pub fn raw_key_from_pem(key: &[u8]) -> Result<Self, SecurityError> {
        Self::raw(private_key(key)?)
    }

    /// As [`raw_key_from_pem`](Self::raw_key_from_pem), for DER.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn raw_key_from_der(key: Vec<u8>) -> Result<Self, SecurityError> {
        Self::raw(PrivateKeyDer::try_from(key).map_err(|error| SecurityError::PrivateKey(error.to_owned()))?)
    }

    fn raw(key: PrivateKeyDer<'static>) -> Result<Self, SecurityError> {
        Ok(Self { chain: vec![public_key(&key)?], is_raw: true, key, credentials: Arc::default() })
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, SecurityError> {
        if chain.is_empty() {
            return Err(SecurityError::Certificate("there is no certificate".to_owned()));
        }
        Ok(Self { chain, is_raw: false, key, credentials: Arc::default() })
    }

    /// Returns whether peers see a raw public key instead of certificates.
    pub fn is_raw_key(&self) -> bool {
        self.is_raw
    }

    /// Returns the fingerprint of the own certificate or raw public key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.chain.first().map(Fingerprint::of).expect("the chain is never empty")
    }

    /// Returns the certificate chain as DER, the own certificate first, or the raw public key (SubjectPublicKeyInfo).
    pub fn chain_der(&self) -> impl Iterator<Item = &[u8]> {
        self.chain.iter().map(AsRef::as_ref)
    }

    /// The key of stateless resets for a server with this private key at this address.
    pub(crate) fn reset_key(&self, local: SocketAddr) -> Option<ResetKey> {
        ResetKey::new(&provider(), self.key_der(), local)
    }

    /// Returns the private key as DER. Store it where only its owner can read it.
    pub fn key_der(&self) -> &[u8] {
        self.key.secret_der()
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        let credentials = Arc::clone(&self.credentials);
        Self { chain: self.chain.clone(), is_raw: self.is_raw, key: self.key.clone_key(), credentials }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

/// Reads a private key from PEM.
fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, SecurityError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let holds = |mark: &[u8]| pem.windows(mark.len()).any(|bytes| bytes == mark);
        SecurityError::PrivateKey(if holds(b"BEGIN ENCRYPTED PRIVATE KEY") || holds(b"Proc-Type: 4,ENCRYPTED") {
            "it is encrypted; decrypt it first, for example with openssl pkey".to_owned()
        } else if matches!(error, pem_reader::Error::NoItemsFound) {
            "there is no private key".to_owned()
        } else {
            error.to_string()
        })
    })
}

/// Certificates and other blocks as PEM.
fn write_pem(chain: &[CertificateDer<'_>], others: Option<Pem>) -> String {
    let blocks = chain.iter().map(|certificate| Pem::new("CERTIFICATE", certificate.as_ref()));
    let blocks: Vec<_> = blocks.chain(others).collect();
    pem::encode_many_config(&blocks, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

/// Decides on the fingerprint of a peer's certificate.
type Decision = Arc<dyn Fn(&[u8; 32]) -> bool + Send + Sync>;

/// Which peers are trusted.
#[derive(Clone)]
pub struct Trust {
    kind: TrustKind,
    /// Peers have raw public keys instead of certificates.
    is_raw: bool,
    /// Shared by clones.
    server_verifier: Arc<OnceLock<Arc<dyn ServerCertVerifier>>>,
}

#[derive(Clone)]
enum TrustKind {
    Platform,
    Roots(Vec<CertificateDer<'static>>),
    Fingerprints(Decision),
}

impl Trust {
    /// Trusts certificates that a certificate authority of the operating system has signed, as browsers do. A server's certificate must also have the
    /// name that the client asks for. The authorities are read once per process, at the first use: on Linux and other Unix systems from
    /// the usual files or those that the environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` name, on macOS and Windows from the
    /// system's store. If there are none, connecting fails with [`SecurityFailure::Settings`].
    pub fn platform_roots() -> Self {
        static PLATFORM: LazyLock<Trust> = LazyLock::new(|| Trust::of_kind(TrustKind::Platform));
        PLATFORM.clone()
    }

    /// Trusts certificates that these roots have signed, given as PEM. A server's certificate must also have the name that the client asks for.
    ///
    /// # Errors
    /// The text has no certificate, or a malformed one. The error says which one it is.
    pub fn roots_from_pem(roots: &[u8]) -> Result<Self, SecurityError> {
        Ok(Self::of_kind(TrustKind::Roots(bundle::roots(roots)?)))
    }

    /// As [`roots_from_pem`](Self::roots_from_pem), for DER. A malformed one is reported, by its number, when the endpoint is bound.
    pub fn roots_from_der(roots: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::of_kind(TrustKind::Roots(roots.into_iter().map(CertificateDer::from).collect()))
    }

    /// Trusts certificates with these fingerprints. Names, dates and issuers are not checked.
    pub fn fingerprints(fingerprints: impl IntoIterator<Item = Fingerprint>) -> Self {
        let fingerprints: Vec<_> = fingerprints.into_iter().collect();
        Self::deciding(move |seen| fingerprints.contains(seen))
    }

    /// As [`fingerprints`](Self::fingerprints), and calls `report` with others, to tell an operator whom to add: at most once a second, and with the
    /// same one at most once a minute, so that strangers cannot fill a log. It should be quick.
    pub fn fingerprints_reporting(
        fingerprints: impl IntoIterator<Item = Fingerprint>,
        report: impl Fn(&Fingerprint) + Send + Sync + 'static,
    ) -> Self {
        let fingerprints: Vec<_> = fingerprints.into_iter().collect();
        let reports = Mutex::new(Reports::default());
        Self::deciding(move |seen| {
            let is_trusted = fingerprints.contains(seen);
            if !is_trusted && lock(&reports).is_due(seen, clock::now()) {
                program::call("fingerprints_reporting", (), || report(seen));
            }
            is_trusted
        })
    }

    /// Trusts certificates for whose fingerprint `is_trusted` returns true, such as those of a list that changes, or unknown ones at their
    /// first use. The peer has to prove that it holds the private key in any case. The function runs in the middle of a handshake and should be
    /// quick. If it panics, the peer is not trusted. It is asked at every connection, also before a session is resumed.
    pub fn deciding(is_trusted: impl Fn(&Fingerprint) -> bool + Send + Sync + 'static) -> Self {
        Self::of_kind(TrustKind::Fingerprints(Arc::new(move |hash| {
            program::call("deciding", false, || is_trusted(&Fingerprint(*hash)))
        })))
    }

    /// Expects peers with raw public keys (RFC 7250) instead of certificates; the fingerprints are those of the keys. Either side names one
    /// kind, so a handshake with a peer that has a certificate fails. A trust by roots cannot be changed so: binding an endpoint reports it.
    #[must_use]
    pub fn of_raw_keys(self) -> Self {
        Self { is_raw: true, server_verifier: Arc::default(), ..self }
    }

    fn of_kind(kind: TrustKind) -> Self {
        Self { kind, is_raw: false, server_verifier: Arc::default() }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            TrustKind::Platform => "platform roots".to_owned(),
            TrustKind::Roots(roots) => format!("{} roots", roots.len()),
            TrustKind::Fingerprints(_) => "fingerprints".to_owned(),
        };
        formatter
            .debug_tuple("Trust")
            .field(&kind)
            .field(&if self.is_raw { "raw keys" } else { "certificates" })
            .finish()
    }
}

/// The certificates, or the raw public key, by which a peer has identified itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity(Vec<CertificateDer<'static>>);

impl PeerIdentity {
    /// `None` without a certificate.
    pub(crate) fn new(chain: &[CertificateDer<'static>]) -> Option<Self> {
        (!chain.is_empty()).then(|| Self(chain.to_vec()))
    }

    /// Returns whether the peer has shown a raw public key instead of certificates.
    pub fn is_raw_key(&self) -> bool {
        self.0.first().is_some_and(|own| is_raw_key(own))
    }

    /// Returns the fingerprint of the peer's own certificate or raw public key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.first().map(Fingerprint::of).expect("the chain is never empty")
    }

    /// Writes the certificate chain as PEM (RFC 7468), the peer's own certificate first, or the raw public key.
    pub fn to_pem(&self) -> String {
        match self.0.first().filter(|_| self.is_raw_key()) {
            Some(key) => write_pem(&[], Some(Pem::new("PUBLIC KEY", key.as_ref()))),
            None => write_pem(&self.0, None),
        }
    }

    /// Returns the certificate chain as DER, the peer's own certificate first, or the raw public key (SubjectPublicKeyInfo).
    pub fn chain_der(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_parsed_as_it_is_written_and_with_colons() {
        let fingerprint = Identity::self_signed("a.test").unwrap().fingerprint();
        let text = fingerprint.to_string();
        assert_eq!(text.parse(), Ok(fingerprint));
        let pairs: Vec<_> = text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap()).collect();
        assert_eq!(format!("sha256:{}", pairs.join(":").to_uppercase()).parse(), Ok(fingerprint));
        for wrong in ["", "sha256:", &text[1..], &text[2..], &format!("{text}0"), &"+f".repeat(32), &"gg".repeat(32)] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(SecurityError::Fingerprint), "{wrong}");
        }
    }

    #[test]
    fn a_raw_key_is_told_from_a_certificate_and_written_and_read() {
        let identity = Identity::raw_key().unwrap();
        let pem = identity.to_pem();
        let same = Identity::raw_key_from_pem(pem.as_bytes()).unwrap();
        assert!(identity.is_raw_key() && !pem.contains("CERTIFICATE"));
        assert_eq!((same.fingerprint(), same.key_der()), (identity.fingerprint(), identity.key_der()));
        let peer = PeerIdentity::new(&identity.chain).unwrap();
        assert!(peer.is_raw_key() && peer.to_pem().contains("BEGIN PUBLIC KEY"));
        assert_eq!(Fingerprint::of_pem(peer.to_pem().as_bytes()), Ok(identity.fingerprint()));
        let certified = Identity::self_signed("a.test").unwrap();
        assert!(!PeerIdentity::new(&certified.chain).unwrap().is_raw_key() && !certified.is_raw_key());
        let bare = Identity::raw_key_from_pem(certified.to_pem().as_bytes()).unwrap();
        assert!(PeerIdentity::new(&bare.chain).unwrap().is_raw_key() && bare.fingerprint() != certified.fingerprint());
        for malformed in [&[][..], &[0x30], &[0x30, 0xff], &[0x30, 0x80, 0x30, 0x81], &[0x30, 0x02, 0x30, 0x00]] {
            assert!(!is_raw_key(malformed));
        }
        assert!(Identity::raw_key_from_pem(b"nothing").is_err() && Identity::raw_key_from_der(vec![1, 2, 3]).is_err());
    }

    #[test]
    fn an_identity_is_read_from_pem_and_der() {
        let identity = Identity::self_signed("a.test").unwrap();
        let chain: Vec<Vec<u8>> = identity.chain_der().map(<[u8]>::to_vec).collect();
        let same = Identity::from_der(chain, identity.key_der().to_vec()).unwrap();
        assert_eq!(same.fingerprint(), identity.fingerprint());
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        let pem = identity.to_pem();
        let same = Identity::from_pem(pem.as_bytes(), pem.as_bytes()).unwrap();
        assert_eq!((same.fingerprint(), same.key_der()), (identity.fingerprint(), identity.key_der()));
        assert_eq!(Fingerprint::of_pem(pem.as_bytes()), Ok(identity.fingerprint()));
        let nothing = Fingerprint::of_pem(b"nothing").expect_err("there is none").to_string();
        assert_eq!(nothing, "cannot use the certificate: there is no certificate");
        assert!(!format!("{identity:?}").contains("key"), "the private key is not printed");
        assert!(Identity::from_der([certificate.der().to_vec()], vec![1, 2, 3]).is_err());
        assert!(Identity::from_der([], key.serialize_der()).is_err());
        assert!(Identity::from_pem(b"nothing", b"nothing").is_err());
        assert!(Trust::roots_from_pem(b"nothing").is_err());
    }

    #[test]
    fn a_name_that_is_no_host_is_refused() {
        for name in ["", "a\0b", "a b", "a..test", "-"] {
            assert!(matches!(Identity::self_signed(name), Err(SecurityError::Certificate(_))), "{name:?}");
        }
        for name in ["a.test", "localhost", "192.0.2.1", "2001:db8::1"] {
            assert!(Identity::self_signed(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn an_error_says_that_a_key_is_encrypted_or_missing() {
        let pem = |label: &str, head: &str| format!("-----BEGIN {label}-----\n{head}AAAA\n-----END {label}-----\n");
        let legacy = pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n");
        for (text, expected) in [
            (pem("ENCRYPTED PRIVATE KEY", ""), "it is encrypted"),
            (legacy, "it is encrypted"),
            (pem("CERTIFICATE", ""), "there is no private key"),
            (String::new(), "there is no private key"),
        ] {
            let error = Identity::raw_key_from_pem(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
