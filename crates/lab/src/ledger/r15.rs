//! Statements of Rajiullah 2015 on loss recovery, partial reliability and traffic.

use super::Tested::{Checks, Not};
use super::{Paper, Statement, Tested};

const ELSEWHERE: &str = "cited from others";
const TRACES: &str = "it rests on traces of the Internet";
const OUTPERFORM: &[&str] = &["tcp-rtor-outperforms", "tcp-tlp-outperforms", "tcp-tlpr-outperforms"];

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::R15, section, says, tested, cause: "", headline: None }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§1, §3.4",
        "A tenth of all connections loses a segment and takes five times as long, and 77% of these losses end in \
         a timeout; 70% of the objects of the largest sites are too small for fast retransmit; 32.8 to 66% of \
         retransmissions are timeouts, and 9.6 to 17% fast ones.",
        Not(ELSEWHERE),
    ),
    says(
        "§5, Paper I",
        "Flows of the Internet have six classes, and video and interactive flows become more.",
        Not(
            "it rests on traces of the Internet; of generated flows any clustering could only find the kinds that were generated",
        ),
    ),
    says(
        "§5, Paper II",
        "The faster links get, the more flows are limited by slow start.",
        Not(
            "true by definition here: a flow counts as limited if it is over before its window reaches what the link holds",
        ),
    ),
    says(
        "§1",
        "More capacity helps those flows little that are over before they use it.",
        Checks("r15-slow-start", &["small-gain"]),
    ),
    says("§5, Paper II", "Most flows begin on an empty link.", Not(TRACES)),
    says(
        "§5, Paper III",
        "RTOR, TLP and TLPR outperform standard TCP: controlled tail loss.",
        Checks("r15-tail-loss", OUTPERFORM),
    )
    .headline("", "ratio of the means", " of the time"),
    says("§5, Paper III", "The same: losses by background traffic.", Checks("r15-congestion", OUTPERFORM)),
    says("§5, Paper III", "The same: web pages.", Checks("r15-web", OUTPERFORM)),
    says(
        "§6, Paper III",
        "Where RTOR is triggered, it saves a round trip at least.",
        Checks("r15-tail-loss", &["round-trip"]),
    )
    .headline("1 round trip", "the least is", " "),
    says(
        "§3.4.1",
        "Restarting the timer adds about a round trip, and the delay of an acknowledgement if that restarts it.",
        Checks("r15-tail-loss", &["restart-adds"]),
    ),
    says(
        "§5, Paper III",
        "Whether TLP or RTOR gains more depends on the scenario: controlled tail loss.",
        Checks("r15-tail-loss", &["depends"]),
    ),
    says("§5, Paper III", "The same: losses by background traffic.", Checks("r15-congestion", &["depends"])),
    says(
        "§5, Paper III",
        "TLPR is best in almost all cases: controlled tail loss. (The thesis combines the logic of RTOR with TLP; \
         here both timers are restarted.)",
        Checks("r15-tail-loss", &["tcp-tlpr-rtor-best"]),
    )
    .headline("", "best in", ""),
    says(
        "§5, Paper III",
        "TLPR is best in almost all cases: losses by background traffic, likewise.",
        Checks("r15-congestion", &["tcp-tlpr-rtor-best"]),
    ),
    says(
        "§5, Paper III",
        "TLPR is best in almost all cases: web pages, likewise.",
        Checks("r15-web", &["tcp-tlpr-rtor-best"]),
    ),
    says(
        "§7",
        "These mechanisms make spurious retransmissions more likely.",
        Checks("r15-congestion", &["more-spurious"]),
    ),
    says(
        "§6, Paper IV",
        "PR-SCTP has a lower average delay than TCP for log lines of 250 bytes under artificial loss.",
        Checks("r15-syslog-loss", &["below-tcp"]),
    )
    .headline("", "load 2%, loss 1%: ratio", " "),
    says(
        "§6, Paper IV",
        "PR-SCTP loses fewer log lines on average than UDP.",
        Checks("r15-syslog-loss", &["fewer-than-udp"]),
    ),
    says(
        "§6, Paper IV",
        "PR-SCTP uses the lines' priority when it recovers losses.",
        Checks("r15-syslog-loss", &["important", "udp-loses"]),
    ),
    says(
        "Paper V, abstract",
        "Under artificial loss PR-SCTP clearly outperformed SCTP, too. (Quoted: that paper is not among the five.)",
        Checks("r15-syslog-loss", &["below-sctp"]),
    ),
    says(
        "§6, Paper V",
        "Real log lines: exponential gaps, normal lengths far below 250 bytes on average, 7.6% important. (Quoted: that paper is not among the five.)",
        Not("it rests on traces of an operational network, which `r15-syslog-trace` takes as given"),
    ),
    says(
        "§6, Paper V",
        "The length of real log lines heavily influences PR-SCTP's performance.",
        Checks("r15-syslog-trace", &["short-lines"]),
    ),
    says(
        "Paper VI, abstract",
        "Beside competing traffic PR-SCTP does not clearly outperform TCP. (Quoted: that paper is not among the five.)",
        Checks("r15-syslog-congestion", &["not-clearly"]),
    ),
    says(
        "§3.6.1, Paper VI",
        "The headers of chunks and packets are a large part of what small messages cost.",
        Checks("r15-buffering", &["headers"]),
    ),
    says(
        "§5, §3.6.2, Paper VI",
        "Where queues count packets, small packets have a higher loss per application byte than full ones.",
        Checks("r15-buffering", &["losses-per-byte"]),
    ),
    says(
        "§6, Paper VII",
        "For log lines of traces, NR-SACK gives PR-SCTP a lower average delay than it has without.",
        Checks("r15-syslog-trace", &["nr-sack-pr-sctp"]),
    )
    .headline("", "size 90B, load 30%: ratio", " "),
    says("§6, Paper VII", "The same: lower than TCP's.", Checks("r15-syslog-trace", &["nr-sack-tcp"])),
    says("§6, Paper VII", "The same: lower than SCTP's.", Checks("r15-syslog-trace", &["nr-sack-sctp"])),
    says(
        "§1, §5",
        "Unlike UDP, it is as reliable as TCP or SCTP for important log lines.",
        Checks("r15-syslog-trace", &["important", "udp-loses"]),
    ),
    says(
        "§7",
        "NR-SACK improves the performance of PR-SCTP for log lines in general: a dumbbell and a parking lot.",
        Checks("r15-syslog-congestion", &["nr-sack-pr-sctp"]),
    )
    .headline("", "geometric mean of the ratios of 8 cells", " of the delay without"),
    says("§7", "The same behind several bottlenecks in a row.", Checks("r15-parking-lot", &["gains"])),
    says(
        "§7",
        "PR-SCTP with NR-SACK performs better than TCP in a dumbbell and a parking lot.",
        Checks("r15-syslog-congestion", &["nr-sack-tcp"]),
    )
    .headline("", "geometric mean of the ratios of 8 cells", " of its delay"),
    says("§7", "It performs better than SCTP in both.", Checks("r15-syslog-congestion", &["nr-sack-sctp"])),
    says(
        "§7",
        "It performs better than UDP in both: important log lines are delivered reliably.",
        Not("true by construction: important lines are sent reliably over PR-SCTP, and over UDP they are not"),
    ),
];
