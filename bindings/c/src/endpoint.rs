//! Endpoints and listeners.
#![expect(unsafe_code, reason = "an exported name is an unsafe attribute")]

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::Arc;

use festina::{ConnectOptions, DEFAULT_SCTP_PORT, Instant};
use festina_bridge::{Home, Owned};

use crate::association::{self, Association};
use crate::boundary::{text, write_text};
use crate::config::Config;
use crate::source::{Next, Source};
use crate::status::{Failure, Status, behind, guard, guard_value};
use crate::wait::{Limit, duration, wait};

/// One socket and the thread that serves it.
pub type Endpoint = Owned<OpenEndpoint>;

/// Accepts associations on one SCTP port.
pub type Listener = Owned<OpenListener>;

/// The object of an endpoint handle.
#[derive(Debug)]
pub struct OpenEndpoint {
    // Before the home: the endpoint's handles go first.
    endpoint: festina::Endpoint,
    home: Arc<Home>,
}

/// The object of a listener handle.
#[derive(Debug)]
pub struct OpenListener {
    arriving: Source<festina::Listener>,
    home: Arc<Home>,
}

/// Opens a UDP socket and begins to serve it.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_bind(
    address: *const c_char,
    config: Option<&Config>,
    endpoint: Option<&mut MaybeUninit<Box<Endpoint>>>,
) -> Status {
    guard(|| {
        let slot = endpoint.ok_or_else(|| Failure::null("endpoint"))?;
        let config = config.map(Config::settings).unwrap_or_default();
        let (home, endpoint) = Home::open(address_at(address)?, config)?;
        slot.write(Box::new(Owned::new(OpenEndpoint { endpoint, home: Arc::new(home) })));
        Ok(())
    })
}

/// Ends an endpoint and all its associations in good order.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_close(endpoint: Option<&Endpoint>, timeout_ms: c_int) -> Status {
    guard(|| {
        let endpoint = behind("endpoint", endpoint)?;
        let closed = wait(endpoint.endpoint.close(), Limit::from_ms(timeout_ms)?);
        closed.ok_or_else(|| Failure::timeout("associations of the endpoint are still ending"))?;
        endpoint.home.closed();
        Ok(())
    })
}

/// Frees the handle of an endpoint.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_free(endpoint: Option<Box<Endpoint>>) -> Status {
    guard(|| {
        drop(endpoint);
        Ok(())
    })
}

/// Writes the address of the socket as text.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_address(endpoint: Option<&Endpoint>, buffer: *mut c_char, capacity: usize) -> usize {
    guard_value(0, || {
        let endpoint = behind("endpoint", endpoint)?;
        Ok(write_text(&endpoint.endpoint.local_addr().to_string(), buffer, capacity))
    })
}

/// Accepts associations with an SCTP port from now on.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_listen(
    endpoint: Option<&Endpoint>,
    sctp_port: u16,
    listener: Option<&mut MaybeUninit<Box<Listener>>>,
) -> Status {
    guard(|| {
        let endpoint = behind("endpoint", endpoint)?;
        let slot = listener.ok_or_else(|| Failure::null("listener"))?;
        let listener = endpoint.endpoint.listen(port_or_default(sctp_port))?;
        slot.write(Box::new(Owned::new(OpenListener { arriving: Source::new(listener), home: endpoint.home.clone() })));
        Ok(())
    })
}

/// Sets up an association.
#[unsafe(no_mangle)]
pub extern "C" fn festina_endpoint_connect(
    endpoint: Option<&Endpoint>,
    address: *const c_char,
    sctp_port: u16,
    timeout_ms: c_int,
    association: Option<&mut MaybeUninit<Box<Association>>>,
) -> Status {
    guard(|| {
        let endpoint = behind("endpoint", endpoint)?;
        let slot = association.ok_or_else(|| Failure::null("association"))?;
        let mut options = ConnectOptions::default().peer_port(port_or_default(sctp_port));
        if let Some(limit) = duration(timeout_ms)? {
            options = options.handshake_timeout(limit);
        }
        let connecting = endpoint.endpoint.connect_to(host_at(address)?, options);
        let _runtime = endpoint.home.enter();
        // It keeps the time limit itself.
        let connected = wait(connecting, Limit::None).ok_or_else(|| Failure::timeout("no association came up"))??;
        slot.write(Box::new(association::own(connected, endpoint.home.clone())));
        Ok(())
    })
}

/// The next association that a peer set up.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_accept(
    listener: Option<&Listener>,
    timeout_ms: c_int,
    association: Option<&mut MaybeUninit<Box<Association>>>,
) -> Status {
    guard(|| {
        let listener = behind("listener", listener)?;
        let slot = association.ok_or_else(|| Failure::null("association"))?;
        match listener.arriving.next(Limit::from_ms(timeout_ms)?) {
            Next::Item(accepted) => {
                slot.write(Box::new(association::own(accepted, listener.home.clone())));
                Ok(())
            }
            Next::End => Err(Failure::new(Status::Closed, "the endpoint is closed")),
            Next::TimedOut => Err(Failure::timeout("nobody has come")),
        }
    })
}

/// A descriptor that is readable when there is something to accept; -1 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_fd(listener: Option<&Listener>) -> c_int {
    guard_value(-1, || behind("listener", listener)?.arriving.descriptor())
}

/// Stops listening.
#[unsafe(no_mangle)]
pub extern "C" fn festina_listener_free(listener: Option<Box<Listener>>) -> Status {
    guard(|| {
        drop(listener);
        Ok(())
    })
}

/// The present, in microseconds, on the clock of deadlines and events.
#[unsafe(no_mangle)]
pub extern "C" fn festina_now_us() -> u64 {
    guard_value(0, || Ok(micros(festina::now())))
}

pub(crate) fn micros(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(Instant::ZERO).as_micros()).unwrap_or(u64::MAX)
}

fn port_or_default(port: u16) -> u16 {
    if port == 0 { DEFAULT_SCTP_PORT } else { port }
}

fn address_at(address: *const c_char) -> Result<SocketAddr, Failure> {
    let address = text("the address", address)?.ok_or_else(|| Failure::null("address"))?;
    let hint = "expected an IP address and a port such as 127.0.0.1:9899 or [::1]:9899";
    address.parse().map_err(|_| Failure::invalid(format_args!("{address:?} is no address: {hint}")))
}

/// A name or an address, with a port.
fn host_at<'a>(address: *const c_char) -> Result<&'a str, Failure> {
    let host = text("the address", address)?.ok_or_else(|| Failure::null("address"))?;
    let is_complete = host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok());
    let hint = "expected a host and a port such as localhost:9899, 127.0.0.1:9899 or [::1]:9899";
    is_complete.then_some(host).ok_or_else(|| Failure::invalid(format_args!("{host:?} is no address: {hint}")))
}
