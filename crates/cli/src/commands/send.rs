//! `festina send`: lines or files as messages, and the answers.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use festina::{Abandoned, Association, ClosedReason, Message, SendError, SendErrorKind, Stats};
use serde::Serialize;

use super::{GOODBYE_MAX, PeerArgs, message_bytes_max, next_message, say_goodbye};
use crate::output::Format;
use crate::{args, input, output, signal};

pub(super) const BLOCK_BYTES_MAX: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  echo hello | festina send 127.0.0.1:9899            one message
  festina send 127.0.0.1:9899                         every typed line is a message, until Ctrl-D
  festina send 127.0.0.1:9899 --file a.bin --file b   two messages, each the bytes of a file
  festina send 127.0.0.1:9899 --block 1200 < a.bin    any bytes, of any length, for listen --raw
  festina send 127.0.0.1:9899 --lifetime 200ms        a line older than 200 ms is abandoned

Messages that come back are printed as lines, to a terminal with control characters escaped. The command ends when everything has been delivered and nothing has come \
back for the time that --wait gives.";

/// Arguments of `festina send`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// Send the bytes of this file as one message instead of lines from standard input; may be repeated
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Send standard input as it is, in messages of at most this size, instead of lines
    #[arg(long, value_name = "SIZE", conflicts_with = "file")]
    #[arg(value_parser = args::size(1..=BLOCK_BYTES_MAX))]
    block: Option<usize>,
    /// The SCTP stream to send on
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(..=65_534))]
    stream: u16,
    /// Let the messages overtake each other
    #[arg(long)]
    unordered: bool,
    /// Abandon a message that was not delivered within this time
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    lifetime: Option<Duration>,
    /// Abandon a message after this many retransmissions; 0 sends once
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(..=254))]
    max_retransmissions: Option<u16>,
    /// The payload protocol identifier of the messages
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    ppid: u32,
    /// Exit when no answer has arrived for this time
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = args::any_duration)]
    wait: Duration,
    /// Print the bytes of answers as they are, even to a terminal, with nothing between messages
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
    /// Print answers as hexadecimal digits, one line per message
    #[arg(long)]
    hex: bool,
    /// Print answers as JSON objects, one line each, and at the end the outcome of the messages
    #[arg(long, conflicts_with_all = ["raw", "hex"])]
    json: bool,
}

impl SendArgs {
    fn message(&self, payload: Bytes) -> Message {
        let message = Message::new(payload).on_stream(self.stream).with_ppid(self.ppid);
        let message = message.unordered_if(self.unordered).with_lifetime(self.lifetime);
        message.with_max_retransmissions(self.max_retransmissions.unwrap_or(u16::MAX))
    }

    fn format(&self) -> Format {
        match (self.raw, self.hex) {
            (true, _) => Format::Raw,
            (_, true) => Format::Hex,
            _ if self.json => Format::Json,
            _ => Format::Lines,
        }
    }
}

/// Sends everything, waits until it has been delivered, and ends in good order.
pub(crate) async fn run(arguments: SendArgs) -> Result<()> {
    let files = read_files(&arguments.file)?;
    let (endpoint, association, recording) = arguments.peer.connect(false).await?;
    let all_sent = Cell::new(false);
    let ended = tokio::select! {
        result = exchange(&association, &arguments, files, &all_sent) => result,
        () = signal::interrupted() => if all_sent.get() { Ok(()) } else { Err(anyhow!("interrupted before all input was sent")) },
    };
    if ended.is_err() && !all_sent.get() {
        // Input typed so far still arrives, but an end in good order would tell the peer that nothing is missing.
        let _ = tokio::time::timeout(GOODBYE_MAX, association.drained()).await;
        association.abort("the sender stopped before all input was sent");
    }
    say_goodbye(&endpoint).await;
    recording.finish()?;
    let stats = association.stats();
    if arguments.json {
        output::print_in_turn(serde_json::to_string(&SentJson::of(&stats, ended.is_ok()))?).await?;
    }
    let abandoned = stats.abandoned;
    for (messages, why) in
        [(abandoned.expired, "their lifetime ended"), (abandoned.retransmissions_exhausted, "they were lost too often")]
    {
        if messages.unsent + messages.sent > 0 {
            let Abandoned { unsent, sent } = messages;
            output::notice(&format!(
                "{} messages were abandoned because {why}; {sent} of them had been sent and may have arrived",
                unsent + sent
            ));
        }
    }
    ended
}

