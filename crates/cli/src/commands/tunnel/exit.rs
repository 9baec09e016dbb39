//! The exit of tunnels, which passes data on to the server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use festina::Association;

use super::{ExitArgs, Kind, tcp, udp};
use crate::address::{self, HostPort};
use crate::commands::reception::Reception;
use crate::commands::say_goodbye;
use crate::{keys, output, signal};

/// How associations are received.
const RECEPTION: Reception<Kind> = Reception {
    associations_max: 4_096,
    hello_max: Duration::from_secs(10),
    decode: |hello| Kind::of(&hello),
    this: "festina tunnel exit",
    caller: "festina tunnel",
};

/// Takes out until interrupted.
pub(super) async fn run(arguments: ExitArgs) -> Result<()> {
    // An unknown name is better reported now than to the first client.
    arguments.to.resolve_all().await?;
    let (config, fingerprint) = arguments.admission.of_server(arguments.recovery.config())?;
    let endpoint = address::bind_to_listen(&arguments.listen, config).await?;
    let listener = endpoint.listen(festina::DEFAULT_SCTP_PORT)?;
    let interruption = signal::interruption();
    output::notice(&format!("tunnels to {} lead to {}", endpoint.local_addr(), arguments.to));
    keys::show(fingerprint);
    let (server, lifetime) = (Arc::new(arguments.to), arguments.lifetime);
    let serve = |association, kind| take_out(association, kind, server.clone(), lifetime);
    tokio::select! {
        () = RECEPTION.attend(&listener, false, serve) => {}
        () = interruption => {}
    }
    say_goodbye(&endpoint).await;
    Ok(())
}

async fn take_out(association: Association, kind: Kind, server: Arc<HostPort>, lifetime: Duration) {
    let ended = match kind {
        Kind::Udp => {
            udp::take_out(&association, &server, lifetime).await;
            Ok(())
        }
        Kind::Tcp => tcp::take_out(&association, &server).await,
    };
    if let Err(error) = ended {
        let remote = address::canonical(association.remote_addr());
        output::complain(&format!("{remote}: {}", output::causes(&error)));
    }
}
