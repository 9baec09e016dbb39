use festina_units::{Bandwidth, Instant};

use super::*;

const SAMPLES: usize = 1_000_000;

fn bytes(bytes: u64) -> ByteCount {
    ByteCount::from_bytes(bytes)
}

/// The gaps in microseconds and the sizes in bytes of a million writes, each sorted.
fn sorted_gaps_and_sizes(workload: &Workload) -> (Vec<u64>, Vec<u64>) {
    let mut previous = Duration::ZERO;
    let (mut gaps, mut sizes) = (Vec::with_capacity(SAMPLES), Vec::with_capacity(SAMPLES));
    for write in workload.writes(7, "test").take(SAMPLES) {
        gaps.push(u64::try_from((write.at - previous).as_micros()).expect("gaps are short"));
        sizes.push(write.size.bytes());
        previous = write.at;
    }
    gaps.sort_unstable();
    sizes.sort_unstable();
    (gaps, sizes)
}

fn mean(samples: &[u64]) -> u64 {
    samples.iter().sum::<u64>() / samples.len() as u64
}

/// Asserts that a value is within this many per cent of the published one, or below a millisecond if that is all that is published.
fn assert_near(what: &str, got: u64, published: Option<u64>, percent: u64) {
    match published {
        Some(published) => assert!(got.abs_diff(published) * 100 <= published * percent, "{what}: {got}, {published}"),
        None => assert!(got < 1_000, "{what}: {got} us is not below a millisecond"),
    }
}

#[test]
fn applications_meet_the_published_statistics_of_their_gaps() {
    for &application in Application::all() {
        let published = application.published();
        let (gaps, _) = sorted_gaps_and_sizes(&Workload::Application(application));
        let quantile = |permille: usize| gaps[SAMPLES / 1_000 * permille];
        let of = |what: &str| format!("{} {what}", application.name());
        assert_near(&of("mean"), mean(&gaps), published.mean_us, 5);
        assert_near(&of("median"), quantile(500), published.median_us, 2);
        assert_near(&of("1 %"), quantile(10), published.p1_us, 5);
        assert_near(&of("99 %"), quantile(990), published.p99_us, 5);
        assert_near(&of("minimum"), gaps[0], published.min_us, 1);
        assert_near(&of("maximum"), gaps[SAMPLES - 1], published.max_us, 3);
    }
}

#[test]
fn applications_meet_the_published_statistics_of_their_payloads() {
    for &application in Application::all() {
        let [payload_mean, min, max] = application.published().payload_bytes;
        let (_, sizes) = sorted_gaps_and_sizes(&Workload::Application(application));
        let name = application.name();
        assert_near(name, mean(&sizes), Some(payload_mean), 5);
        assert_eq!(sizes[0], min, "{name}");
        assert!(sizes[SAMPLES - 1] <= max && sizes[SAMPLES - 1] * 100 >= max * 99, "{name}: {}", sizes[SAMPLES - 1]);
    }
}

#[test]
fn thick_downloads_run_at_the_published_bit_rate() {
    for (application, published_bits_per_second) in [(Application::Http, 14_000_000), (Application::Ftp, 82_000_000)] {
        let writes: Vec<Write> = Workload::Application(application).writes(7, "test").take(SAMPLES).collect();
        let bits: u64 = writes.iter().map(|write| write.size.bytes() * 8).sum();
        let time_us = u64::try_from(writes[SAMPLES - 1].at.as_micros()).expect("less than an hour");
        assert_near(application.name(), bits * 1_000 / time_us * 1_000, Some(published_bits_per_second), 5);
    }
}

#[test]
fn web_clients_meet_the_published_size_and_gap() {
    let (gaps, sizes) = sorted_gaps_and_sizes(&Workload::Web(Web::default()));
    assert_near("gap", mean(&gaps), Some(655_000), 1);
    assert_near("size", mean(&sizes), Some(9_200), 5);
    assert_near("median size", sizes[SAMPLES / 2], Some(1_927), 1);
    assert_eq!(sizes[0], 1_000);
    assert!(sizes[SAMPLES - 1] <= 64_000_000 && sizes[SAMPLES - 1] > 10_000_000, "{}", sizes[SAMPLES - 1]);
}

#[test]
fn poisson_gaps_have_the_mean_and_the_median_of_the_exponential_distribution() {
    let poisson = Poisson { interval_mean: Duration::from_millis(100), size: bytes(72), size_deviation: bytes(0) };
    let (gaps, sizes) = sorted_gaps_and_sizes(&Workload::Poisson(poisson));
    assert_near("mean", mean(&gaps), Some(100_000), 1);
    assert_near("median", gaps[SAMPLES / 2], Some(69_315), 1);
    assert_eq!((sizes[0], sizes[SAMPLES - 1]), (72, 72));
}

