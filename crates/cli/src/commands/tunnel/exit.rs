//! The exit of tunnels, which passes data on to the server.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use festina::Association;

use super::{ExitArgs, Kind, tcp, tunnelling, udp};
use crate::address::{self, HostPort};
use crate::commands::reception::Reception;
use crate::commands::say_goodbye;
use crate::dial::keep_trying;
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
    let mut interruption = pin!(signal::interruption());
    let (config, fingerprint) = arguments.admission.of_server(tunnelling(arguments.recovery.transport()))?;
    let config = arguments.others.named(config);
    // At the start of the system, the address and the name may not be there yet.
    let binding = keep_trying(async || address::bind_to_listen(&arguments.listen, config.clone()).await);
    let endpoint = tokio::select! {
        endpoint = binding => endpoint?,
        () = &mut interruption => return Ok(()),
    };
    let listener = endpoint.listen(festina::DEFAULT_SCTP_PORT)?;
    output::notice(&format!("tunnels to {} lead to {}", endpoint.local_addr(), arguments.to));
    keys::show(fingerprint);
    tokio::spawn(report_unless_found(arguments.to.clone()));
    let outlet = Arc::new(Outlet {
        server: arguments.to,
        datagrams: udp::ExitSettings::new(arguments.lifetime, arguments.seats.count()),
        connections: tcp::ExitSettings::new(),
    });
    let serve = |association, kind| take_out(association, kind, outlet.clone());
    tokio::select! {
        () = RECEPTION.attend(&listener, false, serve) => {}
        () = interruption => {}
    }
    say_goodbye(&endpoint).await;
    Ok(())
}

/// An unknown name is better reported now than to the first client.
async fn report_unless_found(server: HostPort) {
    if let Err(error) = server.resolve_all().await {
        output::complain(&format!("{}; each new client looks it up again", output::causes(&error)));
    }
}

/// Where tunnels lead, and how.
struct Outlet {
    server: HostPort,
    datagrams: Arc<udp::ExitSettings>,
    connections: tcp::ExitSettings,
}

async fn take_out(association: Association, kind: Kind, outlet: Arc<Outlet>) {
    match kind {
        Kind::Udp => udp::take_out(&association, &outlet.server, &outlet.datagrams).await,
        Kind::Tcp => tcp::take_out(association, &outlet.server, &outlet.connections).await,
    }
}
