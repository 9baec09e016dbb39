//! Status codes, and the text of the last error.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use festina::blocking::bindings::{ForkGuard, Forked};
use festina::blocking::{OpenError, WaitError};
use festina::security::{SecurityError, SecurityFailure};
use festina::{BindError, ClosedReason, ConfigError, ConnectError, ListenError, SendError, SendErrorKind};

/// Status of a function; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// The time limit has expired.
    Timeout = 1,
    /// The association or the endpoint has ended.
    Closed = 2,
    /// Caller: an argument is invalid.
    Invalid = 3,
    /// Peer: it refused.
    Refused = 4,
    /// Network or peer: no answer.
    Unreachable = 5,
    /// System: it has no socket, descriptor, thread or the like, or the address is in use.
    System = 6,
    /// Caller: a limit of the settings or of the protocol was reached.
    Limit = 7,
    /// Festina: a bug, please report it.
    Bug = 8,
    /// Peer: it has no room for another association.
    Full = 9,
    /// Peer: its certificate is not trusted.
    Untrusted = 10,
    /// Peer: it speaks another protocol, or its handshake is faulty.
    Protocol = 11,
}

/// Why a function failed.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl Display) -> Self {
        Self { status, text: text.to_string() }
    }

    pub(crate) fn invalid(text: impl Display) -> Self {
        Self::new(Status::Invalid, text)
    }

    pub(crate) fn null(name: &str) -> Self {
        Self::invalid(format_args!("{name} is NULL"))
    }

    pub(crate) fn timeout(what: &str) -> Self {
        Self::new(Status::Timeout, what)
    }

    /// The text for a time limit that passed, or the end of the association.
    pub(crate) fn waited(error: &WaitError<ClosedReason>, what: &str) -> Self {
        match error {
            WaitError::TimedOut => Self::timeout(what),
            WaitError::Failed(reason) => Self::closed(reason),
        }
    }

    pub(crate) fn closed(reason: &ClosedReason) -> Self {
        Self::new(Status::Closed, format_args!("the association has ended: {reason}"))
    }
}

/// Returns the object of a handle, unless the handle is NULL or was inherited across fork().
pub(crate) fn behind<'a, T>(what: &str, handle: Option<&'a ForkGuard<T>>) -> Result<&'a T, Failure> {
    Ok(required(what, handle)?.get()?)
}

/// Returns an argument, unless it is NULL.
pub(crate) fn required<T>(name: &str, argument: Option<T>) -> Result<T, Failure> {
    argument.ok_or_else(|| Failure::null(name))
}

impl From<Forked> for Failure {
    fn from(error: Forked) -> Self {
        Self::invalid(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::invalid(error)
    }
}

impl From<SecurityError> for Failure {
    fn from(error: SecurityError) -> Self {
        Self::invalid(error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let status = match &error {
            OpenError::Bind(
                BindError::Config(_) | BindError::Security(_) | BindError::Addresses(_) | BindError::Removal { .. },
            ) => Status::Invalid,
            _ => Status::System,
        };
        Self::new(status, error)
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        let status = match &error {
            ListenError::PortInUse(_) => Status::Limit,
            ListenError::EndpointClosed => Status::Closed,
            ListenError::Client => {
                return Self::invalid("a client does not listen: festina_endpoint_server opens a server");
            }
            _ => Status::Invalid,
        };
        Self::new(status, error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let status = match &error {
            ConnectError::PortInUse { .. }
            | ConnectError::NoPortLeft { .. }
            | ConnectError::TooManyAssociations { .. } => Status::Limit,
            ConnectError::EndpointClosed => Status::Closed,
            ConnectError::NotListening { .. } | ConnectError::Refused { .. } => Status::Refused,
            ConnectError::PeerFull { .. } => Status::Full,
            ConnectError::Security { failure, .. } => match failure {
                SecurityFailure::Untrusted(_) => Status::Untrusted,
                SecurityFailure::Alert { .. } | SecurityFailure::Refused(_) => Status::Refused,
                SecurityFailure::OtherProtocol(_)
                | SecurityFailure::OtherVersion(_)
                | SecurityFailure::Handshake(_) => Status::Protocol,
                _ => Status::Invalid,
            },
            ConnectError::Timeout { .. }
            | ConnectError::Ended { .. }
            | ConnectError::CannotSend { .. }
            | ConnectError::NameNotFound { .. } => Status::Unreachable,
            _ => Status::Invalid,
        };
        Self::new(status, error)
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        let status = match error.kind {
            SendErrorKind::BufferFull | SendErrorKind::StreamResetting => Status::Timeout,
            SendErrorKind::Closed => Status::Closed,
            _ => Status::Invalid,
        };
        Self::new(status, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn remember(text: &str) {
    // A zero byte inside would end it early.
    let text: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    // In exit handlers it is gone, since glibc destroys the thread-local variables of the main thread before.
    let _gone = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
}

/// Runs the work of an exported function: remembers its error for this thread, and lets no panic out into the program.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Failure>) -> Status {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => {
            remember(&failure.text);
            failure.status
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            remember(&format!("a bug in Festina: {text}"));
            Status::Bug
        }
    }
}

/// As [`guard`], for a function that returns a value; `otherwise` if there is none.
pub(crate) fn guard_value<T>(otherwise: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut value = None;
    let status = guard(|| {
        value = Some(work()?);
        Ok(())
    });
    value.filter(|_| status == Status::Ok).unwrap_or(otherwise)
}

/// Creates an object and writes its handle. A NULL slot is refused before anything is created.
pub(crate) fn hand_over<T>(
    name: &str,
    slot: Option<&mut MaybeUninit<Box<T>>>,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Status {
    guard(|| {
        let slot = required(name, slot)?;
        slot.write(Box::new(make()?));
        Ok(())
    })
}

/// Frees a handle; NULL does nothing.
pub(crate) fn free<T>(handle: Option<Box<T>>) -> Status {
    guard(|| {
        drop(handle);
        Ok(())
    })
}

/// Describes this thread's last error. Never NULL; valid until the next call from this thread that fails. While the thread ends it no longer
/// says which.
#[unsafe(no_mangle)]
pub extern "C" fn festina_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"the last error is not known while the thread ends".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        LAST.with(|last| last.borrow().to_str().unwrap().to_owned())
    }

    #[test]
    fn a_panic_becomes_a_status_and_a_text_of_this_thread_alone() {
        assert_eq!(guard(|| Err(Failure::null("data"))), Status::Invalid);
        assert_eq!(last_error(), "data is NULL");
        assert_eq!(guard(|| panic!("number {}", 3)), Status::Bug);
        assert_eq!(last_error(), "a bug in Festina: number 3");
        assert_eq!(guard_value(7, || panic!("again")), 7);
        std::thread::spawn(|| assert_eq!(last_error(), "")).join().unwrap();
        assert_eq!(guard(|| Ok(())), Status::Ok);
        assert_eq!(last_error(), "a bug in Festina: again", "success keeps it");
    }
}
