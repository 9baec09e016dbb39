//! Setting up an association with a host that is named rather than addressed.

use std::future::{Future, poll_fn};
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll};

use festina_units::Duration;

use super::Endpoint;
use super::options::ConnectOptions;
use crate::address::{AddressError, parse_address};
use crate::association::Association;
use crate::clock;
use crate::error::{ConnectError, in_ms};
use crate::runtime::{self, Runtime, within};

/// Pause before the next address of a host is tried as well (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Association, ConnectError>> + Send + 'a>>;

impl Endpoint {
    /// Looks up a host and sets up an association with the first of its addresses that answers.
    pub(super) async fn connect_to(&self, host: &str, options: ConnectOptions) -> Result<Association, ConnectError> {
        let unknown = |cause: String| ConnectError::NameNotFound { name: host.to_owned(), cause };
        match parse_address(host) {
            Ok(remote) => return self.connect_at(remote, options).await,
            Err(AddressError::Syntax(_)) => {}
            Err(error) => return Err(unknown(error.to_string())),
        }
        let named = host
            .rsplit_once(':')
            .filter(|(name, port)| !name.is_empty() && !name.contains(':') && port.parse::<u16>().is_ok());
        let Some((server_name, _)) = named else {
            return Err(unknown("expected a host and a UDP port, such as game.example:9899 or [::1]:9899".to_owned()));
        };
        let end = clock::now().saturating_add(options.handshake_timeout);
        let name = host.to_owned();
        let looked_up = runtime::blocking(&*self.shared.runtime, move || name.to_socket_addrs());
        let found = match within(&*self.shared.runtime, options.handshake_timeout, looked_up).await {
            Some(Some(found)) => found.map_err(|error| unknown(error.to_string()))?,
            Some(None) => return Err(unknown("the runtime shuts down".to_owned())),
            None => return Err(unknown(format!("no answer within {} ms", in_ms(options.handshake_timeout)))),
        };
        let addresses: Vec<SocketAddr> =
            found.filter(|remote| self.shared.socket.peer_address(*remote).is_ok()).collect();
        if addresses.is_empty() {
            return Err(unknown(format!("it has no address that an endpoint on {} can reach", self.local_addr())));
        }
        let options = options.server_name_or(server_name);
        let attempts = addresses.into_iter().map(|remote| {
            let left = end.saturating_duration_since(clock::now());
            Box::pin(self.connect_at(remote, options.clone().handshake_timeout(left))) as Attempt<'_>
        });
        first_to_succeed(&*self.shared.runtime, attempts)
            .await
            .unwrap_or_else(|| Err(unknown("no address was tried".to_owned())))
    }
}

/// Starts attempts one after the other, each as soon as the previous one has failed or [`ATTEMPT_DELAY`] has passed. Returns the first success or the
/// last failure; `None` only without any attempt.
async fn first_to_succeed<'a>(
    runtime: &dyn Runtime,
    mut waiting: impl Iterator<Item = Attempt<'a>>,
) -> Option<Result<Association, ConnectError>> {
    let (mut running, mut failed) = (Vec::new(), None);
    let mut pause = runtime.sleep(Duration::ZERO);
    poll_fn(|context: &mut Context<'_>| {
        loop {
            let mut has_failed = false;
            for index in (0..running.len()).rev() {
                let attempt: &mut Attempt<'a> = &mut running[index];
                match attempt.as_mut().poll(context) {
                    Poll::Ready(Ok(association)) => return Poll::Ready(Some(Ok(association))),
                    Poll::Ready(Err(error)) => {
                        failed = Some(Err(error));
                        has_failed = true;
                        drop(running.swap_remove(index));
                    }
                    Poll::Pending => {}
                }
            }
            if !has_failed && pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            match waiting.next() {
                Some(attempt) => {
                    running.push(attempt);
                    pause = runtime.sleep(ATTEMPT_DELAY);
                }
                None if running.is_empty() => return Poll::Ready(failed.take()),
                None => return Poll::Pending,
            }
        }
    })
    .await
}
