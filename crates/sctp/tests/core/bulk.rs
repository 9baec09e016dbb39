//! What a stream that is not thin gets from the profiles.

use festina_netsim::{LinkConfig, LossModel, QueueLimit, Reordering};
use festina_recovery::Profile;
use festina_sctp::{Config, Message};
use festina_units::{Bandwidth, Duration, Probability};

use crate::pair::Pair;

const TRANSFER_BYTES: u64 = 3_000_000;
const MESSAGE_BYTES: usize = 1_000;

/// How long a transfer takes over 10 Mbit/s and a round trip of 40 ms.
fn transfer_time(profile: Profile, link: &LinkConfig, seed: u64) -> Duration {
    let config = Config::published(profile);
    let back = LinkConfig { delay: link.delay, ..LinkConfig::default() };
    let mut pair = Pair::new([config.clone(), config], [link.clone(), back], seed);
    pair.connect(0, seed);
    pair.run_for(Duration::from_secs(1));
    let started = pair.now;
    let limit = started + Duration::from_secs(300);
    let (mut sent_bytes, mut received_bytes) = (0_u64, 0_u64);
    while received_bytes < TRANSFER_BYTES {
        while sent_bytes < TRANSFER_BYTES {
            let now = pair.now;
            if pair.hosts[0].association().send(now, Message::new(vec![7; MESSAGE_BYTES])).is_err() {
                break;
            }
            sent_bytes += MESSAGE_BYTES as u64;
        }
        pair.drain(0);
        assert!(pair.step(limit), "the transfer stands still");
        received_bytes += pair.hosts[1].received.drain(..).map(|message| message.payload().len() as u64).sum::<u64>();
    }
    pair.now - started
}

/// The mean of a few transfers, in milliseconds.
fn mean_ms(profile: Profile, link: &LinkConfig) -> u128 {
    let times: Vec<_> = (0..6).map(|seed| transfer_time(profile, link, seed).as_millis()).collect();
    times.iter().sum::<u128>() / times.len() as u128
}

#[test]
fn a_bulk_transfer_is_as_quick_with_festina_as_with_the_standard_over_loss_and_over_reordering() {
    let clean = LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(10_000_000)),
        delay: Duration::from_millis(20),
        queue: QueueLimit::packets(100),
        ..LinkConfig::default()
    };
    let percent = |percent: u32| Probability::from_ppb(percent * 10_000_000);
    let lossy = LinkConfig { loss: LossModel::Independent(percent(1)), ..clean.clone() };
    let reordering = |probability, hold_back_ms| Reordering {
        probability: percent(probability),
        hold_back: Duration::from_millis(hold_back_ms),
    };
    let reordered = LinkConfig { reordering: reordering(2, 5), ..clean.clone() };
    let far_reordered = LinkConfig { reordering: reordering(2, 15), ..clean.clone() };
    for (name, link) in [("clean", clean), ("lossy", lossy), ("reordered", reordered), ("far reordered", far_reordered)]
    {
        let [standard, festina] = [Profile::Rfc9260, Profile::Festina].map(|profile| mean_ms(profile, &link));
        println!("{name}: {standard} ms with the standard, {festina} ms with festina");
        assert!(festina * 100 <= standard * 103, "{name}: {standard} ms with the standard, {festina} ms with festina");
    }
}
