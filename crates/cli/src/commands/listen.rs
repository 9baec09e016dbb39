//! `festina listen`: print messages of peers, and send them lines from standard input.

mod audience;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use festina::{Association, ClosedReason, Endpoint, Listener, Message};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::audience::{Audience, Lines};
use super::recording::PcapArgs;
use super::send::BLOCK_BYTES_MAX;
use super::{AlsoArgs, GOODBYE_MAX, RecoveryArgs, message_bytes_max, next_message};
use crate::address::{self, HostPort};
use crate::keys::IdentityArgs;
use crate::output::Format;
use crate::{args, input, keys, output, signal};

const EXAMPLES: &str = "\
Examples:
  festina listen 127.0.0.1:9899                   print messages as lines, send back typed lines
  festina listen :9899 --echo                     send every message back; for festina ping
  festina listen 127.0.0.1:9899 --once --raw > f  store what one peer sends
  festina listen :9899 --block 1200 < a.bin       send any bytes, of any length, to all connected peers
  festina listen :9899 --plain                    for SCTP peers other than festina, which do not encrypt
  festina listen 192.0.2.1 --also 198.51.100.1    on two networks; -v says when one fails and returns

Standard error reports peers that come and go; standard output holds nothing but messages. To a terminal, their control \
characters are escaped. Typed lines go to every peer. A peer that is too slow misses lines, so that it does not hold up the others.";

/// Arguments of `festina listen`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListenArgs {
    /// Where to listen: ADDRESS:PORT, or :PORT for every address, where PORT is the UDP port, by default 9899
    address: HostPort,
    #[command(flatten)]
    others: AlsoArgs,
    /// The SCTP port to accept associations on
    #[arg(short, long, value_name = "PORT", default_value_t = festina::DEFAULT_SCTP_PORT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Send every message back to its sender instead of printing it
    #[arg(long, conflicts_with_all = ["raw", "hex", "json"])]
    echo: bool,
    /// Exit when the first peer has left, with exit code 0 if it shut down gracefully
    #[arg(long)]
    once: bool,
    /// Print the bytes of messages as they are, even to a terminal, with nothing between them
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
    /// Print messages as hexadecimal digits, one line each
    #[arg(long)]
    hex: bool,
    /// Print each message as a JSON object in one line
    #[arg(long, conflicts_with_all = ["raw", "hex"])]
    json: bool,
    /// Send standard input as it is, in messages of at most this size, instead of lines
    #[arg(long, value_name = "SIZE", conflicts_with = "echo")]
    #[arg(value_parser = args::size(1..=BLOCK_BYTES_MAX))]
    block: Option<usize>,
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    pcap: PcapArgs,
}

impl ListenArgs {
    /// Standard input, message by message. `None` with `--echo`, which may run in the background of a terminal, from which
    /// it must not read.
    fn typed(&self) -> Result<Option<Typed>> {
        Ok(match self.block {
            _ if self.echo => None,
            Some(bytes_max) => Some(input::blocks(bytes_max)),
            None => Some(input::lines(message_bytes_max())),
        })
    }

    fn action(&self) -> Action {
        match (self.echo, self.raw, self.hex) {
            (true, _, _) => Action::Echo,
            (_, true, _) => Action::Print(Format::Raw),
            (_, _, true) => Action::Print(Format::Hex),
            _ if self.json => Action::Print(Format::Json),
            _ => Action::Print(Format::Lines),
        }
    }
}

/// Messages from standard input.
type Typed = mpsc::Receiver<io::Result<Bytes>>;

/// Time after which input that says nothing counts as idle.
const INPUT_PAUSE: Duration = Duration::from_millis(500);

/// How a message is handled.
#[derive(Clone, Copy, Debug)]
enum Action {
    Print(Format),
    Echo,
}

/// Listens until interrupted, or with `--once` until the first peer has left.
pub(crate) async fn run(arguments: ListenArgs) -> Result<()> {
    let recording = arguments.pcap.begin()?;
    let (config, fingerprint) = arguments.identity.of_server(arguments.recovery.transport())?;
    let config = arguments.others.named(config);
    let endpoint = address::bind_to_listen(&arguments.address, recording.with_secrets_of_server(config)).await?;
    recording.watch(&endpoint);
    let typed = arguments.typed()?;
    let listener = endpoint.listen(arguments.port)?;
    let interruption = signal::interruption();
    output::notice(&format!("listening on {}, SCTP port {}", endpoint.local_addr(), arguments.port));
    keys::show(fingerprint);

    let mut peers = Peers::new(arguments.action());
    let ended = tokio::select! {
        ended = attend(&listener, &mut peers, typed, arguments.once) => ended,
        () = interruption => match arguments.once {
            true => Err(anyhow!("interrupted before a peer had sent everything")),
            false => Ok(()),
        },
    };
    peers.dismiss(&endpoint).await;
    recording.finish()?;
    if arguments.once { ended.map_err(output::cut_by_reader) } else { ended }
}

