//! A peer that falls silent is given up, with any loss recovery.

use festina_netsim::{Link, LinkConfig, LossModel};
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::{ClosedReason, Config, Message};
use festina_units::{Duration, Probability};

use crate::pair::Pair;

/// Far beyond what the retries of RFC 9260 §16 and its RTO.Max allow.
const GIVEN_UP_MAX: Duration = Duration::from_secs(30 * 60);

/// Whether the sender gives up a peer that no packet reaches any more, with these mechanisms and heartbeats switched off.
fn gives_up(mechanisms: Mechanisms, opened_by_both: bool) -> bool {
    let delay = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
    let mut config = Config { mechanisms, ..Config::default() };
    config.timers.heartbeat_interval = None;
    let mut pair = Pair::new([config.clone(), config], [delay.clone(), delay.clone()], 1);
    pair.connect(0, 1);
    if opened_by_both {
        pair.connect(1, 2);
    }
    pair.run_for(Duration::from_secs(1));
    let dead = LinkConfig { loss: LossModel::Independent(Probability::ONE), ..delay };
    pair.links = [Link::new(dead.clone(), 1, "there"), Link::new(dead, 1, "back")];
    let now = pair.now;
    pair.hosts[0].association().send(now, Message::new(vec![1; 5])).unwrap();
    pair.drain(0);
    pair.run_until_or(GIVEN_UP_MAX, |pair| pair.hosts[0].closed().is_some());
    pair.hosts[0].closed() == Some(&ClosedReason::PeerUnreachable)
}

#[test]
fn a_peer_that_falls_silent_is_given_up_with_the_rules_of_any_two_profiles_section_8_1() {
    let mut failed = Vec::new();
    for normal in Profile::all() {
        for thin in Profile::all() {
            let mechanisms = Mechanisms {
                thin_detection: Profile::Festina.mechanisms().thin_detection,
                normal: normal.mechanisms().normal,
                ..thin.mechanisms()
            };
            for opened_by_both in [false, true] {
                if !gives_up(mechanisms, opened_by_both) {
                    failed.push((normal.name(), thin.name(), opened_by_both));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
