//! `what-if` against the simulator, whose truth is known, and against the capture that ships with the documents, which the kernel's TCP made.

use std::fs::File;
use std::path::Path;

use festina_lab::scenario::{Captured, Stack, ThinStream};
use festina_lab::traces::{FESTINA, ThinFlow, ThinFlows, WhatIf};
use festina_models::statistics::DelayStatistics;
use festina_models::tcp::TcpConfig;
use festina_netsim::{LinkConfig, LossModel};
use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};
use festina_trace::{Analyser, AnalyserOptions, analyse};

use festina_units::{ByteCount, Duration, Probability};

use super::trace_loss::file;

const STREAMS: u64 = 24;

fn thin(stack: Stack) -> ThinStream {
    let ms = Duration::from_millis;
    ThinStream::periodic(stack, ms(250), ByteCount::from_bytes(100), Duration::from_secs(300), ms(100))
        .with_loss(Probability::from_percent(5), Probability::from_percent(3))
}

fn analysed(source: impl std::io::Read) -> Vec<ThinFlow> {
    let analyser = Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() });
    let mut flows = ThinFlows::default();
    let (_, result) = analyse(source, analyser, |finding| flows.take(finding));
    result.expect("a sound capture");
    flows.finish()
}

/// What the senders of all streams captured, one capture after the other.
fn captured(stream: &ThinStream) -> Vec<ThinFlow> {
    (0..STREAMS).flat_map(|seed| captured_once(stream, 7_000 + seed)).collect()
}

fn captured_once(stream: &ThinStream, seed: u64) -> Vec<ThinFlow> {
    let (_, capture, [sender, _]) = stream.run_and_capture(seed);
    analysed(file(capture.seen_by(sender).expect("short packets")).as_slice())
}

fn delays(stream: &ThinStream) -> DelayStatistics {
    let mut delays = DelayStatistics::new();
    for seed in 0..2 * STREAMS {
        for message in &stream.run(9_000 + seed).record.truth().messages {
            delays.record(message.delay().expect("delivered"));
        }
    }
    delays
}

fn p99_ms(delays: &DelayStatistics) -> f64 {
    delays.quantile(0.99).expect("there are delays").as_secs_f64() * 1e3
}

fn assert_within(what: &str, found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{what}: {found} instead of {expected}");
}

#[test]
fn of_flows_whose_truth_is_known_path_baseline_and_prediction_are_right() {
    let stream = thin(Stack::tcp(TcpConfig::linux()));
    let answer = WhatIf::of(captured(&stream), 1).expect("there are thin flows");
    assert_eq!((answer.flows, answer.burst, answer.present.name), (STREAMS, None, "TCP, Linux"));
    assert_within("round trip", answer.rtt[1].as_secs_f64(), 0.1, 0.01);
    assert_within("loss there", answer.loss[0], 0.05, 0.1);
    assert_within("loss back", answer.loss[1], 0.03, 0.3);
    assert!(answer.agreements[0].deviation(99.0).is_some_and(|share| share.abs() <= 0.1));
    assert_within("baseline", p99_ms(&answer.present.delays), p99_ms(&delays(&stream)), 0.1);
    let festina = thin(Stack::sctp(Profile::Festina.mechanisms(), Duration::from_millis(200)));
    let predicted = answer.rows().find(|fate| fate.name == FESTINA).expect("it is always there");
    assert_within("festina", p99_ms(&predicted.delays), p99_ms(&delays(&festina)), 0.1);
}

#[test]
fn bursts_of_losses_are_noticed() {
    let mut stream = thin(Stack::tcp(TcpConfig::linux()));
    let channel = festina_netsim::GilbertElliott::bursts(Probability::from_percent(5), Duration::from_millis(400));
    let link =
        LinkConfig { loss: LossModel::GilbertElliott(channel.expect("5 % in bursts")), ..stream.forward.clone() };
    (stream.forward, stream.backward) = (link.clone(), link);
    let answer = WhatIf::of(captured(&stream), 1).expect("there are thin flows");
    let burst = answer.burst.expect("they come in bursts").as_millis();
    assert!((250..=600).contains(&burst), "{burst} ms");
    assert!(answer.agreements[0].is_close(), "{:?}", answer.agreements[0].deviation(99.0));
}

#[test]
fn of_the_capture_that_linux_made_the_simulated_baseline_shows_the_same_delays() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/captures/thin.pcapng.gz");
    let answer = WhatIf::of(analysed(File::open(path).expect("it ships with the documents")), 1);
    let answer = answer.expect("there are thin flows");
    assert_within("round trip", answer.rtt[1].as_secs_f64(), 0.05, 0.02);
    let agreement = &answer.agreements[0];
    assert!(agreement.deviation(50.0).is_some_and(|share| share.abs() <= 0.02), "{:?}", agreement.deviation(50.0));
    assert!(agreement.is_close(), "{:?} {:?}", agreement.deviation(99.0), agreement.capture_p99);
    // The device lost 5 % each way; of 2,000 writes 100 give or take 20 are lost.
    assert!(answer.loss.iter().all(|loss| (0.03..=0.07).contains(loss)), "{:?}", answer.loss);
}

/// Copies answer no loss, and their acknowledgements are no missing ones.
#[test]
fn of_flows_with_copies_the_losses_are_those_of_the_path() {
    let ms = Duration::from_millis;
    for (redundancy, interval) in [(Redundancy::ADAPTIVE, 60), (Redundancy::ADAPTIVE_SPACED, 250)] {
        let mechanisms = Mechanisms { redundancy, ..Profile::Festina.mechanisms() };
        let (stack, size) = (Stack::sctp(mechanisms, ms(200)), ByteCount::from_bytes(100));
        let loss = Probability::from_percent(2);
        let stream =
            ThinStream::periodic(stack, ms(interval), size, ms(interval) * 1_200, ms(100)).with_loss(loss, loss);
        let flows = (0..6).flat_map(|seed| captured_once(&stream, seed)).collect();
        let answer = WhatIf::of(flows, 1).expect("there are thin flows");
        let tcp = answer.rows().find(|fate| fate.name == "TCP, Linux").expect("it is always there");
        let (loss, tcp_ms, present) = (answer.loss, p99_ms(&tcp.delays), answer.present.name);
        let case = format!("{redundancy:?} every {interval} ms: {loss:?}, {present}, TCP {tcp_ms} ms");
        println!("{case}");
        assert!(loss.iter().all(|loss| (0.014..=0.033).contains(loss)) && tcp_ms < 1_000.0, "{case}");
        assert_eq!(present == FESTINA, redundancy == Redundancy::ADAPTIVE, "{case}");
    }
}

#[test]
fn of_flows_without_losses_nothing_can_be_gained() {
    let mut stream = thin(Stack::tcp(TcpConfig::linux()));
    for link in [&mut stream.forward, &mut stream.backward] {
        link.loss = LossModel::None;
    }
    let answer = WhatIf::of(captured_once(&stream, 1), 1).expect("there is a thin flow");
    assert_eq!(answer.loss, [0.0; 2]);
    assert_eq!(answer.sentence(), "Nothing was lost, so another transport has nothing to gain.");
}

#[test]
fn flows_captured_at_their_receiver_are_left_out() {
    let (_, capture, [_, receiver]) = thin(Stack::tcp(TcpConfig::linux())).run_and_capture(1);
    let flows = analysed(file(capture.seen_by(receiver).expect("short packets")).as_slice());
    assert!(flows.is_empty(), "{}", flows.len());
}
