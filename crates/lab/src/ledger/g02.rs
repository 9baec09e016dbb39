//! What Goel, Krasic, Li and Walpole 2002 say of send buffers that follow cwnd.

use super::Tested::{Checks, Not, Numbers};
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::G02, section, says, tested, cause: "" }
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
        Checks("g02-table1", &["in-time"]),
    ).because(
        "Losses. Of (1,0) nothing waits in the sender, 0.1 ms in the mean, but the bottleneck drops 3 to 14% of all packets, and with a \
     round trip of 100 ms what is lost, or waits for it, arrives after 150 ms and the time in the queue at the earliest. A longer \
     queue drops fewer; its length was fitted to the mean latency of (1,0).",
    ),
    says(
        "§4.1, Table 1",
        "Standard TCP delivers fewer within 200 ms than each MIN_BUF stream.",
        Checks("g02-table1", &["more-in-time"]),
    ),
    says("Table 2", "Mean latencies.", Numbers("g02-table2", "mean latency")),
    says(
        "§4.1, Table 2",
        "Latency falls from standard TCP over (2,0) and (1,3) to (1,0).",
        Checks("g02-table2", &["order"]),
    ),
    says("Table 3", "Normalized throughput.", Numbers("g02-table3", "normalized throughput")),
    says(
        "§4.2, Table 3",
        "(1,3) has nine tenths of TCP's throughput or more, (2,0) about all of it.",
        Checks("g02-table3", &["close-to-tcp"]),
    ).because(
        "The fixed buffer of 64 KB is what limits standard TCP on a path that is empty at first, so (2,0) exceeds it. With 521 KB it has \
     1.01 to 1.42 of it.",
    ),
    says(
        "§4.2, Table 3",
        "(1,0) consistently has the least throughput, about 70% of TCP's.",
        Checks("g02-table3", &["one-zero-least"]),
    ).because(
        "Two things. Wake-ups that come 1 ms late cost (1,0) 13 to 14% of (1,3)'s throughput at 30 Mbit/s and 50 and 25 ms; later ones \
     would cost more, and the paper does not tell how late its were. And 64 KB limit the standard TCP that is compared with: with 521 \
     KB (1,0) has 0.83 to 1.20 of its throughput.",
    ),
    says(
        "§4.1, Fig. 3",
        "MIN_BUF streams have significantly lower latency than standard TCP.",
        Checks("g02-fig3", &["far-below-tcp"]),
    ),
    says(
        "§4.1, Fig. 4",
        "(1,0) has the lowest latency of the three, (2,0) the highest.",
        Checks("g02-fig4", &["order-of-three"]),
    ),
    says(
        "§4.1, Fig. 5",
        "A much larger share of TCP's packets than of MIN_BUF's is outside of the thresholds.",
        Checks("g02-fig5", &["later-than-200"]),
    ),
    says(
        "§4.3, Fig. 6",
        "The sender's latency of MIN_BUF(1,0) is small; peaks are mainly due to losses.",
        Checks("g02-fig6", &["sender-small"]),
    ),
    says("§4.4, Fig. 7", "With ECN the mice take half of the bottleneck.", Checks("g02-fig7", &["mice-half"])),
    says(
        "§4.4, Fig. 8",
        "MIN_BUF(1,0) is far below standard TCP with ECN, too.",
        Checks("g02-fig8", &["ecn-far-below-tcp"]),
    ),
    says("§4.4, Fig. 9", "ECN lowers the peaks of the latency.", Checks("g02-fig9", &["ecn-peaks"])),
    says(
        "§4.4, Fig. 10",
        "With ECN a larger share of MIN_BUF's packets is within the thresholds.",
        Checks("g02-fig10", &["ecn-min-buf-tails"]),
    ).because(
        "It is so for (1,0), which keeps nothing in its buffer, in each cell. DRED, which begins to act at one bandwidth-delay product, \
     lets a longer queue stand than the drop-tail queues have room for: at 12 Mbit/s and 100 ms the mean time in the network is 90 ms \
     instead of 64, at 30 Mbit/s 88 instead of 60. With what (1,3) and (2,0) have in their buffers that is over 200 ms more often. \
     Nearly all of the waits of over 500 ms, which come from losses, are gone.",
    ),
    says("§4.4, Fig. 10", "Standard TCP has worse tails with ECN.", Checks("g02-fig10", &["ecn-tcp-tails"])).because(
        "The paper's reason is that its flows with ECN had less throughput than those without, and so waited longer in the send buffer. \
     Ours have as much or more (12 Mbit/s, 25 ms: 1.67 instead of 1.37 Mbit/s), since without ECN the bottleneck drops a tenth of all \
     packets, and with it 2 to 4%.",
    ),
    says("§4.4", "With ECN fewer mice are needed for a fair share.", Not("no sweep over the number of mice")),
    says(
        "§3.1",
        "MIN_BUF costs CPU time at gigabit rates.",
        Not("the paper has no numbers; the example `overhead` of festina-minbuf measures it"),
    ),
];
