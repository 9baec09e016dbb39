//! What Goel, Krasic, Li and Walpole 2002 say of send buffers that follow cwnd.

use super::Tested::{Checks, Not, Numbers};
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::G02, section, says, tested }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§2",
        "A full send buffer of 64 KB delays a stream of 300 kbit/s by 1,700 ms.",
        Not("arithmetic: 64 KiB over 300 kbit/s are 1,748 ms"),
    ),
    says(
        "§1",
        "On paths of less than 100 ms the average latency falls well below 200 ms.",
        Numbers("g02-table2", "mean latency: m13"),
    ),
    says("Table 1", "Shares of packets within 200 ms.", Numbers("g02-table1", "share within 200 ms")),
    says("Table 1", "Shares of packets within 500 ms.", Numbers("g02-table1", "share within 500 ms")),
    says(
        "§4.1, Table 1",
        "MIN_BUF(1,0) and (1,3) deliver 95% to 100% within 200 ms.",
        Checks("g02-table1", &["MIN_BUF(1,0) and (1,3) deliver"]),
    ),
    says(
        "§4.1, Table 1",
        "Standard TCP delivers fewer within 200 ms than each MIN_BUF stream.",
        Checks("g02-table1", &["Standard TCP delivers fewer"]),
    ),
    says("Table 2", "Mean latencies.", Numbers("g02-table2", "mean latency")),
    says(
        "§4.1, Table 2",
        "Latency falls from standard TCP over (2,0) and (1,3) to (1,0).",
        Checks("g02-table2", &["The mean latency falls"]),
    ),
    says("Table 3", "Normalized throughput.", Numbers("g02-table3", "normalized throughput")),
    says(
        "§4.2, Table 3",
        "(1,3) has nine tenths of TCP's throughput or more, (2,0) about all of it.",
        Checks("g02-table3", &["MIN_BUF(1,3) loses less"]),
    ),
    says(
        "§4.2, Table 3",
        "(1,0) consistently has the least throughput, about 70% of TCP's.",
        Checks("g02-table3", &["MIN_BUF(1,0) has the least"]),
    ),
    says(
        "§4.1, Fig. 3",
        "MIN_BUF streams have significantly lower latency than standard TCP.",
        Checks("g02-fig3", &["MIN_BUF(1,0) has less than half"]),
    ),
    says(
        "§4.1, Fig. 4",
        "(1,0) has the lowest latency of the three, (2,0) the highest.",
        Checks("g02-fig4", &["MIN_BUF(1,0) has the lowest"]),
    ),
    says(
        "§4.1, Fig. 5",
        "A much larger share of TCP's packets than of MIN_BUF's is outside of the thresholds.",
        Checks("g02-fig5", &["A much larger share"]),
    ),
    says(
        "§4.3, Fig. 6",
        "The sender's latency of MIN_BUF(1,0) is small; peaks are mainly due to losses.",
        Checks("g02-fig6", &["The sender's share"]),
    ),
    says("§4.4, Fig. 7", "With ECN the mice take half of the bottleneck.", Checks("g02-fig7", &["With ECN 80 mice"])),
    says(
        "§4.4, Fig. 8",
        "MIN_BUF(1,0) is far below standard TCP with ECN, too.",
        Checks("g02-fig8", &["With ECN MIN_BUF(1,0)"]),
    ),
    says("§4.4, Fig. 9", "ECN lowers the peaks of the latency.", Checks("g02-fig9", &["With ECN the longest"])),
    says(
        "§4.4, Fig. 10",
        "With ECN a larger share of MIN_BUF's packets is within the thresholds.",
        Checks("g02-fig10", &["With ECN a larger share"]),
    ),
    says("§4.4, Fig. 10", "Standard TCP has worse tails with ECN.", Checks("g02-fig10", &["With ECN a smaller share"])),
    says("§4.4", "With ECN fewer mice are needed for a fair share.", Not("no sweep over the number of mice")),
    says(
        "§3.1",
        "MIN_BUF costs CPU time at gigabit rates.",
        Not("the paper has no numbers; the example `overhead` of festina-minbuf measures it"),
    ),
];
