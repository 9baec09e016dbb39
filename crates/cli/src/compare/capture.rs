//! The packets of the comparison as pcapng: one interface per profile, and plain SCTP in IPv4, so that Wireshark and tshark
//! need no settings. Each packet is recorded once, when its sender sends it, also if the network then loses it.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use festina_emulate::{Direction, Tap, TapEvent};
use festina_sctp::Profile;
use festina_trace::ip;
use festina_units::EcnCodepoint;

use crate::capture::{self, CaptureFile};

/// A capture file that the emulated networks of all profiles write to.
pub(crate) struct Capture {
    file: CaptureFile,
}

impl Capture {
    /// Begins a capture with one interface per profile.
    pub(crate) fn create(file: File, profiles: &[Profile]) -> io::Result<Self> {
        let names: Vec<&str> = profiles.iter().map(|profile| profile.name()).collect();
        Ok(Self { file: CaptureFile::begin(file, &names)? })
    }

    /// What shows the packets of the profile at `index` to the capture.
    pub(crate) fn tap(&self, index: usize) -> Tap {
        let file = self.file.clone();
        let subnet = u8::try_from(index).unwrap_or(u8::MAX);
        Box::new(move |record| {
            let TapEvent::Offered(admission) = record.event else {
                return;
            };
            let [client, server] = [1, 2].map(|host| IpAddr::from(Ipv4Addr::new(10, 0, subnet, host)));
            let (from, to) = match record.direction {
                Direction::Forward => (client, server),
                Direction::Backward => (server, client),
            };
            let packet =
                || ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, record.payload).map_err(io::Error::other);
            file.write(index, record.at, packet, capture::fate(admission));
        })
    }

    /// Ends the capture.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.finish()
    }
}
