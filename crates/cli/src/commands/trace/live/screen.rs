//! What a look at an interface shows: the streams with the longest delays of late.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use festina_trace::analysis::{Summary, Write};
use festina_trace::{Analyser, LiveStream, StreamReport};

use super::super::table::{COLUMNS, ENDS, ends, ms, percent, short};

/// What happened since the last look, by stream. As large as the streams are many that are alive or ended meanwhile.
#[derive(Default)]
pub(super) struct Watch {
    recent: HashMap<u64, Recent>,
    packets_before: HashMap<u64, u64>,
}

/// Writes that were acknowledged since the last look.
#[derive(Clone, Copy, Default)]
struct Recent {
    writes: u64,
    max_ns: u64,
}

/// A row.
struct Row {
    report: StreamReport,
    recent: Recent,
    packets_per_s: f64,
}

/// The contents of one table.
pub(super) struct Look {
    rows: Vec<Row>,
    pub(super) alive: usize,
}

impl Watch {
    /// A write was acknowledged.
    pub(super) fn write(&mut self, write: &Write) {
        let recent = self.recent.entry(write.stream).or_default();
        recent.writes += 1;
        recent.max_ns = recent.max_ns.max(u64::try_from(write.delay().as_nanos()).unwrap_or(u64::MAX));
    }

    /// A look at all streams, `since` so long after the one before: the `top` ones with the longest delay since then, or the most packets.
    pub(super) fn look(&mut self, analyser: &Analyser, since: Duration, top: usize) -> Look {
        let recent = std::mem::take(&mut self.recent);
        let before = std::mem::take(&mut self.packets_before);
        let mut streams: Vec<(LiveStream<'_>, Recent, u64)> = analyser
            .alive()
            .map(|stream| {
                let report = stream.report();
                let packets = report.traffic.payload_bytes.count();
                self.packets_before.insert(report.id, packets);
                let new = packets - before.get(&report.id).copied().unwrap_or(0);
                (stream, recent.get(&report.id).copied().unwrap_or_default(), new)
            })
            .collect();
        let alive = streams.len();
        streams.sort_by_key(|(stream, recent, packets)| {
            let worst = stream.report().delays.best_known_ns().max();
            (std::cmp::Reverse((recent.max_ns, *packets, worst)), stream.report().id)
        });
        let row = |(stream, recent, packets): &(LiveStream<'_>, Recent, u64)| Row {
            report: StreamReport { rtt_ns: stream.rtt_ns().clone(), ..stream.report().clone() },
            recent: *recent,
            packets_per_s: *packets as f64 / since.as_secs_f64(),
        };
        Look { rows: streams.iter().take(top).map(row).collect(), alive }
    }
}

impl Look {
    /// A table of 80 columns.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{:<ENDS$} {:>6} {:>5} {:>6} {:>6} {:>7} {:>7}",
            "stream, longest delay now first", "pkt/s", "thin", "RTT ms", "loss", "now ms", "max ms"
        );
        for Row { report, recent, packets_per_s } in &self.rows {
            let now = if recent.writes == 0 { String::new() } else { ms(Some(recent.max_ns)) };
            let _ = write!(
                text,
                "\n{:<ENDS$} {:>6} {:>5} {:>6} {:>6} {now:>7} {:>7}",
                ends(report, ENDS),
                short(*packets_per_s),
                report.thinness.share_thin().map_or(String::new(), |share| format!("{:.0} %", 100.0 * share)),
                ms(report.rtt_ns.min()),
                report.repair.loss().map_or(String::new(), percent),
                ms(report.delays.best_known_ns().max()),
            );
        }
        if self.rows.is_empty() {
            text += "\nno stream carries data";
        }
        text + "\n"
    }

    /// A line of JSON for the interval, and one for each stream: the new fields and all columns, which `columns` writes.
    pub(super) fn json_lines(
        &self,
        summary: &Summary,
        dropped: u64,
        columns: impl Fn(&StreamReport) -> String,
    ) -> Vec<String> {
        let mut lines = vec![summary_line(summary, dropped)];
        lines.extend(self.rows.iter().map(|Row { report, recent, packets_per_s }| {
            let recent_max =
                if recent.writes == 0 { "null".to_owned() } else { format!("{:.6}", recent.max_ns as f64 / 1e6) };
            let rest = columns(report);
            format!(
                "{{\"now_packets_per_s\":{packets_per_s:.3},\"now_writes\":{},\"now_delay_max_ms\":{recent_max},{}",
                recent.writes,
                rest.strip_prefix('{').unwrap_or(&rest)
            )
        }));
        lines
    }
}

