//! Errors as exceptions: those of `festina._errors`, each with its arguments.

use std::io;

use festina::blocking::OpenError;
use festina::blocking::bindings::Forked;
use festina::security::{SecurityError, SecurityFailure};
use festina::{BindError, ClosedReason, ConfigError, ConnectError, ListenError, SendError, SendErrorKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// An error, and which exception it becomes.
#[derive(Debug)]
pub(crate) struct Failure {
    exception: &'static str,
    text: String,
    reason: Option<ClosedReason>,
}

impl Failure {
    fn new(exception: &'static str, error: &impl ToString) -> Self {
        Self { exception, text: error.to_string(), reason: None }
    }

    pub(crate) fn invalid(error: &impl ToString) -> Self {
        Self::new("InvalidError", error)
    }

    /// An operation was polled after its end.
    pub(crate) fn over() -> Self {
        Self::invalid(&"the operation is over")
    }

    /// The endpoint was closed.
    pub(crate) fn endpoint_closed() -> Self {
        Self::new("ClosedError", &"the endpoint is closed")
    }
}

impl From<ClosedReason> for Failure {
    fn from(reason: ClosedReason) -> Self {
        let text = format!("the association has ended: {reason}");
        Self { reason: Some(reason), ..Self::new("ClosedError", &text) }
    }
}

impl From<Forked> for Failure {
    fn from(error: Forked) -> Self {
        Self::new("ForkedError", &error)
    }
}

/// By the name of the setting in Python, and with its unit.
impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let (name, problem) = error.in_seconds();
        let name = match name {
            "limits.outbound_streams" | "limits.inbound_streams" => "streams",
            "limits.send_buffer target" => "send_delay",
            "sack.delay" => "sack_delay",
            _ => name.rsplit('.').next().unwrap_or(name),
        };
        Self::invalid(&format!("{name} {problem}"))
    }
}

impl From<SecurityError> for Failure {
    fn from(error: SecurityError) -> Self {
        Self::invalid(&error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let is_invalid = match &error {
            OpenError::Bind(error) => matches!(
                error,
                BindError::Config(_) | BindError::Security(_) | BindError::Addresses(_) | BindError::Removal { .. }
            ),
            _ => false,
        };
        Self::new(if is_invalid { "InvalidError" } else { "BindError" }, &error)
    }
}

/// The system has no descriptor left.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new("BindError", &format!("no descriptor: {error}"))
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        let exception = match error {
            ListenError::PortInUse(_) => "LimitError",
            ListenError::EndpointClosed => "ClosedError",
            ListenError::Client => {
                return Self::invalid(&"a client does not listen: Endpoint.server opens a server");
            }
            _ => "InvalidError",
        };
        Self::new(exception, &error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let exception = match &error {
            ConnectError::PortInUse { .. }
            | ConnectError::NoPortLeft { .. }
            | ConnectError::TooManyAssociations { .. } => "LimitError",
            ConnectError::EndpointClosed => "ClosedError",
            ConnectError::NotListening { .. } | ConnectError::Refused { .. } => "RefusedError",
            ConnectError::PeerFull { .. } => "FullError",
            ConnectError::Security { failure, .. } => match failure {
                SecurityFailure::Untrusted(_) => "UntrustedError",
                SecurityFailure::Alert { .. } | SecurityFailure::Refused(_) => "RefusedError",
                SecurityFailure::OtherProtocol(_)
                | SecurityFailure::OtherVersion(_)
                | SecurityFailure::Handshake(_) => "ProtocolError",
                _ => "InvalidError",
            },
            ConnectError::Timeout { .. }
            | ConnectError::Ended { .. }
            | ConnectError::CannotSend { .. }
            | ConnectError::NameNotFound { .. } => "UnreachableError",
            _ => "InvalidError",
        };
        Self::new(exception, &error)
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let exception = match error.kind {
            SendErrorKind::BufferFull | SendErrorKind::StreamResetting => "BufferFullError",
            SendErrorKind::Closed => "ClosedError",
            _ => "InvalidError",
        };
        Self::new(exception, &error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| exception(py, &failure).unwrap_or_else(|error| error))
    }
}

fn exception(py: Python<'_>, failure: &Failure) -> PyResult<PyErr> {
    let class = py.import("festina._errors")?.getattr(failure.exception)?;
    let made = match &failure.reason {
        Some(reason) => class.call1((&failure.text, reason_name(reason), said(py, reason)))?,
        None => class.call1((&failure.text,))?,
    };
    Ok(PyErr::from_value(made))
}

/// The name of a reason.
pub(crate) fn reason_name(reason: &ClosedReason) -> &'static str {
    match reason {
        ClosedReason::Shutdown => "shutdown",
        ClosedReason::AbortedLocally => "aborted",
        ClosedReason::AbortedByPeer { .. } => "aborted-by-peer",
        ClosedReason::ProtocolViolation(_) => "protocol-violation",
        ClosedReason::HandshakeTimeout => "handshake-timeout",
        ClosedReason::PeerUnreachable => "peer-unreachable",
        ClosedReason::ShutdownTimeout => "shutdown-timeout",
        ClosedReason::PeerReset => "peer-reset",
        _ => "other",
    }
}

/// What the peer said when it aborted the association.
fn said<'py>(py: Python<'py>, reason: &ClosedReason) -> Bound<'py, PyBytes> {
    match reason {
        ClosedReason::AbortedByPeer { info, .. } => PyBytes::new(py, info),
        _ => PyBytes::new(py, b""),
    }
}

/// For what only a mistake in the Python half can bring about.
pub(crate) fn bug(text: &'static str) -> PyErr {
    PyRuntimeError::new_err(text)
}
