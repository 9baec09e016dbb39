//! Endpoints and listeners.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::net::SocketAddr;

use festina::ConnectError;
use festina::blocking::bindings::ForkGuard;
use festina::blocking::{self, OpenError, WaitError};
use festina_settings::Settings;

use crate::association::Association;
use crate::boundary::{descriptor, guard_text, read, text};
use crate::config::Config;
use crate::event::micros;
use crate::limit::limit;
use crate::options::ConnectOptions;
use crate::outgoing::port_or_default;
use crate::status::{Failure, Status, behind, free, guard, guard_value, hand_over, required};

/// One socket and the thread that serves it.
pub type Endpoint = ForkGuard<blocking::Endpoint>;

/// Accepts associations on one SCTP port.
pub type Listener = ForkGuard<blocking::Listener>;

/// A handshake in progress.
pub type Connecting = ForkGuard<blocking::Connecting>;

/// Opens a UDP socket that can only connect.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_client(
    address: *const c_char,
    config: Option<&Config>,
    endpoint: Option<&mut MaybeUninit<Box<Endpoint>>>,
) -> Status {
    hand_over("endpoint", endpoint, || Ok(ForkGuard::new(settings(config).client(address_at(address)?)?)))
}

/// Opens a UDP socket that can listen and connect.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_server(
    address: *const c_char,
    config: Option<&Config>,
    endpoint: Option<&mut MaybeUninit<Box<Endpoint>>>,
) -> Status {
    hand_over("endpoint", endpoint, || Ok(ForkGuard::new(settings(config).server(address_at(address)?)?)))
}

fn settings(config: Option<&Config>) -> Settings {
    config.map_or_else(|| Config::default().settings(), Config::settings)
}

/// Closes an endpoint and all its associations gracefully.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_close(endpoint: Option<&Endpoint>, timeout_ms: c_int) -> Status {
    guard(|| {
        let endpoint = behind("endpoint", endpoint)?;
        let closed = endpoint.close(limit(timeout_ms)?);
        closed.map_err(|_| Failure::timeout("associations of the endpoint are still ending"))?;
        Ok(())
    })
}

/// Frees the handle of an endpoint.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_free(endpoint: Option<Box<Endpoint>>) -> Status {
    free(endpoint)
}

/// Writes the address of the socket as text.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_local_address(
    endpoint: Option<&Endpoint>,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    guard_text(buffer, capacity, || Ok(behind("endpoint", endpoint)?.local_addr().to_string()))
}

/// Replaces the socket by one at another address.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_rebind(endpoint: Option<&Endpoint>, address: *const c_char) -> Status {
    guard(|| Ok(behind("endpoint", endpoint)?.rebind(address_at(address)?).map_err(OpenError::Bind)?))
}

/// Opens a further socket.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_add_address(endpoint: Option<&Endpoint>, address: *const c_char) -> Status {
    guard(|| Ok(behind("endpoint", endpoint)?.add_address(address_at(address)?).map_err(OpenError::Bind)?))
}

/// Closes one of several sockets.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_remove_address(endpoint: Option<&Endpoint>, address: *const c_char) -> Status {
    guard(|| Ok(behind("endpoint", endpoint)?.remove_address(address_at(address)?.ip()).map_err(OpenError::Bind)?))
}

/// Accepts associations with an SCTP port from now on.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_listen(
    endpoint: Option<&Endpoint>,
    port: u16,
    listener: Option<&mut MaybeUninit<Box<Listener>>>,
) -> Status {
    hand_over("listener", listener, || Ok(ForkGuard::new(behind("endpoint", endpoint)?.listen(port_or_default(port))?)))
}

/// Sets up an association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_connect(
    endpoint: Option<&Endpoint>,
    address: *const c_char,
    peer_port: u16,
    timeout_ms: c_int,
    association: Option<&mut MaybeUninit<Box<Association>>>,
) -> Status {
    let options = ConnectOptions { peer_port, ..ConnectOptions::DEFAULT };
    festina_endpoint_connect_with(endpoint, address, &raw const options, timeout_ms, association)
}

/// Sets up an association with options.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_connect_with(
    endpoint: Option<&Endpoint>,
    address: *const c_char,
    options: *const ConnectOptions,
    timeout_ms: c_int,
    association: Option<&mut MaybeUninit<Box<Association>>>,
) -> Status {
    hand_over("association", association, || {
        let endpoint = behind("endpoint", endpoint)?;
        let options = within(read(options, ConnectOptions::DEFAULT)?, timeout_ms)?;
        Ok(ForkGuard::new(endpoint.connect_with(host_at(address)?, options)?))
    })
}

