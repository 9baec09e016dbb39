//! From the tables of a point to a topology with a pair of hosts for each flow.

use festina_netsim::{
    CoDelConfig, Duplex, FqCoDelConfig, GilbertElliott, Jitter, JitterShape, LinkConfig, LinkId, LossModel, NodeId,
    PieConfig, QueueDiscipline, QueueLimit, RedConfig, Reordering, Topology,
};
use festina_units::{ByteCount, Duration, Probability};

use super::flow::Group;
use super::key;
use super::keys::{ALL, UNSET};
use crate::experiment::Objection;
use crate::memory;
use crate::plan::Point;

const DUMBBELL: &str = "dumbbell";
const PARKING_LOT: &str = "parking-lot";
pub(super) const LIST: &str = "list";
/// What can manage a queue.
pub(super) const DISCIPLINES: &[&str] = &["drop-tail", "red", "codel", "fq-codel", "pie"];

/// The table of the links that connect hosts.
const ACCESS: &str = "access";
/// The most flows of one plan.
pub(super) const FLOWS_MAX: u32 = 2_000;
/// The largest packet.
const PACKET_BYTES: u64 = 1_500;
/// Memory of both hosts of a flow, without the contents of their buffers. Measured: 1,000 greedy flows with buffers of 1 MiB took 155 MB.
const PAIR_BYTES: u64 = 64 << 10;

/// The network of a point.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) topology: Topology,
    /// The links between routers by their names, in the order of the plan; the way there.
    pub(super) links: Vec<(&'static str, LinkId)>,
    /// Flows that are alike, and the sending and the receiving host of each.
    pub(super) groups: Vec<(Group, Vec<[NodeId; 2]>)>,
}

/// A link between two routers.
struct Hop {
    name: &'static str,
    from: String,
    to: String,
    connection: Duplex,
}

/// Where flows begin and end, and the delay added to the receivers' access links.
struct Ends {
    from: String,
    to: String,
    extra: Duration,
}

impl Layout {
    /// The network that a point describes.
    ///
    /// # Errors
    /// What makes no sense about it.
    pub(super) fn of(point: &Point) -> Result<Self, Objection> {
        let hops = hops(point)?;
        let groups: Vec<Group> =
            point.tables("flows").into_iter().map(|name| Group::of(point, name)).collect::<Result<_, _>>()?;
        if groups.is_empty() {
            let problem = "there are no flows; add a table [flows.NAME]".to_owned();
            return Err(Objection { parameter: "topology".to_owned(), problem });
        }
        if groups.iter().map(|group| group.count).sum::<u32>() > FLOWS_MAX {
            let last = groups.last().map_or(UNSET, |group| group.name);
            let problem = format!("with these there are too many flows; expected at most {FLOWS_MAX} in all");
            return Err(Objection { parameter: key("flows", last, "count"), problem });
        }
        let access = access(point)?;
        let mut ends: Vec<Ends> =
            groups.iter().map(|group| ends_of(point, group.name, &hops)).collect::<Result<_, _>>()?;
        // One flow of each kind tells how long the links take.
        let first = build(&hops, &access, &groups, &ends, 1);
        for ((group, ends), pairs) in groups.iter().zip(&mut ends).zip(&first.pairs) {
            ends.extra = missing_delay(point, group.name, &first.topology, pairs[0])?;
        }
        let Built { topology, links, pairs } = build(&hops, &access, &groups, &ends, FLOWS_MAX);
        Ok(Self { topology, links, groups: groups.into_iter().zip(pairs).collect() })
    }
}

impl Layout {
    /// Estimates the memory of a run: noted messages, hosts with their queues, and packets under way, which wait at a receiver after a loss. Both the
    /// buffers and the links limit those.
    pub(super) fn memory(&self) -> ByteCount {
        let sum =
            |of: &dyn Fn(&Group) -> u64| self.groups.iter().map(|(group, _)| of(group)).fold(0, u64::saturating_add);
        let under_way = sum(&|group: &Group| match group.is_greedy() {
            true => group.buffer_bytes(),
            false => group.buffer_bytes().min(group.noted_packets().saturating_mul(PACKET_BYTES)),
        });
        let parts = [
            sum(&Group::noted_packets).saturating_mul(memory::RECORD_BYTES),
            sum(&|group: &Group| u64::from(group.count) * PAIR_BYTES),
            sum(&Group::buffer_bytes) / 8,
            under_way.min(self.held_bytes().unwrap_or(u64::MAX)).saturating_mul(2),
        ];
        ByteCount::from_bytes(parts.into_iter().fold(0, u64::saturating_add))
    }

