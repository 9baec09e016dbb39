//! Associations.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use festina::blocking::Endpoint;
use festina::blocking::bindings::{self, ForkGuard};
use festina::{Messages, Profile, SendError, SendErrorKind};
use futures_core::Stream as _;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::convert::{self, Message, Options, became, happened, pair};
use crate::failure::{Failure, bug, reason_name};
use crate::hub::{Operation, Shared};
use crate::locks::lock;
use crate::security::{certificates, protocol};

/// A connection with one peer.
#[pyclass(frozen)]
pub(crate) struct Association {
    number: u64,
    open: ForkGuard<OpenAssociation>,
}

/// The native association.
struct OpenAssociation {
    association: festina::Association,
    messages: Mutex<Messages>,
    waker: Waker,
    hub: Arc<Shared>,
    endpoint: Arc<Endpoint>,
}

impl Association {
    pub(crate) fn new(association: festina::Association, hub: &Arc<Shared>, endpoint: &Arc<Endpoint>) -> Self {
        let messages = Mutex::new(association.messages());
        let (number, waker) = hub.waker();
        let open = OpenAssociation { association, messages, waker, hub: hub.clone(), endpoint: endpoint.clone() };
        Self { number, open: ForkGuard::new(open) }
    }

    fn open(&self) -> Result<&OpenAssociation, Failure> {
        Ok(self.open.get()?)
    }

    /// Makes an operation of what `work` does with the association.
    fn operation<T: Send + 'static, W: Future<Output = Result<T, Failure>> + Send + 'static>(
        &self,
        work: impl FnOnce(festina::Association) -> W,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Operation> {
        let open = self.open()?;
        Ok(Operation::new(&open.hub, &open.endpoint, work(open.association.clone()), finish))
    }
}

#[pymethods]
impl Association {
    /// The number under which the hub tells that there is something to receive.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The next message, or None if there is none yet.
    fn poll_recv(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        let open = self.open()?;
        let polled = Pin::new(&mut *lock(&open.messages)).poll_next(&mut Context::from_waker(&open.waker));
        match polled {
            Poll::Ready(Some(message)) => Ok(Some(Message::new(py, &message))),
            Poll::Ready(None) => match open.association.close_reason() {
                Some(reason) => Err(Failure::from(reason).into()),
                None => Err(bug("the messages ended before the association")),
            },
            Poll::Pending => Ok(None),
        }
    }

    /// Sends a message. Returns its number, or None if the send buffer is full.
    fn try_send(&self, data: &[u8], options: Option<Options>) -> PyResult<Option<u64>> {
        let association = &self.open()?.association;
        match association.try_send(convert::message(data, options)?) {
            Ok(id) => Ok(Some(id.0)),
            Err(SendError { kind: SendErrorKind::BufferFull, .. }) => Ok(None),
            Err(error) => Err(failure(association, error).into()),
        }
    }

    /// Comes to the number of the message when it is in the send buffer.
    fn send(&self, data: &[u8], options: Option<Options>) -> PyResult<Operation> {
        let message = convert::message(data, options)?;
        self.operation(
            |association| async move { association.send(message).await.map(|id| id.0).map_err(Failure::from) },
            |py, id| Ok(id.into_pyobject(py)?.into_any().unbind()),
        )
    }

    /// Sends messages in their order, as many as there is room for now. Returns how many.
    fn try_send_many(&self, messages: Vec<PyBackedBytes>, options: Option<Options>) -> PyResult<usize> {
        let association = &self.open()?.association;
        let mut queue = VecDeque::with_capacity(messages.len());
        for data in messages {
            queue.push_back(convert::message(&data, options)?);
        }
        bindings::check_messages(association, &queue).map_err(Failure::from)?;
        let all = queue.len();
        match association.try_send_many(&mut queue) {
            Ok(()) | Err(SendError { kind: SendErrorKind::BufferFull, .. }) => Ok(all - queue.len()),
            Err(error) => Err(failure(association, error).into()),
        }
    }

