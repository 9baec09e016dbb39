//! The packets of the comparison as pcapng: one interface per profile, and plain SCTP in IPv4, so that Wireshark and tshark
//! need no settings. Each packet is recorded once, when its sender sends it, also if the network then loses it.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use festina::Profile;
use festina_emulate::{Direction, Tap, TapEvent, TapRecord};
use festina_netsim::Admission;
use festina_trace::{InterfaceId, PcapngWriter, ip};

/// A capture file that the emulated networks of all profiles write to.
pub(crate) struct Capture {
    interfaces: Vec<InterfaceId>,
    shared: Arc<Mutex<Writing>>,
}

/// The file, and what went wrong first.
struct Writing {
    file: Option<PcapngWriter<BufWriter<File>>>,
    failure: Option<io::Error>,
}

impl Capture {
    /// Begins a capture with one interface per profile.
    pub(crate) fn create(file: File, profiles: &[Profile]) -> io::Result<Self> {
        let mut writer = PcapngWriter::new(BufWriter::new(file))?;
        let interfaces =
            profiles.iter().map(|profile| writer.add_interface(profile.name())).collect::<io::Result<_>>()?;
        let writing = Writing { file: Some(writer), failure: None };
        Ok(Self { interfaces, shared: Arc::new(Mutex::new(writing)) })
    }

    /// What shows the packets of the profile at `index` to the capture.
    pub(crate) fn tap(&self, index: usize) -> Tap {
        let interface = self.interfaces.get(index).copied();
        let shared = self.shared.clone();
        let subnet = u8::try_from(index).unwrap_or(u8::MAX);
        Box::new(move |record| {
            let (TapEvent::Offered(admission), Some(interface)) = (record.event, interface) else {
                return;
            };
            shared.lock().unwrap_or_else(PoisonError::into_inner).record(interface, subnet, &record, admission);
        })
    }

    /// Ends the capture.
    pub(crate) fn finish(self) -> io::Result<()> {
        let mut writing = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = writing.failure.take() {
            return Err(failure);
        }
        match writing.file.take() {
            Some(file) => file.finish().map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Writing {
    /// Writes one packet; after a failure nothing more, for a capture with holes would mislead.
    fn record(&mut self, interface: InterfaceId, subnet: u8, record: &TapRecord<'_>, admission: Admission) {
        let Some(file) = &mut self.file else {
            return;
        };
        let [client, server] = [1, 2].map(|host| IpAddr::from(Ipv4Addr::new(10, 0, subnet, host)));
        let (from, to) = match record.direction {
            Direction::Forward => (client, server),
            Direction::Backward => (server, client),
        };
        let comment = match admission {
            Admission::Accepted => None,
            Admission::Lost => Some("lost by the emulated network"),
            Admission::QueueDropped => Some("dropped by the full queue of the emulated network"),
            Admission::TooLarge => Some("too large for the emulated network"),
        };
        let written = ip::encapsulate_sctp(from, to, record.payload)
            .map_err(io::Error::other)
            .and_then(|packet| file.write_packet(interface, record.at, &packet, comment));
        if let Err(failure) = written {
            self.failure = Some(failure);
            self.file = None;
        }
    }
}