    /// Maximum bytes that the links hold; `None` if one of those between routers has no rate.
    fn held_bytes(&self) -> Option<u64> {
        let config = |link: LinkId| &self.topology.links()[link.0 as usize].config;
        let rates = self.links.iter().map(|(_, link)| Some(config(*link).mean_rate()?.bits_per_second()));
        let fastest = rates.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        // Links of hosts carry no more than those between routers, all of them together.
        let delays = self.topology.links().iter().map(|link| link.config.delay + link.config.reordering.hold_back);
        let travelling =
            u128::from(fastest / 8) * (2 * delays.max()?).as_millis() * (self.links.len() as u128 + 1) / 1_000;
        let waiting = |(_, link): &(&str, LinkId)| {
            let queue = &config(*link).queue;
            queue.bytes.bytes().min((queue.packets as u64).saturating_mul(PACKET_BYTES)).saturating_mul(2)
        };
        let waiting = self.links.iter().map(waiting).fold(0, u64::saturating_add);
        Some(waiting.saturating_add(u64::try_from(travelling).unwrap_or(u64::MAX)))
    }
}

/// What the links do not take of the round-trip time that a plan wants for some flows.
fn missing_delay(
    point: &Point,
    name: &str,
    topology: &Topology,
    [from, to]: [NodeId; 2],
) -> Result<Duration, Objection> {
    let delay = |from, to| {
        let route = topology.route(from, to)?;
        Some(route.iter().map(|link| topology.links()[link.0 as usize].config.delay).sum::<Duration>())
    };
    let objection = |of: &str, problem: String| Objection { parameter: key("flows", name, of), problem };
    let (Some(there), Some(back)) = (delay(from, to), delay(to, from)) else {
        return Err(objection("to", "there is no way there and back; expected nodes that links connect".to_owned()));
    };
    let rtt = point.duration(&key("flows", name, "rtt"));
    if rtt.is_zero() {
        return Ok(Duration::ZERO);
    }
    rtt.checked_sub(there + back).ok_or_else(|| {
        let [rtt, links] = [rtt, there + back].map(|time| festina_units::duration::display(time).to_string());
        objection("rtt", format!("{rtt} is less than the {links} that the links take; expected that at least"))
    })
}

