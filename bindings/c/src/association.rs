//! Associations: sending, receiving, ending.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null;

use festina::blocking;
use festina::blocking::bindings::{self, ForkGuard};
use festina::{ClosedReason, Message as Outbound, SendError};

use crate::boundary::{Slot, descriptor, guard_text, outgoing, text};
use crate::config::{name_of, profile};
use crate::event::Event;
use crate::limit::limit;
use crate::message::Message;
use crate::options::{Outgoing, SendOptions};
use crate::path::Path;
use crate::stats::Stats;
use crate::status::{Failure, Status, behind, free, guard, guard_value, required};

/// A connection with one peer.
pub type Association = ForkGuard<blocking::Association>;

/// Why an association has ended; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It has not ended.
    Open = 0,
    /// Both sides have shut down gracefully.
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
    /// The graceful shutdown took too long.
    ShutdownTimeout = 7,
    /// A reason that newer versions may name.
    Other = 8,
    /// The peer has lost its state: it was restarted.
    PeerReset = 9,
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
            ClosedReason::PeerReset => Self::PeerReset,
            _ => Self::Other,
        }
    }
}

pub(crate) fn here(association: Option<&Association>) -> Result<&blocking::Association, Failure> {
    behind("association", association)
}

/// Creates the message with these bytes and options.
fn outbound(
    association: &blocking::Association,
    data: *const c_void,
    length: usize,
    options: *const SendOptions,
) -> Result<Outbound, Failure> {
    Outgoing { data, length, options }.message(association.message_bytes_max())
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
        let association = here(association)?;
        let sent = association.send(outbound(association, data, length, options)?, limit(timeout_ms)?)?;
        if let Some(id) = id {
            id.write(sent.0);
        }
        Ok(())
    })
}

/// Sends several messages.
#[unsafe(no_mangle)]
pub extern "C" fn festina_send_many(
    association: Option<&Association>,
    messages: *const Outgoing,
    count: usize,
    timeout_ms: c_int,
    sent: Option<&mut MaybeUninit<usize>>,
) -> Status {
    let mut rest = count;
    let status = guard(|| {
        let association = here(association)?;
        let limit = limit(timeout_ms)?;
        let all = outgoing("messages", messages, count)?.iter();
        let mut queue: VecDeque<Outbound> =
            all.map(|each| each.message(association.message_bytes_max())).collect::<Result<_, _>>()?;
        bindings::check_messages(bindings::native(association), &queue)?;
        let result = association.send_many(&mut queue, limit);
        rest = queue.len();
        result.map_err(|error: SendError| error.into())
    });
    if let Some(sent) = sent {
        sent.write(count - rest);
    }
    status
}

/// Receives a message.
#[unsafe(no_mangle)]
pub extern "C" fn festina_recv(association: Option<&Association>, message: *mut Message, timeout_ms: c_int) -> Status {
    guard(|| {
        let association = here(association)?;
        let slot = Slot::new("message", message)?;
        let received = association.recv(limit(timeout_ms)?);
        let received = received.map_err(|error| Failure::waited(&error, "no message has arrived"))?;
        slot.fill(Message::new(received.ok_or_else(|| Failure::closed(&ClosedReason::Shutdown))?));
        Ok(())
    })
}

/// Receives the next event.
#[unsafe(no_mangle)]
pub extern "C" fn festina_next_event(
    association: Option<&Association>,
    event: *mut Event,
    timeout_ms: c_int,
) -> Status {
    guard(|| {
        let association = here(association)?;
        let slot = Slot::new("event", event)?;
        let happened = association.event(limit(timeout_ms)?).map_err(|_| Failure::timeout("nothing has happened"))?;
        let over = || Failure::closed(&association.close_reason().unwrap_or(ClosedReason::Shutdown));
        slot.fill(happened.ok_or_else(over)?.into());
        Ok(())
    })
}

