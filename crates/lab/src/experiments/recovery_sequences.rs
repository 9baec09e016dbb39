//! `recovery-sequences`: what each profile does about one lost message, packet by packet.

mod checks;
mod scene;

use crate::capture::Capture;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::{Captured, Sender, fate};
use crate::summary::Results;
use scene::{Loss, Scene};

/// One scripted loss per point, and a time-sequence figure of it.
#[derive(Clone, Copy, Debug)]
pub struct RecoverySequences;

impl Experiment for RecoverySequences {
    fn description(&self) -> Description {
        Description {
            name: "recovery-sequences",
            title: "What each profile does about a lost message, packet by packet",
            reference: "Festina's own; the mechanisms are those of P06, P10, R15 and the RFCs that docs/recovery.md names",
            about: "An application writes one small message every interval over one association, long enough for the round-trip time to be \
         known. Then packets are lost, exactly those that the parameter lost names: the first transmission of one message \
         (message), those of two messages in a row (pair), that of a message and the packet that repeats it first, with \
         what leaves in the same moment (repair), that of the last message that is written at all (last), or those of two \
         messages in a row and what the receiver answers to the packet that repeats the first of them (answer). Nothing else \
         is lost. The receiver is unmodified and delays SACKs by 200 ms unless the sender's I bit asks it not to (RFC \
         7053).\n\n\
         Each figure has the life of the messages around the loss: when each left, whether that was lost, when it left \
         again and why, and up to which message the application had received at which time. A copy is a chunk that was sent again \
         without a call for it: it rode in a packet that left anyway, or redundancy asked for it. Copies that turned out to be \
         needed are drawn as retransmissions.\n\n\
         Delays run from the application's write to the delivery; the longest is that of a lost message, or of one that had to wait for \
         it. Packets are all that the sender sent in the whole run.",
            plan: include_str!("../../../../experiments/recovery-sequences.toml"),
            question: "",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        // The messages around the loss say how long a run lasts.
        let mut parameters: Vec<_> = Sender::parameters().into_iter().filter(|one| one.name != "duration").collect();
        let about = "which packets are lost";
        parameters.push(Parameter { name: "lost", about, kind: Kind::Choice(Loss::NAMES) });
        parameters
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        fate::samples(&Scene::of(point).stream(seed).run(seed))
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        Some(Scene::of(point).stream(seed).capture(seed))
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        checks::checks(results)
    }

    /// One figure per point. Results have delays, not packets, so the first repetition is run once more; it takes milliseconds.
    fn figures(&self, results: &Results) -> Vec<Figure> {
        let seed = results.plan().repetition_seed(0);
        results.points().iter().filter_map(|summary| Scene::of(summary.point()).figure(seed)).collect()
    }
}