/// What became of the messages, for programs.
#[derive(Serialize)]
struct SentJson {
    complete: bool,
    retransmissions: u64,
    expired: u64,
    retransmissions_exhausted: u64,
    /// Abandoned messages that were sent at least in part: they may have arrived.
    abandoned_sent: u64,
}

impl SentJson {
    fn of(stats: &Stats, complete: bool) -> Self {
        let count = |abandoned: Abandoned| abandoned.unsent + abandoned.sent;
        Self {
            complete,
            retransmissions: stats.sent.retransmitted.total(),
            expired: count(stats.abandoned.expired),
            retransmissions_exhausted: count(stats.abandoned.retransmissions_exhausted),
            abandoned_sent: stats.sent.messages_abandoned_sent,
        }
    }
}

/// Both directions at once, until this side is done or the peer ends the association.
async fn exchange(
    association: &Association,
    arguments: &SendArgs,
    files: Vec<Bytes>,
    all_sent: &Cell<bool>,
) -> Result<()> {
    let format = arguments.format();
    let receiving = async {
        loop {
            match next_message(association).await {
                Ok(message) => {
                    let printed = output::print_message(message, association.remote_addr(), format).await;
                    printed.map_err(|error| if all_sent.get() { error } else { output::cut_by_reader(error) })?;
                }
                Err(reason) => return anyhow::Ok(reason),
            }
        }
    };
    tokio::pin!(receiving);
    let sending = async {
        send_all(association, arguments, files).await?;
        association.drained().await.map_err(|reason| cut_short(association, &reason))?;
        all_sent.set(true);
        wait_for_silence(association, arguments.wait).await;
        association.shutdown().await?;
        anyhow::Ok(())
    };
    tokio::select! {
        sent = sending => {
            sent?;
            // Answers that came during the shutdown are still to be printed.
            receiving.await?;
            Ok(())
        }
        reason = &mut receiving => match reason? {
            ClosedReason::Shutdown if all_sent.get() => Ok(()),
            reason => Err(cut_short(association, &reason)),
        },
    }
}

/// Sends the files, or without any all of standard input.
async fn send_all(association: &Association, arguments: &SendArgs, files: Vec<Bytes>) -> Result<()> {
    if !files.is_empty() {
        for payload in files {
            send(association, arguments.message(payload)).await?;
        }
        return Ok(());
    }
    let mut payloads = match arguments.block {
        Some(bytes_max) => input::blocks(bytes_max),
        None => input::lines(message_bytes_max()),
    };
    while let Some(payload) = payloads.recv().await {
        let payload = payload.context("cannot read standard input")?;
        send(association, arguments.message(payload)).await?;
    }
    Ok(())
}

async fn send(association: &Association, message: Message) -> Result<()> {
    match association.send(message).await {
        Ok(_) => Ok(()),
        Err(SendError { kind: SendErrorKind::Closed, .. }) => Err(cut_short(association, &association.closed().await)),
        Err(error) => Err(error.into()),
    }
}

/// The error for an association that ended with unsent input, or not in good order.
fn cut_short(association: &Association, reason: &ClosedReason) -> anyhow::Error {
    let remote = association.remote_addr();
    match reason {
        ClosedReason::Shutdown => anyhow!("{remote} ended the association before all input was sent"),
        reason => anyhow!("{remote}: {reason}"),
    }
}

/// Returns when no message has come in for as long as `silence`.
async fn wait_for_silence(association: &Association, silence: Duration) {
    let mut heard = association.stats().received.messages;
    loop {
        tokio::time::sleep(silence).await;
        let before = std::mem::replace(&mut heard, association.stats().received.messages);
        if before == heard {
            return;
        }
    }
}

/// The files' contents, read before the peer is bothered.
fn read_files(paths: &[PathBuf]) -> Result<Vec<Bytes>> {
    let mut contents = Vec::with_capacity(paths.len());
    for path in paths {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        if bytes.is_empty() {
            bail!("{} is empty, and SCTP has no empty message", path.display());
        }
        let bytes_max = message_bytes_max();
        if bytes.len() > bytes_max {
            bail!("{} has more than the {bytes_max} bytes that fit into a message; see --block", path.display());
        }
        contents.push(bytes.into());
    }
    Ok(contents)
}
