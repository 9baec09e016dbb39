//! The loss of streams whose sender also sends copies of outstanding data, against the simulator's truth.

use std::collections::BTreeMap;

use festina_lab::scenario::{Captured, Stack, ThinStream};
use festina_models::tcp::TcpConfig;
use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};
use festina_trace::{Analyser, Finding, PcapngWriter, Protocol, StreamReport, analyse};
use festina_units::{ByteCount, Duration, Probability};

use super::trace_truth::{Packets, chunks};

const MESSAGES: u32 = 4_000;

fn stream(redundancy: Redundancy, interval_ms: u64, loss_percent: u64, back_percent: u64) -> ThinStream {
    let ms = Duration::from_millis;
    let mechanisms = Mechanisms { redundancy, ..Profile::Festina.mechanisms() };
    let (stack, interval) = (Stack::sctp(mechanisms, ms(200)), ms(interval_ms));
    let percent = |share| Probability::from_percent(u32::try_from(share).expect("a share"));
    ThinStream::periodic(stack, interval, ByteCount::from_bytes(100), interval * MESSAGES, ms(100))
        .with_loss(percent(loss_percent), percent(back_percent))
}

/// The sender's capture, and the share of copies of chunks that did not arrive.
fn captured(stream: &ThinStream, seed: u64) -> (Vec<u8>, f64) {
    let (_, capture, [sender, receiver]) = stream.run_and_capture(seed);
    let [at_sender, at_receiver] = [sender, receiver].map(|node| capture.seen_by(node).expect("short packets"));
    let copies = |packets: &Packets| {
        let mut copies: BTreeMap<u32, u32> = BTreeMap::new();
        chunks(packets).for_each(|(_, tsn)| *copies.entry(tsn).or_default() += 1);
        copies
    };
    let (sent, arrived) = (copies(&at_sender), copies(&at_receiver));
    let [sent, arrived] = [sent, arrived].map(|copies| f64::from(copies.values().sum::<u32>()));
    (file(at_sender), 1.0 - arrived / sent)
}

/// A capture of these packets.
pub(super) fn file(packets: Packets) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interface = writer.add_interface("host").expect("memory does not fail");
    for (at, packet) in packets {
        writer.write_packet(interface, at, &packet, None).expect("memory does not fail");
    }
    writer.finish().expect("memory does not fail")
}

fn reported(file: &[u8]) -> StreamReport {
    let mut streams = Vec::new();
    let (_, result) = analyse(file, Analyser::default(), |finding| {
        if let Finding::Stream(stream) = finding {
            streams.push(*stream);
        }
    });
    result.expect("a sound capture");
    streams.swap_remove(0)
}

#[test]
fn the_loss_of_a_stream_with_copies_is_that_of_the_path() {
    let ways = [Redundancy::Off, Redundancy::ADAPTIVE, Redundancy::BUNDLED, Redundancy::SPACED];
    for (index, redundancy) in (0..).zip(ways) {
        for (interval_ms, loss, back) in [(20, 3, 0), (100, 3, 0), (20, 10, 0), (100, 0, 3), (100, 3, 3)] {
            let (file, truth) = captured(&stream(redundancy, interval_ms, loss, back), 100 + index);
            let report = reported(&file);
            let found = report.repair.loss().expect("data was sent");
            let case =
                format!("{redundancy:?}, {interval_ms} ms, {loss} % and {back} % lost: {found:.4}, truth {truth:.4}");
            println!("{case}");
            // Reports of duplicates that are lost look like losses.
            let most_off = if back > 0 { 0.03 } else { 0.004 };
            assert!((found - truth).abs() <= most_off, "{case}: {:?}", report.repair);
        }
    }
}

/// A capture at the receiver lacks every lost copy, and its acknowledgements are captured before the sender sees them.
#[test]
fn a_capture_at_the_receiver_guesses_no_cause_and_shows_the_loss_of_the_path() {
    let (ms, percent) = (Duration::from_millis, Probability::from_percent);
    let delayed = ms(200);
    let copying = Mechanisms { redundancy: Redundancy::ADAPTIVE, ..Profile::Festina.mechanisms() };
    let stacks = [
        ("linux", Stack::tcp(TcpConfig::linux())),
        ("new reno", Stack::tcp(TcpConfig::new_reno())),
        ("rfc9260", Stack::sctp(Profile::Rfc9260.mechanisms(), delayed)),
        ("festina", Stack::sctp(Profile::Festina.mechanisms(), delayed)),
        ("festina with copies", Stack::sctp(copying, delayed)),
    ];
    for (seed, (name, stack)) in (200..).zip(stacks) {
        for interval_ms in [20, 250] {
            let stream = ThinStream::periodic(
                stack.clone(),
                ms(interval_ms),
                ByteCount::from_bytes(100),
                ms(interval_ms) * MESSAGES,
                ms(100),
            )
            .with_loss(percent(5), percent(3));
            let (_, capture, [_, receiver]) = stream.run_and_capture(seed);
            let report = reported(&file(capture.seen_by(receiver).expect("short packets")));
            let repair = &report.repair;
            let [timeouts, fast, probes, bundled, unknown] = repair.by_cause;
            let case = format!("{name}, {interval_ms} ms: loss {:?}, {repair:?}", repair.loss());
            println!("{case}");
            // The acknowledgement of a first copy may be delayed until another one arrives.
            assert!((timeouts + fast + probes) * 500 <= unknown + bundled, "{case}");
            assert!(repair.is_behind_loss() && (bundled == 0 || report.protocol == Protocol::Sctp), "{case}");
            match repair.loss() {
                Some(loss) => assert!((loss - 0.05).abs() <= 0.02 && !name.starts_with("festina"), "{case}"),
                None => assert!(name.starts_with("festina"), "{case}"),
            }
        }
    }
}
