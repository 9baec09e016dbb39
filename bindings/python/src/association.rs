//! Associations.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use festina::{Messages, Profile, SendError};
use festina_bridge::Home;
use futures_core::Stream as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{self, Message, Options, became, happened};
use crate::endpoint::pair;
use crate::failure::{Failure, bug, reason_name};
use crate::hub::{Alarm, Operation, Shared, lock};

/// A connection with one peer.
#[pyclass(frozen)]
pub(crate) struct Association {
    association: festina::Association,
    messages: Mutex<Messages>,
    alarm: Arc<Alarm>,
    waker: Waker,
    hub: Arc<Shared>,
    home: Arc<Home>,
}

impl Association {
    pub(crate) fn new(association: festina::Association, hub: &Arc<Shared>, home: &Arc<Home>) -> Self {
        let (alarm, messages) = (Alarm::new(hub), Mutex::new(association.messages()));
        let waker = Waker::from(alarm.clone());
        Self { association, messages, alarm, waker, hub: hub.clone(), home: home.clone() }
    }

    fn operation<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Operation {
        Operation::new(&self.hub, &self.home, work, finish)
    }
}

#[pymethods]
impl Association {
    /// The number under which the hub tells that there is something to receive.
    #[getter]
    fn number(&self) -> u64 {
        self.alarm.number()
    }

    /// The next message, or None if there is none yet.
    fn poll_recv(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        let polled = Pin::new(&mut *lock(&self.messages)).poll_next(&mut Context::from_waker(&self.waker));
        match polled {
            Poll::Ready(Some(message)) => Ok(Some(Message::new(py, &message))),
            Poll::Ready(None) => match self.association.close_reason() {
                Some(reason) => Err(Failure::from(reason).into()),
                None => Err(bug("the messages ended before the association")),
            },
            Poll::Pending => Ok(None),
        }
    }

    /// Sends a message. Returns its number, or None if the send buffer is full.
    fn try_send(&self, data: &[u8], options: Option<Options>) -> PyResult<Option<u64>> {
        match self.association.try_send(convert::message(data, options)?) {
            Ok(id) => Ok(Some(id.0)),
            Err(SendError::BufferFull(_)) => Ok(None),
            Err(error) => Err(self.failure(error).into()),
        }
    }

    /// Comes to the number of the message when it is in the send buffer.
    fn send(&self, data: &[u8], options: Option<Options>) -> PyResult<Operation> {
        let (association, message) = (self.association.clone(), convert::message(data, options)?);
        let sending = async move { association.send(message).await.map(|id| id.0).map_err(Failure::from) };
        Ok(self.operation(sending, |py, id| Ok(id.into_pyobject(py)?.into_any().unbind())))
    }

    /// Comes to an operation when it is in the send buffer, which comes to what became of it.
    fn send_confirmed(&self, data: &[u8], options: Option<Options>) -> PyResult<Operation> {
        let (association, message) = (self.association.clone(), convert::message(data, options)?);
        let (hub, home) = (self.hub.clone(), self.home.clone());
        let sending = async move { association.send_confirmed(message).await.map_err(Failure::from) };
        Ok(self.operation(sending, move |py, delivery| {
            let id = delivery.id().0;
            let outcome = Operation::new(&hub, &home, async { Ok(delivery.await) }, |py, outcome| {
                Ok(became(outcome).into_pyobject(py)?.into_any().unbind())
            });
            Ok((id, Py::new(py, outcome)?).into_pyobject(py)?.into_any().unbind())
        }))
    }

    /// Comes to None when the peer has acknowledged everything.
    fn drained(&self) -> Operation {
        let association = self.association.clone();
        let draining = async move { association.drained().await.map_err(Failure::from) };
        self.operation(draining, |py, ()| Ok(py.None()))
    }

    /// Comes to None when the association is over in good order.
    fn shutdown(&self) -> Operation {
        let association = self.association.clone();
        let ending = async move { association.shutdown().await.map_err(Failure::from) };
        self.operation(ending, |py, ()| Ok(py.None()))
    }

    /// Comes to the reason when the association is over.
    fn closed(&self) -> Operation {
        let association = self.association.clone();
        let ending = async move { Ok(association.closed().await) };
        self.operation(ending, |py, reason| Ok(reason_name(&reason).into_pyobject(py)?.into_any().unbind()))
    }

    /// Comes to what happened next, or to None after the end.
    fn event(&self) -> Operation {
        let association = self.association.clone();
        let waiting = async move { Ok(association.event().await) };
        self.operation(waiting, |py, event| Ok(event.as_ref().map(happened).into_pyobject(py)?.into_any().unbind()))
    }

    fn abort(&self, reason: &str) {
        self.association.abort(reason);
    }

    #[getter]
    fn close_reason(&self) -> Option<&'static str> {
        self.association.close_reason().as_ref().map(reason_name)
    }

    #[getter]
    fn remote_address(&self) -> (String, u16) {
        pair(self.association.remote_addr())
    }

    /// Streams to the peer and from it.
    #[getter]
    fn streams(&self) -> (u16, u16) {
        let streams = self.association.streams();
        (streams.outbound, streams.inbound)
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        convert::stats(py, &self.association.stats())
    }

    #[getter]
    fn profile(&self) -> Option<&'static str> {
        self.association.profile().map(Profile::name)
    }

    fn set_profile(&self, profile: &str) -> PyResult<()> {
        let profile = profile.parse::<Profile>().map_err(|error| Failure::invalid(&error))?;
        self.association.set_profile(profile);
        Ok(())
    }
}

impl Association {
    /// Why a message was not taken; if the association is over, why that is.
    fn failure(&self, error: SendError) -> Failure {
        match (error, self.association.close_reason()) {
            (SendError::Closed(_), Some(reason)) => reason.into(),
            (error, _) => error.into(),
        }
    }
}
