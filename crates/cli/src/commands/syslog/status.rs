//! `festina syslog status`: the counters of a relay or a collector.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_syslog::delays::Delays;
use festina_syslog::line::Severity;
use festina_syslog::serve;
use festina_syslog::snapshot::{CollectorSnapshot, CollectorStanding, RelaySnapshot};

use festina_units::duration;

use crate::address::{self, HostPort};
use crate::output;

/// The port of the counters in the templates of configurations.
const METRICS_PORT: u16 = 9601;

/// The arguments of `festina syslog status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Address of the counters: `metrics` in the configuration
    #[arg(default_value = "127.0.0.1:9601", value_name = "HOST:PORT", value_parser = address::peer_at(METRICS_PORT))]
    address: HostPort,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Fetches the counters and prints them.
pub(super) async fn run(arguments: &StatusArgs) -> Result<()> {
    let addresses = arguments.address.resolve_all().await?;
    let ask = |address| async move { Ok(serve::ask_status(address).await?) };
    let answer = address::race(&addresses, ask).await;
    let answer = answer.with_context(|| format!("cannot ask {}: is \"metrics\" set there?", arguments.address))?;
    if arguments.json {
        return output::print(&answer);
    }
    if let Ok(relay) = serde_json::from_str::<RelaySnapshot>(&answer) {
        return output::print(&relay_table(&relay));
    }
    let collector: CollectorSnapshot =
        serde_json::from_str(&answer).context("the answer is of another version of this command")?;
    output::print(&collector_table(&collector))
}

fn by_severity(text: &mut String, name: &str, counts: &[u64; 8]) {
    let _ = writeln!(text, "{name:<12} {:>12}", counts.iter().sum::<u64>());
    for (number, count) in (0..8).zip(counts).filter(|(_, count)| **count > 0) {
        let _ = writeln!(text, "  {:<10} {count:>12}", Severity::new(number));
    }
}

fn relay_table(relay: &RelaySnapshot) -> String {
    let mut text = String::new();
    by_severity(&mut text, "received", &relay.received);
    for (name, count) in [
        ("found", relay.found),
        ("delivered", relay.delivered),
        ("dropped", relay.dropped),
        ("abandoned", relay.abandoned),
        ("shed", relay.shed),
        ("lost", relay.lost),
        ("spooled", relay.spooled),
        ("under way", relay.underway),
        ("in memory", relay.in_memory),
        ("shed at in.", relay.before.shed_at_input),
        ("kernel lost", relay.before.lost_in_kernel),
        ("bad framing", relay.before.framing_errors),
        ("refused", relay.before.refused_connections),
        ("file losses", relay.before.file_losses),
    ] {
        let _ = writeln!(text, "{name:<12} {count:>12}");
    }
    put_delays(&mut text, &relay.delays);
    put_collectors(&mut text, &relay.paths.collectors);
    let connected = if relay.paths.connected { "connected" } else { "not connected" };
    let (rtt_us, spool) = (relay.paths.rtt_us, relay.spool_bytes);
    let _ = write!(text, "{connected}, round trip {rtt_us} us, spool {spool} bytes, disk errors {}", relay.disk_errors);
    text
}

/// How it stands with each collector, if there are several.
fn put_collectors(text: &mut String, collectors: &[CollectorStanding]) {
    if collectors.len() < 2 {
        return;
    }
    let _ =
        writeln!(text, "{:<30} {:>10} {:>12} {:>12} {:>14}", "collector", "", "delivered", "unanswered", "round trip");
    for CollectorStanding { address, connected, gone, delivered, unanswered, rtt_us } in collectors {
        let state = match (connected, gone) {
            (true, false) => "connected",
            (true, true) => "returning",
            (false, false) => "away",
            (false, true) => "gone",
        };
        let _ = writeln!(
            text,
            "  {address:<28} {state:>10} {delivered:>12} {unanswered:>12} {:>14}",
            format!("{rtt_us} us")
        );
    }
}

/// How long reliable lines took, as far as the classes of the counters say.
fn put_delays(text: &mut String, delays: &[Delays; 8]) {
    let bound = |delays: &Delays, percent| match delays.percentile_us(percent) {
        Some(us) => format!("<= {}", duration::display(Duration::from_micros(us))),
        None => "> 60s".to_owned(),
    };
    if delays.iter().any(|delays| delays.lines() > 0) {
        let _ = writeln!(text, "{:<12} {:>12} {:>10} {:>10}", "delays of", "delivered", "p50", "p99");
    }
    for (number, delays) in (0..8).zip(delays).filter(|(_, delays)| delays.lines() > 0) {
        let (p50, p99) = (bound(delays, 50), bound(delays, 99));
        let _ = writeln!(text, "  {:<10} {:>12} {p50:>10} {p99:>10}", Severity::new(number), delays.lines());
    }
}

fn collector_table(collector: &CollectorSnapshot) -> String {
    let mut text = String::new();
    by_severity(&mut text, "reliable", &collector.reliable);
    by_severity(&mut text, "fresh", &collector.fresh);
    let _ = writeln!(text, "{:<12} {:>12}", "duplicates", collector.duplicates);
    if collector.brokered > 0 {
        let _ = writeln!(text, "{:<12} {:>12}", "to Kafka", collector.brokered);
    }
    let strangers = &collector.strangers;
    for (name, count) in [
        ("not allowed", strangers.not_allowed),
        ("silent", strangers.silent),
        ("silent ended", strangers.silent_ended),
        ("replaced", strangers.replaced),
        ("too many", strangers.full),
        ("refused", strangers.refused),
        ("new relays", strangers.new_relays_refused),
        ("copies", collector.refused_copies),
        ("overflow", collector.overflowed),
        ("not passed", collector.not_passed_on),
    ] {
        let _ = writeln!(text, "{name:<12} {count:>12}");
    }
    let _ = write!(text, "{} relays, {} commits, {} failures", collector.relays, collector.commits, collector.failures);
    text
}
