//! The exit: connects to the server for each connection of an entrance.

use std::sync::Arc;

use anyhow::Result;
use festina::Association;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::frame::Frame;
use super::multiplex::{Link, Multiplex};
use super::{CONNECTIONS_MAX, carry};
use crate::address::{self, HostPort};
use crate::commands::tunnel::losses::Losses;
use crate::output;

/// Connections of all entrances together.
const ALL_CONNECTIONS_MAX: usize = 4 * CONNECTIONS_MAX;
/// Connections of one association. The entrance may have opened the next ones while the ends of earlier ones are on their way.
const ASSOCIATION_CONNECTIONS_MAX: usize = 2 * CONNECTIONS_MAX;

/// How many connections the exit may have, and how many it has refused.
pub(in super::super) struct ExitSettings {
    places: Arc<Semaphore>,
    refused: Losses,
}

impl ExitSettings {
    pub(in super::super) fn new() -> Self {
        let refused = Losses::new("connections refused: too many are open");
        Self { places: Arc::new(Semaphore::new(ALL_CONNECTIONS_MAX)), refused }
    }
}

/// Carries the connections of an association until it ends.
pub(in super::super) async fn take_out(association: Association, server: &HostPort, settings: &ExitSettings) {
    let mut connections = JoinSet::new();
    let multiplex = Multiplex::new(association);
    let dispatching = multiplex.dispatch(|link| {
        while connections.try_join_next().is_some() {}
        let place = settings.places.clone().try_acquire_owned();
        match place.ok().filter(|_| connections.len() < ASSOCIATION_CONNECTIONS_MAX) {
            Some(place) => {
                connections.spawn(serve(link, server.clone(), place));
            }
            None => {
                settings.refused.note();
                // An entrance that never reads its refusals would have ever more of them wait.
                if connections.len() >= 2 * ASSOCIATION_CONNECTIONS_MAX {
                    return multiplex.association().abort("too many connections");
                }
                connections
                    .spawn(async move { drop(link.near.send(Frame::Reset("too many connections".into())).await) });
            }
        }
    });
    dispatching.await;
}

/// Carries one connection.
async fn serve(mut link: Link, server: HostPort, _place: OwnedSemaphorePermit) {
    let remote = address::canonical(link.near.remote_addr());
    if let Err(error) = connect_and_carry(&mut link, &server).await {
        output::complain(&format!("{remote}: {}", output::causes(&error)));
    }
}

async fn connect_and_carry(link: &mut Link, server: &HostPort) -> Result<()> {
    let connecting = async { address::connect_tcp(&server.resolve_all().await?).await };
    let connected = tokio::select! {
        connected = connecting => connected,
        reason = &mut link.broken => return Err(link.near.why_broken(reason.ok())),
    };
    match connected {
        Ok(stream) => {
            address::reset_when_dropped(&stream);
            link.near.send(Frame::Opened).await?;
            carry(link, stream).await
        }
        Err(error) => {
            link.near.send(Frame::Reset("the server is not there".into())).await?;
            Err(error)
        }
    }
}
