//! The packets of a run as capture files that Wireshark and tshark open.
//!
//! A [`Capture`] records the packets of all links of a simulation; [`Capture::write`] writes a pcapng file for each pair of neighbours, with an
//! interface per direction. Each packet appears once, as it was offered to the link, with a comment if anything happened to it. SCTP packets are
//! there byte for byte. TCP segments and UDP datagrams of the models get realistic headers, and zeros as payload.

mod packet;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use festina_models::packet::Packet;
use festina_netsim::{Admission, LinkId, NodeId, Tap, Topology};
use festina_trace::{EncapsulationError, PcapngWriter};
use festina_units::Instant;

/// The most packets that a capture keeps, those of all links together.
pub const PACKETS_MAX: usize = 1_000_000;

/// Watches the links of a simulation.
///
/// ```
/// use festina_lab::capture::Capture;
/// use festina_models::{host::Host, packet::Packet};
/// use festina_netsim::{Duplex, Simulation, Topology};
/// use festina_units::Instant;
///
/// let path = Topology::path(&[Duplex::default()]);
/// let capture = Capture::of(&path.topology);
/// # let hosts: Vec<Host> = (0..2).map(|node| festina_models::udp_host::UdpHost::new(festina_netsim::NodeId(node), 1).into()).collect();
/// let mut simulation: Simulation<Packet, Host, Capture> = Simulation::with_tap(path.topology, hosts, 1, capture);
/// simulation.run_until(Instant::from_secs(1));
/// assert_eq!(simulation.into_tap().links().collect::<Vec<_>>(), ["sender>receiver", "receiver>sender"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    links: Vec<Link>,
    packets: Vec<Observed>,
    /// Which of `packets` is the one with this link, source, flow and serial number.
    by_serial: BTreeMap<(LinkId, NodeId, u64, u64), usize>,
    beyond_max: u64,
    /// Number of observations so far, which orders events at the same instant.
    happened: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    name: String,
    from: NodeId,
    to: NodeId,
}

/// A packet that was offered to a link, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Observed {
    at: Instant,
    link: LinkId,
    packet: Packet,
    admission: Admission,
    deliveries: u32,
    is_marked: bool,
    is_damaged: bool,
    /// Its place among all that happened, and those of its arrivals with their times.
    order: u64,
    arrivals: Vec<(Instant, u64)>,
}

