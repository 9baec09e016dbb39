//! `p10-table1`: the analysis of captures of nine applications, compared with their writes (P10 Table 1).

mod row;

use festina_models::tcp::TcpConfig;
use festina_models::workload::{Application, Workload, Write};
use festina_netsim::{Duplex, LinkConfig};
use festina_trace::{Analyser, Finding, StreamReport, analyse};
use festina_units::Instant;

use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Axis, Color, Figure, Marker, PlotPoint, PointSeries, Unit};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::CaptureFlaw;
use crate::scenario::server::{Carrier, ServedFlow, Server, capture_file};
use crate::scoreboard::{Entry, Published};
use crate::summary::{PointSummary, Repeated, Results};
use row::{COLUMNS, Column, Precision, Row};

/// P10's table says "< 1" below this.
const LEAST_MS: f64 = 1.0;
/// Applications whose rates the generator was fitted to, as the table has no other number for their gaps.
const RATES_FITTED: [&str; 2] = ["http", "ftp"];
const BYTES_WRITTEN: &str = "bytes written";
const BYTES_REPORTED: &str = "bytes reported";
/// Connections are open by then.
const STARTS_AT: Instant = Instant::from_secs(2);
/// Octets of a TCP header with timestamps, and of a UDP header.
const TCP_HEADER_BYTES: u64 = 32;
/// IPv4's and Ethernet's headers: §3.2 has packets of 241 bytes on average for a payload of 175, which are 66 in all.
const LINK_HEADER_BYTES: f64 = 34.0;
const LINK_RATE: &str = "bits per second on the link";
const UDP_HEADER_BYTES: u64 = 8;

/// Table 1 of the paper, from captures whose applications are known.
#[derive(Clone, Copy, Debug)]
pub struct P10Table1;

impl Experiment for P10Table1 {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/p10-table1.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let named = application(point.choice("application"));
        let writes = writes(named, point, seed);
        let fault = point.choice("fault");
        let sent = if fault == SWAPPED { self::writes(next(named), point, seed) } else { writes.clone() };
        let is_tcp = point.choice("transport") == "tcp";
        let link = LinkConfig { delay: point.duration("rtt") / 2, ..LinkConfig::default() };
        let server = Server {
            carrier: if is_tcp { Carrier::tcp(TcpConfig::linux()) } else { Carrier::Udp },
            flows: vec![ServedFlow {
                connects_at: Instant::ZERO,
                starts_at: STARTS_AT,
                writes: sent.iter().map(|write| (write.at, write.size)).collect(),
                path: Duplex::symmetric(link),
            }],
        };
        let packets = server.run(seed).at_server;
        let packets = CaptureFlaw::named(fault).map_or(packets.clone(), |flaw| flaw.in_packets(packets));
        let file = capture_file(&packets).expect("memory does not fail");
        let report = report(&file).expect("the server sends data");
        let header_bytes = if is_tcp { TCP_HEADER_BYTES } else { UDP_HEADER_BYTES };
        let (written, reported) = (Row::written(&writes, header_bytes), Row::reported(&report));
        let mut samples = Samples::new();
        for ((column, written), reported) in COLUMNS.iter().zip(written.0).zip(reported.0) {
            samples.set(&column.written(), written);
            samples.set(&column.reported(), reported);
        }
        let [packets, bits] = ["packets per second", "bits per second"].map(|name| {
            let place = COLUMNS.iter().position(|column| column.name == name);
            place.map_or(0.0, |place| reported.0[place])
        });
        samples.set(LINK_RATE, bits + packets * LINK_HEADER_BYTES * 8.0);
        let bytes: u64 = writes.iter().map(|write| write.size.bytes()).sum();
        samples.set(BYTES_WRITTEN, as_f64(bytes));
        let mean = report.traffic.payload_bytes.mean().unwrap_or(0.0);
        samples.set(BYTES_REPORTED, mean * as_f64(report.traffic.payload_bytes.count()));
        samples
    }

    fn scoreboard(&self, results: &Results) -> Vec<Entry> {
        let mut entries = Vec::new();
        for name in NAMES.iter() {
            let of = |transport| results.matching(&[("application", name), ("transport", transport)]).next();
            for column in COLUMNS.iter() {
                // The paper's rates are of whole packets of TCP.
                let (transport, name_of) =
                    if column.is_bit_rate() { ("tcp", LINK_RATE.to_owned()) } else { ("udp", column.reported()) };
                let measured = of(transport).and_then(|point| Estimate::of(point.values().get(&name_of)?));
                entries.extend(entry(name, column, measured));
            }
        }
        entries
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let [mut sizes, mut gaps, mut rates, mut bytes] = [(); 4].map(|()| Evidence::new());
        for summary in results.points() {
            let what = results.plan().label(summary.point());
            if !is_write_per_packet(summary.point()) {
                let [written, reported] = [BYTES_WRITTEN, BYTES_REPORTED].map(|name| value(summary, name));
                bytes.cell(format!("{what}:"), Precision::Exact.agreement(&reported, &written), EVERY);
                continue;
            }
            for column in &COLUMNS {
                let [written, reported] = [column.written(), column.reported()].map(|name| value(summary, &name));
                let evidence = match () {
                    () if column.is_of_sizes() => &mut sizes,
                    () if column.is_of_gaps() => &mut gaps,
                    () => &mut rates,
                };
                let agreement = column.precision.agreement(&reported, &written);
                evidence.cell(format!("{what}, {}:", column.name), agreement, EVERY);
            }
        }
        vec![
            sizes.check("Festina's analysis reports the sizes that were written."),
            gaps.check("Festina's analysis reports the gaps between writes."),
            rates.check("Festina's analysis reports the rates of packets and bits."),
            bytes.check("Festina's analysis reports every byte of a thick stream over TCP."),
        ]
    }

    fn lists_values(&self) -> bool {
        true
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        vec![gaps_figure(results)]
    }
}

