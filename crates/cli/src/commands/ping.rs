//! `festina ping`: the delay of messages.

mod slowest;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use clap::Args;
use festina::{
    Association, ClosedReason, Event, Message, MessageId, PathState, PathStats, PathStatus, ProtocolEvent, SendError,
    SendErrorKind, Stats,
};
use festina_models::statistics::DelayStatistics;
use festina_units::duration;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::slowest::{Repairs, SlowMessage, Slowest};
use super::{PeerArgs, next_message, say_goodbye};
use crate::{args, output, signal};

/// How long nothing may come back before a notice.
const SILENCE: Duration = Duration::from_secs(3);

/// A message begins with its sequence number.
const SIZE_BYTES_MIN: u32 = 8;
const SIZE_BYTES_MAX: u32 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  festina ping 127.0.0.1:9899                  against festina listen --echo, until Ctrl-C
  festina ping 127.0.0.1:9899 -c 20 -i 50ms    twenty messages, one every 50 ms
  festina ping 127.0.0.1:9899 --ack --plain    against any SCTP peer: until the acknowledgement
  festina ping 192.0.2.1 --paths --via 192.0.2.9 --via 198.51.100.9   over two networks

Messages are reliable: a lost one is late, not missing, and its time includes the recovery.";

/// Arguments of `festina ping`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PingArgs {
    #[command(flatten)]
    peer: PeerArgs,
    /// Time between messages
    #[arg(short, long, value_name = "TIME", default_value = "250ms", value_parser = args::positive_duration)]
    interval: Duration,
    /// Number of messages to send; without it until Ctrl-C
    #[arg(short, long, value_name = "NUMBER", value_parser = args::positive_number)]
    count: Option<u64>,
    /// Size of a message, 8 to 1048576 bytes
    #[arg(short, long, value_name = "SIZE", default_value = "100", value_parser = args::size(SIZE_BYTES_MIN..=SIZE_BYTES_MAX))]
    size: u32,
    /// Measure until the peer's acknowledgement instead of its echo, so that the peer need not echo
    #[arg(long)]
    ack: bool,
    /// Print the state of the path to each address of the peer at the end
    #[arg(long)]
    paths: bool,
    /// Print nothing but the summary
    #[arg(short, long)]
    quiet: bool,
    /// Print nothing but the summary, as JSON, with the slowest messages and the causes of their retransmissions
    #[arg(long)]
    json: bool,
}

/// Sends messages and measures until the count is reached, the peer leaves or the user has enough; then sums up.
pub(crate) async fn run(arguments: PingArgs) -> Result<()> {
    let (endpoint, association, recording) = arguments.peer.connect(arguments.ack || arguments.json).await?;
    let mut ping = Ping {
        association: association.clone(),
        remote: association.remote_addr(),
        sent: 0,
        awaited: BTreeMap::new(),
        times: DelayStatistics::new(),
        slowest: Slowest::default(),
        paths: Vec::new(),
        arguments,
    };
    let ended = tokio::select! {
        ended = ping.exchange() => ended,
        () = signal::interrupted() => Ok(false),
    };
    let stats = association.stats();
    ping.paths = if ping.arguments.paths { path_reports(&association) } else { Vec::new() };
    let summary = if ping.arguments.json { ping.json(&stats)? } else { ping.summary(&stats) };
    let printed = output::print_in_turn(summary).await;
    say_goodbye(&endpoint).await;
    recording.finish()?;
    printed?;
    let given_up = ended?;
    let answer = if ping.arguments.ack { "acknowledgement" } else { "echo" };
    if ping.times.count() == 0 {
        bail!("{}: no {answer} came back{}", ping.remote, ping.hint());
    }
    if given_up {
        let waited = duration::display(ping.arguments.peer.timeout);
        bail!("{}: {} messages had no {answer} after another {waited}", ping.remote, ping.awaited.len());
    }
    Ok(())
}

/// A message on its way into the send buffer, and since when.
type Sending = Pin<Box<dyn Future<Output = (Instant, Result<MessageId, SendError>)>>>;

struct Ping {
    arguments: PingArgs,
    association: Association,
    remote: SocketAddr,
    sent: u64,
    /// When each message left that has not come back, and how it was sent again, by its sequence number, which is also its message id.
    awaited: BTreeMap<u64, (Instant, Repairs)>,
    times: DelayStatistics,
    slowest: Slowest,
    /// At the end, if they are asked for.
    paths: Vec<PathReport>,
}