/// Why a capture cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Caller: there is no link of that name.
    #[error("there is no link \"{name}\"; there are {}", known.join(", "))]
    UnknownLink {
        /// The name.
        name: String,
        /// The links that there are.
        known: Vec<String>,
    },
    /// The system cannot write the file.
    #[error("cannot write {path}")]
    File {
        /// Which one.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Capture {
    /// Watches all links of `topology`, which is that of the simulation.
    pub fn of(topology: &Topology) -> Self {
        let links = topology.links().iter();
        let links = links.map(|link| Link { name: link.name.clone(), from: link.from, to: link.to }).collect();
        Self { links, packets: Vec::new(), by_serial: BTreeMap::new(), beyond_max: 0, happened: 0 }
    }

    /// The names of the links.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|link| link.name.as_str())
    }

    /// Number of packets that were not stored because there were already [`PACKETS_MAX`].
    pub fn beyond_max(&self) -> u64 {
        self.beyond_max
    }

    /// What `node` itself would have captured: the packets that it sent, when they left, and those that came, when they arrived; each is
    /// a whole IP packet. Damaged ones are left out, as checksums would do.
    ///
    /// # Errors
    /// If a packet is too long for IP.
    pub fn seen_by(&self, node: NodeId) -> Result<Vec<(Instant, Vec<u8>)>, EncapsulationError> {
        let mut seen = Vec::new();
        for observed in self.packets.iter().filter(|observed| !observed.is_damaged) {
            let link = self.links.get(observed.link.0 as usize);
            let departures = link.filter(|link| link.from == node).map(|_| (observed.at, observed.order));
            let arrivals = link.filter(|link| link.to == node).map(|_| observed.arrivals.iter().copied());
            for (at, order) in departures.into_iter().chain(arrivals.into_iter().flatten()) {
                seen.push((at, order, packet::to_ip(&observed.packet)?));
            }
        }
        seen.sort_by_key(|(at, order, _)| (*at, *order));
        Ok(seen.into_iter().map(|(at, _, packet)| (at, packet)).collect())
    }

    /// Writes a file for each pair of neighbours, or only for that of the link `only`, and returns their paths. The files' names start with `stem`.
    /// The folder is created if it does not exist.
    ///
    /// # Errors
    /// If there is no link `only`, or a file cannot be written.
    pub fn write(&self, folder: &Path, stem: &str, only: Option<&str>) -> Result<Vec<PathBuf>, CaptureError> {
        if let Some(name) = only
            && !self.links().any(|known| known == name)
        {
            let known = self.links().map(str::to_owned).collect();
            return Err(CaptureError::UnknownLink { name: name.to_owned(), known });
        }
        std::fs::create_dir_all(folder).map_err(|source| CaptureError::File { path: folder.to_owned(), source })?;
        let mut written = Vec::new();
        for pair in self.pairs() {
            let names: Vec<&str> = pair.iter().map(|(_, link)| link.name.as_str()).collect();
            if only.is_some_and(|only| !names.contains(&only)) {
                continue;
            }
            let path = folder.join(format!("{stem}-{}.pcapng", plain(names.first().copied().unwrap_or_default())));
            let file = File::create(&path).and_then(|file| self.write_pair(&pair, BufWriter::new(file)));
            file.map_err(|source| CaptureError::File { path: path.clone(), source })?;
            written.push(path);
        }
        Ok(written)
    }

    /// Links with the one that leads back, if there is one.
    fn pairs(&self) -> Vec<Vec<(LinkId, &Link)>> {
        let mut pairs: Vec<Vec<(LinkId, &Link)>> = Vec::new();
        for (id, link) in (0..).map(LinkId).zip(&self.links) {
            let leads_back = |pair: &&mut Vec<(LinkId, &Link)>| {
                pair.len() == 1 && pair.iter().all(|(_, there)| (there.from, there.to) == (link.to, link.from))
            };
            match pairs.iter_mut().find(leads_back) {
                Some(pair) => pair.push((id, link)),
                None => pairs.push(vec![(id, link)]),
            }
        }
        pairs
    }

    fn write_pair(&self, pair: &[(LinkId, &Link)], sink: impl io::Write) -> io::Result<()> {
        let mut writer = PcapngWriter::new(sink)?;
        let mut interfaces = BTreeMap::new();
        for (id, link) in pair {
            interfaces.insert(*id, writer.add_interface(&link.name)?);
        }
        for observed in &self.packets {
            if let Some(interface) = interfaces.get(&observed.link) {
                let packet = packet::to_ip(&observed.packet).map_err(io::Error::other)?;
                writer.write_packet(*interface, observed.at, &packet, observed.comment())?;
            }
        }
        writer.finish().map(|_| ())
    }
}

impl Observed {
    /// What happened to the packet, if it was anything but a delivery.
    fn comment(&self) -> Option<&'static str> {
        match (self.admission, self.deliveries) {
            (Admission::Lost, _) => Some("lost on the link"),
            (Admission::QueueDropped, _) => Some("dropped in front of the full queue"),
            (Admission::TooLarge, _) => Some("dropped, larger than the link's MTU"),
            (Admission::Accepted, 0) => Some("dropped by the queue, or on its way when the simulation ended"),
            (Admission::Accepted, 1) if self.is_damaged => Some("delivered damaged"),
            (Admission::Accepted, 1) if self.is_marked => Some("marked by the queue (ECN)"),
            (Admission::Accepted, 1) => None,
            (Admission::Accepted, _) => Some("delivered more than once"),
        }
    }
}

impl Tap<Packet> for Capture {
    fn watches(&self, _link: LinkId) -> bool {
        true
    }

    fn offered(&mut self, now: Instant, link: LinkId, packet: &Packet, admission: Admission) {
        if self.packets.len() == PACKETS_MAX {
            self.beyond_max += 1;
            return;
        }
        let index = self.packets.len();
        self.by_serial.insert((link, packet.source, packet.flow, packet.serial), index);
        self.packets.push(Observed {
            at: now,
            link,
            packet: packet.clone(),
            admission,
            deliveries: 0,
            is_marked: false,
            is_damaged: false,
            order: self.happened,
            arrivals: Vec::new(),
        });
        self.happened += 1;
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        let index = self.by_serial.get(&(link, packet.source, packet.flow, packet.serial));
        if let Some(observed) = index.and_then(|index| self.packets.get_mut(*index)) {
            observed.deliveries = observed.deliveries.saturating_add(1);
            observed.arrivals.push((now, self.happened));
            self.happened += 1;
            observed.is_marked |= packet.ecn != observed.packet.ecn;
            observed.is_damaged |= packet.payload != observed.packet.payload;
        }
    }
}

/// A link's name as part of a file's name.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests;
