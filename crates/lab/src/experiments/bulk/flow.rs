//! Who sends: a profile of SCTP or a kind of TCP, by its name in a plan, and how both ends are set.

use std::sync::LazyLock;

use festina_models::host::Host;
use festina_models::sctp_host::{SctpHost, SctpSender};
use festina_models::tcp::{SendBufferLimit, TcpConfig};
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::workload::{Greedy, Workload};
use festina_netsim::NodeId;
use festina_recovery::Profile;
use festina_sctp::{Config, CongestionControl, StreamScheduler};
use festina_units::{ByteCount, Instant};

/// An IP packet with its headers, of every sender.
pub(in crate::experiments) const PACKET_BYTES: u32 = 1_500;
const IPV4_BYTES: u32 = 20;
/// What one DATA chunk in a full packet carries: less the common header of 12 and the chunk's header of 16 bytes.
pub(in crate::experiments) const MESSAGE_BYTES: u32 = PACKET_BYTES - IPV4_BYTES - 28;

pub(super) const NEW_RENO: &str = "tcp-new-reno";
pub(super) const CUBIC: &str = "tcp-cubic";

/// Profiles with the congestion control that comes with them, then with each other one (`festina+rfc9260`).
pub(in crate::experiments) fn sctp_names() -> Vec<&'static str> {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let profiles = Profile::all().iter().map(|profile| profile.name());
        let others = Profile::all().iter().flat_map(|&profile| {
            let own = Config::published(profile).congestion;
            let others = CongestionControl::all().iter().filter(move |&&congestion| congestion != own);
            others.map(move |congestion| &*format!("{profile}{SEPARATOR}{congestion}").leak())
        });
        profiles.chain(others).collect()
    });
    NAMES.clone()
}

/// SCTP as one of [`sctp_names`] says, with packets of [`PACKET_BYTES`], a send buffer of `buffer_bytes`, and a receive buffer that is
/// not smaller.
pub(in crate::experiments) fn sctp_config(name: &str, buffer_bytes: usize) -> Config {
    let (profile, congestion) =
        name.split_once(SEPARATOR).map_or((name, None), |(profile, other)| (profile, Some(other)));
    let profile: Profile = profile.parse().expect("all other names begin with a profile");
    let mut config = Config::published(profile);
    if let Some(congestion) = congestion {
        config.congestion = congestion.parse().expect("what follows is a congestion control");
    }
    config.limits.packet_bytes_max = (PACKET_BYTES - IPV4_BYTES) as usize;
    config.limits.receive_buffer_bytes = buffer_bytes.max(config.limits.receive_buffer_bytes);
    config.limits.send_buffer_bytes = buffer_bytes;
    config.limits.send_low_water_bytes = buffer_bytes / 8 * 7;
    config
}

/// Stands between a profile and a congestion control.
const SEPARATOR: char = '+';

/// A greedy flow, and how both its ends are set.
#[derive(Clone, Debug)]
pub(super) enum Flow {
    Sctp(Box<Config>),
    Tcp(Box<TcpConfig>),
}

/// When a flow writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    pub(super) starts_at: Instant,
    pub(super) stops_at: Instant,
}

impl Flow {
    /// The flow of this name over a path that, with its queue, holds `path_bytes`. All that the name says is set here.
    pub(super) fn named(name: &str, scheduler: StreamScheduler, path_bytes: u64) -> Self {
        // Twice the flight, so that the flow still has data to send after an acknowledgement of the whole flight.
        let buffer_bytes = (2 * path_bytes).max(64 << 10);
        match name {
            NEW_RENO => Self::tcp(TcpConfig::sack(), buffer_bytes),
            CUBIC => Self::tcp(TcpConfig::linux(), buffer_bytes),
            name => {
                let buffer_bytes = usize::try_from(buffer_bytes).expect("it fits into memory");
                Self::Sctp(Box::new(Config { scheduler, ..sctp_config(name, buffer_bytes) }))
            }
        }
    }

    fn tcp(config: TcpConfig, buffer_bytes: u64) -> Self {
        Self::Tcp(Box::new(TcpConfig {
            receive_buffer_bytes: buffer_bytes.max(config.receive_buffer_bytes),
            // A writer is woken when a third is free.
            send_buffer: SendBufferLimit::Bytes(buffer_bytes),
            ..config
        }))
    }

    /// The settings of SCTP, if it is that.
    pub(super) fn sctp(&self) -> Option<&Config> {
        match self {
            Self::Sctp(config) => Some(config),
            Self::Tcp(_) => None,
        }
    }

    /// A host that writes as much as it can, and one that reads. Over SCTP `companion` shares the association.
    pub(super) fn hosts(&self, [from, to]: [NodeId; 2], seed: u64, period: Period, companion: Workload) -> [Host; 2] {
        let Period { starts_at, stops_at } = period;
        let (connects_at, stops_at) = (Instant::ZERO, Some(stops_at));
        let workload = Workload::Greedy(Greedy { size: ByteCount::from_bytes(MESSAGE_BYTES.into()) });
        match self {
            Self::Sctp(config) => {
                let sender = SctpSender {
                    connects_at,
                    starts_at,
                    stops_at,
                    message_bytes_max: MESSAGE_BYTES as usize,
                    companion: Some(companion),
                    ..SctpSender::new(to, workload)
                };
                let host = |node| SctpHost::new(node, seed, *config.clone()).expect("the settings are within ranges");
                [host(from).with_sender(&sender).into(), host(to).listening().into()]
            }
            Self::Tcp(config) => {
                let sender = TcpSender { peer: to, config: **config, workload, connects_at, starts_at, stops_at };
                let host = |node| TcpHost::new(node, seed);
                [host(from).with_sender(sender).into(), host(to).listening(**config).into()]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment as _;
    use crate::experiments::Bulk;
    use crate::plan::Kind;

    /// The names in the plan.
    fn names() -> &'static [&'static str] {
        let parameters = Bulk.parameters();
        match parameters.iter().find(|parameter| parameter.name == "sender").map(|parameter| &parameter.kind) {
            Some(Kind::Choice(names)) => names,
            other => panic!("the sender is chosen, not {other:?}"),
        }
    }

    #[test]
    fn a_name_may_give_a_profile_another_congestion_control_than_its_own() {
        let congestion = |name| {
            let flow = Flow::named(name, StreamScheduler::default(), 50_000);
            flow.sctp().map(|config| (config.mechanisms, config.congestion))
        };
        let festina = Profile::Festina.mechanisms();
        assert_eq!(congestion("festina"), Some((festina, CongestionControl::Cubic)));
        assert_eq!(congestion("festina+rfc9260"), Some((festina, CongestionControl::Rfc9260)));
        assert_eq!(congestion(CUBIC), None);
        assert!(["rfc9260+cubic", "festina+rfc9260"].iter().all(|name| names().contains(name)));
        assert!(!names().contains(&"festina+cubic"), "that is `festina`");
        names().iter().for_each(|name| drop(Flow::named(name, StreamScheduler::default(), 50_000)));
    }
}
