//! Keys that change nothing at a point, since others rule them out.

use festina_units::Probability;

use super::flow::{GREEDY, ON_OFF, UDP};
use super::key;
use super::network::LIST;
use crate::experiment::Objection;
use crate::plan::Point;

/// The keys, each with a condition under which it has an effect.
pub(super) fn objections(point: &Point) -> Vec<Objection> {
    let mut idle = Vec::new();
    let mut add = |parameter: String, needs: &str| {
        idle.push(Objection { parameter, problem: format!("it has no effect; expected {needs}, or no such key") });
    };
    let is_list = point.choice("topology") == LIST;
    for name in point.tables("links") {
        let key = |of: &str| key("links", name, of);
        let discipline = point.choice(&key("discipline"));
        let is_zero = |of: &str| point.probability(&key(of)) == Probability::ZERO;
        let keys: [(&str, bool, &str); 8] = [
            ("target", !["codel", "fq-codel", "pie"].contains(&discipline), "the discipline codel, fq-codel or pie"),
            ("interval", !["codel", "fq-codel"].contains(&discipline), "the discipline codel or fq-codel"),
            ("red_min", discipline != "red", "the discipline red"),
            ("red_max", discipline != "red", "the discipline red"),
            ("burst", is_zero("loss"), "a loss"),
            ("held_back", is_zero("reordered"), "packets that are reordered"),
            ("from", !is_list, "the topology list"),
            ("to", !is_list, "the topology list"),
        ];
        keys.iter().filter(|(_, is_idle, _)| *is_idle).for_each(|(of, _, needs)| add(key(of), needs));
    }
    for name in point.tables("flows") {
        let key = |of: &str| key("flows", name, of);
        let workload = point.choice(&key("workload"));
        let keys: [(&str, bool, &str); 8] = [
            ("on", workload != ON_OFF, "the workload on-off"),
            ("off", workload != ON_OFF, "the workload on-off"),
            ("size", workload == GREEDY, "another workload than greedy"),
            ("interval", workload == GREEDY, "another workload than greedy"),
            ("buffer", point.choice(&key("stack")) == UDP, "another stack than udp"),
            ("crosses", is_list, "another topology than list"),
            ("from", !is_list, "the topology list"),
            ("to", !is_list, "the topology list"),
        ];
        keys.iter().filter(|(_, is_idle, _)| *is_idle).for_each(|(of, _, needs)| add(key(of), needs));
    }
    idle
}