#[test]
fn bursts_write_for_their_share_of_the_time() {
    let on_off = OnOff {
        on_mean: Duration::from_millis(100),
        off_mean: Duration::from_millis(300),
        interval: Duration::from_millis(10),
        size: bytes(500),
    };
    let (gaps, _) = sorted_gaps_and_sizes(&Workload::OnOff(on_off));
    assert_near("mean gap", mean(&gaps), Some(40_000), 2);
    assert_eq!(gaps[SAMPLES / 2], 10_000, "most writes follow another of the same burst");
    assert_eq!(gaps[0], 10_000);
    // A gap spans the end of a burst with probability 1 - exp(-0.1).
    let within = gaps.partition_point(|&gap| gap <= 10_001);
    assert_near("share within bursts", within as u64, Some(904_837), 1);
}

#[test]
fn periodic_writes_and_constant_bit_rates_do_not_drift() {
    let periodic = Workload::Periodic(Periodic { interval: Duration::from_millis(250), size: bytes(100) });
    let last = periodic.writes(1, "a").nth(4_000_000).expect("no end");
    assert_eq!(last.at, Duration::from_secs(1_000_000));
    let cbr = Workload::Cbr(Cbr { rate: Bandwidth::from_bits_per_second(1_000_000), size: bytes(1_250) });
    let third = cbr.writes(1, "a").nth(2).expect("no end");
    assert_eq!((third.at, third.size), (Duration::from_millis(20), bytes(1_250)));
}

#[test]
fn the_same_seed_and_name_give_the_same_writes_and_others_give_others() {
    let game = Workload::Application(Application::AnarchyOnline);
    let writes = |seed, name| game.writes(seed, name).take(100).collect::<Vec<_>>();
    assert_eq!(writes(1, "a"), writes(1, "a"));
    assert_ne!(writes(1, "a"), writes(2, "a"));
    assert_ne!(writes(1, "a"), writes(1, "b"));
}

#[test]
fn a_replay_gives_back_what_was_recorded_and_ends() {
    let recorded =
        [(Duration::ZERO, bytes(1)), (Duration::from_millis(5), bytes(2)), (Duration::from_millis(5), bytes(3))];
    let replay = Workload::Replay(Replay::new(recorded).expect("in order"));
    let replayed: Vec<_> = replay.writes(1, "a").map(|write| (write.at, write.size)).collect();
    assert_eq!(replayed, recorded);
}

#[test]
fn a_replay_refuses_what_no_application_can_have_written() {
    let backwards = [(Duration::from_millis(5), bytes(1)), (Duration::ZERO, bytes(1))];
    assert_eq!(Replay::new(backwards), Err(ReplayError::OutOfOrder { index: 1 }));
    assert_eq!(Replay::new([(Duration::ZERO, ByteCount::ZERO)]), Err(ReplayError::Empty { index: 0 }));
}

#[test]
fn a_source_gives_writes_when_they_are_due_and_none_from_its_end_on() {
    let thin = Workload::Periodic(Periodic { interval: Duration::from_millis(10), size: bytes(100) });
    let mut source = Source::new(&thin, 1, "a", Instant::from_millis(5), Some(Instant::from_millis(25)));
    assert_eq!(source.take_due(Instant::from_millis(4)), None);
    let (first, _) = source.take_due(Instant::from_millis(7)).expect("due since 5 ms");
    assert_eq!(first, Instant::from_millis(5));
    assert_eq!(source.next_at(), Some(Instant::from_millis(15)));
    assert!(source.take_due(Instant::from_millis(99)).is_some());
    assert_eq!((source.take_due(Instant::from_millis(99)), source.next_at()), (None, None));
}

#[test]
fn an_elephant_always_has_something_to_write_until_its_end() {
    let greedy = Workload::Greedy(Greedy { size: bytes(1_000) });
    let mut source = Source::new(&greedy, 1, "a", Instant::ZERO, Some(Instant::from_secs(1)));
    for _ in 0..1_000 {
        let (at, write) = source.take_due(Instant::from_millis(999)).expect("no end before a second");
        assert_eq!((at, write.size), (Instant::from_millis(999), bytes(1_000)));
    }
    assert_eq!(source.take_due(Instant::from_secs(1)), None);
    assert_eq!(source.next_at(), None);
}

#[test]
fn sizes_of_poisson_writes_deviate_normally_about_their_mean_and_leave_the_gaps_as_they_are() {
    let equal = Poisson { interval_mean: Duration::from_millis(100), size: bytes(500), size_deviation: bytes(0) };
    let (gaps, sizes) = sorted_gaps_and_sizes(&Workload::Poisson(Poisson { size_deviation: bytes(100), ..equal }));
    assert_near("mean", mean(&sizes), Some(500), 1);
    assert_near("one deviation below", sizes[SAMPLES * 1_587 / 10_000], Some(400), 1);
    assert_near("one deviation above", sizes[SAMPLES * 8_413 / 10_000], Some(600), 1);
    assert_eq!(gaps, sorted_gaps_and_sizes(&Workload::Poisson(equal)).0);
}
