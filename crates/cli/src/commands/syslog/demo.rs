//! `festina syslog demo`: relay, collector and a bad network on this machine, and a table of the outcomes of lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use festina_emulate::UdpProxy;
use festina_netsim::{LinkConfig, LossModel, QueueLimit};
use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{CollectorConfig, RelayConfig};
use festina_syslog::keys::{Collectors, Protection};
use festina_syslog::line::Severity;
use festina_syslog::relay::RunningRelay;
use festina_syslog::snapshot::RelaySnapshot;
use festina_units::{Bandwidth, Probability, duration};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::scratch::{Growing, Scratch};
use crate::{args, link, output, signal};

/// The arguments of `festina syslog demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Lines per second
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = args::positive_number)]
    lines: u64,
    /// Duration of the demonstration
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::positive_duration)]
    time: Duration,
    /// Keep all files in this directory, which must not exist yet; without it, they are removed at the end
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
    /// The same seed loses the same packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// One-way propagation delay of the network
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = args::any_duration)]
    delay: Duration,
    /// Share of packets lost, in each direction
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    loss: Probability,
    /// Bits per second of the network; unlimited without it
    #[arg(long, value_name = "RATE", value_parser = link::rate)]
    rate: Option<Bandwidth>,
    /// Queue limit of a network with a rate: packets (20p) or bytes (16KiB)
    #[arg(long, value_name = "SIZE", default_value = "20p", value_parser = link::queue)]
    queue: QueueLimit,
}

/// Of 1,000 lines, how many have severity emerg, alert and so on. 7.6 % are emerg to err, as in the trace of Rajiullah's paper V.
const MIX: [u64; 8] = [1, 2, 8, 65, 150, 174, 300, 300];

/// Time limit for lines under way at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// Runs the demonstration.
pub(super) async fn run(arguments: DemoArgs) -> Result<()> {
    let scratch = arguments.keep.as_deref().map_or_else(|| Scratch::new("syslog-demo"), Scratch::kept)?;

    let collector = start_collector(scratch.path()).await?;
    let wire = LinkConfig {
        delay: arguments.delay,
        rate: arguments.rate,
        queue: arguments.queue,
        loss: LossModel::Independent(arguments.loss),
        ..LinkConfig::default()
    };
    let network = UdpProxy::bind(any_address(), collector.local_addr(), wire.clone(), wire, arguments.seed)
        .and_then(UdpProxy::spawn)
        .context("cannot be a bad network")?;
    let relay = start_relay(scratch.path(), network.local_addr()).await?;
    let input = relay.inputs().first().copied().flatten().context("the relay does not listen")?;
    output::notice(&format!(
        "Lines go to the relay at udp {input}, over a bad network, to {}.",
        scratch.path().join("lines.log").display()
    ));
    let begin = Instant::now();
    let (end_in, end) = oneshot::channel();
    let reader = tokio::spawn(watch(scratch.path().join("lines.log"), begin, end));
    let sent = send_lines(&arguments, input, &relay, begin).await?;
    // The last datagrams have yet to reach the relay.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let last = relay.stop(DRAIN).await;
    collector.stop().await;
    let wire = network.stop().context("the bad network failed")?;
    // The reader ends by itself once the sender of `end` is dropped.
    drop(end_in);
    let written = reader.await.context("the reader failed")??;
    let important: u64 = (0..4).map(|severity| written.get(&severity).map_or(0, |delays| delays.len() as u64)).sum();
    let mut written = written;
    output::print(&table(&sent, &mut written))?;
    output::print(&format!(
        "The network lost {} of {} packets to the collector. Of the lines, the relay counted",
        wire.forward.lost, wire.forward.offered
    ))?;
    output::print(&check_balance(&last)?)?;
    // Only important lines are spooled here.
    let missing = sent[..4].iter().sum::<u64>() - important;
    ensure!(
        missing <= last.spooled,
        "{missing} important lines are missing and {} in the spool: this is a bug",
        last.spooled
    );
    if missing > 0 {
        output::notice(&format!("{missing} important lines were still in the spool when the time was over."));
    }
    Ok(())
}

fn any_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn start_collector(directory: &Path) -> Result<RunningCollector> {
    let key = Protection::<Collectors>::default().fingerprint(&directory.join("relay"))?.context("there is a key")?;
    let text = format!(
        "state = {:?}\nlisten = \"127.0.0.1:0\"\n[[output]]\nkind = \"file\"\nformat = \"json\"\npath = {:?}\n\
         [security]\nrelays = [\"{key}\"]",
        directory.join("collect"),
        directory.join("lines.log")
    );
    Ok(RunningCollector::start(CollectorConfig::parse("collect.toml", &text)?, super::notice()).await?)
}

async fn start_relay(directory: &Path, collector: SocketAddr) -> Result<RunningRelay> {
    let text = format!(
        "state = {:?}\ncollector = \"{collector}\"\n[[input]]\nkind = \"udp\"\nlisten = \"127.0.0.1:0\"",
        directory.join("relay")
    );
    Ok(RunningRelay::start(RelayConfig::parse("relay.toml", &text)?, super::notice()).await?)
}

