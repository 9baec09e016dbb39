use super::*;
use crate::plan::{Plan, PlanFile, Scale};

/// The plan of this text.
fn plan(text: &str) -> Plan {
    parse(text).unwrap_or_else(|problem| panic!("{problem}"))
}

fn parse(text: &str) -> Result<Plan, String> {
    let text = format!("experiment = \"scenario\"\nrepetitions = 1\n{text}");
    let file = PlanFile::parse("p.toml", &text).map_err(|error| error.to_string())?;
    file.plan(&Scenario, Scale::Full).map_err(|error| error.to_string())
}

/// Why a plan is refused.
fn refused(text: &str) -> String {
    parse(text).err().unwrap_or_else(|| panic!("it is accepted: {text}"))
}

/// What the first point of a plan measures.
fn measured(text: &str) -> Samples {
    Scenario.run(&plan(text).points()[0], 1)
}

fn value(samples: &Samples, name: &str) -> f64 {
    *samples.values().get(name).unwrap_or_else(|| panic!("{name} is among {:?}", samples.values().keys()))
}

const SHORT: &str =
    "[parameters]\nduration = \"10s\"\nwarm_up = \"1s\"\n[links.wire]\nrate = \"10Mbit/s\"\ndelay = \"10ms\"\n";

#[test]
fn a_thin_stream_over_an_empty_link_takes_the_links_time_whichever_stack_carries_it() {
    for stack in ["festina", "rfc9260+cubic", "tcp-new-reno", "tcp-sack", "tcp-cubic", "tcp-linux", "udp"] {
        let samples = measured(&format!("{SHORT}[flows.a]\nstack = \"{stack}\"\nsize = \"100B\"\nrtt = \"50ms\"\n"));
        let delays = &samples.tallies()["a"];
        assert_eq!(delays.count(), 90, "{stack}");
        let mean_ms = delays.mean().expect("there are delays").as_secs_f64() * 1e3;
        assert!((25.0..25.5).contains(&mean_ms), "{stack}: {mean_ms}");
        assert!((value(&samples, "a: goodput Mbit/s") - 0.008).abs() < 2e-4, "{stack}");
        assert_eq!(value(&samples, "a: undelivered messages"), 0.0, "{stack}");
    }
}

#[test]
fn messages_of_connections_that_never_come_up_are_undelivered_whichever_stack_was_to_carry_them() {
    for stack in ["festina", "tcp-sack", "udp"] {
        let dead = SHORT.replace("[links.wire]", "[links.wire]\nloss = \"100%\"");
        let samples = measured(&format!("{dead}[flows.a]\nstack = \"{stack}\"\ncount = 2\n"));
        assert_eq!(value(&samples, "a: undelivered messages"), 180.0, "{stack}");
        assert!(!samples.tallies().contains_key("a"), "{stack}");
    }
}

#[test]
fn what_changes_nothing_at_any_point_is_refused_and_what_does_at_one_is_not() {
    let wire = "[links.wire]\nrate = \"1Mbit/s\"\n";
    for (link, flow, expected) in [
        ("target = \"5ms\"", "", "p.toml:5:10: links.wire.target: it has no effect; expected the discipline codel"),
        ("discipline = \"pie\"\ninterval = \"5ms\"", "", "links.wire.interval: it has no effect"),
        ("red_min = 3", "", "links.wire.red_min: it has no effect; expected the discipline red"),
        ("burst = \"1s\"", "", "links.wire.burst: it has no effect; expected a loss"),
        ("held_back = \"1ms\"", "", "links.wire.held_back: it has no effect"),
        ("", "on = \"1s\"", "flows.a.on: it has no effect; expected the workload on-off"),
        ("", "workload = \"greedy\"\nsize = \"1B\"", "flows.a.size: it has no effect"),
        ("", "stack = \"udp\"\nbuffer = \"1MB\"", "flows.a.buffer: it has no effect"),
    ] {
        let problem = refused(&format!("{wire}{link}\n[flows.a]\n{flow}\n"));
        assert!(problem.contains(expected), "{link} {flow}\n{problem}");
    }
    let swept =
        "loss = [\"0%\", \"1%\"]\nburst = \"20ms\"\ndiscipline = [\"drop-tail\", \"codel\"]\ntarget = \"9ms\"\n";
    assert_eq!(plan(&format!("{wire}{swept}[flows.a]\n")).points().len(), 4);
}