/// In every run.
const EVERY: Bound = Bound::Within(1.0, 1.0);

/// Another application's packets.
const SWAPPED: &str = "swapped";

static NAMES: std::sync::LazyLock<Vec<&'static str>> =
    std::sync::LazyLock::new(|| Application::all().iter().map(|application| application.name()).collect());

fn application(name: &str) -> Application {
    *Application::all().iter().find(|it| it.name() == name).expect("a plan can choose only from the names")
}

/// The next in the table, and after the last the first.
fn next(application: Application) -> Application {
    let mut others = Application::all().iter().cycle().skip_while(move |it| **it != application);
    *others.nth(1).expect("a cycle has no end")
}

fn writes(application: Application, point: &Point, seed: u64) -> Vec<Write> {
    let count = usize::try_from(point.count("packets")).unwrap_or(usize::MAX);
    Workload::Application(application).writes(seed, application.name()).take(count).collect()
}

/// Whether each write leaves in a packet of its own.
fn is_write_per_packet(point: &Point) -> bool {
    let is_thick = ["youtube", "http", "ftp"].contains(&point.choice("application"));
    point.choice("transport") == "udp" || !is_thick
}

fn report(file: &[u8]) -> Option<StreamReport> {
    let mut found = None;
    let (_, result) = analyse(file, Analyser::default(), |finding| {
        if let Finding::Stream(stream) = finding {
            found = Some(*stream);
        }
    });
    result.expect("a sound capture");
    found
}

fn value(summary: &PointSummary, name: &str) -> Repeated {
    summary.values().get(name).cloned().unwrap_or_default()
}

/// A number of the paper beside ours; `None` where it has none.
fn entry(name: &str, column: &Column, measured: Option<Estimate>) -> Option<Entry> {
    let published = column.published(application(name))?;
    let what = format!("{}: {name}, {}", column.group(), column.name);
    let entry = match published {
        Published::Inequality(bound) => Entry::inequality(what, column.unit, bound, measured),
        Published::Value(value) | Published::OneRun(value, _) => Entry::value(what, column.unit, value, measured),
    };
    let is_fitted = !column.is_bit_rate() || RATES_FITTED.contains(&name);
    Some(if is_fitted { entry.fitted("the generator was fitted to it") } else { entry })
}

/// Gaps of each application: the paper's, and those that the analysis reports.
fn gaps_figure(results: &Results) -> Figure {
    let names: Vec<&str> = NAMES.clone();
    let short = |name: &&'static str| match *name {
        "anarchy-online" => "AO",
        "world-of-warcraft" => "WoW",
        other => other,
    };
    let labels: Vec<&str> = names.iter().map(short).collect();
    let y = Axis::log("gap between packets", 0.01, 200_000.0, Unit::Milliseconds);
    let mut figure =
        Figure::new(results.plan().title(), &results.plan().conditions(), Axis::categories("", &labels), y);
    for (column, color) in COLUMNS.iter().filter(|it| it.is_of_gaps()).zip([
        Color::Gray,
        Color::Orange,
        Color::Blue,
        Color::Green,
        Color::Pink,
        Color::Vermilion,
    ]) {
        let (mut reported, mut published) = (Vec::new(), Vec::new());
        for (place, name) in (0_u32..).zip(&names) {
            let x = f64::from(place);
            let point = results.matching(&[("application", name), ("transport", "udp")]).next();
            let ours = point.and_then(|point| Estimate::of(point.values().get(&column.reported())?));
            reported.extend(ours.map(|ours| PlotPoint {
                x: x - 0.12,
                y: ours.mean,
                whisker: ours.interval().map(|[low, high]| (low.max(0.01), high)),
            }));
            if let Some(Published::Value(value)) = column.published(application(name)) {
                published.push(PlotPoint { x: x + 0.12, y: value, whisker: None });
            }
        }
        let series = |name: String, marker, points| PointSeries {
            marker,
            color: Some(color),
            is_joined: false,
            ..PointSeries::new(&name, points)
        };
        figure.points.push(series(format!("{} reported", column.name), Marker::Dot, reported));
        figure.points.push(series(format!("{} published", column.name), Marker::Ring, published));
    }
    figure
}

#[cfg(test)]
mod tests {
    use festina_units::{ByteCount, Duration};

    use super::*;
    use crate::plan::{Plan, Scale};

    #[test]
    fn the_row_of_a_few_writes_is_what_it_is_by_hand() {
        let ms = Duration::from_millis;
        let write = |at, bytes| Write { at, size: ByteCount::from_bytes(bytes) };
        let Row(row) = Row::written(&[write(ms(5), 100), write(ms(15), 50), write(ms(45), 60)], 8);
        assert_eq!(row, [70.0, 50.0, 100.0, 20.0, 10.0, 10.0, 30.0, 10.0, 30.0, 50.0, 8.0 * 234.0 / 0.04]);
    }

    #[test]
    fn each_application_is_followed_by_another() {
        let all: Vec<&str> = Application::all().iter().map(|it| next(*it).name()).collect();
        assert_eq!((all[0], all[8]), ("rdp", "casa"));
    }

    #[test]
    fn every_number_of_the_papers_table_stands_beside_one_of_ours() {
        let plan = Plan::own(&P10Table1, Scale::Quick);
        let entries = P10Table1.scoreboard(&Results::new(plan, Vec::new()));
        assert_eq!(entries.len(), 9 * COLUMNS.len());
        let scored = entries.iter().filter(|it| it.standing == crate::scoreboard::Standing::Scored).count();
        assert_eq!(scored, 7, "the bits per second of all applications but two");
    }
}
