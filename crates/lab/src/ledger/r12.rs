//! What Rajiullah and Brunstrom 2012 say.

use super::Tested::{Checks, Not};
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::R12, section, says, tested }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§III-C, Fig. 3a",
        "With the sender of 2012 the average delay falls as messages grow.",
        Checks("r12-fig3", &["The larger the messages"]),
    ),
    says(
        "§III-C, Fig. 3a",
        "The average delay is highest with messages of 72 bytes of which half are important.",
        Checks("r12-fig3", &["The average delay is highest"]),
    ),
    says(
        "§III-C, Fig. 3b",
        "Normally distributed sizes change nothing significantly.",
        Checks("r12-fig3", &["Normally distributed sizes"]),
    ),
    says(
        "§III-C, Fig. 3",
        "If all messages are important, small ones take longer: more headers.",
        Checks("r12-fig3", &["If all messages are important"]),
    ),
    says(
        "§III-C, Fig. 4a",
        "At 72 bytes the delay is considerably higher at every load but 15% if half of the messages are important.",
        Checks("r12-fig4", &["At 72 bytes and every load above 15%"]),
    ),
    says(
        "§III-C, Fig. 4a",
        "At 72 bytes and 15% load the inefficiency has no effect.",
        Checks("r12-fig4", &["At 72 bytes and 15% load"]),
    ),
    says(
        "§III-C, Fig. 4b",
        "At 716 bytes the delay grows with the share of important messages.",
        Checks("r12-fig4", &["At 716 bytes the average delay grows"]),
    ),
    says(
        "§III-C, Fig. 4b",
        "At 716 bytes and 80% load the sender can hardly keep up.",
        Checks("r12-fig4", &["At 716 bytes and 80% load"]),
    ),
    says(
        "§III-C",
        "Results for normal messages are very similar.",
        Not("no check; the reports have the delays of both"),
    ),
    says(
        "§IV-B, Fig. 5 and 6",
        "The sequences of packets in both cases, with and without NR-SACK.",
        Checks("r12-sequences", &["The packets of the repair"]),
    ),
    says(
        "§III-A",
        "Each message that was received between two lost ones costs a round trip more.",
        Checks("r12-sequences", &["Case 1"]),
    ),
    says("§IV-B, Fig. 6", "NR-SACK recovers two round trips sooner.", Checks("r12-sequences", &["Case 2"])),
    says(
        "§IV-C, Fig. 7a",
        "At 72 bytes, 30% load and 1% important messages, NR-SACK lowers the average delay by over 75%.",
        Checks("r12-fig7", &["At 72 bytes, 30% load and 1%"]),
    ),
    says(
        "§IV-C, Fig. 7a",
        "With 50% important messages, by over 65%.",
        Checks("r12-fig7", &["At 72 bytes, 30% load and 50%"]),
    ),
    says("§IV-C, Fig. 7a", "There is no gain from 348 bytes on.", Checks("r12-fig7", &["From 348 bytes on"])),
    says("§IV-C, Fig. 7b", "NR-SACK gains at other loads, too.", Checks("r12-fig7", &["At 72 bytes NR-SACK lowers"])),
    says(
        "§IV-C, Fig. 7b",
        "With NR-SACK the delay grows with the share of important messages.",
        Checks("r12-fig7", &["With NR-SACK and 72 bytes"]),
    ),
    says(
        "§IV-C, Fig. 7b",
        "If all messages are important, both coincide.",
        Checks("r12-fig7", &["If all messages are important"]),
    ),
];