/// The parts of a [`Layout`].
struct Built {
    topology: Topology,
    links: Vec<(&'static str, LinkId)>,
    /// Of each group.
    pairs: Vec<Vec<[NodeId; 2]>>,
}

/// The topology with at most `flows_max` flows of each group, its links, and the hosts of each group.
fn build(hops: &[Hop], access: &Duplex, groups: &[Group], ends: &[Ends], flows_max: u32) -> Built {
    let mut topology = Topology::new();
    let mut links = Vec::new();
    for hop in hops {
        let [from, to] = [&hop.from, &hop.to].map(|name| router(&mut topology, name));
        let (there, _) = topology.duplex(from, to, hop.connection.clone());
        links.push((hop.name, there));
    }
    let pairs = groups.iter().zip(ends).map(|(group, ends)| {
        let [enters, leaves] = [&ends.from, &ends.to].map(|name| router(&mut topology, name));
        let flows = (1..=group.count.min(flows_max)).map(|number| {
            // No table has a name with a blank.
            let [from, to] = ["", " receiver"].map(|role| topology.host(&format!("{} {number}{role}", group.name)));
            topology.duplex(from, enters, access.clone());
            let mut exit = access.clone();
            exit.forward.delay += ends.extra / 2;
            exit.backward.delay += ends.extra - ends.extra / 2;
            topology.duplex(leaves, to, exit);
            [from, to]
        });
        flows.collect()
    });
    let pairs = pairs.collect();
    Built { topology, links, pairs }
}

fn router(topology: &mut Topology, name: &str) -> NodeId {
    topology.find(name).unwrap_or_else(|| topology.router(name))
}

/// The links between routers, and where they lead.
fn hops(point: &Point) -> Result<Vec<Hop>, Objection> {
    let names = point.tables("links");
    let back = |name: &str| point.choice(&key("links", name, "back"));
    let is_hop = |name: &&&str| **name != ACCESS && !names.iter().any(|other| back(other) == **name && other != *name);
    let hops: Vec<&'static str> = names.iter().filter(is_hop).copied().collect();
    let topology = point.choice("topology");
    let least = if topology == PARKING_LOT { 2 } else { 1 };
    let most = if topology == DUMBBELL { 1 } else { usize::MAX };
    if hops.len() < least || hops.len() > most {
        let problem = format!(
            "a {topology} has {}, and there are {} besides [links.{ACCESS}] and those that others name as their way back",
            if most == 1 { "one link".to_owned() } else { format!("at least {least}") },
            hops.len()
        );
        return Err(Objection { parameter: "topology".to_owned(), problem });
    }
    let place = |(number, name): (usize, &&'static str)| {
        let ends = ["from", "to"].map(|of| point.choice(&key("links", name, of)));
        let (from, to) = match topology {
            LIST => {
                let is_sound = !ends.contains(&UNSET) && ends[0] != ends[1];
                if !is_sound {
                    let problem = "with the topology list a link has two different ends; set from and to".to_owned();
                    return Err(Objection { parameter: key("links", name, "from"), problem });
                }
                (ends[0].to_owned(), ends[1].to_owned())
            }
            _ => (format!("node{number}"), format!("node{}", number + 1)),
        };
        Ok(Hop { name, from, to, connection: duplex(point, name)? })
    };
    hops.iter().enumerate().map(|(number, name)| place((number, name))).collect()
}

/// Where some flows begin and end.
fn ends_of(point: &Point, name: &str, hops: &[Hop]) -> Result<Ends, Objection> {
    let key = |of: &str| key("flows", name, of);
    let ends = |from: &str, to: &str| Ends { from: from.to_owned(), to: to.to_owned(), extra: Duration::ZERO };
    let is_node = |node: &str| hops.iter().any(|hop| hop.from == node || hop.to == node);
    if point.choice("topology") == LIST {
        for of in ["from", "to"] {
            let node = point.choice(&key(of));
            if !is_node(node) {
                let problem = format!("no link leads from or to \"{node}\"; expected a node that one does");
                return Err(Objection { parameter: key(of), problem });
            }
        }
        return Ok(ends(point.choice(&key("from")), point.choice(&key("to"))));
    }
    match point.choice(&key("crosses")) {
        ALL => Ok(ends(&hops[0].from, &hops[hops.len() - 1].to)),
        one => match hops.iter().find(|hop| hop.name == one) {
            Some(hop) => Ok(ends(&hop.from, &hop.to)),
            None => {
                let known: Vec<&str> = hops.iter().map(|hop| hop.name).collect();
                let problem = format!("\"{one}\" is no link that flows cross; expected all, {}", known.join(", "));
                Err(Objection { parameter: key("crosses"), problem })
            }
        },
    }
}

/// How hosts are connected; without a table of its own perfectly.
fn access(point: &Point) -> Result<Duplex, Objection> {
    if point.tables("links").contains(&ACCESS) { duplex(point, ACCESS) } else { Ok(Duplex::default()) }
}

/// Both directions of a link.
fn duplex(point: &Point, name: &str) -> Result<Duplex, Objection> {
    let forward = link(point, name)?;
    let parameter = key("links", name, "back");
    let backward = match point.choice(&parameter) {
        UNSET => forward.clone(),
        back if point.tables("links").contains(&back) => link(point, back)?,
        back => {
            let problem = format!("there is no [links.{back}]; expected the name of such a table");
            return Err(Objection { parameter, problem });
        }
    };
    Ok(Duplex { forward, backward })
}

/// One direction of a link.
fn link(point: &Point, name: &str) -> Result<LinkConfig, Objection> {
    let key = |of: &str| key("links", name, of);
    let (rate, trace) = (point.bandwidth(&key("rate")), point.trace(&key("trace")));
    let has_rate = rate.bits_per_second() > 0;
    if has_rate && trace.is_some() {
        let problem = "the trace says how fast the link is; expected either of them".to_owned();
        return Err(Objection { parameter: key("rate"), problem });
    }
    let jitter = point.duration(&key("jitter"));
    let shape = if jitter.is_zero() { JitterShape::None } else { JitterShape::Uniform { range: jitter } };
    let [reordered, duplicated, corrupted] =
        ["reordered", "duplicated", "corrupted"].map(|of| point.probability(&key(of)));
    let packets = usize::try_from(point.count(&key("queue"))).unwrap_or(usize::MAX);
    Ok(LinkConfig {
        rate: has_rate.then_some(rate),
        trace: trace.map(|trace| trace.trace()),
        delay: point.duration(&key("delay")),
        jitter: Jitter { shape, keeps_order: true },
        queue: QueueLimit::packets(packets),
        discipline: discipline(point, name)?,
        mtu: None,
        loss: loss(point, name)?,
        reordering: Reordering { probability: reordered, hold_back: point.duration(&key("held_back")) },
        duplication: duplicated,
        corruption: corrupted,
    })
}

fn discipline(point: &Point, name: &str) -> Result<QueueDiscipline, Objection> {
    let key = |of: &str| key("links", name, of);
    let marks_ecn = point.choice(&key("ecn")) == "on";
    let or =
        |of: &str, default: Duration| Some(point.duration(&key(of))).filter(|set| !set.is_zero()).unwrap_or(default);
    let recommended = CoDelConfig::default();
    let codel = CoDelConfig {
        target: or("target", recommended.target),
        interval: or("interval", recommended.interval),
        marks_ecn,
        ..recommended
    };
    match point.choice(&key("discipline")) {
        "codel" => Ok(QueueDiscipline::CoDel(codel)),
        "fq-codel" => Ok(QueueDiscipline::FqCoDel(FqCoDelConfig { codel, ..FqCoDelConfig::default() })),
        "pie" => {
            let recommended = PieConfig::default();
            let ecn_probability_max = if marks_ecn { recommended.ecn_probability_max } else { Probability::ZERO };
            let target = or("target", recommended.target);
            Ok(QueueDiscipline::Pie(PieConfig { target, ecn_probability_max, ..recommended }))
        }
        "red" => {
            let [packets_min, packets_max] =
                ["red_min", "red_max"].map(|of| u32::try_from(point.count(&key(of))).unwrap_or(u32::MAX));
            let objection = |of: &str, problem: &str| Objection { parameter: key(of), problem: problem.to_owned() };
            if packets_max <= packets_min {
                return Err(objection("red_max", "it is not above red_min; expected more"));
            }
            if !marks_ecn {
                let problem =
                    "red marks all packets that are ECN-capable; expected \"on\", and \"off\" for flows without ECN";
                return Err(objection("ecn", problem));
            }
            Ok(QueueDiscipline::Red(RedConfig { packets_min, packets_max, ..RedConfig::default() }))
        }
        _ if marks_ecn => {
            let problem = "drop-tail marks nothing; expected \"off\", or another discipline".to_owned();
            Err(Objection { parameter: key("ecn"), problem })
        }
        _ => Ok(QueueDiscipline::DropTail),
    }
}

fn loss(point: &Point, name: &str) -> Result<LossModel, Objection> {
    let key = |of: &str| key("links", name, of);
    let (loss, burst) = (point.probability(&key("loss")), point.duration(&key("burst")));
    if loss == Probability::ZERO {
        return Ok(LossModel::None);
    }
    if burst.is_zero() {
        return Ok(LossModel::Independent(loss));
    }
    GilbertElliott::bursts(loss, burst).map(LossModel::GilbertElliott).ok_or_else(|| Objection {
        parameter: key("burst"),
        problem: "bursts need a loss below 100%, and one that is not too small for them".to_owned(),
    })
}