#[test]
fn the_packets_of_all_links_can_be_captured() {
    let plan = plan(&format!("{SHORT}[flows.a]\nstack = \"festina\"\nsize = \"100B\"\nrtt = \"50ms\"\n"));
    let point = &plan.points()[0];
    let capture = Scenario.capture(point, 1).expect("every scenario has packets");
    let [sender, _] = Course::of(point).layout.groups[0].1[0];
    let packets = capture.seen_by(sender).expect("short packets").len();
    // A hundred messages and their acknowledgements.
    assert!(packets > 100 && capture.links().count() > 2, "{packets}");
}

#[test]
fn greedy_flows_of_all_kinds_fill_the_link_and_share_it() {
    for stack in ["festina", "tcp-new-reno", "tcp-sack", "tcp-cubic", "tcp-linux"] {
        let samples = measured(&format!("{SHORT}[flows.a]\nstack = \"{stack}\"\nworkload = \"greedy\"\ncount = 2\n"));
        let goodput = value(&samples, "a: goodput Mbit/s");
        assert!((8.5..9.8).contains(&goodput), "{stack}: {goodput}");
        assert!(value(&samples, "wire: load %") > 90.0, "{stack}");
        assert!(value(&samples, "a: Jain's index") > 0.5, "{stack}");
    }
}

#[test]
fn marks_take_the_place_of_drops_for_flows_that_are_capable() {
    for stack in ["tcp-cubic", "festina", "rfc9260"] {
        let [marked, dropped] = ["on", "off"].map(|ecn| {
            let queue = "discipline = \"codel\"\necn = \"on\"\n";
            measured(&format!("{SHORT}{queue}[flows.a]\nstack = \"{stack}\"\nworkload = \"greedy\"\necn = \"{ecn}\"\n"))
        });
        assert!(value(&marked, "wire: packets marked %") > 0.0, "{stack}");
        // SCTP's path proves itself first: some packets of the first round trip can only be dropped.
        assert!(value(&marked, "wire: packets dropped %") < 0.05, "{stack}");
        assert!(value(&dropped, "wire: packets dropped %") > 0.0, "{stack}");
        assert_eq!(value(&dropped, "wire: packets marked %"), 0.0, "{stack}");
        let goodput = [&marked, &dropped].map(|samples| value(samples, "a: goodput Mbit/s"));
        assert!(goodput[0] > 0.9 * goodput[1], "{stack}: {goodput:?}");
    }
}

#[test]
fn on_a_parking_lot_cross_traffic_takes_the_link_that_it_crosses_and_no_other() {
    let lot = "[parameters]\ntopology = \"parking-lot\"\nduration = \"5s\"\nwarm_up = \"1s\"\n\
               [links.first]\nrate = \"10Mbit/s\"\n[links.second]\nrate = \"10Mbit/s\"\n\
               [flows.long]\n[flows.cross]\nstack = \"udp\"\ncrosses = \"second\"\nsize = \"1000B\"\ninterval = \"2ms\"\n";
    let samples = measured(lot);
    assert!((value(&samples, "second: load %") - 41.0).abs() < 2.0);
    assert!(value(&samples, "first: load %") < 1.0);
    assert_eq!(samples.tallies()["long"].count(), 40);
}

