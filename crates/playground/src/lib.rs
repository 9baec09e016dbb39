//! The simulator for a page: [`distribution`] and [`sequence`] simulate, and return how many numbers they left; [`value`] reads these one by one.
//!
//! Only numbers cross the border, so the module needs neither pointers nor imports. `site/playground` builds the page.

mod job;
mod scene;

use std::cell::RefCell;

use job::{Job, SENDERS};

/// What [`value`] gives for a number that there is not.
const NOTHING: f64 = -1.0;

thread_local! {
    /// The numbers of the last simulation.
    static VALUES: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the numbers of a simulation for [`value`], and returns how many they are.
fn keep(values: Option<Vec<f64>>) -> u32 {
    let values = values.unwrap_or_default();
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    VALUES.set(values);
    count
}

/// Delays of `messages` messages: number of those delivered and not delivered, p50, p99, p99.9 and the longest delay in ms, packets and bytes of both
/// ends for each message, then the steps of the distribution: a delay in ms and the share of messages that take longer. Returns the number of numbers,
/// zero if an argument is out of range or no connection came about.
#[expect(unsafe_code, reason = "exports a name; no other function has it")]
#[unsafe(no_mangle)]
pub extern "C" fn distribution(
    sender: u32,
    loss_permille: u32,
    burst_packets: u32,
    interval_ms: u32,
    rtt_ms: u32,
    messages: u32,
) -> u32 {
    let job = Job { sender, loss_permille, burst_packets, interval_ms, rtt_ms, messages };
    keep(job.distribution())
}

/// One lost message: its delay in ms, then for each packet around it the direction (0 for data, 1 for what returns), when it left and arrived in ms
/// since the write of the lost message, and why a message was sent again in it (an index for [`cause_letter`]), each -1 if it did not arrive
/// or repeats nothing.
#[expect(unsafe_code, reason = "exports a name; no other function has it")]
#[unsafe(no_mangle)]
pub extern "C" fn sequence(sender: u32, interval_ms: u32, rtt_ms: u32) -> u32 {
    let job = Job { sender, loss_permille: 0, burst_packets: 1, interval_ms, rtt_ms, messages: 0 };
    keep(scene::sequence(&job))
}

/// A number of the last simulation.
#[expect(unsafe_code, reason = "exports a name; no other function has it")]
#[unsafe(no_mangle)]
pub extern "C" fn value(index: u32) -> f64 {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    VALUES.with_borrow(|values| values.get(index).copied()).unwrap_or(NOTHING)
}

/// A letter of a sender's name, as Unicode's number; zero behind the last one, and for a sender that there is not.
#[expect(unsafe_code, reason = "exports a name; no other function has it")]
#[unsafe(no_mangle)]
pub extern "C" fn sender_letter(sender: u32, index: u32) -> u32 {
    letter(&SENDERS, sender, index)
}

/// A letter of the name of a cause of retransmission, as [`sender_letter`].
#[expect(unsafe_code, reason = "exports a name; no other function has it")]
#[unsafe(no_mangle)]
pub extern "C" fn cause_letter(cause: u32, index: u32) -> u32 {
    letter(&scene::CAUSES, cause, index)
}

fn letter(names: &[&str], name: u32, index: u32) -> u32 {
    let [name, index] = [name, index].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    names.get(name).and_then(|name| name.chars().nth(index)).map_or(0, u32::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page's test expects of the module, so that both are the same simulation.
    const EXPECTED: &str = include_str!("../../../site/playground/expected.json");

    fn values(count: u32) -> Vec<f64> {
        (0..count).map(|index| value(index)).collect()
    }

    #[test]
    fn the_numbers_are_those_that_the_page_expects() {
        let expected: Vec<Vec<f64>> = serde_json::from_str(EXPECTED).expect("it is JSON");
        let names: Vec<String> = (0..).map_while(name).collect();
        assert_eq!(names, SENDERS);
        let ours: Vec<Vec<f64>> =
            (0..4).map(|sender| values(distribution(sender, 50, 1, 250, 100, 2_000).min(8))).collect();
        // What reads them may be wrong in the last digit; the page's test is exact.
        let is_same = |(ours, expected): (&f64, &f64)| (ours - expected).abs() <= expected * 1e-12;
        let pairs = ours.iter().flatten().zip(expected.iter().flatten());
        assert!(ours.len() == expected.len() && pairs.into_iter().all(is_same), "{ours:?}");
    }

    fn name(sender: u32) -> Option<String> {
        let letters = (0..).map(|index| sender_letter(sender, index)).take_while(|letter| *letter > 0);
        let name: String = letters.filter_map(char::from_u32).collect();
        (!name.is_empty()).then_some(name)
    }

    #[test]
    fn a_lost_message_comes_sooner_with_festina_than_with_the_others() {
        let delays: Vec<f64> = (0..4).map(|sender| values(sequence(sender, 250, 100))[0]).collect();
        let [tcp, sctp, rack, festina] = delays[..] else { panic!("there are four") };
        assert!(festina < rack && rack <= tcp.min(sctp) && festina < 160.0, "{delays:?}");
        // Exactly one data packet is lost, and another one brings it.
        let rows = values(sequence(3, 250, 100));
        let lost = rows[1..].chunks(4).filter(|row| row[0] == 0.0 && row[2] == NOTHING).count();
        let again = rows[1..].chunks(4).filter(|row| row[3] != NOTHING).count();
        assert_eq!((lost, again), (1, 1), "{rows:?}");
    }

    #[test]
    fn what_is_out_of_range_gives_nothing() {
        for count in [
            distribution(4, 50, 1, 250, 100, 2_000),
            distribution(0, 501, 1, 250, 100, 2_000),
            distribution(0, 50, 0, 250, 100, 2_000),
            distribution(0, 50, 1, 0, 100, 2_000),
            distribution(0, 50, 1, 250, 0, 2_000),
            distribution(0, 50, 1, 250, 100, 0),
            distribution(0, 50, 1, u32::MAX, u32::MAX, u32::MAX),
            sequence(9, 250, 100),
            sequence(0, 0, 100),
        ] {
            assert_eq!((count, value(0)), (0, NOTHING));
        }
    }
}
