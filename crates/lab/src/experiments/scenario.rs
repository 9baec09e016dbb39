//! `scenario`: any links and flows that a plan describes, without an experiment of its own.

mod course;
mod figures;
mod flow;
mod idle;
mod keys;
mod network;

use festina_units::{ByteCount, Duration};

use crate::capture::Capture;
use crate::experiment::{Check, Description, Experiment, Objection};
use crate::figure::Figure;
use crate::plan::{Kind, Parameter, Point, Table};
use crate::samples::Samples;
use crate::summary::Results;
use course::Course;
use network::{Layout, TOPOLOGIES};

/// A network and its flows, by plan alone.
#[derive(Clone, Copy, Debug)]
pub struct Scenario;

impl Experiment for Scenario {
    fn description(&self) -> Description {
        Description {
            name: "scenario",
            title: "A network and its flows, as the plan describes them",
            reference: "Festina's own",
            about: "A plan names links, flows and probes (the data to plot), each in a table of its own: [links.NAME], [flows.NAME], [probes.NAME]. \
         A plan that has tables has no others than these. \
         Every key can be a list, which is swept. `festina lab new FILE` writes such a plan with comments.\n\n\
         Links connect routers, both ways alike unless `back` names another table for the way back. With the topology path they are its \
         hops, in the order of the plan; a dumbbell has one; a parking lot at least two, and a flow that `crosses` one of them is cross \
         traffic there. With the topology list each link says `from` and `to` which node it leads, and so do flows.\n\n\
         Each flow has a host of its own at either end, connected by [links.access] (without it: no limit, no delay). A flow's `rtt` is the \
         round-trip time without queues and transmission; what the links do not take of it, the receiver's access does. Packets take \
         the way with the fewest links.\n\n\
         A link with a trace sends when the trace says so, each time up to 1,504 bytes. The traces lte, wifi and satellite were made by \
         code to have the look of such networks; none was measured.\n\n\
         SCTP is the shipped core with the profile that the flow names, and the congestion control that comes with it or stands behind \
         a plus sign. TCP is the model: tcp-new-reno (RFC 6582), tcp-sack (RFC 6675), tcp-cubic (RFC 9438 with the loss \
         recovery of RFC 6675), tcp-linux (Linux 6.1, with CUBIC). Packets have at most 1,500 bytes with their IP headers.\n\n\
         The delay of a message counts from when the application has it to its delivery; thin and on-off flows and UDP have delays, \
         greedy ones do not. Goodput is payload at the receivers. Both count from the warm-up on, goodput until the flows' end, and \
         delays of messages that arrive within `drain` after it. Plots over time show the first repetition of each of the first four points.",
            plan: include_str!("../../../../experiments/scenario.toml"),
            question: "",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, about, kind| Parameter { name, about, kind };
        let seconds = Duration::from_secs;
        vec![
            parameter("topology", "how the links are connected", Kind::Choice(TOPOLOGIES)),
            parameter(
                "duration",
                "for how long flows write",
                Kind::Duration(Duration::from_millis(100)..=seconds(86_400)),
            ),
            parameter("warm_up", "how much of that does not count", Kind::Duration(Duration::ZERO..=seconds(86_400))),
            parameter(
                "drain",
                "how long after it messages may arrive",
                Kind::Duration(Duration::ZERO..=seconds(3_600)),
            ),
        ]
    }

    fn tables(&self) -> Vec<Table> {
        keys::tables()
    }

    fn objection(&self, point: &Point) -> Option<Objection> {
        if point.duration("warm_up") >= point.duration("duration") {
            let problem = "nothing would count; expected less than the duration".to_owned();
            return Some(Objection { parameter: "warm_up".to_owned(), problem });
        }
        Layout::of(point).err().or_else(|| figures::objection(point))
    }

    fn idle(&self, point: &Point) -> Vec<Objection> {
        idle::objections(point)
    }

    fn memory(&self, point: &Point) -> ByteCount {
        Layout::of(point).map_or(ByteCount::ZERO, |layout| layout.memory())
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        Course::of(point).measure(seed)
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(Course::of(point).capture(seed))
    }

    fn checks(&self, _results: &Results) -> Vec<Check> {
        Vec::new()
    }

    fn lists_values(&self) -> bool {
        true
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        figures::figures(results)
    }
}

/// The key of a table at a point, under its whole name.
fn key(kind: &str, table: &str, name: &str) -> String {
    format!("{kind}.{table}.{name}")
}

#[cfg(test)]
mod tests;
