//! The counters of a relay, for people and for Prometheus.

use std::fmt::Write as _;

use crate::delays::Delays;
use serde::{Deserialize, Serialize};

/// Counters of a relay since its start. At any time `received + found` is the sum of all fields after it up to `underway`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaySnapshot {
    /// Lines that came in, by severity, without those that the inputs shed.
    pub received: [u64; 8],
    /// What never became lines here.
    #[serde(flatten)]
    pub before: LostBefore,
    /// Lines found in the spool at the start.
    pub found: u64,
    /// Lines that the collector has on disk.
    pub delivered: u64,
    /// Lines that a rule drops.
    pub dropped: u64,
    /// Fresh lines that were abandoned: too old, too often repeated, or the association ended first.
    pub abandoned: u64,
    /// Lines shed because spool or memory were full or the collector could not be reached.
    pub shed: u64,
    /// Lines that were damaged in the spool.
    pub lost: u64,
    /// Reliable lines that wait for the collector's acknowledgement.
    pub spooled: u64,
    /// Fresh lines on their way.
    pub underway: u64,
    /// Those of `spooled` that are in memory alone because the disk fails.
    #[serde(default)]
    pub in_memory: u64,
    /// Bytes of the spool on disk.
    pub spool_bytes: u64,
    /// The ways to collectors.
    #[serde(flatten)]
    pub paths: Paths,
    /// Reads and writes of the spool that failed.
    pub disk_errors: u64,
    /// Delays of reliable lines from their receipt until the collector's acknowledgement, by severity.
    #[serde(default)]
    pub delays: [Delays; 8],
}

/// Data received by the machine that never passed the relay's inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostBefore {
    /// Lines dropped at the inputs: not taken in time, or beyond the rate limit of a source.
    pub shed_at_input: u64,
    /// Datagrams that the kernel dropped before a UDP input could read them: its buffer was full.
    #[serde(default)]
    pub lost_in_kernel: u64,
    /// Connections that were closed because their octet counting was wrong: the data after it were lost.
    #[serde(default)]
    pub framing_errors: u64,
    /// Connections refused because the maximum number was open.
    #[serde(default)]
    pub refused_connections: u64,
    /// Failures to accept connections, which wait for the next attempt.
    #[serde(default)]
    pub accept_errors: u64,
    /// Times that a followed file was truncated, rewritten or removed, and no copy of it was found: lines that had not been read are lost.
    #[serde(default)]
    pub file_losses: u64,
}

/// The ways from a relay to its collectors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// Whether a collector answers.
    pub connected: bool,
    /// Smoothed round-trip time in microseconds, to the first that answers.
    pub rtt_us: u64,
    /// Each of them, in the order of the file.
    #[serde(default)]
    pub collectors: Vec<CollectorStanding>,
}

/// How it stands with one collector of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorStanding {
    /// Its address.
    pub address: String,
    /// Whether it answers.
    pub connected: bool,
    /// Whether it was away long enough for others to take its place, and is not back yet for as long a while.
    pub gone: bool,
    /// Lines that it has on disk. A line that two collectors have counts for the one that acknowledged first.
    pub delivered: u64,
    /// Reliable lines in the relay's memory that it may have and has not acknowledged.
    pub unanswered: u64,
    /// Smoothed round-trip time in microseconds; 0 if it does not answer.
    pub rtt_us: u64,
}

impl RelaySnapshot {
    /// Whether every line is accounted for.
    pub fn adds_up(&self) -> bool {
        let came: u64 = self.received.iter().sum::<u64>() + self.found;
        came == self.delivered + self.dropped + self.abandoned + self.shed + self.lost + self.spooled + self.underway
    }

    /// The counters as Prometheus reads them (text format 0.0.4).
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        put_severities(&mut text, "festina_syslog_received_lines_total", &self.received);
        for (name, value) in [
            ("shed_at_input_lines_total", self.before.shed_at_input),
            ("lost_in_kernel_datagrams_total", self.before.lost_in_kernel),
            ("framing_errors_total", self.before.framing_errors),
            ("refused_connections_total", self.before.refused_connections),
            ("accept_errors_total", self.before.accept_errors),
            ("file_losses_total", self.before.file_losses),
            ("found_lines_total", self.found),
            ("delivered_lines_total", self.delivered),
            ("dropped_lines_total", self.dropped),
            ("abandoned_lines_total", self.abandoned),
            ("shed_lines_total", self.shed),
            ("lost_lines_total", self.lost),
            ("spooled_lines", self.spooled),
            ("underway_lines", self.underway),
            ("in_memory_lines", self.in_memory),
            ("spool_bytes", self.spool_bytes),
            ("connected", u64::from(self.paths.connected)),
            ("round_trip_microseconds", self.paths.rtt_us),
            ("disk_errors_total", self.disk_errors),
        ] {
            put(&mut text, &format!("festina_syslog_{name}"), value);
        }
        self.paths.put(&mut text);
        let name = "festina_syslog_delivery_seconds";
        let _ = writeln!(text, "# TYPE {name} histogram");
        for (number, delays) in (0..8).zip(&self.delays) {
            delays.put(&mut text, name, &format!("severity=\"{}\"", crate::line::Severity::new(number)));
        }
        text
    }
}

