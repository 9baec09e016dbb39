//! Associations: sending, receiving, ending.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::Arc;

use festina::{ClosedReason, Duration, Messages, SendError};
use festina_bridge::{Home, Owned};

use crate::boundary::{Slot, bytes, read, text, write_text};
use crate::config::{name_of, profile};
use crate::event::{Event, Events};
use crate::message::Message;
use crate::options::SendOptions;
use crate::source::{Next, Source};
use crate::stats::Stats;
use crate::status::{Failure, Status, behind, guard, guard_value};
use crate::wait::{Limit, duration, wait};

/// A connection with one peer.
pub type Association = Owned<OpenAssociation>;

/// The object of an association handle.
#[derive(Debug)]
pub struct OpenAssociation {
    association: festina::Association,
    messages: Source<Messages>,
    events: Source<Events>,
    /// Last: everything else goes before the thread.
    _home: Arc<Home>,
}

/// Why an association is over; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It is not.
    Open = 0,
    /// Both sides finished in good order.
    Shutdown = 1,
    /// This side aborted it.
    Aborted = 2,
    /// The peer aborted it.
    AbortedByPeer = 3,
    /// The peer broke the protocol.
    ProtocolViolation = 4,
    /// The peer did not answer the handshake.
    HandshakeTimeout = 5,
    /// The peer stopped answering.
    PeerUnreachable = 6,
    /// The orderly end took too long.
    ShutdownTimeout = 7,
    /// A reason that newer versions may name.
    Other = 8,
}

impl From<&ClosedReason> for CloseReason {
    fn from(reason: &ClosedReason) -> Self {
        match reason {
            ClosedReason::Shutdown => Self::Shutdown,
            ClosedReason::AbortedLocally => Self::Aborted,
            ClosedReason::AbortedByPeer { .. } => Self::AbortedByPeer,
            ClosedReason::ProtocolViolation(_) => Self::ProtocolViolation,
            ClosedReason::HandshakeTimeout => Self::HandshakeTimeout,
            ClosedReason::PeerUnreachable => Self::PeerUnreachable,
            ClosedReason::ShutdownTimeout => Self::ShutdownTimeout,
            _ => Self::Other,
        }
    }
}

/// The handle of an association.
pub(crate) fn own(association: festina::Association, home: Arc<Home>) -> Association {
    let messages = Source::new(association.messages());
    let events = Source::new(Events::new(association.clone()));
    Owned::new(OpenAssociation { association, messages, events, _home: home })
}

impl OpenAssociation {
    fn over(&self) -> Failure {
        match self.association.close_reason() {
            Some(reason) => Failure::closed(&reason),
            None => Failure::new(Status::Closed, "the association is over"),
        }
    }
}

fn here(association: Option<&Association>) -> Result<&OpenAssociation, Failure> {
    behind("association", association)
}

/// Sends a message.
#[unsafe(no_mangle)]
pub extern "C" fn festina_send(
    association: Option<&Association>,
    data: *const c_void,
    length: usize,
    options: *const SendOptions,
    timeout_ms: c_int,
    id: Option<&mut MaybeUninit<u64>>,
) -> Status {
    guard(|| {
        let association = &here(association)?.association;
        let limit = duration(timeout_ms)?;
        let options = read(options, SendOptions::DEFAULT)?;
        let message = options.message(bytes(data, length, association.message_bytes_max())?)?;
        let sent = match association.try_send(message) {
            Err(SendError::BufferFull(message)) if limit != Some(Duration::ZERO) => {
                let waited = wait(association.send(message), Limit::from_now(limit));
                waited.ok_or_else(|| Failure::timeout("the send buffer is full"))?
            }
            tried => tried,
        }?;
        if let Some(id) = id {
            id.write(sent.0);
        }
        Ok(())
    })
}

/// Receives a message.
#[unsafe(no_mangle)]
pub extern "C" fn festina_recv(association: Option<&Association>, message: *mut Message, timeout_ms: c_int) -> Status {
    guard(|| {
        let association = here(association)?;
        let slot = Slot::new("message", message)?;
        match association.messages.next(Limit::from_ms(timeout_ms)?) {
            Next::Item(received) => {
                slot.fill(Message::new(received));
                Ok(())
            }
            Next::End => Err(association.over()),
            Next::TimedOut => Err(Failure::timeout("no message has come")),
        }
    })
}

