//! What the tables of a plan can set, and what holds if they do not.

use festina_units::{Bandwidth, ByteCount, Duration, Probability};

use super::figures::PLOTS;
use super::flow;
use super::network::DISCIPLINES;
use crate::plan::{Key, Kind, Parameter, Table, Value};

/// The word for a link or node that is not set.
pub(super) const UNSET: &str = "none";
/// All links, or all flows or links that a probe can measure.
pub(super) const ALL: &str = "all";

const SWITCH: &[&str] = &["off", "on"];

pub(super) fn tables() -> Vec<Table> {
    vec![
        Table { kind: "links", about: "a link between two routers", keys: links() },
        Table { kind: "flows", about: "flows that are alike", keys: flows() },
        Table { kind: "probes", about: "something to plot", keys: probes() },
    ]
}

fn key(name: &'static str, about: &'static str, kind: Kind, default: Value) -> Key {
    Key { parameter: Parameter { name, about, kind }, default }
}

fn duration(name: &'static str, about: &'static str, most: Duration, default: Duration) -> Key {
    key(name, about, Kind::Duration(Duration::ZERO..=most), Value::Duration(default))
}

fn share(name: &'static str, about: &'static str) -> Key {
    key(name, about, Kind::Probability(Probability::ZERO..=Probability::ONE), Value::Probability(Probability::ZERO))
}

fn name(name: &'static str, about: &'static str, default: &'static str) -> Key {
    key(name, about, Kind::Name, Value::Choice(default))
}

fn choice(name: &'static str, about: &'static str, words: &'static [&'static str], default: &'static str) -> Key {
    key(name, about, Kind::Choice(words), Value::Choice(default))
}

fn count(name: &'static str, about: &'static str, range: std::ops::RangeInclusive<u64>, default: u64) -> Key {
    key(name, about, Kind::Count(range), Value::Count(default))
}

const NO_TIME: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

fn links() -> Vec<Key> {
    let rates = Bandwidth::from_bits_per_second(0)..=Bandwidth::from_bits_per_second(1_000_000_000_000);
    let no_rate = Value::Bandwidth(Bandwidth::from_bits_per_second(0));
    vec![
        key("rate", "how fast it is; without one there is no limit", Kind::Bandwidth(rates), no_rate),
        key("trace", "what its rate follows instead", Kind::Trace, Value::Trace(None)),
        duration("delay", "how long a packet travels, one way", MINUTE, NO_TIME),
        count("queue", "how many packets may wait", 0..=1_000_000, 1_000),
        choice("discipline", "what manages the queue", DISCIPLINES, "drop-tail"),
        duration("target", "the delay that codel, fq-codel and pie aim at; 0 for theirs", MINUTE, NO_TIME),
        duration("interval", "how long codel and fq-codel bear more than that; 0 for theirs", MINUTE, NO_TIME),
        count("red_min", "the average length in packets at which red begins", 1..=1_000_000, 5),
        count("red_max", "that at which it signals a tenth of the packets", 1..=1_000_000, 15),
        choice("ecn", "whether the queue marks ECN-capable packets instead of dropping them", SWITCH, "off"),
        share("loss", "how probably a packet is lost"),
        duration(
            "burst",
            "the mean length of bursts of losses; 0 for losses that know nothing of each other",
            MINUTE,
            NO_TIME,
        ),
        share("reordered", "how probably a packet is held back"),
        duration("held_back", "for how long", MINUTE, Duration::from_millis(10)),
        duration(
            "jitter",
            "by how much the travelling time varies to either side, without reordering",
            MINUTE,
            NO_TIME,
        ),
        share("duplicated", "how probably a packet arrives twice"),
        share("corrupted", "how probably a packet arrives damaged"),
        name("back", "the link whose settings the way back has", UNSET),
        name("from", "the node where it begins, with the topology list", UNSET),
        name("to", "the node where it ends, with the topology list", UNSET),
    ]
}

fn flows() -> Vec<Key> {
    let sizes = ByteCount::from_bytes(1)..=ByteCount::from_bytes(1 << 16);
    let buffers = ByteCount::from_bytes(1_500)..=ByteCount::from_bytes(1 << 30);
    let size = Value::Bytes(ByteCount::from_bytes(100));
    let second = Duration::from_secs(1);
    let intervals = Kind::Duration(Duration::from_micros(10)..=DAY);
    vec![
        count("count", "how many such flows there are", 1..=1_000, 1),
        choice("stack", "a profile of SCTP, a kind of TCP, or udp", flow::stacks(), "festina"),
        choice("ecn", "whether its packets are capable of ECN", SWITCH, "off"),
        choice("workload", "what the application writes", flow::WORKLOADS, "thin"),
        key("size", "the size of a message", Kind::Bytes(sizes), size),
        key(
            "interval",
            "the time from one message to the next",
            intervals,
            Value::Duration(Duration::from_millis(100)),
        ),
        duration("on", "the mean length of a burst of an on-off flow", DAY, second),
        duration("off", "the mean length of its silences", DAY, second),
        key(
            "buffer",
            "the send buffer, and the receive buffer if that is not larger",
            Kind::Bytes(buffers),
            Value::Bytes(ByteCount::from_bytes(1 << 20)),
        ),
        duration("rtt", "the round-trip time without queues; 0 for that of the links", MINUTE, NO_TIME),
        name("crosses", "the one link that it crosses, or all", ALL),
        name("from", "the node where it begins, with the topology list", UNSET),
        name("to", "the node where it ends, with the topology list", UNSET),
        duration("start", "when the first begins", DAY, NO_TIME),
        duration("stop", "when all end; 0 for the end of the run", DAY, NO_TIME),
        duration("stagger", "how much later each begins than the one before", DAY, NO_TIME),
        duration("spread", "within what time each begins later at random", DAY, NO_TIME),
    ]
}

fn probes() -> Vec<Key> {
    let intervals = Kind::Duration(Duration::from_millis(1)..=DAY);
    vec![
        choice("plots", "the quantity to plot", PLOTS, "delay"),
        name("of", "the link of a queue, else the flows; all is the first link, or all flows", ALL),
        key("interval", "how often it is sampled", intervals, Value::Duration(Duration::from_millis(100))),
        duration("from", "where the plot over time begins", DAY, NO_TIME),
        duration("until", "where it ends; 0 for the end", DAY, NO_TIME),
    ]
}
