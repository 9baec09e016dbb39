//! Endpoints and listeners.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use festina::{ConnectOptions, Profile};
use festina_bridge::Home;
use futures_core::Stream as _;
use pyo3::prelude::*;

use crate::association::Association;
use crate::config::Config;
use crate::convert::seconds;
use crate::failure::Failure;
use crate::hub::{Alarm, Hub, Operation, Shared, lock};

/// One socket and the thread that serves it.
#[pyclass(frozen)]
pub(crate) struct Endpoint {
    endpoint: festina::Endpoint,
    hub: Arc<Shared>,
    home: Arc<Home>,
}

#[pymethods]
impl Endpoint {
    #[new]
    fn new(py: Python<'_>, hub: &Hub, address: &str, config: Option<&Config>) -> PyResult<Self> {
        let config = config.map(Config::settings).unwrap_or_default();
        let address = address_at(address)?;
        let (home, endpoint) = py.detach(|| Home::open(address, config)).map_err(Failure::from)?;
        Ok(Self { endpoint, hub: hub.shared().clone(), home: Arc::new(home) })
    }

    /// The address of the socket: IP address and port.
    #[getter]
    fn local_address(&self) -> (String, u16) {
        pair(self.endpoint.local_addr())
    }

    fn listen(&self, port: u16) -> PyResult<Listener> {
        let listener = self.endpoint.listen(port).map_err(Failure::from)?;
        let alarm = Alarm::new(&self.hub);
        let (hub, home) = (self.hub.clone(), self.home.clone());
        Ok(Listener { listener: Mutex::new(Some(listener)), waker: Waker::from(alarm.clone()), alarm, hub, home })
    }

    /// Comes to an `Association`.
    fn connect(&self, address: &str, port: u16, profile: Option<&str>, timeout: f64) -> PyResult<Operation> {
        let address = address_at(address)?;
        let mut options = ConnectOptions::default().peer_port(port).handshake_timeout(seconds("timeout", timeout)?);
        if let Some(profile) = profile {
            let profile = profile.parse::<Profile>().map_err(|error| Failure::invalid(&error))?;
            options = options.profile(profile);
        }
        let (endpoint, hub, home) = (self.endpoint.clone(), self.hub.clone(), self.home.clone());
        let connecting = async move { endpoint.connect_with(address, options).await.map_err(Failure::from) };
        Ok(Operation::new(&self.hub, &self.home, connecting, move |py, association| {
            Ok(Py::new(py, Association::new(association, &hub, &home))?.into_any())
        }))
    }

    /// Comes to None when all is over.
    fn close(&self) -> Operation {
        let (endpoint, home) = (self.endpoint.clone(), self.home.clone());
        let closing = async move {
            endpoint.close().await;
            home.closed();
            Ok(())
        };
        Operation::new(&self.hub, &self.home, closing, |py, ()| Ok(py.None()))
    }
}

/// Accepts associations on one SCTP port.
#[pyclass(frozen)]
pub(crate) struct Listener {
    listener: Mutex<Option<festina::Listener>>,
    alarm: Arc<Alarm>,
    waker: Waker,
    hub: Arc<Shared>,
    home: Arc<Home>,
}

#[pymethods]
impl Listener {
    /// The number under which the hub tells that somebody has come.
    #[getter]
    fn number(&self) -> u64 {
        self.alarm.number()
    }

    /// The next association, or None if there is none yet.
    fn poll_accept(&self) -> PyResult<Option<Association>> {
        let mut listener = lock(&self.listener);
        let Some(listener) = listener.as_mut() else { return Err(Failure::endpoint_closed().into()) };
        match Pin::new(listener).poll_next(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(Some(association)) => Ok(Some(Association::new(association, &self.hub, &self.home))),
            Poll::Ready(None) => Err(Failure::endpoint_closed().into()),
            Poll::Pending => Ok(None),
        }
    }

    /// Stops listening.
    fn close(&self) {
        let listener = lock(&self.listener).take();
        drop(listener);
        self.waker.wake_by_ref();
    }
}

pub(crate) fn pair(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}

fn address_at(address: &str) -> Result<SocketAddr, Failure> {
    address.parse().map_err(|_| Failure::invalid(&format!("{address:?} is no address")))
}