#[test]
fn with_a_list_links_lead_where_they_say_and_the_way_back_may_differ() {
    let list = "[parameters]\ntopology = \"list\"\nduration = \"5s\"\nwarm_up = \"1s\"\n\
                [links.down]\nfrom = \"a\"\nto = \"b\"\ndelay = \"30ms\"\nback = \"up\"\n[links.up]\ndelay = \"5ms\"\n\
                [links.detour]\nfrom = \"b\"\nto = \"c\"\ndelay = \"100ms\"\n\
                [flows.there]\nfrom = \"a\"\nto = \"b\"\n[flows.back]\nfrom = \"b\"\nto = \"a\"\nstack = \"udp\"\n";
    let samples = measured(list);
    let delay_ms = |name: &str| samples.tallies()[name].mean().expect("there are delays").as_millis();
    assert_eq!([delay_ms("there"), delay_ms("back")], [30, 5]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let wire = "[links.wire]\nrate = \"1Mbit/s\"\ndelay = \"10ms\"\n";
    for (text, expected) in [
        ("[flows.a]\nsizee = \"1B\"\n", "p.toml:4:1: unknown parameter \"flows.a.sizee\"; expected one of count, "),
        ("[flow.a]\n", "p.toml:3:2: unknown key `flow`"),
        ("[flows.A]\n", "p.toml:3:8: \"A\" is no name"),
        ("[flows.a]\nsize = 5\n", "p.toml:4:8: flows.a.size: 5 has no unit"),
        ("[flows.a]\nstack = \"tcp\"\n", "flows.a.stack: \"tcp\" is unknown; expected one of \"rfc9260\""),
        ("[flows.a]\nstack = \"udp\"\necn = \"on\"\n", "p.toml:5:7: flows.a.ecn: UDP does not react to marks"),
        ("[flows.a]\nstack = \"udp\"\nworkload = \"greedy\"\n", "flows.a.workload: a greedy flow waits for room"),
        ("[flows.a]\nrtt = \"1ms\"\n", "p.toml:4:7: flows.a.rtt: 1ms is less than the 20ms that the links take"),
        ("[flows.a]\nstart = \"2m\"\n", "p.toml:4:9: flows.a.start: the last of these flows would begin when all"),
        ("[flows.a]\ncrosses = \"b\"\n", "flows.a.crosses: \"b\" is no link that flows cross; expected all, wire"),
        (
            "[parameters]\ntopology = \"parking-lot\"\n[flows.a]\n",
            "p.toml:4:12: topology: a parking-lot has at least 2",
        ),
        ("[parameters]\nduration = \"5s\"\nwarm_up = \"5s\"\n[flows.a]\n", "p.toml:5:11: warm_up: nothing would count"),
        ("[parameters]\ntopology = \"list\"\n[flows.a]\n", "links.wire.from: with the topology list a link has two"),
        ("[flows.a]\n[probes.p]\nof = \"b\"\n", "p.toml:5:6: probes.p.of: there is no \"b\" to plot"),
        ("[flows.a]\nworkload = \"greedy\"\n[probes.p]\n", "probes.p.of: greedy flows have no delays"),
        (
            "[quick]\nflows.b.size = \"1B\"\n[flows.a]\n",
            "\"flows.b.size\" is of a table that is not there; add [flows.b]",
        ),
    ] {
        let problem = refused(&format!("{text}{wire}"));
        assert!(problem.contains(expected), "{text}\n{problem}");
    }
    for (text, expected) in [
        ("trace = \"lte\"\nrate = \"1Mbit/s\"", "links.wire.rate: the trace says how fast the link is"),
        ("trace = \"no.trace\"", "p.toml:4:9: links.wire.trace: the trace no.trace cannot be read: "),
        ("ecn = \"on\"", "p.toml:4:7: links.wire.ecn: drop-tail marks nothing"),
        ("discipline = \"red\"", "links.wire.ecn: red marks all packets"),
        ("discipline = \"red\"\necn = \"on\"\nred_min = 20", "links.wire.red_max: it is not above red_min"),
        ("loss = \"100%\"\nburst = \"1s\"", "p.toml:5:9: links.wire.burst: bursts need a loss below 100%"),
        ("back = \"up\"", "p.toml:4:8: links.wire.back: there is no [links.up]"),
    ] {
        let problem = refused(&format!("[links.wire]\n{text}\n"));
        assert!(problem.contains(expected), "{text}\n{problem}");
    }
}

#[test]
fn other_experiments_have_no_tables() {
    let file = PlanFile::parse("p.toml", "experiment = \"md1\"\n[flows.a]\n").expect("the keys are known");
    let problem = file.plan(&crate::experiments::Md1, Scale::Full).expect_err("md1 has no flows").to_string();
    assert_eq!(problem, "p.toml:2:8: the experiment md1 has no flows; the experiment scenario has");
}

#[test]
fn keys_of_tables_are_swept_and_a_plans_tables_take_the_place_of_all_others() {
    let swept = plan("[links.wire]\ndelay = [\"1ms\", \"2ms\"]\n[flows.a]\nstack = [\"festina\", \"udp\"]\n");
    assert_eq!(swept.points().len(), 4);
    assert_eq!(swept.label(&swept.points()[1]), "links.wire.delay 1ms, flows.a.stack udp");
    assert_eq!(swept.points()[0].tables("flows"), ["a"]);
    assert_eq!(swept.points()[0].tables("links"), ["wire"]);
    assert!(
        !swept.conditions().contains("links.wire.rate"),
        "parameters that are not set are not listed: {}",
        swept.conditions()
    );
    let own = Plan::own(&Scenario, Scale::Quick);
    assert_eq!(own.points()[0].tables("flows"), ["thin", "bulk"], "in the order of the plan");
}

#[test]
fn a_plan_that_is_printed_runs_the_same_again() {
    let text = "[links.wire]\ntrace = \"satellite\"\n[flows.a]\ncount = [1, 2]\n[probes.p]\nplots = \"queue\"\n";
    let (first, printed) = (plan(text), crate::report::html::plan_text(&Scenario, &plan(text)));
    let again = PlanFile::parse("again.toml", &printed).and_then(|file| file.plan(&Scenario, Scale::Full));
    assert_eq!(again.expect("it is a plan").points(), first.points(), "{printed}");
}

#[test]
fn the_estimate_of_memory_grows_with_messages_flows_and_buffers_and_a_plan_beyond_any_machine_is_refused() {
    let memory = |text: &str| Scenario.memory(&plan(text).points()[0]).bytes();
    let thin = |count: u32, duration: &str| {
        format!(
            "[parameters]\nduration = \"{duration}\"\n[links.wire]\n[flows.a]\ninterval = \"1ms\"\ncount = {count}\n"
        )
    };
    let [little, much] = [memory(&thin(1, "10s")), memory(&thin(100, "100s"))];
    assert!(little < 30_000_000, "{little}");
    assert!((5_000_000_000..8_000_000_000).contains(&much), "10 million messages: {much}");
    let greedy = |rate: &str, queue: u32, buffer: &str| {
        format!(
            "[links.wire]\nqueue = {queue}\n{rate}[flows.a]\nworkload = \"greedy\"\nbuffer = \"{buffer}\"\ncount = 10\n"
        )
    };
    let slow = "rate = \"10Mbit/s\"\n";
    assert!(memory(&greedy(slow, 100, "1MiB")) < 30_000_000);
    assert!(memory(&greedy(slow, 1_000_000, "1MiB")) < 30_000_000, "the buffers do not fill the queue");
    assert!(memory(&greedy(slow, 1_000_000, "1GiB")) > 4_000_000_000);
    assert!(memory(&greedy("", 100, "1GiB")) > 10_000_000_000, "no link limits it");
    let problem = refused(&thin(1_000, "86400s"));
    assert!(problem.contains("memory; expected at most 69 GB"), "{problem}");
}