impl Paths {
    /// One line for each collector.
    fn put(&self, text: &mut String) {
        let mut put_all = |name: &str, value: &dyn Fn(&CollectorStanding) -> u64| {
            let name = format!("festina_syslog_to_collector_{name}");
            let _ = writeln!(text, "# TYPE {name} {}", kind_of(&name));
            for one in &self.collectors {
                // An address has no characters that would have to be escaped.
                let _ = writeln!(text, "{name}{{collector=\"{}\"}} {}", one.address, value(one));
            }
        };
        put_all("connected", &|one| u64::from(one.connected));
        put_all("gone", &|one| u64::from(one.gone));
        put_all("delivered_lines_total", &|one| one.delivered);
        put_all("unanswered_lines", &|one| one.unanswered);
        put_all("round_trip_microseconds", &|one| one.rtt_us);
    }
}

/// Counters of a collector since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorSnapshot {
    /// Reliable lines written, by severity.
    pub reliable: [u64; 8],
    /// Fresh lines written, by severity.
    pub fresh: [u64; 8],
    /// Reliable lines that came again and were not written again.
    pub duplicates: u64,
    /// Lines that Kafka has taken.
    #[serde(default)]
    pub brokered: u64,
    /// Of those, lines that were cut because they were too long for it.
    #[serde(default)]
    pub brokered_cut: u64,
    /// Times that lines were made to survive a crash.
    pub commits: u64,
    /// Lines that are in an overflow file because the address of their relay would have made too many files.
    #[serde(default)]
    pub overflowed: u64,
    /// Associations that were not welcomed because another copy of the relay's spool is in use.
    #[serde(default)]
    pub refused_copies: u64,
    /// Rotated files that were compressed.
    #[serde(default)]
    pub compressed: u64,
    /// Attempts to compress one that failed. They are repeated.
    #[serde(default)]
    pub compress_failures: u64,
    /// Relays that are connected.
    pub relays: u64,
    /// Committed lines that outputs of kind `forward` and `stdout` did not get, because too many waited for them.
    #[serde(default)]
    pub not_passed_on: u64,
    /// Times that files could not be written and the collector began again.
    pub failures: u64,
    /// Associations that were turned away or that are watched.
    #[serde(default)]
    pub strangers: StrangerCounts,
}

/// Associations of a collector that may be of strangers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrangerCounts {
    /// Packets of handshakes from addresses that are not allowed.
    pub not_allowed: u64,
    /// Associations that have said nothing so far.
    pub silent: u64,
    /// Associations that were ended because they said nothing for too long.
    pub silent_ended: u64,
    /// Associations without lines that were ended to make room for another of the same address.
    pub replaced: u64,
    /// Associations refused because their address had the maximum number.
    pub full: u64,
    /// Associations that were ended because of their messages.
    pub refused: u64,
    /// Those among them of relays that were not remembered because there are too many.
    pub new_relays_refused: u64,
}

impl CollectorSnapshot {
    /// The counters as Prometheus reads them (text format 0.0.4).
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        put_severities(&mut text, "festina_syslog_collector_reliable_lines_total", &self.reliable);
        put_severities(&mut text, "festina_syslog_collector_fresh_lines_total", &self.fresh);
        for (name, value) in [
            ("duplicate_lines_total", self.duplicates),
            ("kafka_lines_total", self.brokered),
            ("kafka_cut_lines_total", self.brokered_cut),
            ("commits_total", self.commits),
            ("overflow_lines_total", self.overflowed),
            ("refused_copies_total", self.refused_copies),
            ("compressed_files_total", self.compressed),
            ("compress_failures_total", self.compress_failures),
            ("relays", self.relays),
            ("not_passed_on_lines_total", self.not_passed_on),
            ("failures_total", self.failures),
            ("not_allowed_packets_total", self.strangers.not_allowed),
            ("silent_associations", self.strangers.silent),
            ("silent_associations_ended_total", self.strangers.silent_ended),
            ("associations_replaced_total", self.strangers.replaced),
            ("associations_refused_total", self.strangers.full),
            ("message_refusals_total", self.strangers.refused),
            ("new_relay_refusals_total", self.strangers.new_relays_refused),
        ] {
            put(&mut text, &format!("festina_syslog_collector_{name}"), value);
        }
        text
    }
}

fn kind_of(name: &str) -> &'static str {
    if name.ends_with("_total") { "counter" } else { "gauge" }
}

fn put(text: &mut String, name: &str, value: u64) {
    let _ = writeln!(text, "# TYPE {name} {}\n{name} {value}", kind_of(name));
}

fn put_severities(text: &mut String, name: &str, values: &[u64; 8]) {
    let _ = writeln!(text, "# TYPE {name} counter");
    for (number, value) in (0..8).zip(values) {
        let _ = writeln!(text, "{name}{{severity=\"{}\"}} {value}", crate::line::Severity::new(number));
    }
}