/// Sends lines of all severities, and says every second how far it is. Returns how many of each.
async fn send_lines(arguments: &DemoArgs, input: SocketAddr, relay: &RunningRelay, begin: Instant) -> Result<[u64; 8]> {
    let socket = UdpSocket::bind(any_address()).context("cannot make a socket")?;
    let mut sent = [0_u64; 8];
    let lines = arguments.lines * u64::try_from(arguments.time.as_millis()).unwrap_or(u64::MAX) / 1_000;
    let mut tick = tokio::time::interval(Duration::from_nanos(1_000_000_000 / arguments.lines.max(1)));
    let mut interruption = pin!(signal::interruption());
    for number in 0..lines {
        tokio::select! {
            _ = tick.tick() => {}
            () = &mut interruption => break,
        }
        // Severities come in a mixed order that is always the same.
        let mut place = number * 617 % 1_000;
        let severity = MIX
            .iter()
            .position(|&share| {
                place < share || {
                    place -= share;
                    false
                }
            })
            .unwrap_or(7);
        let sent_ms = begin.elapsed().as_secs_f64() * 1e3;
        let line = format!("<{}>Oct 11 22:14:15 demo app: line {number} sent={sent_ms:.3} ", 128 + severity);
        // As long as those of the papers: 250 bytes.
        let line = format!("{line:-<250}");
        socket.send_to(line.as_bytes(), input).context("cannot send")?;
        sent[severity] += 1;
        if (number + 1) % arguments.lines == 0 {
            let now = relay.snapshot();
            check_balance(&now)?;
            output::notice(&format!(
                "{:>5} lines: {} delivered, {} wait for acknowledgement, {} under way, {} abandoned",
                number + 1,
                now.delivered,
                now.spooled,
                now.underway,
                now.abandoned
            ));
        }
    }
    Ok(sent)
}

/// Checks that the outcomes of all lines that the relay received add up, which has to hold at any time.
fn check_balance(now: &RelaySnapshot) -> Result<String> {
    let RelaySnapshot { received, delivered, dropped, abandoned, shed, lost, spooled, underway, .. } = now;
    let received = received.iter().sum::<u64>();
    let balance = format!(
        "received {received} = delivered {delivered} + dropped {dropped} + abandoned {abandoned} + shed {shed} + lost {lost} + \
         spooled {spooled} + under way {underway}"
    );
    ensure!(now.adds_up(), "the relay's counters do not add up: {balance}: this is a bug");
    Ok(balance)
}

/// How long lines of each severity took from the program to the file, in milliseconds.
type Delays = BTreeMap<usize, Vec<f64>>;

/// Reads the output as it grows, until `end` is signalled and no data is left.
async fn watch(path: PathBuf, begin: Instant, mut end: oneshot::Receiver<()>) -> Result<Delays> {
    let (mut delays, mut file, mut ended) = (Delays::new(), Growing::new(path), false);
    loop {
        let text = file.lines()?;
        let now_ms = begin.elapsed().as_secs_f64() * 1e3;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let (severity, sent_ms) = read_line(line)?;
            delays.entry(severity).or_default().push(now_ms - sent_ms);
        }
        if ended && text.is_empty() {
            return Ok(delays);
        }
        ended = !matches!(end.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The severity of a line of the output, and when it was sent.
fn read_line(line: &[u8]) -> Result<(usize, f64)> {
    let object: serde_json::Value = serde_json::from_slice(line).context("the output is no JSON")?;
    let severity: Severity = object["severity"].as_str().unwrap_or_default().parse().map_err(anyhow::Error::msg)?;
    let sent = object["line"].as_str().and_then(|line| line.split("sent=").nth(1)?.split(' ').next()?.parse().ok());
    Ok((severity.index(), sent.context("the output differs from the lines sent")?))
}

/// The delay that this share of lines does not exceed.
fn quantile(delays: &mut [f64], share: f64) -> String {
    delays.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
    let place = ((delays.len() as f64 * share) as usize).min(delays.len().saturating_sub(1));
    delays.get(place).map_or_else(|| "-".to_owned(), |delay| format!("{delay:.0} ms"))
}

fn table(sent: &[u64; 8], written: &mut Delays) -> String {
    let mut text = format!(
        "{:<10} {:>7} {:>8} {:>8} {:>8} {:>8}  treated as\n",
        "severity", "sent", "written", "missing", "median", "p99"
    );
    for (number, sent) in (0_u8..).zip(sent) {
        let severity = Severity::new(number);
        let delays = written.entry(severity.index()).or_default();
        let treated = match number {
            0..=3 => "reliable, spooled".to_owned(),
            4..=6 => format!("fresh for {}", duration::display(Duration::from_secs(5))),
            _ => format!("fresh for {}", duration::display(Duration::from_millis(100))),
        };
        let missing = sent.saturating_sub(delays.len() as u64);
        let (median, p99) = (quantile(delays, 0.5), quantile(delays, 0.99));
        let (name, count) = (severity.name(), delays.len());
        let _ = writeln!(text, "{name:<10} {sent:>7} {count:>8} {missing:>8} {median:>8} {p99:>8}  {treated}");
    }
    text.trim_end().to_owned()
}
