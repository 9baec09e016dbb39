//! A server's associations: each first states its purpose. Silent ones are closed first to make room, so strangers cannot shut out others.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use festina::{Association, Listener};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::next_message;
use crate::{address, output};

/// How associations are received.
pub(super) struct Reception<H> {
    /// Associations at the same time, silent ones included.
    pub(super) associations_max: usize,
    /// How long an association may be silent.
    pub(super) hello_max: Duration,
    /// Reads the first message; `None` if it makes no sense.
    pub(super) decode: fn(Bytes) -> Option<H>,
    /// The command that runs here, and the one that should call.
    pub(super) this: &'static str,
    pub(super) caller: &'static str,
}

impl<H: Send + 'static> Reception<H> {
    /// Accepts associations and serves those that state their purpose; `once` until the first one that was served has left and none is
    /// being served.
    pub(super) async fn attend<S>(&self, listener: &Listener, once: bool, serve: impl Fn(Association, H) -> S)
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut silent = VecDeque::new();
        let mut greeting = JoinSet::new();
        let mut served = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Some(association) = accepted else { return };
                    silent.retain(|(_, waiting): &(Association, tokio::task::AbortHandle)| !waiting.is_finished());
                    if served.len() + silent.len() >= self.associations_max {
                        let Some((oldest, waiting)) = silent.pop_front() else {
                            association.abort("too many associations");
                            continue;
                        };
                        waiting.abort();
                        oldest.abort("too many associations, and this one was silent");
                    }
                    let greeted = greet(association.clone(), self.hello_max, self.decode);
                    silent.push_back((association, greeting.spawn(greeted)));
                }
                Some(greeted) = greeting.join_next() => match greeted {
                    Ok((association, Greeting::Hello(hello))) => drop(served.spawn(serve(association, hello))),
                    Ok((association, Greeting::Nonsense)) => {
                        let Self { this, caller, .. } = self;
                        let remote = address::canonical(association.remote_addr());
                        output::complain(&format!("{remote} sent no greeting; is it `{caller}`?"));
                        association.abort(&format!("this is {this}"));
                    }
                    Ok((_, Greeting::Left)) | Err(_) => {}
                },
                Some(_) = served.join_next() => {
                    if once && served.is_empty() {
                        return;
                    }
                }
            }
        }
    }
}

/// The beginning of an association.
enum Greeting<H> {
    Hello(H),
    Nonsense,
    Left,
}

async fn greet<H>(
    association: Association,
    hello_max: Duration,
    decode: fn(Bytes) -> Option<H>,
) -> (Association, Greeting<H>) {
    let greeting = match timeout(hello_max, next_message(&association)).await {
        Ok(Ok(message)) => decode(message.into_payload()).map_or(Greeting::Nonsense, Greeting::Hello),
        Ok(Err(_)) => Greeting::Left,
        Err(_) => Greeting::Nonsense,
    };
    (association, greeting)
}