/// Accepts peers and sends them the typed lines; with `once`, until the first of them has left.
async fn attend(listener: &Listener, peers: &mut Peers, mut typed: Option<Typed>, once: bool) -> Result<()> {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Some(association) => peers.add(association),
                None => return Ok(()),
            },
            Some(left) = peers.tasks.join_next() => {
                let left = left.context("a task failed")??;
                let lines_missed = peers.remove(&left);
                if once {
                    return left.outcome(lines_missed > 0 || has_more(typed.as_mut()).await);
                }
            }
            Some(line) = async { typed.as_mut()?.recv().await }, if peers.audience.is_ready() => {
                peers.say(line.context("cannot read standard input")?);
            }
            () = peers.audience.changed(), if !peers.audience.is_ready() => peers.go_on(),
        }
    }
}

/// Whether there is more input. The thread that reads it may have a line that it has not handed over yet, so an empty queue proves nothing.
async fn has_more(typed: Option<&mut Typed>) -> bool {
    let Some(typed) = typed else { return false };
    matches!(tokio::time::timeout(INPUT_PAUSE, typed.recv()).await, Ok(Some(_)))
}

/// The peers that are connected, each served by a task.
struct Peers {
    action: Action,
    next_number: u64,
    associations: BTreeMap<u64, Association>,
    audience: Audience,
    tasks: JoinSet<Result<Left>>,
}

/// A peer that has left.
struct Left {
    number: u64,
    remote: SocketAddr,
    reason: ClosedReason,
    /// Whether lines for it are still queued.
    has_queue: bool,
}

impl Left {
    /// Succeeds if the peer sent everything and got everything.
    fn outcome(&self, has_missed: bool) -> Result<()> {
        match &self.reason {
            ClosedReason::Shutdown if self.has_queue || has_missed => {
                bail!("{} left before all input was sent", self.remote)
            }
            ClosedReason::Shutdown => Ok(()),
            reason => bail!("the transfer from {} is incomplete: {reason}", self.remote),
        }
    }
}

impl Peers {
    fn new(action: Action) -> Self {
        Self { action, next_number: 0, associations: BTreeMap::new(), audience: Audience::new(), tasks: JoinSet::new() }
    }

    fn add(&mut self, association: Association) {
        let number = self.next_number;
        self.next_number += 1;
        let remote = address::canonical(association.remote_addr());
        output::notice(&format!("{remote} connected"));
        self.associations.insert(number, association.clone());
        let (action, mut lines) = (self.action, self.audience.add(Instant::now(), number));
        self.tasks.spawn(async move {
            let served = serve(&association, action, &mut lines).await;
            // The peer must not assume that unprinted messages were received.
            let (reason, has_queue) = served.inspect_err(|_| association.abort("cannot store the received data"))?;
            Ok(Left { number, remote, reason, has_queue: has_queue || !lines.is_empty() })
        });
    }

    /// Returns how many lines the peer missed.
    fn remove(&mut self, left: &Left) -> u64 {
        let lines_missed = self.audience.remove(Instant::now(), left.number);
        let missed = match lines_missed {
            0 => String::new(),
            missed => format!("; it was too slow for {missed} lines"),
        };
        self.associations.remove(&left.number);
        output::notice(&format!("{} left: {}{missed}", left.remote, left.reason));
        lines_missed
    }

    /// Shuts down all associations in good order and prints messages that arrive meanwhile. A peer that takes too long gets an ABORT: the transfer
    /// was cut.
    async fn dismiss(mut self, endpoint: &Endpoint) {
        let printing = async {
            while let Some(left) = self.tasks.join_next().await {
                match left {
                    Ok(Ok(left)) => _ = self.remove(&left),
                    Ok(Err(error)) if !output::is_closed_pipe(&error) => output::complain(&output::causes(&error)),
                    Ok(Err(_)) | Err(_) => {}
                }
            }
        };
        if tokio::time::timeout(GOODBYE_MAX, async { tokio::join!(endpoint.close(), printing) }).await.is_err() {
            self.associations.values().for_each(|association| association.abort("the listener has ended"));
        }
    }

    fn say(&mut self, line: Bytes) {
        let late = self.audience.say(Instant::now(), line);
        self.complain_of(&late);
    }

    fn go_on(&mut self) {
        let late = self.audience.offer(Instant::now());
        self.complain_of(&late);
    }

    fn complain_of(&self, late: &[u64]) {
        for association in late.iter().filter_map(|number| self.associations.get(number)) {
            let remote = address::canonical(association.remote_addr());
            output::complain(&format!("{remote} holds up the others: it misses lines from now on"));
        }
    }
}

/// Takes one peer's messages and sends it the typed input until the association ends. Returns why it did, and whether it refused a line.
async fn serve(association: &Association, action: Action, lines: &mut Lines) -> Result<(ClosedReason, bool)> {
    let mut is_refused = false;
    let receiving = async {
        loop {
            let message = match next_message(association).await {
                Ok(message) => message,
                Err(reason) => return anyhow::Ok(reason),
            };
            match action {
                Action::Print(format) => output::print_message(message, association.remote_addr(), format).await?,
                Action::Echo => {
                    // The next `recv` reports a peer that leaves before its echo.
                    let _ = association.send(message).await;
                }
            }
        }
    };
    let sending = async {
        while let Some(line) = lines.next().await {
            // If the peer takes no more because it leaves, `recv` reports it.
            is_refused = true;
            is_refused = association.send(Message::new(line)).await.is_err();
        }
        std::future::pending().await
    };
    let reason = tokio::select! {
        ended = receiving => ended?,
        never = sending => never,
    };
    Ok((reason, is_refused))
}