/// The state of a path at the end.
#[derive(Clone, Debug, Serialize)]
struct PathReport {
    address: String,
    state: &'static str,
    carries_data: bool,
    ms_round_trip: Option<f64>,
}

fn path_reports(association: &Association) -> Vec<PathReport> {
    let reports = association.paths().into_iter().zip(association.path_stats());
    let report = |(path, stats): (PathStatus, PathStats)| PathReport {
        address: path.remote.to_string(),
        state: match path.state {
            PathState::Active => "active",
            PathState::PotentiallyFailed => "potentially failed",
            PathState::Inactive => "inactive",
            PathState::Closed => "closed",
            _ => "unconfirmed",
        },
        carries_data: path.carries_data,
        ms_round_trip: stats.srtt.map(output::json_ms),
    };
    reports.map(report).collect()
}

impl Ping {
    /// Returns when everything has come back (false), or when the wait for missing messages is over (true).
    async fn exchange(&mut self) -> Result<bool> {
        let mut ticks = interval(self.arguments.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let association = self.association.clone();
        let (mut sent_at, mut heard_at) = (Instant::now(), Instant::now());
        let mut came_back = self.times.count();
        let mut is_told = false;
        // The message that waits for room, while others come back and make room.
        let mut sending: Option<Sending> = None;
        loop {
            let all_sent = self.arguments.count.is_some_and(|count| self.sent >= count);
            if self.awaited.is_empty() || self.times.count() > came_back {
                (heard_at, came_back, is_told) = (Instant::now(), self.times.count(), false);
            }
            let is_waited_for = !self.awaited.is_empty();
            // An outage does not end it, but a peer that never says a word does.
            let may_give_up = is_waited_for && (all_sent || self.times.count() == 0);
            let give_up_at = if all_sent { sent_at } else { heard_at } + self.arguments.peer.timeout;
            if all_sent && self.awaited.is_empty() {
                return Ok(false);
            }
            tokio::select! {
                _ = ticks.tick(), if sending.is_none() && !all_sent => sending = Some(self.send()?),
                Some((began_at, result)) = async { Some(sending.as_mut()?.await) } => {
                    sending = None;
                    match result {
                        Ok(_) => self.awaited.insert(self.sent, (began_at, Repairs::default())),
                        Err(SendError { kind: SendErrorKind::Closed, .. }) => return Err(self.ended(&association.closed().await)),
                        Err(error) => return Err(error.into()),
                    };
                    self.sent += 1;
                    sent_at = Instant::now();
                }
                message = next_message(&association) => match message {
                    Ok(message) => self.echoed(message.into_payload()).await?,
                    Err(reason) => return Err(self.ended(&reason)),
                },
                Some(event) = association.event() => self.informed(&event).await?,
                () = sleep_until(heard_at + SILENCE), if is_waited_for && !is_told => {
                    is_told = true;
                    let silence = duration::display(SILENCE);
                    output::notice(&format!("{}: nothing has come back for {silence}{}", self.remote, self.hint()));
                }
                () = sleep_until(give_up_at), if may_give_up => return Ok(true),
            }
        }
    }

    /// Likely causes when nothing at all comes back.
    fn hint(&self) -> &'static str {
        if self.arguments.ack || self.times.count() > 0 { "" } else { " (does the peer run with --echo?)" }
    }

    /// Begins to send the next message.
    fn send(&self) -> Result<Sending> {
        let size = usize::try_from(self.arguments.size)?;
        let mut payload = BytesMut::with_capacity(size);
        payload.put_u64(self.sent);
        payload.resize(size, 0);
        let (association, began_at) = (self.association.clone(), Instant::now());
        Ok(Box::pin(async move { (began_at, association.send(Message::new(payload.freeze())).await) }))
    }

    fn ended(&self, reason: &ClosedReason) -> anyhow::Error {
        match reason {
            ClosedReason::Shutdown => anyhow!("{} ended the association", self.remote),
            reason => anyhow!("{}: {reason}", self.remote),
        }
    }

    async fn echoed(&mut self, mut payload: Bytes) -> Result<()> {
        if self.arguments.ack {
            return Ok(());
        }
        // Earlier events belong to this message.
        while let Some(event) = self.association.try_event() {
            self.informed(&event).await?;
        }
        match payload.try_get_u64() {
            Ok(sequence) => self.came_back(sequence).await,
            Err(_) => Ok(()),
        }
    }

