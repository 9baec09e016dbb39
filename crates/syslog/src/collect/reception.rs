//! Accepts associations of relays, and passes their messages to the commit queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use festina::{Answer, Association, Duration, ListenOptions, Listener};
use tokio::time::Instant;

use super::associations::{AssociationsByOrigin, Entry, Standing};
use super::commit_queue::CommitQueue;
use crate::collector::{Origin, Peer};
use crate::config::Network;
use crate::snapshot::StrangerCounts;

/// Messages of one association taken at once.
const MESSAGES_AT_ONCE: usize = 64;

/// Maximum silence of a new peer. A relay sends its hello with the first packet, and repeats it until it arrives.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Associations, and those that were turned away.
pub(super) struct Reception {
    associations: Mutex<AssociationsByOrigin<Association>>,
    not_allowed: AtomicU64,
    silent_ended: AtomicU64,
    replaced: AtomicU64,
    full: AtomicU64,
}

impl Reception {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            associations: Mutex::new(AssociationsByOrigin::new()),
            not_allowed: AtomicU64::new(0),
            silent_ended: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            full: AtomicU64::new(0),
        })
    }

    fn associations(&self) -> MutexGuard<'_, AssociationsByOrigin<Association>> {
        self.associations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Peers with other addresses get no answer.
    pub(super) fn options(self: &Arc<Self>, allow: Option<Vec<Network>>) -> ListenOptions {
        let Some(allow) = allow else { return ListenOptions::default() };
        let reception = Arc::clone(self);
        ListenOptions::default().decide(move |request| {
            if allow.iter().any(|network| network.contains(request.remote.ip())) {
                return Answer::Accept;
            }
            reception.not_allowed.fetch_add(1, Ordering::Relaxed);
            Answer::Ignore
        })
    }

    /// The counters as they are now.
    pub(super) fn counts(&self) -> StrangerCounts {
        let silent = self.associations().silent() as u64;
        let [not_allowed, silent_ended, replaced, full] =
            [&self.not_allowed, &self.silent_ended, &self.replaced, &self.full]
                .map(|count| count.load(Ordering::Relaxed));
        StrangerCounts { not_allowed, silent, silent_ended, replaced, full, ..StrangerCounts::default() }
    }

    /// Accepts associations as long as the endpoint is open.
    pub(super) async fn accept(self: Arc<Self>, listener: Listener, queue: Arc<CommitQueue>) {
        let mut peers = 0;
        while let Some(association) = listener.accept().await {
            peers += 1;
            let (peer, origin) = (Peer(peers), Origin::from(association.remote_addr().ip()));
            match self.associations().enter(peer, origin, association.clone()) {
                Entry::Free => {}
                Entry::Replaces(other) => {
                    self.replaced.fetch_add(1, Ordering::Relaxed);
                    other.abort("another association took the place of this one, which has sent no lines");
                }
                Entry::Full => {
                    self.full.fetch_add(1, Ordering::Relaxed);
                    association.abort("too many associations of this address");
                    continue;
                }
            }
            let (reception, queue) = (Arc::clone(&self), Arc::clone(&queue));
            tokio::spawn(async move {
                reception.receive((peer, origin), association, queue).await;
                reception.associations().leave(peer, origin);
            });
        }
    }

    async fn receive(&self, (peer, origin): (Peer, Origin), association: Association, queue: Arc<CommitQueue>) {
        queue.wait_for_room().await;
        queue.begin(peer, origin, &association);
        let (mut messages, mut standing) = (Vec::new(), Standing::Silent);
        let end = Instant::now() + SILENCE_MAX;
        loop {
            let receiving = association.recv_many(&mut messages, MESSAGES_AT_ONCE);
            let received = match standing {
                Standing::Silent => tokio::time::timeout_at(end, receiving).await,
                _ => Ok(receiving.await),
            };
            match received {
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None) | Err(_)) => break,
                Err(_) => {
                    self.silent_ended.fetch_add(1, Ordering::Relaxed);
                    association.abort("the peer has said nothing");
                    break;
                }
            }
            queue.wait_for_room().await;
            let Some(earned) = queue.take(peer, messages.drain(..).map(|message| message.into_payload())) else {
                return;
            };
            if earned > standing {
                self.associations().promote(peer, origin, (standing, earned));
                standing = earned;
            }
        }
        queue.end(peer);
    }
}
