//! What Goel, Krasic, Li and Walpole 2002 say of send buffers that follow cwnd.

use super::Tested::{Arithmetic, Checks, Not, Numbers};
use super::{Paper, Statement, Sum, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::G02, section, says, tested, cause: "", headline: None }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§2",
        "A full send buffer of 64 KB delays a stream of 300 kbit/s by 1,700 ms.",
        Arithmetic(&[Sum {
            what: "64 KiB over 300 kbit/s",
            unit: "ms",
            published: 1_700.0,
            calculated: 65_536.0 * 8.0 / 300.0,
            within: 50.0,
        }]),
    ),
    says(
        "§1",
        "On paths of less than 100 ms the average latency falls well below 200 ms.",
        Checks("g02-table2", &["well-below-200"]),
    ),
    says("Table 1", "Shares of packets later than 200 ms.", Numbers("g02-table1", "share later than 200 ms")),
    says("Table 1", "Shares of packets later than 500 ms.", Numbers("g02-table1", "share later than 500 ms")),
    says(
        "§4.1, Table 1",
        "(1,0) and (1,3) deliver about the same share within both thresholds.",
        Checks("g02-table1", &["similar"]),
    ),
    says("Table 2", "The mean latencies of Table 2.", Numbers("g02-table2", "mean latency"))
    .headline("76 ms for (1,3)", "mean latency: m13, 30Mbit/s, 100ms", " ms"),
    says(
        "§4.1, Table 2",
        "MIN_BUF streams have much lower average latency than TCP, in each case.",
        Checks("g02-table2", &["much-lower"]),
    )
    .headline("0.34", "m13 over std at 30Mbit/s, 100ms", " "),
    says(
        "§4.1, Table 2",
        "The mean latency of MIN_BUF streams varies much less from run to run.",
        Checks("g02-table2", &["steadier"]),
    ),
    says("Table 3", "Normalized throughput.", Numbers("g02-table3", "normalized throughput")),
    says(
        "§4.2, Table 3",
        "(1,3) has nine tenths of TCP's throughput or more, (2,0) about all of it.",
        Checks("g02-table3", &["close-to-tcp"]),
    )
    .headline("0.96", "m13 at 30Mbit/s, 100ms", " ")
    .because(
        "The 64 KB of standard TCP's send buffer, which limit its window: with `send_buffer = \"521280B\"` (8 runs) ten of the twelve cells hold and two \
         are undecided, but standard TCP's mean latency is 0.8 to 2.4 s then.",
    ),
    says(
        "§4.2, Table 3",
        "(1,0) consistently has the least throughput, about 70% of TCP's.",
        Checks("g02-table3", &["one-zero-least"]),
    )
    .headline("", "m10 over m13 at 30Mbit/s, 50ms", " of that of (1,3)"),
    says(
        "§4.2",
        "The share within 200 ms times the throughput is highest for (1,3). (By the paper's own tables it is highest for (2,0) in three of six cases.)",
        Checks("g02-table3", &["quality"]),
    ),
    says(
        "§4.1, Fig. 3",
        "MIN_BUF streams have significantly lower latency than standard TCP.",
        Checks("g02-fig3", &["far-below-tcp"]),
    ),
    says(
        "§4.1",
        "TCP's latency is highest when its throughput is lowest; that of (1,0) follows it less.",
        Checks("g02-fig3", &["follows-throughput"]),
    ),
    says(
        "§4.1",
        "The latency of (2,0), too, is highest when its throughput is lowest; that of (1,3) follows it less.",
        Checks("g02-fig5", &["two-zero-follows-throughput"]),
    ),
    says(
        "§4.1, Fig. 4",
        "(1,0) has the lowest latency of the three, (2,0) the highest.",
        Checks("g02-fig4", &["order-of-three"]),
    ),
    says(
        "§4.1, Fig. 5",
        "In all cases a much larger share of TCP's packets than of MIN_BUF's is outside of the thresholds.",
        Checks("g02-fig5", &["much-later"]),
    )
    .headline("", "", ""),
    says(
        "§4.1, Fig. 5",
        "More packets are late the longer the round-trip time and the lower the rate.",
        Checks("g02-fig5", &["tails-by-path"]),
    ),
    says("§4.3, Fig. 6", "The sender's latency of MIN_BUF(1,0) is small.", Checks("g02-fig6", &["sender-small"])),
    says(
        "§4.1, §4.3, Fig. 6",
        "The peaks of MIN_BUF(1,0) are mainly due to losses and retransmissions.",
        Checks("g02-fig6", &["peaks-by-loss"]),
    )
    .headline("", "later than 200 ms at 30Mbit/s, 100ms", " %"),
    says(
        "§4.3",
        "Its latency does not depend significantly on the throughput or cwnd.",
        Checks("g02-fig6", &["independent-of-cwnd"]),
    ),
    says(
        "§4.1, Fig. 2; §4.4, Fig. 7",
        "80 mice take about 30% of the bottleneck, and 50% with ECN.",
        Checks("g02-fig7", &["eighty-mice"]),
    ),
    says("§4.4, Fig. 7", "With ECN the mice reach half of the bottleneck.", Checks("g02-fig7", &["ecn-mice-half"])),
    says(
        "§4.4",
        "Without ECN even very many mice do not reach half at a low rate and a short round-trip time.",
        Checks("g02-fig7", &["mice-short-of-half"]),
    ),
    says(
        "§4.4, Fig. 8",
        "MIN_BUF(1,0) is far below standard TCP with ECN, too.",
        Checks("g02-fig8", &["ecn-far-below-tcp"]),
    ),
    says("§4.4, Fig. 9", "ECN lowers the peaks of the latency.", Checks("g02-fig9", &["ecn-peaks"]))
    .headline("", "m10 at 30Mbit/s, 100ms", " ms"),
    says(
        "§4.4, Fig. 10",
        "With ECN a larger share of MIN_BUF's packets is within the thresholds.",
        Checks("g02-fig10", &["ecn-min-buf-tails"]),
    ),
    says("§4.4, Fig. 10", "Standard TCP has worse tails with ECN.", Checks("g02-fig10", &["ecn-tcp-tails"])),
    says("§4.4", "With ECN fewer packets are dropped.", Checks("g02-fig10", &["ecn-fewer-drops"])),
    says("§4.4", "With ECN standard TCP has less throughput.", Checks("g02-fig10", &["ecn-tcp-throughput"])),
    says("§4.4", "With ECN fewer mice are needed for a fair share.", Checks("g02-fig7", &["ecn-fewer-mice"])),
    says(
        "§3.1",
        "MIN_BUF may cost CPU time at gigabit rates.",
        Not("the paper announces the measurement and leaves its result to a later version; docs/minbuf.md has ours"),
    ),
];
