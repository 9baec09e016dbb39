//! Identities, trust, and clients that wait for a decision.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Mutex;

use festina::PendingRequest;
use festina::blocking::bindings::ForkGuard;
use festina::security::{self, Fingerprint, SecurityError};
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

use crate::convert::{self, count, pair};
use crate::failure::Failure;
use crate::locks::lock;

/// A PEM text.
#[derive(FromPyObject)]
pub(crate) enum Pem {
    #[pyo3(transparent)]
    Text(String),
    #[pyo3(transparent)]
    Bytes(PyBackedBytes),
}

impl Pem {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// A private key, with a certificate chain: `Identity.self_signed` or `Identity.from_pem`; or as a raw public key (RFC 7250): `Identity.raw_key` or
/// `Identity.raw_key_from_pem`.
#[pyclass(frozen, module = "festina")]
pub(crate) struct Identity(pub(crate) security::Identity);

#[pymethods]
impl Identity {
    /// Creates a key (ECDSA P-256) and a self-signed certificate for a host name or an IP address. Peers know it by its fingerprint.
    #[staticmethod]
    fn self_signed(name: &str) -> PyResult<Self> {
        Ok(Self(security::Identity::self_signed(name).map_err(Failure::from)?))
    }

    /// Reads PEM: the certificate chain, the own certificate first, and the private key (PKCS #8, PKCS #1 or SEC 1). Without `key` it is in the same
    /// text.
    #[staticmethod]
    #[pyo3(signature = (chain, key = None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn from_pem(chain: Pem, key: Option<Pem>) -> PyResult<Self> {
        let key = key.as_ref().unwrap_or(&chain);
        Ok(Self(security::Identity::from_pem(chain.bytes(), key.bytes()).map_err(Failure::from)?))
    }

    /// Creates a key (Ed25519) that is shown without a certificate, which makes the handshake shorter. Peers have to expect raw public keys:
    /// `Trust.raw_keys`.
    #[staticmethod]
    fn raw_key() -> PyResult<Self> {
        Ok(Self(security::Identity::raw_key().map_err(Failure::from)?))
    }

    /// Reads the private key from PEM, to be shown without a certificate.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn raw_key_from_pem(key: Pem) -> PyResult<Self> {
        Ok(Self(security::Identity::raw_key_from_pem(key.bytes()).map_err(Failure::from)?))
    }

    /// The SHA-256 hash of the own certificate or raw public key, as 64 hexadecimal digits.
    #[getter]
    fn fingerprint(&self) -> String {
        self.0.fingerprint().to_string()
    }

    /// Writes the chain and the private key as PEM, as `from_pem` reads them, or the key alone, as `raw_key_from_pem` reads it. Store it where only its
    /// owner can read it.
    fn to_pem(&self) -> String {
        self.0.to_pem()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0.fingerprint() == other.0.fingerprint()
    }

    fn __hash__(&self) -> u64 {
        hash(&self.fingerprint())
    }

    /// A private key must not get into files and caches unnoticed.
    fn __reduce__(&self) -> PyResult<()> {
        let problem =
            "an Identity holds a private key, which is not pickled: pass on to_pem() and use Identity.from_pem there";
        Err(PyTypeError::new_err(problem))
    }

    fn __repr__(&self) -> String {
        format!("<festina.Identity {}>", self.0.fingerprint())
    }
}

/// A hash for Python.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What `__reduce__` returns for an object that a method of its class makes from these arguments.
pub(crate) type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyType>,));

/// See [`Reduced`]. Python pickles no static methods of native classes, but callers of methods.
pub(crate) fn reduced<'py, T: PyTypeInfo>(
    py: Python<'py>,
    method: &str,
    arguments: Vec<Bound<'py, PyAny>>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Reduced<'py>> {
    let arguments = [vec![PyString::new(py, method).into_any()], arguments].concat();
    let caller = py.import("operator")?.getattr("methodcaller")?.call(PyTuple::new(py, arguments)?, keywords)?;
    Ok((caller, (py.get_type::<T>(),)))
}

