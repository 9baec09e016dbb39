//! Endpoints and listeners.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use festina::blocking::OpenError;
use festina::blocking::bindings::{self, ForkGuard};
use festina::{ConnectOptions, ListenOptions, Profile, Requests, blocking};
use festina_settings::Settings;
use futures_core::Stream as _;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::association::Association;
use crate::config::Config;
use crate::convert::{self, pair, seconds};
use crate::failure::Failure;
use crate::hub::{Hub, Operation, Shared};
use crate::locks::lock;
use crate::security::Request;

/// One socket and the thread that serves it.
#[pyclass(frozen)]
pub(crate) struct Endpoint {
    open: ForkGuard<OpenEndpoint>,
}

/// The native endpoint.
struct OpenEndpoint {
    endpoint: Arc<blocking::Endpoint>,
    hub: Arc<Shared>,
}

impl Endpoint {
    fn opened(
        py: Python<'_>,
        hub: &Hub,
        address: &str,
        config: Option<&Config>,
        open: fn(Settings, SocketAddr) -> Result<blocking::Endpoint, OpenError>,
    ) -> PyResult<Self> {
        let config = config.map_or_else(Settings::encrypted, Config::settings);
        let address = address_at(address)?;
        let endpoint = py.detach(|| open(config, address)).map_err(Failure::from)?;
        let open = OpenEndpoint { endpoint: Arc::new(endpoint), hub: hub.shared()?.clone() };
        Ok(Self { open: ForkGuard::new(open) })
    }

    fn open(&self) -> Result<&OpenEndpoint, Failure> {
        Ok(self.open.get()?)
    }
}

#[pymethods]
impl Endpoint {
    #[staticmethod]
    fn client(py: Python<'_>, hub: &Hub, address: &str, config: Option<&Config>) -> PyResult<Self> {
        Self::opened(py, hub, address, config, Settings::client)
    }

    #[staticmethod]
    fn server(py: Python<'_>, hub: &Hub, address: &str, config: Option<&Config>) -> PyResult<Self> {
        Self::opened(py, hub, address, config, Settings::server)
    }

    /// The address of the socket: IP address and port.
    #[getter]
    fn local_address(&self) -> PyResult<(String, u16)> {
        Ok(pair(self.open()?.endpoint.local_addr()))
    }

    fn rebind(&self, address: &str) -> PyResult<()> {
        self.open()?.endpoint.rebind(address_at(address)?).map_err(|error| Failure::from(OpenError::Bind(error)))?;
        Ok(())
    }

    fn add_address(&self, address: &str) -> PyResult<()> {
        self.open()?
            .endpoint
            .add_address(address_at(address)?)
            .map_err(|error| Failure::from(OpenError::Bind(error)))?;
        Ok(())
    }

    fn remove_address(&self, address: &str) -> PyResult<()> {
        let removed = self.open()?.endpoint.remove_address(address_at(address)?.ip());
        removed.map_err(|error| Failure::from(OpenError::Bind(error)))?;
        Ok(())
    }

    fn listen(&self, port: &Bound<'_, PyAny>, hold_requests: bool) -> PyResult<Listener> {
        let (open, port) = (self.open()?, convert::port(port)?);
        let options = ListenOptions::default();
        let options = if hold_requests { options.hold_requests() } else { options };
        // The asynchronous listener: the event loop polls it.
        let listener = bindings::listen(&open.endpoint, port, options).map_err(Failure::from)?;
        let requests = Mutex::new(hold_requests.then(|| listener.requests()));
        let (hub, endpoint) = (open.hub.clone(), open.endpoint.clone());
        let ((number, waker), (request_number, request_waker)) = (hub.waker(), hub.waker());
        let listener = Mutex::new(Some(listener));
        let open = OpenListener { listener, waker, requests, request_waker, hub, endpoint };
        Ok(Listener { number, request_number, open: ForkGuard::new(open) })
    }