/// Starts to set up an association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_start_connect(
    endpoint: Option<&Endpoint>,
    address: *const c_char,
    peer_port: u16,
    handshake_timeout_ms: c_int,
    connecting: Option<&mut MaybeUninit<Box<Connecting>>>,
) -> Status {
    let options = ConnectOptions { peer_port, ..ConnectOptions::DEFAULT };
    festina_endpoint_start_connect_with(endpoint, address, &raw const options, handshake_timeout_ms, connecting)
}

/// Starts to set up an association with options.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_start_connect_with(
    endpoint: Option<&Endpoint>,
    address: *const c_char,
    options: *const ConnectOptions,
    handshake_timeout_ms: c_int,
    connecting: Option<&mut MaybeUninit<Box<Connecting>>>,
) -> Status {
    hand_over("connecting", connecting, || {
        let endpoint = behind("endpoint", endpoint)?;
        let options = within(read(options, ConnectOptions::DEFAULT)?, handshake_timeout_ms)?;
        Ok(ForkGuard::new(endpoint.start_connect(host_at(address)?, options)))
    })
}

/// Returns the association, once its handshake is complete.
#[unsafe(no_mangle)]
pub extern "C" fn festina_connecting_finish(
    connecting: Option<&Connecting>,
    timeout_ms: c_int,
    association: Option<&mut MaybeUninit<Box<Association>>>,
) -> Status {
    hand_over("association", association, || match behind("connecting", connecting)?.finish(limit(timeout_ms)?) {
        Ok(connected) => Ok(ForkGuard::new(connected)),
        Err(WaitError::TimedOut) => Err(Failure::timeout("the handshake goes on")),
        Err(WaitError::Failed(error)) => Err(error.into()),
    })
}

/// A descriptor that is readable when the handshake has ended; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_connecting_fd(connecting: Option<&Connecting>) -> c_int {
    guard_value(-1, || descriptor(behind("connecting", connecting)?.descriptor()))
}

/// Cancels a handshake, unless it has ended, and frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn festina_connecting_free(connecting: Option<Box<Connecting>>) -> Status {
    free(connecting)
}

/// The next association that a peer set up.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_accept(
    listener: Option<&Listener>,
    timeout_ms: c_int,
    association: Option<&mut MaybeUninit<Box<Association>>>,
) -> Status {
    hand_over("association", association, || {
        let accepted = behind("listener", listener)?.accept(limit(timeout_ms)?);
        let accepted = accepted.map_err(|_| Failure::timeout("no peer has connected"))?;
        Ok(ForkGuard::new(accepted.ok_or(ConnectError::EndpointClosed)?))
    })
}

/// A descriptor that is readable when there is something to accept; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_fd(listener: Option<&Listener>) -> c_int {
    guard_value(-1, || descriptor(behind("listener", listener)?.descriptor()))
}

/// Stops listening.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_free(listener: Option<Box<Listener>>) -> Status {
    free(listener)
}

/// The present, in microseconds, on the clock of deadlines and events.
#[unsafe(no_mangle)]
pub extern "C" fn festina_now_us() -> u64 {
    guard_value(0, || Ok(micros(festina::now())))
}

/// The options with a time limit.
fn within(options: ConnectOptions, timeout_ms: c_int) -> Result<festina::ConnectOptions, Failure> {
    let options = options.options()?;
    Ok(match limit(timeout_ms)? {
        Some(limit) => options.handshake_timeout(limit),
        None => options,
    })
}

fn address_at(address: *const c_char) -> Result<SocketAddr, Failure> {
    let address = required("address", text("the address", address)?)?;
    festina::parse_address(address).map_err(Failure::invalid)
}

/// A name or an address, with a port.
fn host_at<'a>(address: *const c_char) -> Result<&'a str, Failure> {
    let host = required("address", text("the address", address)?)?;
    let is_complete = host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
    let hint = "expected a host and a port such as localhost:9899, 127.0.0.1:9899 or [::1]:9899";
    is_complete.then_some(host).ok_or_else(|| Failure::invalid(format_args!("{host:?} is no address: {hint}")))
}