/// Which peers are trusted: `Trust.platform_roots`, `Trust.roots_from_pem`, `Trust.fingerprints` or `Trust.raw_keys`.
#[pyclass(frozen, module = "festina")]
pub(crate) struct Trust {
    pub(crate) trust: security::Trust,
    made_by: Method,
}

/// The method that made a `Trust`, and its arguments.
#[derive(Hash, PartialEq)]
enum Method {
    PlatformRoots,
    Roots(Vec<u8>),
    /// In order, each once.
    Fingerprints(Vec<String>),
    RawKeys(Vec<String>),
}

#[pymethods]
impl Trust {
    /// Trusts certificates that a certificate authority of the operating system has signed. A server's must also have the name that the client asks for.
    #[staticmethod]
    fn platform_roots() -> Self {
        Self { trust: security::Trust::platform_roots(), made_by: Method::PlatformRoots }
    }

    /// As `platform_roots`, with certificate authorities given as PEM.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn roots_from_pem(pem: Pem) -> PyResult<Self> {
        let trust = security::Trust::roots_from_pem(pem.bytes()).map_err(Failure::from)?;
        Ok(Self { trust, made_by: Method::Roots(pem.bytes().to_vec()) })
    }

    /// Trusts certificates with these fingerprints, each 64 hexadecimal digits. Names, dates and issuers are not checked.
    #[staticmethod]
    #[pyo3(signature = (*fingerprints))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn fingerprints(fingerprints: Vec<String>) -> PyResult<Self> {
        let (trust, texts) = by_fingerprints(&fingerprints)?;
        Ok(Self { trust, made_by: Method::Fingerprints(texts) })
    }

    /// As `fingerprints`, for raw public keys. A peer with a certificate is refused, and so is a raw public key by the other kinds of trust.
    #[staticmethod]
    #[pyo3(signature = (*fingerprints))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python functions are owned")]
    fn raw_keys(fingerprints: Vec<String>) -> PyResult<Self> {
        let (trust, texts) = by_fingerprints(&fingerprints)?;
        Ok(Self { trust: trust.of_raw_keys(), made_by: Method::RawKeys(texts) })
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.made_by == other.made_by
    }

    fn __hash__(&self) -> u64 {
        hash(&self.made_by)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let texts = |texts: &[String]| texts.iter().map(|text| PyString::new(py, text).into_any()).collect();
        let (method, arguments) = match &self.made_by {
            Method::PlatformRoots => ("platform_roots", Vec::new()),
            Method::Roots(pem) => ("roots_from_pem", vec![PyBytes::new(py, pem).into_any()]),
            Method::Fingerprints(fingerprints) => ("fingerprints", texts(fingerprints)),
            Method::RawKeys(fingerprints) => ("raw_keys", texts(fingerprints)),
        };
        reduced::<Self>(py, method, arguments, None)
    }

    fn __repr__(&self) -> String {
        let list = |texts: &[String]| texts.iter().map(|text| format!("'{text}'")).collect::<Vec<_>>().join(", ");
        match &self.made_by {
            Method::PlatformRoots => "Trust.platform_roots()".to_owned(),
            Method::Roots(pem) => format!("Trust.roots_from_pem(<{} bytes>)", pem.len()),
            Method::Fingerprints(fingerprints) => format!("Trust.fingerprints({})", list(fingerprints)),
            Method::RawKeys(fingerprints) => format!("Trust.raw_keys({})", list(fingerprints)),
        }
    }
}

/// Trust in fingerprints, and their texts in order, each once.
fn by_fingerprints(texts: &[String]) -> PyResult<(security::Trust, Vec<String>)> {
    let parsed = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Fingerprint>, SecurityError>>();
    let parsed = parsed.map_err(Failure::from)?;
    if parsed.is_empty() {
        return Err(Failure::from(SecurityError::Fingerprint).into());
    }
    let texts: BTreeSet<String> = parsed.iter().map(ToString::to_string).collect();
    Ok((security::Trust::fingerprints(parsed), texts.into_iter().collect()))
}

