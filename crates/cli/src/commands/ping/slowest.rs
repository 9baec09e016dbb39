//! The slowest messages, and how this side sent them again.

use std::time::Duration;

use festina::RetransmissionCause;
use serde::Serialize;

use crate::output;

/// Messages in the summary.
const SLOWEST_MAX: usize = 10;

/// The causes of a message's retransmissions, each once, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Repairs(Vec<&'static str>);

impl Repairs {
    pub(super) fn note(&mut self, cause: RetransmissionCause) {
        let name = match cause {
            RetransmissionCause::Timeout => "timeout",
            RetransmissionCause::Fast => "fast",
            RetransmissionCause::ReportedBundled | RetransmissionCause::Bundled => "bundled",
            RetransmissionCause::Probe => "probe",
            RetransmissionCause::Copy => "copy",
            _ => "other",
        };
        self.0.retain(|known| *known != name);
        self.0.push(name);
    }
}

/// One of the slowest messages, for programs.
#[derive(Debug, Serialize)]
pub(super) struct SlowMessage {
    /// Counted from 1, as on the lines for people.
    sequence: u64,
    ms: f64,
    /// Empty if this side sent it once: the network, the peer or the way back caused the delay.
    retransmitted_by: Repairs,
}

/// The slowest messages, the slowest first.
#[derive(Debug, Default)]
pub(super) struct Slowest(Vec<(Duration, SlowMessage)>);

impl Slowest {
    /// Takes a message into account that came back after this time.
    pub(super) fn note(&mut self, sequence: u64, time: Duration, retransmitted_by: Repairs) {
        let at = self.0.partition_point(|(slower, _)| *slower >= time);
        if at < SLOWEST_MAX {
            self.0.truncate(SLOWEST_MAX - 1);
            let message = SlowMessage { sequence: sequence + 1, ms: output::json_ms(time), retransmitted_by };
            self.0.insert(at, (time, message));
        }
    }

    pub(super) fn messages(&self) -> Vec<&SlowMessage> {
        self.0.iter().map(|(_, message)| message).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn the_slowest_messages_are_kept_with_the_causes_of_their_retransmissions() {
        let mut slowest = Slowest::default();
        for sequence in 0..100 {
            slowest.note(sequence, Duration::from_millis(50 + sequence % 20), Repairs::default());
        }
        let mut repairs = Repairs::default();
        for cause in [RetransmissionCause::Probe, RetransmissionCause::Timeout, RetransmissionCause::Probe] {
            repairs.note(cause);
        }
        slowest.note(100, Duration::from_millis(150), repairs);
        let shown = to_value(slowest.messages()).expect("plain values");
        assert_eq!(shown.as_array().map(Vec::len), Some(SLOWEST_MAX));
        assert_eq!(shown[0], json!({ "sequence": 101, "ms": 150.0, "retransmitted_by": ["timeout", "probe"] }));
        assert_eq!(shown[1], json!({ "sequence": 20, "ms": 69.0, "retransmitted_by": [] }));
        assert_eq!(shown[9]["ms"], 68.0);
    }
}
