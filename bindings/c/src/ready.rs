//! Readiness of the objects of an endpoint.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::c_int;
use std::mem::MaybeUninit;

use festina::blocking::ReadyKind;

use crate::association::Association;
use crate::boundary::{descriptor, write_all};
use crate::endpoint::{Connecting, Endpoint, Listener};
use crate::limit::limit;
use crate::status::{Failure, Status, behind, guard, guard_value, required};

/// The kind of readiness; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that newer versions may name.
    Other = 0,
    /// Accept an association.
    Accept = 1,
    /// Finish connecting.
    Connect = 2,
    /// Receive a message.
    Message = 3,
    /// Take an event.
    Event = 4,
    /// Decide on a request.
    Request = 5,
}

impl From<ReadyKind> for Kind {
    fn from(kind: ReadyKind) -> Self {
        match kind {
            ReadyKind::Accept => Self::Accept,
            ReadyKind::Connect => Self::Connect,
            ReadyKind::Message => Self::Message,
            ReadyKind::Event => Self::Event,
            ReadyKind::Request => Self::Request,
            _ => Self::Other,
        }
    }
}

/// A ready object; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The program's name for the object.
    pub token: u64,
    /// A [`Kind`].
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
}

/// Waits until objects of an endpoint are ready, and writes them.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_ready(
    endpoint: Option<&Endpoint>,
    ready: *mut Ready,
    capacity: usize,
    timeout_ms: c_int,
    count: Option<&mut MaybeUninit<usize>>,
) -> Status {
    guard(|| {
        let endpoint = behind("endpoint", endpoint)?;
        let count = required("count", count)?;
        if ready.is_null() || capacity == 0 {
            return Err(Failure::invalid("ready is NULL, or capacity is 0"));
        }
        let mut found = Vec::new();
        let waited = endpoint.ready(&mut found, capacity, limit(timeout_ms)?);
        waited.map_err(|_| Failure::timeout("nothing is ready"))?;
        let found = found.into_iter().map(|ready| Ready {
            token: ready.token,
            kind: Kind::from(ready.kind) as u32,
            reserved: 0,
        });
        count.write(write_all(found, ready, capacity));
        Ok(())
    })
}

/// A descriptor that is readable while objects of the endpoint are ready; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_fd(endpoint: Option<&Endpoint>) -> c_int {
    guard_value(-1, || descriptor(behind("endpoint", endpoint)?.ready_descriptor()))
}

/// Sets the token by which a listener is reported.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_set_token(listener: Option<&Listener>, token: u64) -> Status {
    guard(|| {
        behind("listener", listener)?.set_token(token);
        Ok(())
    })
}

/// Sets the token by which a handshake and then its association are reported.
#[unsafe(no_mangle)]
pub extern "C" fn festina_connecting_set_token(connecting: Option<&Connecting>, token: u64) -> Status {
    guard(|| {
        behind("connecting", connecting)?.set_token(token);
        Ok(())
    })
}

/// Sets the token by which an association is reported.
#[unsafe(no_mangle)]
pub extern "C" fn festina_association_set_token(association: Option<&Association>, token: u64) -> Status {
    guard(|| {
        behind("association", association)?.set_token(token);
        Ok(())
    })
}