    /// Comes to an operation when it is in the send buffer, which comes to what became of it.
    fn send_confirmed(&self, data: &[u8], options: Option<Options>) -> PyResult<Operation> {
        let message = convert::message(data, options)?;
        let open = self.open()?;
        let (hub, endpoint) = (open.hub.clone(), open.endpoint.clone());
        let sending = |association: festina::Association| async move {
            association.send_confirmed(message).await.map_err(Failure::from)
        };
        self.operation(sending, move |py, delivery| {
            let id = delivery.id().0;
            let outcome = Operation::new(&hub, &endpoint, async { Ok(delivery.await) }, |py, outcome| {
                Ok(became(outcome).into_pyobject(py)?.into_any().unbind())
            });
            Ok((id, Py::new(py, outcome)?).into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Comes to None when the peer has acknowledged everything.
    fn drained(&self) -> PyResult<Operation> {
        self.operation(
            |association| async move { association.drained().await.map_err(Failure::from) },
            |py, ()| Ok(py.None()),
        )
    }

    /// Comes to None when the association is over in good order.
    fn shutdown(&self) -> PyResult<Operation> {
        self.operation(
            |association| async move { association.shutdown().await.map_err(Failure::from) },
            |py, ()| Ok(py.None()),
        )
    }

    /// Comes to the reason when the association is over.
    fn closed(&self) -> PyResult<Operation> {
        self.operation(
            |association| async move { Ok(association.closed().await) },
            |py, reason| Ok(reason_name(&reason).into_pyobject(py)?.into_any().unbind()),
        )
    }

    /// Comes to what happened next, or to None after the end.
    fn event(&self) -> PyResult<Operation> {
        self.operation(
            |association| async move { Ok(association.event().await) },
            |py, event| Ok(event.as_ref().map(happened).into_pyobject(py)?.into_any().unbind()),
        )
    }

    fn abort(&self, reason: &str) -> PyResult<()> {
        self.open()?.association.abort(reason);
        Ok(())
    }

    #[getter]
    fn close_reason(&self) -> PyResult<Option<&'static str>> {
        Ok(self.open()?.association.close_reason().as_ref().map(reason_name))
    }

    #[getter]
    fn remote_address(&self) -> PyResult<(String, u16)> {
        Ok(pair(self.open()?.association.remote_addr()))
    }

    /// Streams to the peer and from it.
    #[getter]
    fn streams(&self) -> PyResult<(u16, u16)> {
        let streams = self.open()?.association.streams();
        Ok((streams.outbound, streams.inbound))
    }

    #[getter]
    fn is_encrypted(&self) -> PyResult<bool> {
        Ok(self.open()?.association.is_encrypted())
    }

    #[getter]
    fn is_resumed(&self) -> PyResult<bool> {
        Ok(self.open()?.association.is_resumed())
    }

    #[getter]
    fn peer_fingerprint(&self) -> PyResult<Option<String>> {
        Ok(self.open()?.association.peer_identity().map(|peer| peer.fingerprint().to_string()))
    }

    #[getter]
    fn peer_certificates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self.open()?.association.peer_identity() {
            Some(peer) => certificates(py, &peer),
            None => Ok(PyTuple::empty(py)),
        }
    }

    #[getter]
    fn alpn(&self) -> PyResult<Option<String>> {
        Ok(self.open()?.association.alpn().as_deref().map(protocol))
    }

    #[getter]
    fn client_token<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let token = self.open()?.association.request().map(|request| request.token).unwrap_or_default();
        Ok(PyBytes::new(py, &token))
    }

    /// The next early message of the client.
    fn recv_early(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        Ok(self.open()?.association.try_recv_early().map(|message| Message::early(py, &message)))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        convert::stats(py, &self.open()?.association.stats())
    }

    fn paths<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let association = &self.open()?.association;
        let paths = association.paths().into_iter().zip(association.path_stats());
        paths.map(|(status, stats)| convert::path(py, &status, &stats)).collect()
    }

    #[getter]
    fn profile(&self) -> PyResult<Option<&'static str>> {
        Ok(self.open()?.association.profile().map(Profile::name))
    }

    fn set_profile(&self, profile: &str) -> PyResult<()> {
        let profile = profile.parse::<Profile>().map_err(|error| Failure::invalid(&error))?;
        self.open()?.association.set_profile(profile);
        Ok(())
    }
}

/// Why a message was not taken; if the association is over, why that is.
fn failure(association: &festina::Association, error: SendError) -> Failure {
    match (error, association.close_reason()) {
        (SendError { kind: SendErrorKind::Closed, .. }, Some(reason)) => reason.into(),
        (error, _) => error.into(),
    }
}