    async fn informed(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::MessageDelivered { id: MessageId(sequence), .. } if self.arguments.ack => {
                self.came_back(*sequence).await
            }
            Event::Protocol(ProtocolEvent::Retransmitted { id: MessageId(sequence), cause, .. }) => {
                if let Some((_, repairs)) = self.awaited.get_mut(sequence) {
                    repairs.note(*cause);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn came_back(&mut self, sequence: u64) -> Result<()> {
        let Some((sent_at, repairs)) = self.awaited.remove(&sequence) else {
            return Ok(());
        };
        let time = sent_at.elapsed();
        self.times.record(time);
        self.slowest.note(sequence, time, repairs);
        if !self.arguments.quiet && !self.arguments.json {
            let Self { remote, arguments: PingArgs { size, .. }, .. } = self;
            let line = format!("{size} bytes, {remote}: seq={} time={} ms", sequence + 1, milliseconds(time));
            output::print_in_turn(line).await?;
        }
        Ok(())
    }

    fn json(&self, stats: &Stats) -> serde_json::Result<String> {
        let (times, again) = (&self.times, &stats.sent.retransmitted);
        let ms = |time: Option<Duration>| time.map(output::json_ms);
        let quantile = |share| ms(times.quantile(share));
        serde_json::to_string_pretty(&SummaryJson {
            peer: self.remote.to_string(),
            measured: if self.arguments.ack { "acknowledgement" } else { "echo" },
            message_bytes: self.arguments.size,
            sent: self.sent,
            returned: times.count(),
            outstanding: self.awaited.len(),
            retransmissions: again.total(),
            retransmissions_by_timeout: again.timeout,
            retransmissions_spurious: stats.sent.spurious,
            times: TimesJson {
                ms_min: ms(times.min()),
                ms_mean: ms(times.mean()),
                ms_max: ms(times.max()),
                ms_p50: quantile(0.5),
                ms_p90: quantile(0.9),
                ms_p99: quantile(0.99),
            },
            slowest: self.slowest.messages(),
            paths: &self.paths,
        })
    }

    fn summary(&self, stats: &Stats) -> String {
        let (sent, received) = (self.sent, self.times.count());
        let again = &stats.sent.retransmitted;
        let mut summary = format!(
            "--- {} festina ping statistics ---\n{sent} messages sent, {received} {}, {} outstanding, {} \
             retransmissions ({} timeout, {} fast, {} bundled, {} probe; {} spurious)",
            self.remote,
            if self.arguments.ack { "acknowledged" } else { "received" },
            self.awaited.len(),
            again.total(),
            again.timeout,
            again.fast,
            again.reported_bundled + again.bundled,
            again.probe,
            stats.sent.spurious,
        );
        let times = &self.times;
        let all = (times.min(), times.mean(), times.max(), times.standard_deviation());
        if let (Some(min), Some(mean), Some(max), Some(deviation)) = all {
            let spread = [min, mean, max, deviation].map(milliseconds).join("/");
            let percentiles =
                [0.5, 0.9, 0.99].map(|share| milliseconds(times.quantile(share).unwrap_or(max))).join("/");
            summary += &format!("\ntime min/avg/max/mdev = {spread} ms, p50/p90/p99 = {percentiles} ms");
        }
        for PathReport { address, state, carries_data, ms_round_trip } in &self.paths {
            let time = ms_round_trip.map_or_else(String::new, |time| format!(", round trip {time:.3} ms"));
            let carries = if *carries_data { ", carries data" } else { "" };
            summary += &format!("\npath to {address}: {state}{time}{carries}");
        }
        summary
    }
}

/// The summary for programs; times are null when nothing came back.
#[derive(Serialize)]
struct SummaryJson<'a> {
    peer: String,
    measured: &'static str,
    message_bytes: u32,
    sent: u64,
    returned: u64,
    outstanding: usize,
    retransmissions: u64,
    retransmissions_by_timeout: u64,
    retransmissions_spurious: u64,
    #[serde(flatten)]
    times: TimesJson,
    slowest: Vec<&'a SlowMessage>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    paths: &'a [PathReport],
}

#[derive(Serialize)]
struct TimesJson {
    ms_min: Option<f64>,
    ms_mean: Option<f64>,
    ms_max: Option<f64>,
    ms_p50: Option<f64>,
    ms_p90: Option<f64>,
    ms_p99: Option<f64>,
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1000.0)
}
