//! The entrance: accepts the connections of programs, and opens each at the exit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::frame::Frame;
use super::multiplex::{Link, Multiplex, NotOpened};
use super::{CONNECTIONS_MAX, carry};
use crate::address;
use crate::commands::tunnel::losses::Losses;
use crate::commands::tunnel::{EntranceArgs, Kind, Way};
use crate::dial::keep_trying;
use crate::{output, signal};

/// How long to wait when the system has no connection to give although there is one.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Associations that are tried for a new connection: the one in use may have ended without a sign.
const ATTEMPTS: usize = 2;

/// Carries until interrupted.
pub(in super::super) async fn run(arguments: EntranceArgs) -> Result<()> {
    let interruption = signal::interruption();
    let entrance = Arc::new(Entrance {
        way: Way::new(Kind::Tcp, &arguments)?,
        current: Mutex::new(Current::default()),
        failures: AtomicU64::new(0),
    });
    let accepting = async {
        // At the start of the system, the address may not be there yet.
        let listener = keep_trying(async || address::listen_tcp(&arguments.listen).await).await?;
        output::notice(&format!("{} leads to {}", listener.local_addr()?, arguments.to));
        entrance.accept(&listener).await
    };
    let ended = tokio::select! {
        ended = accepting => ended,
        () = interruption => Ok(()),
    };
    entrance.way.leave().await;
    ended
}

struct Entrance {
    way: Way,
    /// Locked by the connection that makes a new association. Others wait for it.
    current: Mutex<Current>,
    /// Counts attempts to make an association that have failed.
    failures: AtomicU64,
}

#[derive(Default)]
struct Current {
    multiplex: Option<Arc<Multiplex>>,
    failure: String,
}

impl Entrance {
    async fn accept(self: &Arc<Self>, listener: &TcpListener) -> Result<()> {
        let mut connections = JoinSet::new();
        let mut failed = None;
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, client)) => {
                        // The client must not take an exit that is not reached, or Ctrl-C, for the end of a transfer.
                        address::reset_when_dropped(&stream);
                        let (entrance, client) = (self.clone(), address::canonical(client));
                        connections.spawn(async move {
                            if let Err(error) = entrance.enter(stream).await {
                                output::complain(&format!("{client}: {}", output::causes(&error)));
                            }
                        });
                    }
                    Err(error) => {
                        let times = || Losses::new(format!("times that no connection could be accepted: {error}"));
                        failed.get_or_insert_with(times).note();
                        sleep(ACCEPT_RETRY).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn enter(&self, stream: TcpStream) -> Result<()> {
        carry(&mut self.link().await?, stream).await
    }

    /// Opens a connection at the exit.
    async fn link(&self) -> Result<Link> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            let multiplex = self.multiplex().await?;
            if let Some(mut link) = multiplex.add()
                && link.near.send(Frame::Open).await.is_ok()
            {
                match self.opened(&multiplex, &mut link).await {
                    Ok(()) => return Ok(link),
                    Err(NotOpened::Refused(reason)) => return Err(link.near.why_broken(Some(reason))),
                    // The program has not sent anything yet, so nothing can come twice.
                    Err(NotOpened::Over) => {}
                }
            }
            why = multiplex.why_over();
        }
        Err(anyhow!("the exit does not stay: {why}"))
    }

    /// Waits until the exit has opened the connection. An association on which nothing is heard meanwhile is over: the exit has moved, or has lost its
    /// keys.
    async fn opened(&self, multiplex: &Multiplex, link: &mut Link) -> Result<(), NotOpened> {
        loop {
            let heard = multiplex.association().stats().received.packets;
            match timeout(self.way.timeout, link.opened()).await {
                Ok(opened) => return opened,
                Err(_) if multiplex.association().stats().received.packets > heard => {}
                Err(_) => {
                    multiplex.give_up("the exit was silent");
                    return Err(NotOpened::Over);
                }
            }
        }
    }

    /// Returns the association with the exit, a new one if there is none.
    async fn multiplex(&self) -> Result<Arc<Multiplex>> {
        let failures = self.failures.load(Ordering::Acquire);
        let mut current = self.current.lock().await;
        if let Some(multiplex) = &current.multiplex
            && multiplex.association().close_reason().is_none()
        {
            return Ok(multiplex.clone());
        }
        // All connections that have waited for an attempt share its result.
        if self.failures.load(Ordering::Acquire) > failures {
            return Err(anyhow!("{}", current.failure));
        }
        match self.way.open().await {
            Ok(association) => {
                let multiplex = Multiplex::new(association);
                let dispatched = multiplex.clone();
                // Connections that its end breaks report it.
                tokio::spawn(async move { dispatched.dispatch(drop).await });
                current.multiplex = Some(multiplex.clone());
                Ok(multiplex)
            }
            Err(error) => {
                current.failure = output::causes(&error);
                self.failures.fetch_add(1, Ordering::AcqRel);
                Err(error)
            }
        }
    }
}
