//! `festina listen`: print what peers send, send them what is typed.

mod audience;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::Args;
use festina::{Association, ClosedReason, Listener, Message, ReceivedMessage};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::audience::{Audience, Lines};
use super::recording::PcapArgs;
use super::send::BLOCK_BYTES_MAX;
use super::{RecoveryArgs, message_bytes_max, say_goodbye};
use crate::address::{self, HostPort};
use crate::output::Format;
use crate::{input, output, signal};

const EXAMPLES: &str = "\
Examples:
  festina listen 127.0.0.1:9899                   print messages as lines, send back what is typed
  festina listen :9899 --echo                     send every message back; for festina ping
  festina listen 127.0.0.1:9899 --once --raw > f  store what one peer sends
  festina listen :9899 --block 1200 < a.bin       send any bytes, of any length, to whoever is there

Standard error tells who comes and goes; standard output holds nothing but messages. To a terminal, their control \
characters are escaped. What is typed goes to every peer; one that holds up the others for long misses lines.";

/// Arguments of `festina listen`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListenArgs {
    /// Where to listen: ADDRESS:PORT, or :PORT for every address, where PORT is the UDP port; 9899 if left out
    address: HostPort,
    /// The SCTP port to accept associations on
    #[arg(short, long, value_name = "PORT", default_value_t = festina::DEFAULT_SCTP_PORT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Send every message back to its sender instead of printing it
    #[arg(long, conflicts_with_all = ["raw", "hex", "json"])]
    echo: bool,
    /// End when the first peer has left
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
    /// Send standard input as it is, in messages of at most this many bytes, instead of lines
    #[arg(long, value_name = "BYTES", conflicts_with = "echo")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=BLOCK_BYTES_MAX))]
    block: Option<u32>,
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    pcap: PcapArgs,
}

impl ListenArgs {
    /// What is typed, message by message. An echo has nothing of its own to say, and may run in the background of a terminal, from which
    /// it must not read.
    fn typed(&self) -> Result<Option<Typed>> {
        Ok(match self.block {
            _ if self.echo => None,
            Some(bytes_max) => Some(input::blocks(usize::try_from(bytes_max)?)),
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

/// What is done with a message.
#[derive(Clone, Copy, Debug)]
enum Action {
    Print(Format),
    Echo,
}

/// Listens until interrupted, or with `--once` until the first peer has left.
pub(crate) async fn run(arguments: ListenArgs) -> Result<()> {
    let recording = arguments.pcap.begin()?;
    let endpoint = address::bind_to_listen(&arguments.address, arguments.recovery.config()).await?;
    recording.watch(&endpoint);
    let typed = arguments.typed()?;
    let listener = endpoint.listen(arguments.port)?;
    let interruption = signal::interruption();
    output::notice(&format!("listening on {}, SCTP port {}", endpoint.local_addr(), arguments.port));

    let ended = tokio::select! {
        ended = attend(&listener, arguments.action(), typed, arguments.once) => ended,
        () = interruption => Ok(()),
    };
    say_goodbye(&endpoint).await;
    recording.finish()?;
    ended
}

/// Takes peers as they come and sends them what is typed, with `once` until the first of them has left.
async fn attend(listener: &Listener, action: Action, mut typed: Option<Typed>, once: bool) -> Result<()> {
    let mut peers = Peers::new(action);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Some(association) => peers.add(association),
                None => return Ok(()),
            },
            Some(left) = peers.tasks.join_next() => {
                peers.remove(&left.context("a task failed")??);
                if once {
                    return Ok(());
                }
            }
            Some(line) = async { typed.as_mut()?.recv().await }, if peers.audience.is_ready() => {
                peers.say(line.context("cannot read standard input")?);
            }
            () = peers.audience.changed(), if !peers.audience.is_ready() => peers.go_on(),
        }
    }
}

/// The peers that are connected, each served by a task.
struct Peers {
    action: Action,
    next_number: u64,
    addresses: BTreeMap<u64, SocketAddr>,
    audience: Audience,
    tasks: JoinSet<Result<Left>>,
}

/// A peer that has left.
struct Left {
    number: u64,
    reason: ClosedReason,
}

impl Peers {
    fn new(action: Action) -> Self {
        Self { action, next_number: 0, addresses: BTreeMap::new(), audience: Audience::new(), tasks: JoinSet::new() }
    }

    fn add(&mut self, association: Association) {
        let number = self.next_number;
        self.next_number += 1;
        let remote = address::canonical(association.remote_addr());
        output::notice(&format!("{remote} connected"));
        self.addresses.insert(number, remote);
        let (action, lines) = (self.action, self.audience.add(Instant::now(), number));
        self.tasks.spawn(async move {
            let reason = serve(&association, action, lines).await?;
            Ok(Left { number, reason })
        });
    }

    fn remove(&mut self, left: &Left) {
        let missed = match self.audience.remove(Instant::now(), left.number) {
            0 => String::new(),
            missed => format!("; it was too slow for {missed} lines"),
        };
        if let Some(remote) = self.addresses.remove(&left.number) {
            output::notice(&format!("{remote} left: {}{missed}", output::end_of(&left.reason)));
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
        for remote in late.iter().filter_map(|number| self.addresses.get(number)) {
            output::complain(&format!("{remote} holds up the others: it misses lines from now on"));
        }
    }
}

/// Takes one peer's messages and sends it what is typed until the association ends, and returns why it did.
async fn serve(association: &Association, action: Action, mut lines: Lines) -> Result<ClosedReason> {
    let receiving = async {
        loop {
            let message = match association.recv().await {
                Ok(message) => message,
                Err(reason) => return Ok(reason),
            };
            match action {
                Action::Print(format) => output::print_message(&message, association.remote_addr(), format)?,
                Action::Echo => {
                    // The next `recv` reports a peer that leaves before its echo.
                    let _ = association.send(echo_of(message)).await;
                }
            }
        }
    };
    let sending = async {
        while let Some(line) = lines.next().await {
            // If the peer takes no more because it leaves, `recv` reports it.
            let _ = association.send(Message::new(line)).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        ended = receiving => ended,
        never = sending => never,
    }
}

/// The same message the other way.
fn echo_of(received: ReceivedMessage) -> Message {
    Message {
        unordered: received.unordered,
        ..Message::new(received.payload).on_stream(received.stream).with_ppid(received.ppid)
    }
}
