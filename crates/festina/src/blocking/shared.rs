//! What the objects of an endpoint share.

use std::net::SocketAddr;
use std::sync::Arc;

use super::readiness::Readiness;
use super::runtime::{OpenError, RuntimeThread};
use crate::config::EndpointConfig;

/// The endpoint, its thread and its ready objects.
#[derive(Debug)]
pub(super) struct Shared {
    // Before the thread: the endpoint's handles go first.
    pub(super) endpoint: crate::Endpoint,
    pub(super) ready: Arc<Readiness>,
    pub(super) thread: RuntimeThread,
}

impl Shared {
    /// Opens the socket and starts the thread.
    pub(super) fn open(address: SocketAddr, config: EndpointConfig) -> Result<Arc<Self>, OpenError> {
        let (thread, endpoint) = RuntimeThread::open(address, config)?;
        Ok(Arc::new(Self { endpoint, ready: Readiness::new(), thread }))
    }
}
