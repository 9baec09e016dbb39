//! Slow start as captures show it, against transfers of the TCP model whose windows are known.

use festina_lab::capture::Capture;
use festina_lab::scenario::{Captured, Stack, ThinStream};
use festina_models::tcp::TcpConfig;
use festina_models::workload::{Replay, Workload};
use festina_trace::analysis::{SlowStart, SlowStartExit};
use festina_trace::{Analyser, Finding, PcapngWriter, analyse};
use festina_units::{ByteCount, Duration, Probability};

/// Returns the analysis of a transfer of `bytes`, captured at the sender.
fn begin(config: TcpConfig, bytes: u64, loss: Probability) -> SlowStart {
    let second = Duration::from_secs(1);
    let size = ByteCount::from_bytes(bytes);
    let replay = Replay::new([(Duration::ZERO, size)]).expect("one write");
    let mut stream = ThinStream::periodic(Stack::tcp(config), second, size, second, Duration::from_millis(100))
        .with_loss(loss, Probability::ZERO);
    stream.workload = Workload::Replay(replay);
    let (_, capture, [sender, _]): (_, Capture, _) = stream.run_and_capture(1);
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
    let interface = writer.add_interface("sender").expect("memory does not fail");
    for (at, packet) in capture.seen_by(sender).expect("short packets") {
        writer.write_packet(interface, at, &packet, None).expect("memory does not fail");
    }
    let file = writer.finish().expect("memory does not fail");
    let mut found = None;
    let (_, result) = analyse(file.as_slice(), Analyser::default(), |finding| {
        if let Finding::Stream(stream) = finding {
            found = Some(stream.slow_start);
        }
    });
    result.expect("a sound capture");
    found.expect("a stream")
}

#[test]
fn transfers_without_loss_take_the_rounds_of_the_closed_form() {
    let config = TcpConfig::linux();
    let window = u64::from(config.initial_window_segments) * u64::from(config.mss_bytes);
    for bytes in [1_000, 14_480, 20_000, 43_440, 60_000, 150_000, 400_000] {
        let found = begin(config, bytes, Probability::ZERO);
        assert_eq!((found.is_whole, found.exit()), (true, SlowStartExit::Ended), "{bytes}");
        assert_eq!(found.initial_window_bytes(), Some(bytes.min(window)), "{bytes}");
        let expected = SlowStart::rounds_of(bytes, window);
        assert_eq!(found.round_bytes.len(), usize::try_from(expected).expect("few"), "{bytes}: {found:?}");
    }
}

#[test]
fn a_loss_ends_slow_start() {
    let found = begin(TcpConfig::linux(), 400_000, Probability::from_percent(10));
    assert_eq!(found.exit(), SlowStartExit::Loss, "{found:?}");
}