    /// Comes to an `Association`.
    fn connect(
        &self,
        host: &str,
        port: &Bound<'_, PyAny>,
        profile: Option<&str>,
        handshake_timeout: &Bound<'_, PyAny>,
        encryption: Encryption,
    ) -> PyResult<Operation> {
        let open = self.open()?;
        let timeout = seconds("handshake_timeout", handshake_timeout)?;
        let (server_name, token, early) = encryption;
        let mut options = ConnectOptions::default().peer_port(convert::port(port)?).handshake_timeout(timeout);
        options = options.token(token.to_vec());
        if let Some(name) = server_name {
            options = options.server_name(name);
        }
        for data in early {
            options = options.early_message(convert::message(&data, None)?);
        }
        if let Some(profile) = profile {
            let profile = profile.parse::<Profile>().map_err(|error| Failure::invalid(&error))?;
            options = options.profile(profile);
        }
        let connecting = bindings::connect(&open.endpoint, host.into(), options);
        let connecting = async move { connecting.await.map_err(Failure::from) };
        let (endpoint, hub) = (open.endpoint.clone(), open.hub.clone());
        Ok(Operation::new(&open.hub, &open.endpoint, connecting, move |py, association| {
            Ok(Py::new(py, Association::new(association, &hub, &endpoint))?.into_any())
        }))
    }

    /// Comes to None when all is over.
    fn close(&self) -> PyResult<Operation> {
        let open = self.open()?;
        let endpoint = open.endpoint.clone();
        let closing = async move {
            bindings::close(&endpoint).await;
            Ok(())
        };
        Ok(Operation::new(&open.hub, &open.endpoint, closing, |py, ()| Ok(py.None())))
    }
}

/// The server's name, the token and the early messages of a client.
type Encryption = (Option<String>, PyBackedBytes, Vec<PyBackedBytes>);

/// Accepts associations on one SCTP port.
#[pyclass(frozen)]
pub(crate) struct Listener {
    number: u64,
    request_number: u64,
    open: ForkGuard<OpenListener>,
}

/// The native listener.
struct OpenListener {
    listener: Mutex<Option<festina::Listener>>,
    waker: Waker,
    /// Only if requests wait for a decision.
    requests: Mutex<Option<Requests>>,
    request_waker: Waker,
    hub: Arc<Shared>,
    endpoint: Arc<blocking::Endpoint>,
}

#[pymethods]
impl Listener {
    /// The number under which the hub tells that somebody has come.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The next association, or None if there is none yet.
    fn poll_accept(&self) -> PyResult<Option<Association>> {
        let open = self.open.get().map_err(Failure::from)?;
        let mut listener = lock(&open.listener);
        let Some(listener) = listener.as_mut() else { return Err(Failure::endpoint_closed().into()) };
        match Pin::new(listener).poll_next(&mut Context::from_waker(&open.waker)) {
            Poll::Ready(Some(association)) => Ok(Some(Association::new(association, &open.hub, &open.endpoint))),
            Poll::Ready(None) => Err(Failure::endpoint_closed().into()),
            Poll::Pending => Ok(None),
        }
    }

    /// The number under which the hub tells that a client asks.
    #[getter]
    fn request_number(&self) -> u64 {
        self.request_number
    }

    /// The next request, or None if there is none yet.
    fn poll_request(&self) -> PyResult<Option<Request>> {
        let open = self.open.get().map_err(Failure::from)?;
        let mut requests = lock(&open.requests);
        let Some(requests) = requests.as_mut() else {
            return Err(Failure::invalid(&"requests need no decision: listen with hold_requests=True").into());
        };
        match Pin::new(requests).poll_next(&mut Context::from_waker(&open.request_waker)) {
            Poll::Ready(Some(pending)) => Ok(Some(Request::new(pending))),
            Poll::Ready(None) => Err(Failure::endpoint_closed().into()),
            Poll::Pending => Ok(None),
        }
    }

    /// Stops listening.
    fn close(&self) -> PyResult<()> {
        let open = self.open.get().map_err(Failure::from)?;
        let listener = lock(&open.listener).take();
        drop(listener);
        open.waker.wake_by_ref();
        Ok(())
    }
}

fn address_at(address: &str) -> Result<SocketAddr, Failure> {
    festina::parse_address(address).map_err(|error| Failure::invalid(&error))
}
