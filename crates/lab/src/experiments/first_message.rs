//! `first-message`: how long the first message of an association takes, from `connect` to its delivery.

mod checks;
mod credentials;
mod opening;
mod secure;

use festina_units::{ByteCount, Probability};

use crate::capture::Capture;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::fate::DELIVERY;
use crate::summary::{PointSummary, Results};
use opening::Openings;

/// The delay from `connect` to the delivery of the first message.
#[derive(Clone, Copy, Debug)]
pub struct FirstMessage;

impl Experiment for FirstMessage {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/first-message.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        Openings::at(point).run(seed)
    }

    fn is_random(&self, point: &Point) -> bool {
        point.probability("loss") > Probability::ZERO
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(Openings::at(point).capture(seed))
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        checks::checks(results)
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let Some(base) = results.points().first() else { return Vec::new() };
        let path = |summary: &PointSummary| ["rtt", "loss"].map(|name| summary.point().value(name));
        let sizes = results.points().iter().map(|summary| summary.point().bytes("size"));
        let mut sizes: Vec<ByteCount> = sizes.collect();
        sizes.sort_unstable_by_key(|size| size.bytes());
        sizes.dedup();
        let figure = |size: ByteCount| {
            let conditions = format!("{size}, {}", checks::conditions(base.point()));
            let mut distribution = DelayDistribution::new(results.plan().title(), &conditions);
            let same = results.points().iter().filter(|summary| path(summary) == path(base));
            for summary in same.filter(|summary| summary.point().bytes("size") == size) {
                let (sender, destination) = (summary.point().choice("sender"), summary.point().choice("destination"));
                let name = if destination == "new" { sender.to_owned() } else { format!("{sender}, {destination}") };
                if let Some(delays) = summary.series().get(DELIVERY) {
                    distribution.curve(&name, delays.all());
                }
            }
            distribution.figure()
        };
        sizes.into_iter().map(figure).collect()
    }

    fn rows(&self, results: &Results) -> Vec<serde_json::Value> {
        results.points().iter().map(checks::row).collect()
    }
}

#[cfg(test)]
mod tests {
    use festina_units::Duration;

    use super::opening::{BYTES, PACKETS, SECURE, SECURE_EARLY};
    use super::*;
    use crate::plan::{PlanFile, Scale};

    fn point(settings: &str) -> Point {
        point_of("festina", settings)
    }

    fn point_of(sender: &str, settings: &str) -> Point {
        let text = format!(
            "experiment = \"first-message\"\nrepetitions = 1\n[parameters]\nsender = \"{sender}\"\nrtt = \"100ms\"\nassociations = 20\n{settings}"
        );
        let plan = PlanFile::parse("point.toml", &text).and_then(|file| file.plan(&FirstMessage, Scale::Full));
        plan.expect("the plan is sound").points().swap_remove(0)
    }

    #[test]
    fn without_losses_the_first_message_takes_one_and_a_half_round_trips_and_four_packets() {
        let samples = FirstMessage.run(&point("loss = \"0%\"\nsize = \"100B\"\ndestination = \"new\""), 1);
        let delays = &samples.tallies()[DELIVERY];
        let expected = Duration::from_millis(150);
        assert_eq!((delays.count(), delays.min(), delays.max()), (20, Some(expected), Some(expected)));
        assert_eq!(samples.values()[PACKETS], 80.0);
        assert!(samples.values()[BYTES] > 20.0 * 400.0);
    }

    fn encrypted(resumes: bool, size: &str) -> Samples {
        let sender = if resumes { SECURE_EARLY } else { SECURE };
        let settings = format!("loss = \"0%\"\nsize = \"{size}\"\ndestination = \"new\"");
        FirstMessage.run(&point_of(sender, &settings), 1)
    }

    fn only_delay(samples: &Samples) -> Option<Duration> {
        let delays = &samples.tallies()[DELIVERY];
        let (min, max) = (delays.min(), delays.max());
        min.filter(|_| delays.count() == 20 && min == max)
    }

    #[test]
    fn encrypted_first_messages_take_one_and_a_half_round_trips_and_early_ones_half_of_one() {
        for (resumes, size, milliseconds) in
            [(false, "100B", 150), (false, "12000B", 150), (true, "100B", 50), (true, "12000B", 150)]
        {
            let samples = encrypted(resumes, size);
            assert_eq!(only_delay(&samples), Some(Duration::from_millis(milliseconds)), "{resumes}, {size}");
        }
    }

    #[test]
    fn random_keys_of_tls_change_no_delay_no_packet_and_no_byte() {
        let settings = "loss = \"10%\"\nsize = \"100B\"\ndestination = \"known\"";
        for sender in [SECURE, SECURE_EARLY] {
            let point = point_of(sender, settings);
            let samples = FirstMessage.run(&point, 3);
            assert_eq!(FirstMessage.run(&point, 3), samples, "{sender}");
            assert_ne!(FirstMessage.run(&point, 4), samples, "{sender}");
        }
    }

    #[test]
    fn a_capture_has_the_datagrams_of_an_encrypted_association() {
        let point = point_of(SECURE, "loss = \"0%\"\nsize = \"100B\"\ndestination = \"new\"");
        let capture = FirstMessage.capture(&point, 1).expect("the experiment captures");
        let seen = capture.seen_by(festina_netsim::NodeId(0)).expect("all packets fit");
        // IPv4, UDP, and the long header of an Initial packet.
        let hellos = seen
            .iter()
            .filter(|(_, packet)| packet[9] == 17 && packet[28] & 0xf0 == 0xc0 && packet[29..33] == *b"FST\x01");
        assert_eq!(hellos.count(), 2 * 21, "a hello and an answer each, and those of the association that teaches");
    }
}
