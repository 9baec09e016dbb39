//! What Rajiullah 2015 says, as far as loss recovery goes, and what it says of partial reliability and of traffic.

use super::Tested::{Checks, Not};
use super::{Paper, Statement, Tested};

const ELSEWHERE: &str = "cited from others";
const TRACES: &str = "it rests on traces of the Internet";
const OUTPERFORM: &[&str] =
    &["TCP: tcp-rtor is on average faster", "TCP: tcp-tlp is on average faster", "TCP: tcp-tlpr is on average faster"];

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::R15, section, says, tested }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§1",
        "A tenth of all connections loses a segment and takes five times as long; 77% of these losses end in a timeout.",
        Not(ELSEWHERE),
    ),
    says(
        "§3.4",
        "70% of the objects of the largest sites are too small for fast retransmit; half of all recoveries are timeouts.",
        Not(ELSEWHERE),
    ),
    says(
        "§5, Paper I",
        "Six classes of flows.",
        Checks("r15-classes", &["Flows of six kinds", "Fewer kinds", "Each cluster has"]),
    ),
    says("§5, Paper I", "Video and interactive flows become more.", Not(TRACES)),
    says(
        "§5, Paper II",
        "The faster links get, the more flows are limited by slow start.",
        Checks("r15-slow-start", &["The faster the path"]),
    ),
    says(
        "§1",
        "More capacity helps those flows little that are over before they use it.",
        Checks("r15-slow-start", &["A path ten times as fast"]),
    ),
    says("§5, Paper II", "Most flows begin on an empty link.", Not(TRACES)),
    says(
        "§5, Paper III",
        "RTOR, TLP and TLPR outperform standard TCP: controlled tail loss.",
        Checks("r15-tail-loss", OUTPERFORM),
    ),
    says("§5, Paper III", "The same: losses by background traffic.", Checks("r15-congestion", OUTPERFORM)),
    says("§5, Paper III", "The same: web pages.", Checks("r15-web", OUTPERFORM)),
    says(
        "§6, Paper III",
        "Where RTOR is triggered, it saves a round trip at least.",
        Checks("r15-tail-loss", &["TCP: where tcp-rtor changes anything"]),
    ),
    says(
        "§5, Paper III",
        "Whether TLP or RTOR gains more depends on the scenario: controlled tail loss.",
        Checks("r15-tail-loss", &["TCP: whether"]),
    ),
    says("§5, Paper III", "The same: losses by background traffic.", Checks("r15-congestion", &["TCP: whether"])),
    says(
        "§5, Paper III",
        "TLPR is best in almost all cases: controlled tail loss.",
        Checks("r15-tail-loss", &["TCP: tcp-tlpr is faster", "TCP: tcp-tlpr-rtor is faster"]),
    ),
    says(
        "§5, Paper III",
        "The same: losses by background traffic.",
        Checks("r15-congestion", &["TCP: tcp-tlpr is faster", "TCP: tcp-tlpr-rtor is faster"]),
    ),
    says(
        "§5, Paper III",
        "The same: web pages.",
        Checks("r15-web", &["TCP: tcp-tlpr is faster", "TCP: tcp-tlpr-rtor is faster"]),
    ),
    says(
        "§7",
        "These mechanisms make spurious retransmissions more likely.",
        Not("no check; the reports tell how many are in vain"),
    ),
    says(
        "§6, Paper IV",
        "PR-SCTP has a lower average delay than TCP for log lines of 250 bytes under artificial loss.",
        Checks("r15-syslog-loss", &["PR-SCTP's average delay is shorter than TCP's"]),
    ),
    says(
        "§6, Paper IV",
        "PR-SCTP loses fewer of them on average than UDP.",
        Checks("r15-syslog-loss", &["PR-SCTP loses fewer lines than UDP"]),
    ),
    says(
        "§6, Paper IV",
        "PR-SCTP uses the lines' priority when it recovers losses.",
        Checks("r15-syslog-loss", &["PR-SCTP delivers every important line", "UDP loses important lines"]),
    ),
    says(
        "Paper V, abstract",
        "Under artificial loss PR-SCTP clearly outperformed SCTP, too.",
        Checks("r15-syslog-loss", &["PR-SCTP's average delay is shorter than SCTP's"]),
    ),
    says(
        "§6, Paper V",
        "Real log lines: exponential gaps, normal lengths far below 250 bytes on average, 7.6% important.",
        Not("it rests on traces of an operational network, which `r15-syslog-trace` takes as given"),
    ),
    says(
        "§6, Paper V",
        "The length of real log lines heavily influences PR-SCTP's performance.",
        Checks("r15-syslog-trace", &["PR-SCTP's average delay is longer with short lines"]),
    ),
    says(
        "Paper VI, abstract",
        "Beside competing traffic PR-SCTP does not clearly outperform TCP.",
        Checks("r15-syslog-congestion", &["PR-SCTP's average delay is not clearly shorter"]),
    ),
    says(
        "§6, Papers V and VI",
        "Small messages of mixed importance make PR-SCTP slow.",
        Checks("r12-fig3", &["The average delay is highest"]),
    ),
    says(
        "§3.6.1",
        "The headers of chunks and packets are a large part of what small messages cost.",
        Checks("r15-buffering", &["Messages of 72 bytes cost"]),
    ),
    says(
        "§3.6.2",
        "Where queues count packets, small packets are dropped as often as large ones.",
        Checks("r15-buffering", &["Messages of 72 bytes in packets"]),
    ),
    says(
        "§6, Paper VI",
        "Several bottlenecks in a row: a parking lot (nothing more in text).",
        Checks("r15-parking-lot", &["NR-SACK lowers the average delay behind", "The more bottlenecks"]),
    ),
    says(
        "§5, Paper VII",
        "NR-SACK lowers PR-SCTP's average delay by more than 75% in some scenarios.",
        Checks("r12-fig7", &["At 72 bytes, 30% load and 1%"]),
    ),
    says(
        "§6, Paper VII",
        "For log lines of traces, NR-SACK gives PR-SCTP a lower average delay than it has without.",
        Checks("r15-syslog-trace", &["PR-SCTP with NR-SACK has a shorter average delay than PR-SCTP"]),
    ),
    says(
        "§6, Paper VII",
        "The same: lower than TCP's.",
        Checks("r15-syslog-trace", &["PR-SCTP with NR-SACK has a shorter average delay than TCP"]),
    ),
    says(
        "§6, Paper VII",
        "The same: lower than SCTP's.",
        Checks("r15-syslog-trace", &["PR-SCTP with NR-SACK has a shorter average delay than SCTP"]),
    ),
    says(
        "§1, §5",
        "Unlike UDP, it is as reliable as TCP or SCTP for important log lines.",
        Checks("r15-syslog-trace", &["PR-SCTP delivers every important line", "UDP loses important lines"]),
    ),
    says(
        "§7",
        "NR-SACK improves the performance of PR-SCTP for log lines in general: a dumbbell and a parking lot.",
        Checks("r15-syslog-congestion", &["PR-SCTP with NR-SACK has a shorter average delay than PR-SCTP"]),
    ),
    says(
        "§7",
        "It performs better than TCP there.",
        Checks("r15-syslog-congestion", &["PR-SCTP with NR-SACK has a shorter average delay than TCP"]),
    ),
    says(
        "§7",
        "It performs better than SCTP there.",
        Checks("r15-syslog-congestion", &["PR-SCTP with NR-SACK has a shorter average delay than SCTP"]),
    ),
    says(
        "§7",
        "It performs better than UDP there: important log lines are delivered reliably.",
        Checks("r15-syslog-congestion", &["PR-SCTP delivers every important line", "UDP loses important lines"]),
    ),
];
