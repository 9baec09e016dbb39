use super::*;
use crate::plan::{Plan, PlanFile, Scale};

/// A point of 12 s at 10 Mbit/s, with these settings besides.
fn point(settings: &str) -> Point {
    let fixed = "rate = \"10Mbit/s\"\nrtt = \"40ms\"\nloss = \"0%\"\nreordered = \"0%\"\nscheduler = \"first-come-first-served\"\n\
                 duration = \"12s\"\nwarm_up = \"2s\"\nqueue = \"1 BDP\"\n";
    let mut text = "experiment = \"bulk\"\n[parameters]\n".to_owned();
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    let set: Vec<_> = settings.lines().map(name).collect();
    for line in fixed.lines().filter(|line| !set.contains(&name(line))).chain(settings.lines()) {
        text += &format!("{line}\n");
    }
    let plan = PlanFile::parse("point.toml", &text).and_then(|file| file.plan(&Bulk, Scale::Full)).expect("sound");
    plan.points().first().expect("it has a point").clone()
}

fn value(samples: &Samples, name: &str) -> f64 {
    samples.values()[name]
}

#[test]
fn alone_each_sender_has_most_of_the_link_and_never_more_than_its_payload() {
    for sender in ["festina", "rfc9260", flow::CUBIC, flow::NEW_RENO] {
        let samples = Bulk.run(&point(&format!("sender = \"{sender}\"\nrival = \"none\"")), 1);
        let share = value(&samples, LINK_SHARE);
        assert!((70.0..97.0).contains(&share), "{sender}: {share}");
    }
}

#[test]
fn without_a_rival_and_loss_nothing_is_random() {
    let alone = point("sender = \"festina\"\nrival = \"none\"");
    assert!(!Bulk.is_random(&alone));
    assert_eq!(Bulk.run(&alone, 1), Bulk.run(&alone, 2));
    for settings in ["rival = \"itself\"", "rival = \"none\"\nloss = \"1%\"", "rival = \"none\"\nreordered = \"1%\""] {
        let random = point(&format!("sender = \"festina\"\n{settings}"));
        assert!(Bulk.is_random(&random), "{settings}");
        assert_ne!(Bulk.run(&random, 1), Bulk.run(&random, 2), "{settings}");
    }
}

#[test]
fn two_flows_share_the_link_and_the_shares_add_up() {
    let samples = Bulk.run(&point("sender = \"rfc9260\"\nrival = \"tcp-cubic\""), 1);
    let [own, other] = [GOODPUT, RIVAL].map(|name| value(&samples, name));
    assert!((7.0..9.7).contains(&(own + other)), "{own} {other}");
    assert!((value(&samples, FAIR_SHARE) - 2.0 * own / (own + other)).abs() < 1e-9);
    assert!((0.5..=1.0).contains(&value(&samples, JAIN)));
    assert!(!samples.values().contains_key(TIME_TO_85));
}

#[test]
fn every_thin_message_after_the_warm_up_is_counted_within_and_beside() {
    let samples = Bulk.run(&point("sender = \"festina\"\nrival = \"none\"\nloss = \"5%\""), 1);
    assert_eq!(value(&samples, UNDELIVERED), 0.0);
    let delays = |name: &str| samples.tallies()[name].clone();
    assert_eq!((delays(WITHIN).count(), delays(BESIDE).count()), (100, 100));
    let half_rtt = Duration::from_millis(20);
    for name in [WITHIN, BESIDE] {
        assert!(delays(name).min() >= Some(half_rtt), "{name}");
    }
    assert!(delays(WITHIN).quantile(0.5) > delays(BESIDE).quantile(0.5), "it waits for what the bulk has queued");
    let tcp = Bulk.run(&point("sender = \"tcp-cubic\"\nrival = \"none\""), 1);
    assert!(!tcp.tallies().contains_key(WITHIN));
}

#[test]
fn a_share_is_reached_at_the_beginning_of_the_first_span_above_it() {
    // A tenth of a second of 1 Mbit/s are 12,500 bytes.
    let slices = |idle: usize, busy: usize| [vec![0; idle], vec![12_500; busy]].concat();
    assert_eq!(time_to(&slices(20, 50), 0.99e6), Some(Duration::from_secs(2)));
    assert_eq!(time_to(&slices(20, 49), 0.99e6), None);
    assert_eq!(time_to(&slices(20, 60), 0.495e6), Some(Duration::ZERO));
    assert_eq!(time_to(&slices(0, 50), 1e6), None, "it is above, not at it");
}

#[test]
fn queues_are_counted_in_packets_of_the_path_or_as_they_stand() {
    assert_eq!(["0.2 BDP", "1 BDP", "2 BDP", "20 packets"].map(|queue| queue_packets(queue, 33.3)), [7, 33, 67, 20]);
    assert_eq!(queue_packets("0.2 BDP", 0.4), 1);
}

#[test]
fn a_run_ends_early_when_the_link_could_have_carried_the_volume() {
    let transfer = transfer(&point("sender = \"festina\"\nrival = \"none\"\nvolume = \"2500kB\"\nwarm_up = \"10s\""));
    assert_eq!(transfer.duration, Duration::from_secs(2));
    assert_eq!(transfer.warm_up, Duration::from_secs(1));
}

#[test]
fn the_plan_crosses_what_the_checks_ask_for() {
    let has = |scale, wanted: &[(&str, &str)]| {
        let matches = |point: &Point| {
            wanted.iter().all(|(name, text)| point.value(name).is_some_and(|value| value.to_string() == *text))
        };
        Plan::own(&Bulk, scale).points().iter().any(matches)
    };
    for scale in [Scale::Quick, Scale::Full] {
        for queue in ["100 packets", "20 packets"] {
            assert!(has(scale, &[("rival", "tcp-cubic"), ("queue", queue), ("sender", "festina")]));
            assert!(has(scale, &[("rival", "itself"), ("queue", queue), ("sender", "festina")]));
        }
        assert!(has(scale, &[("rate", "50Mbit/s"), ("loss", "0.1%"), ("sender", "tcp-cubic")]));
    }
    for rtt in ["40ms", "200ms"] {
        for queue in ["1 BDP", "0.2 BDP"] {
            assert!(has(Scale::Full, &[("rate", "1Gbit/s"), ("rtt", rtt), ("queue", queue), ("sender", "festina")]));
        }
    }
}
