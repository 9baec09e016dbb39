//! Thin streams over two networks beside the kernel's MPTCP: the first network fails for 3 s. Without MPTCP or the privilege to make namespaces, the
//! test says so and proves nothing, except in continuous integration.

use std::env::var_os;
use std::time::Duration;

use festina_bench_peers::multipath::{Contender, OUTAGE, Row, Scale, Scenario, has_mptcp, measure, runtime};
use festina_emulate::Namespace;
use festina_units::Probability;

#[test]
fn messages_survive_an_outage_of_one_of_two_networks_with_festina_and_with_the_kernels_mptcp() {
    if !has_mptcp() || Namespace::fresh().is_err() {
        assert!(var_os("CI").is_none(), "continuous integration has MPTCP and root's privileges");
        eprintln!("NOTHING WAS TESTED: this kernel has no MPTCP, or this user may make no network namespace");
        return;
    }
    let scenario = Scenario { loss: Probability::ZERO, has_outages: true };
    // Until the end of the first outage, and a little longer.
    let scale = Scale { streams: 4, messages: 48, interval: Duration::from_millis(250) };
    let measured = runtime().expect("threads are there").block_on(measure(scenario, scale, 1));
    let rows = measured.expect("all contenders connect");
    assert_eq!(rows.len(), Contender::ALL.len());
    for Row { contender, missing, twice, sent, .. } in &rows {
        assert_eq!((*missing, *twice), (0, 0), "{}: every message arrives once", contender.name());
        let uses_both = *contender != Contender::Tcp;
        assert_eq!(
            sent[1].packets > 20,
            uses_both,
            "{}: {} packets by the slow network",
            contender.name(),
            sent[1].packets
        );
    }
    let longest = |wanted: fn(Contender) -> bool| {
        let rows = rows.iter().filter(|row| wanted(row.contender));
        rows.map(|row| row.delay_ms(1_000)).fold(0.0, f64::max)
    };
    let tcp = longest(|contender| contender == Contender::Tcp);
    let mptcp = longest(|contender| matches!(contender, Contender::Mptcp { .. }));
    let festina = longest(|contender| matches!(contender, Contender::Festina(_)));
    println!("longest delay: festina {festina:.0} ms, mptcp {mptcp:.0} ms, tcp {tcp:.0} ms");
    assert!(tcp > OUTAGE.as_secs_f64() * 1e3, "the fast network has failed");
    assert!(festina <= 500.0, "one round trip of 100 ms, and 400 ms to notice the outage");
}
