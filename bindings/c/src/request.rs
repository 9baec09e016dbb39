//! Requests of clients that wait for the program's decision.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use festina::blocking::bindings::ForkGuard;
use festina::{ConnectError, ListenOptions, PendingRequest};

use crate::boundary::{descriptor, guard_text, write_bytes};
use crate::endpoint::{Endpoint, Listener};
use crate::limit::limit;
use crate::outgoing::port_or_default;
use crate::status::{Failure, Status, behind, free, guard, guard_value, hand_over};

/// A request.
pub type Request = ForkGuard<Undecided>;

/// A request and, until it is decided on, the power to decide.
#[derive(Debug)]
pub struct Undecided {
    request: festina::Request,
    pending: Mutex<Option<PendingRequest>>,
}

impl Undecided {
    fn new(pending: PendingRequest) -> Self {
        Self { request: pending.request().clone(), pending: Mutex::new(Some(pending)) }
    }

    fn take(&self) -> Result<PendingRequest, Failure> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
        pending.ok_or_else(|| Failure::invalid("the request was decided on before"))
    }
}

fn here(request: Option<&Request>) -> Result<&Undecided, Failure> {
    behind("request", request)
}

/// Accepts associations with an SCTP port from now on, each after a decision.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_listen_holding_requests(
    endpoint: Option<&Endpoint>,
    port: u16,
    listener: Option<&mut MaybeUninit<Box<Listener>>>,
) -> Status {
    hand_over("listener", listener, || {
        let options = ListenOptions::default().hold_requests();
        Ok(ForkGuard::new(behind("endpoint", endpoint)?.listen_with(port_or_default(port), options)?))
    })
}

/// The next request.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_request(
    listener: Option<&Listener>,
    timeout_ms: c_int,
    request: Option<&mut MaybeUninit<Box<Request>>>,
) -> Status {
    hand_over("request", request, || {
        let listener = behind("listener", listener)?;
        if !listener.holds_requests() {
            return Err(Failure::invalid(
                "requests need no decision: listen with festina_endpoint_listen_holding_requests",
            ));
        }
        let pending = listener.request(limit(timeout_ms)?).map_err(|_| Failure::timeout("no client has asked"))?;
        Ok(ForkGuard::new(Undecided::new(pending.ok_or(ConnectError::EndpointClosed)?)))
    })
}

/// A descriptor that is readable when there is a request; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_request_fd(listener: Option<&Listener>) -> c_int {
    guard_value(-1, || descriptor(behind("listener", listener)?.request_descriptor()))
}

/// Writes the client's address.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_remote_address(
    request: Option<&Request>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || Ok(here(request)?.request.remote.to_string()))
}

/// Writes the client's token.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_token(request: Option<&Request>, buffer: *mut c_void, capacity: usize) -> usize {
    guard_value(0, || Ok(write_bytes(&here(request)?.request.token, buffer, capacity)))
}

/// Writes the server name that the client asked for.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_server_name(
    request: Option<&Request>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || {
        let name = here(request)?.request.server_name.as_deref().unwrap_or_default();
        Ok(name)
    })
}

/// Writes the application protocol that ALPN chose.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_alpn(request: Option<&Request>, buffer: *mut c_char, capacity: usize) -> usize {
    guard_text(buffer, capacity, || {
        let protocol = here(request)?.request.alpn.as_deref().unwrap_or_default();
        Ok(String::from_utf8_lossy(protocol))
    })
}

/// Whether the client has shown that it receives at its address.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_is_address_proved(request: Option<&Request>) -> c_int {
    guard_value(0, || Ok(here(request)?.request.is_address_proved.into()))
}

/// Continues the handshake.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_accept(request: Option<&Request>) -> Status {
    guard(|| {
        here(request)?.take()?.accept();
        Ok(())
    })
}

/// Refuses the client.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_refuse(request: Option<&Request>) -> Status {
    guard(|| {
        here(request)?.take()?.refuse();
        Ok(())
    })
}

/// Frees a request. The client of an undecided one is not answered.
#[unsafe(no_mangle)]
pub extern "C" fn festina_request_free(request: Option<Box<Request>>) -> Status {
    free(request)
}