/// Tells what happened.
#[unsafe(no_mangle)]
pub extern "C" fn festina_next_event(
    association: Option<&Association>,
    event: *mut Event,
    timeout_ms: c_int,
) -> Status {
    guard(|| {
        let association = here(association)?;
        let slot = Slot::new("event", event)?;
        match association.events.next(Limit::from_ms(timeout_ms)?) {
            Next::Item(happened) => {
                slot.fill(happened);
                Ok(())
            }
            Next::End => Err(association.over()),
            Next::TimedOut => Err(Failure::timeout("nothing has happened")),
        }
    })
}

/// A descriptor that is readable when there is a message to receive or the association is over; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_message_fd(association: Option<&Association>) -> c_int {
    guard_value(-1, || here(association)?.messages.descriptor())
}

/// A descriptor that is readable when something happened; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_event_fd(association: Option<&Association>) -> c_int {
    guard_value(-1, || here(association)?.events.descriptor())
}

/// Waits until the peer has acknowledged everything.
#[unsafe(no_mangle)]
pub extern "C" fn festina_flush(association: Option<&Association>, timeout_ms: c_int) -> Status {
    guard(|| {
        let drained = wait(here(association)?.association.drained(), Limit::from_ms(timeout_ms)?);
        let drained = drained.ok_or_else(|| Failure::timeout("the peer has not acknowledged everything"))?;
        drained.map_err(|reason| Failure::closed(&reason))
    })
}

/// Ends an association in good order.
#[unsafe(no_mangle)]
pub extern "C" fn festina_shutdown(association: Option<&Association>, timeout_ms: c_int) -> Status {
    guard(|| {
        let over = wait(here(association)?.association.shutdown(), Limit::from_ms(timeout_ms)?);
        let over = over.ok_or_else(|| Failure::timeout("the association is still ending"))?;
        over.map_err(|reason| Failure::closed(&reason))
    })
}

/// Ends an association at once.
#[unsafe(no_mangle)]
pub extern "C" fn festina_abort(association: Option<&Association>, reason: *const c_char) -> Status {
    guard(|| {
        here(association)?.association.abort(text("the reason", reason)?.unwrap_or_default());
        Ok(())
    })
}

/// Frees the handle of an association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_association_free(association: Option<Box<Association>>) -> Status {
    guard(|| {
        drop(association);
        Ok(())
    })
}

/// Why an association is over.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_close_reason(association: Option<&Association>) -> CloseReason {
    guard_value(CloseReason::Other, || {
        let reason = here(association)?.association.close_reason();
        Ok(reason.as_ref().map_or(CloseReason::Open, CloseReason::from))
    })
}

/// Writes what the peer said when it aborted the association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_close_text(
    association: Option<&Association>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_value(0, || {
        let said = match here(association)?.association.close_reason() {
            Some(ClosedReason::AbortedByPeer { info, .. }) => String::from_utf8_lossy(&info).replace('\0', ""),
            _ => String::new(),
        };
        Ok(write_text(&said, buffer, capacity))
    })
}

/// Writes the peer's address as text.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_peer_address(
    association: Option<&Association>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_value(0, || {
        let address = here(association)?.association.remote_addr().to_string();
        Ok(write_text(&address, buffer, capacity))
    })
}

/// Takes a snapshot of counters and gauges.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_stats(association: Option<&Association>, stats: *mut Stats) -> Status {
    guard(|| {
        let association = here(association)?;
        Slot::new("stats", stats)?.fill(Stats::new(&association.association.stats()));
        Ok(())
    })
}

/// The name of the loss-recovery profile in use; NULL if it is none of them.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_profile(association: Option<&Association>) -> *const c_char {
    guard_value(null(), || Ok(here(association)?.association.profile().map_or(null(), name_of)))
}

/// Changes loss recovery to that of a profile.
#[unsafe(no_mangle)]
pub extern "C" fn festina_set_profile(association: Option<&Association>, profile_name: *const c_char) -> Status {
    guard(|| {
        let profile = profile(profile_name)?.ok_or_else(|| Failure::null("profile_name"))?;
        here(association)?.association.set_profile(profile);
        Ok(())
    })
}
