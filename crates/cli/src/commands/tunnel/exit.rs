//! The exit of tunnels: takes what comes to the server.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use festina::{Association, Listener};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{ExitArgs, Kind, tcp, udp};
use crate::commands::say_goodbye;
use crate::{address, output, signal};

/// How long an entrance may take to say what it carries.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// Associations that may be there at the same time; more are refused.
const ASSOCIATIONS_MAX: usize = 4_096;

/// Takes out until interrupted.
pub(super) async fn run(arguments: ExitArgs) -> Result<()> {
    let server = arguments.to.resolve().await?;
    let endpoint = address::bind_to_listen(&arguments.listen, arguments.recovery.config()).await?;
    let listener = endpoint.listen(festina::DEFAULT_SCTP_PORT)?;
    let interruption = signal::interruption();
    output::notice(&format!("tunnels to {} lead to {server}", endpoint.local_addr()));
    tokio::select! {
        () = attend(&listener, server, arguments.lifetime) => {}
        () = interruption => {}
    }
    say_goodbye(&endpoint).await;
    Ok(())
}

async fn attend(listener: &Listener, server: SocketAddr, lifetime: Duration) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Some(association) if tasks.len() < ASSOCIATIONS_MAX => {
                    tasks.spawn(async move {
                        if let Err(error) = take_out(&association, server, lifetime).await {
                            let remote = address::canonical(association.remote_addr());
                            output::complain(&format!("{remote}: {}", output::causes(&error)));
                        }
                    });
                }
                Some(association) => association.abort("too many tunnels"),
                None => return,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

async fn take_out(association: &Association, server: SocketAddr, lifetime: Duration) -> Result<()> {
    let hello = match timeout(HELLO_MAX, association.recv()).await {
        Ok(Ok(message)) => Kind::of(&message.payload),
        Ok(Err(_)) => return Ok(()),
        Err(_) => None,
    };
    match hello {
        Some(Kind::Udp) => {
            udp::take_out(association, server, lifetime).await;
            Ok(())
        }
        Some(Kind::Tcp) => tcp::take_out(association, server).await,
        None => {
            association.abort("this is festina tunnel exit");
            bail!("it did not say what it carries; is it `festina tunnel`?")
        }
    }
}
