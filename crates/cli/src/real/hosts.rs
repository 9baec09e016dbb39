//! A part of a measurement on each of two hosts.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow};
use festina_emulate::hosts::{Hosts, SERVER};
use festina_emulate::take_precedence;
use tokio::sync::oneshot;

/// How often closed connections retransmit their remaining data. By default they keep their namespace for minutes after a run.
const ORPHAN_RETRIES: &str = "tcp_orphan_retries";
/// The congestion control of sockets that choose none, independent of the machine's. A new namespace may choose Reno on any machine.
const CONGESTION: &str = "tcp_congestion_control";

/// An address of the receiving host.
pub(super) fn server_address(port: u16) -> SocketAddr {
    SocketAddr::from((SERVER.ipv4, port))
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Prepares the kernel's TCP on both hosts. `more` has further settings: a file below `/proc/sys/net/ipv4` and its content.
pub(super) fn prepare(hosts: &Hosts, more: &[(&str, &str)]) -> Result<()> {
    let settings = [(ORPHAN_RETRIES, "1"), (CONGESTION, "reno")];
    for host in [hosts.client(), hosts.server()] {
        for (name, value) in settings.iter().chain(more) {
            let path = format!("/proc/sys/net/ipv4/{name}");
            let set = host.run(|| std::fs::write(&path, value)).context("cannot enter a namespace")?;
            set.with_context(|| format!("cannot write {path}"))?;
        }
    }
    Ok(())
}

/// Runs a host's part to its end, with priority over other work of the machine.
pub(super) fn at_work<T, E: Into<Error>>(part: impl Future<Output = Result<T, E>>) -> Result<T> {
    take_precedence();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(part).map_err(Into::into)
}

/// Runs a part on each host and returns both results. `send` begins on the client once `serve` has sent that it is ready; `serve` is to end when the
/// second channel does, which is when `send` has ended.
///
/// # Errors
/// Those of either part. The server's, if there are both, since it causes the other.
pub(super) fn on_both<S: Send, C: Send, Serving, Sending>(
    hosts: &Hosts,
    serve: impl FnOnce(oneshot::Sender<()>, oneshot::Receiver<()>) -> Serving + Send,
    send: impl FnOnce() -> Sending + Send,
) -> Result<(S, C)>
where
    Serving: Future<Output = Result<S>>,
    Sending: Future<Output = Result<C>>,
{
    let (ready_in, ready) = oneshot::channel();
    let (ended_in, ended) = oneshot::channel();
    let (served, sent) = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            hosts.server().run(|| at_work(async { serve(ready_in, ended).await })).map_err(Error::from).flatten()
        });
        let sending = || {
            at_work(async {
                ready.await.context("the receiver is not ready")?;
                send().await
            })
        };
        let sent = hosts.client().run(sending).map_err(Error::from).flatten();
        drop(ended_in);
        (serving.join().unwrap_or_else(|_| Err(anyhow!("the receiver panicked"))), sent)
    });
    Ok((served.context("the receiver failed")?, sent.context("the sender failed")?))
}
