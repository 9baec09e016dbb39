//! `festina send`: lines or files as messages, and what comes back.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use clap::Args;
use festina::{Association, ClosedReason, Message};

use super::{PeerArgs, say_goodbye};
use crate::output::Format;
use crate::{args, input, output, signal};

const EXAMPLES: &str = "\
Examples:
  echo hello | festina send 127.0.0.1:9899            one message
  festina send 127.0.0.1:9899                         every typed line is a message, until Ctrl-D
  festina send 127.0.0.1:9899 --file a.bin --file b   two messages, each the bytes of a file
  festina send 127.0.0.1:9899 --lifetime 200ms        a line that cannot leave within 200 ms is dropped

Messages that come back are printed as lines. The command ends when everything has been delivered and nothing has come
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
    /// The SCTP stream to send on
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(..=65_534))]
    stream: u16,
    /// Let the messages overtake each other
    #[arg(long)]
    unordered: bool,
    /// Drop a message that cannot leave within this time
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    lifetime: Option<Duration>,
    /// The payload protocol identifier to send along
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    ppid: u32,
    /// Stay until nothing has come back for this time
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = args::any_duration)]
    wait: Duration,
    /// Print the bytes that come back with nothing between messages
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
    /// Print what comes back as hexadecimal digits, one line per message
    #[arg(long)]
    hex: bool,
}

impl SendArgs {
    fn message(&self, payload: Bytes) -> Message {
        Message {
            unordered: self.unordered,
            lifetime: self.lifetime,
            ..Message::new(payload).on_stream(self.stream).with_ppid(self.ppid)
        }
    }

    fn format(&self) -> Format {
        match (self.raw, self.hex) {
            (true, _) => Format::Raw,
            (_, true) => Format::Hex,
            _ => Format::Lines,
        }
    }
}

/// Sends everything, waits until it has been delivered, and ends in good order.
pub(crate) async fn run(arguments: SendArgs) -> Result<()> {
    let files = read_files(&arguments.file)?;
    let (endpoint, association) = arguments.peer.connect(false).await?;
    let ended = tokio::select! {
        result = exchange(&association, &arguments, files) => result,
        () = signal::interrupted() => Ok(()),
    };
    say_goodbye(&endpoint).await;
    let abandoned = association.stats().sent.messages_abandoned;
    if arguments.lifetime.is_some() && abandoned > 0 {
        output::notice(&format!("{abandoned} messages were dropped because their lifetime ended"));
    }
    ended
}

/// Both directions at once, until this side is done or the peer ends the association.
async fn exchange(association: &Association, arguments: &SendArgs, files: Vec<Bytes>) -> Result<()> {
    let format = arguments.format();
    let receiving = async {
        loop {
            match association.recv().await {
                Ok(message) => output::print_message(&message.payload, format)?,
                Err(reason) => return anyhow::Ok(reason),
            }
        }
    };
    tokio::pin!(receiving);
    let sending = async {
        if arguments.file.is_empty() {
            send_lines(association, arguments).await?;
        } else {
            send_all(association, arguments, files).await?;
        }
        association.drained().await?;
        wait_for_silence(association, arguments.wait).await;
        association.shutdown().await?;
        anyhow::Ok(())
    };
    tokio::select! {
        sent = sending => {
            sent?;
            // What came in during the shutdown is still to be printed.
            receiving.await?;
            Ok(())
        }
        reason = &mut receiving => match reason? {
            ClosedReason::Shutdown => Ok(()),
            reason => bail!("{}: {reason}", association.remote_addr()),
        },
    }
}

async fn send_lines(association: &Association, arguments: &SendArgs) -> Result<()> {
    let mut lines = input::lines();
    while let Some(line) = lines.recv().await {
        let line = line.context("cannot read standard input")?;
        association.send(arguments.message(line)).await?;
    }
    Ok(())
}

async fn send_all(association: &Association, arguments: &SendArgs, payloads: Vec<Bytes>) -> Result<()> {
    for payload in payloads {
        association.send(arguments.message(payload)).await?;
    }
    Ok(())
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
        contents.push(bytes.into());
    }
    Ok(contents)
}