/// Sessions of a client with its servers, in memory: at most `servers_max` servers, and eight sessions with each. One that is resumed saves the
/// server's certificate and lets early messages leave.
#[pyclass(frozen, module = "festina")]
pub(crate) struct Sessions(ForkGuard<security::Sessions>);

impl Sessions {
    pub(crate) fn get(&self) -> PyResult<&security::Sessions> {
        Ok(self.0.get().map_err(Failure::from)?)
    }
}

#[pymethods]
impl Sessions {
    #[new]
    fn new(servers_max: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(ForkGuard::new(security::Sessions::new(count("servers_max", servers_max)?))))
    }

    /// Forgets all sessions. Associations that have begun add no more.
    fn clear(&self) -> PyResult<()> {
        self.get()?.clear();
        Ok(())
    }

    /// Forgets the sessions with one server, named as for `Endpoint.connect`, or by `server_name` if that was set, and returns whether there were
    /// any. Associations that have begun add no more, with any server.
    fn forget(&self, host: &str, port: &Bound<'_, PyAny>) -> PyResult<bool> {
        let port = convert::port(port)?;
        let server = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(self.get()?.forget(&server))
    }
}

/// A client's request for an encrypted association that waits for a decision: `accept` or `refuse`. Nothing in it is authentic yet. The client of
/// a request that is dropped undecided is not answered.
#[pyclass(frozen, module = "festina")]
pub(crate) struct Request(ForkGuard<Undecided>);

/// A request and, until it is decided on, the power to decide.
struct Undecided {
    request: festina::Request,
    pending: Mutex<Option<PendingRequest>>,
}

impl Request {
    pub(crate) fn new(pending: PendingRequest) -> Self {
        Self(ForkGuard::new(Undecided { request: pending.request().clone(), pending: Mutex::new(Some(pending)) }))
    }

    fn request(&self) -> PyResult<&festina::Request> {
        Ok(&self.0.get().map_err(Failure::from)?.request)
    }

    fn take(&self) -> PyResult<PendingRequest> {
        let pending = lock(&self.0.get().map_err(Failure::from)?.pending).take();
        Ok(pending.ok_or_else(|| Failure::invalid(&"the request was decided on before"))?)
    }
}

#[pymethods]
impl Request {
    /// The client's IP address and UDP port.
    #[getter]
    fn remote_address(&self) -> PyResult<(String, u16)> {
        Ok(pair(self.request()?.remote))
    }

    /// The client's token.
    #[getter]
    fn token<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.request()?.token))
    }

    /// The server name that the client asked for.
    #[getter]
    fn server_name(&self) -> PyResult<Option<String>> {
        Ok(self.request()?.server_name.clone())
    }

    /// The application protocol that ALPN chose.
    #[getter]
    fn alpn(&self) -> PyResult<Option<String>> {
        Ok(self.request()?.alpn.as_deref().map(protocol))
    }

    /// Whether the client has shown that it receives at its address.
    #[getter]
    fn is_address_proved(&self) -> PyResult<bool> {
        Ok(self.request()?.is_address_proved)
    }

    /// Continues the handshake. `Listener.accept` returns the association once the client is authenticated.
    fn accept(&self) -> PyResult<()> {
        self.take()?.accept();
        Ok(())
    }

    /// Refuses the client.
    fn refuse(&self) -> PyResult<()> {
        self.take()?.refuse();
        Ok(())
    }
}

/// An application protocol as text.
pub(crate) fn protocol(protocol: &[u8]) -> String {
    String::from_utf8_lossy(protocol).into_owned()
}

/// The certificates of a peer.
pub(crate) fn certificates<'py>(py: Python<'py>, peer: &security::PeerIdentity) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, peer.chain_der().map(|der| PyBytes::new(py, der)).collect::<Vec<_>>())
}