/// The summary so far, as a line of JSON.
pub(super) fn summary_line(summary: &Summary, dropped: u64) -> String {
    serde_json::json!({
        "packets": summary.packets,
        "packets_dropped_by_kernel": dropped,
        "streams": summary.streams,
        "conversations": summary.conversations,
        "conversations_retired": summary.conversations_retired,
    })
    .to_string()
}

const _: () = assert!(ENDS + 1 + 6 + 1 + 5 + 1 + 6 + 1 + 6 + 1 + 7 + 1 + 7 <= COLUMNS);

#[cfg(test)]
mod tests {
    use festina_trace::analysis::columns::json_line;
    use festina_trace::{AnalyserOptions, Finding, PacketReader, PcapngWriter, TcpSegment, encapsulate_tcp};
    use festina_units::Instant;

    use super::*;

    /// Two streams write once; the first is acknowledged after 30 ms, the second after 10.
    fn watched() -> (Watch, Analyser) {
        let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
        let only = writer.add_interface("only").expect("written");
        for (at_ms, port, is_data) in [(0, 1, true), (1, 2, true), (11, 2, false), (30, 1, false)] {
            let (client, server) = (([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into());
            let segment = TcpSegment { sequence: 1, ack: Some(1), payload: &[0; 9], ..TcpSegment::default() };
            let packet = match is_data {
                true => encapsulate_tcp(client, server, &segment),
                false => encapsulate_tcp(server, client, &TcpSegment { ack: Some(10), payload: &[], ..segment }),
            };
            writer.write_packet(only, Instant::from_millis(at_ms), &packet.expect("short"), None).expect("written");
        }
        let file = writer.finish().expect("memory does not fail");
        let mut reader = PacketReader::new(file.as_slice()).expect("a capture");
        let mut analyser = Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() });
        let mut watch = Watch::default();
        while let Some(packet) = reader.next_packet().expect("sound") {
            analyser.handle_packet(&packet);
            while let Some(finding) = analyser.poll_finding() {
                if let Finding::Write(write) = finding {
                    watch.write(&write);
                }
            }
        }
        (watch, analyser)
    }

    #[test]
    fn the_longest_delay_since_the_last_look_comes_first_and_is_forgotten_then() {
        let (mut watch, analyser) = watched();
        let look = watch.look(&analyser, Duration::from_secs(2), 10);
        let rows: Vec<Vec<String>> =
            look.text().lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
        assert_eq!((look.alive, rows.len()), (2, 2));
        assert_eq!((rows[0][0].as_str(), rows[0][3].as_str()), ("10.0.0.1:1", "0.50"));
        assert_eq!((rows[0][rows[0].len() - 2].as_str(), rows[1][0].as_str()), ("30.0", "10.0.0.1:2"));
        assert!(look.text().lines().all(|line| line.chars().count() <= COLUMNS));
        let again = watch.look(&analyser, Duration::from_secs(2), 1);
        assert_eq!((again.alive, again.rows.len(), again.rows[0].recent.writes), (2, 1, 0));
        assert!(again.text().contains("0.00"), "no packet came meanwhile: {}", again.text());
    }

    #[test]
    fn programs_get_an_object_for_the_look_and_one_for_each_stream() {
        let (mut watch, analyser) = watched();
        let look = watch.look(&analyser, Duration::from_secs(1), 1);
        let lines: Vec<serde_json::Value> = look
            .json_lines(&analyser.summary(), 7, json_line)
            .iter()
            .map(|line| serde_json::from_str(line).expect("an object"))
            .collect();
        assert_eq!(
            (lines.len(), &lines[0]["packets"], &lines[0]["packets_dropped_by_kernel"]),
            (2, &4.into(), &7.into())
        );
        assert_eq!((&lines[1]["now_writes"], &lines[1]["source_port"]), (&1.into(), &1.into()));
        assert_eq!(lines[1]["now_delay_max_ms"], 30.0);
    }
}