/// A descriptor that is readable when there is a message to receive or the association has ended; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_message_fd(association: Option<&Association>) -> c_int {
    guard_value(-1, || descriptor(here(association)?.message_descriptor()))
}

/// A descriptor that is readable when there is an event; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_event_fd(association: Option<&Association>) -> c_int {
    guard_value(-1, || descriptor(here(association)?.event_descriptor()))
}

/// Waits until the peer has acknowledged everything.
#[unsafe(no_mangle)]
pub extern "C" fn festina_drained(association: Option<&Association>, timeout_ms: c_int) -> Status {
    guard(|| {
        let drained = here(association)?.drained(limit(timeout_ms)?);
        drained.map_err(|error| Failure::waited(&error, "the peer has not acknowledged everything"))
    })
}

/// Shuts an association down gracefully.
#[unsafe(no_mangle)]
pub extern "C" fn festina_shutdown(association: Option<&Association>, timeout_ms: c_int) -> Status {
    guard(|| {
        let over = here(association)?.shutdown(limit(timeout_ms)?);
        over.map_err(|error| Failure::waited(&error, "the association is still ending"))
    })
}

/// Aborts an association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_abort(association: Option<&Association>, reason: *const c_char) -> Status {
    guard(|| {
        here(association)?.abort(text("the reason", reason)?.unwrap_or_default());
        Ok(())
    })
}

/// Frees the handle of an association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_association_free(association: Option<Box<Association>>) -> Status {
    free(association)
}

/// Returns why an association has ended.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_close_reason(association: Option<&Association>) -> CloseReason {
    guard_value(CloseReason::Other, || {
        let reason = here(association)?.close_reason();
        Ok(reason.as_ref().map_or(CloseReason::Open, CloseReason::from))
    })
}

/// Writes why an association has ended as a sentence.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_close_sentence(
    association: Option<&Association>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || {
        Ok(here(association)?.close_reason().map_or_else(String::new, |reason| reason.to_string().replace('\0', "")))
    })
}

/// Writes the reason that the peer gave when it aborted the association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_close_text(
    association: Option<&Association>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || {
        let said = match here(association)?.close_reason() {
            Some(ClosedReason::AbortedByPeer { info, .. }) => String::from_utf8_lossy(&info).replace('\0', ""),
            _ => String::new(),
        };
        Ok(said)
    })
}

/// Writes the peer's address as text.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_remote_address(
    association: Option<&Association>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || Ok(here(association)?.remote_addr().to_string()))
}

/// Takes a snapshot of counters and gauges.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_stats(association: Option<&Association>, stats: *mut Stats) -> Status {
    guard(|| {
        let association = here(association)?;
        Slot::new("stats", stats)?.fill(Stats::new(&association.stats()));
        Ok(())
    })
}

/// The number of paths.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_path_count(association: Option<&Association>) -> usize {
    guard_value(0, || Ok(here(association)?.paths().len()))
}

/// Takes a snapshot of a path.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_path(association: Option<&Association>, index: usize, path: *mut Path) -> Status {
    guard(|| {
        let association = here(association)?;
        let slot = Slot::new("path", path)?;
        let both = association.paths().into_iter().zip(association.path_stats()).nth(index);
        let (status, stats) = both.ok_or_else(|| Failure::invalid(format_args!("there is no path {index}")))?;
        slot.fill(Path::new(&status, &stats));
        Ok(())
    })
}

/// The name of the loss-recovery profile in use; NULL if it is none of them.
#[unsafe(no_mangle)]
pub extern "C" fn festina_get_profile(association: Option<&Association>) -> *const c_char {
    guard_value(null(), || Ok(here(association)?.profile().map_or(null(), name_of)))
}

/// Changes loss recovery to that of a profile.
#[unsafe(no_mangle)]
pub extern "C" fn festina_set_profile(association: Option<&Association>, profile_name: *const c_char) -> Status {
    guard(|| {
        let profile = required("profile_name", profile(profile_name)?)?;
        here(association)?.set_profile(profile);
        Ok(())
    })
}
