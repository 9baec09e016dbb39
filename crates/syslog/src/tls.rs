//! TLS for syslog over TCP (RFC 5425): certificates and keys from PEM files, and the authorities that peers are checked against.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use festina::security::{StoredError, explain_tls_error};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;

/// A certificate with those that vouch for it, and its key: two PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate first, then those between it and the authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// How an input is a TLS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsServer {
    /// Certificate and key of this server.
    pub identity: Identity,
    /// PEM file of the authorities whose clients are accepted. All clients without it.
    pub clients: Option<PathBuf>,
}

/// How an output is a TLS client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClient {
    /// PEM file of the trusted authorities.
    pub authorities: PathBuf,
    /// The name that the peer's certificate must have.
    pub name: String,
    /// Certificate and key of this client, for servers that require them.
    pub identity: Option<Identity>,
}

/// An invalid TLS configuration.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The cause.
        source: rustls::pki_types::pem::Error,
    },
    /// There is nothing in a file.
    #[error("{} contains no certificate", .0.display())]
    Empty(PathBuf),
    /// Certificates that do not go together, or are none.
    #[error("{} cannot be used: {problem}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// The cause.
        problem: String,
    },
    /// The name of a peer that is none.
    #[error("\"{0}\" is neither a host name nor an IP address")]
    Name(String),
}

impl TlsServer {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| unusable(&self.identity.certificate, &error))?;
        let builder = match &self.clients {
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let verifier = verifier.map_err(|_| TlsError::Empty(path.clone()))?;
                builder.with_client_cert_verifier(verifier)
            }
            None => builder.with_no_client_auth(),
        };
        let (certificates, key) = self.identity.read()?;
        let config = builder.with_single_cert(certificates, key);
        config.map(Arc::new).map_err(|error| unusable(&self.identity.certificate, &error))
    }
}

impl TlsClient {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid, or if the name is.
    pub fn config(&self) -> Result<(Arc<ClientConfig>, ServerName<'static>), TlsError> {
        let name = ServerName::try_from(self.name.clone()).map_err(|_| TlsError::Name(self.name.clone()))?;
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| unusable(&self.authorities, &error))?;
        let builder = builder.with_root_certificates(authorities(&self.authorities)?);
        let config = match &self.identity {
            Some(identity) => {
                let (certificates, key) = identity.read()?;
                let config = builder.with_client_auth_cert(certificates, key);
                config.map_err(|error| unusable(&identity.certificate, &error))?
            }
            None => builder.with_no_client_auth(),
        };
        Ok((Arc::new(config), name))
    }
}

impl Identity {
    /// Checks that the certificates are valid today.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid, or if a certificate has expired or is not valid yet.
    pub(crate) fn check_dates(&self) -> Result<(), StoredError> {
        let identity = festina::security::Identity::from_pem_files(&self.certificate, &self.key)?;
        let checked = identity.check_dates();
        checked.map_err(|source| StoredError::Unusable { path: self.certificate.clone(), source })
    }

    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        Ok((certificates, key.map_err(|source| TlsError::File { path: self.key.clone(), source })?))
    }
}

/// Says why reading or writing a stream failed, with or without TLS.
pub(crate) fn explain(error: &io::Error) -> String {
    let of_tls = error.get_ref().and_then(|cause| cause.downcast_ref());
    of_tls.map_or_else(|| error.to_string(), explain_tls_error)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unusable(path: &Path, error: &rustls::Error) -> TlsError {
    TlsError::Unusable { path: path.to_owned(), problem: explain_tls_error(error) }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File { path: path.to_owned(), source };
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty(path.to_owned()));
    }
    Ok(certificates)
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}
