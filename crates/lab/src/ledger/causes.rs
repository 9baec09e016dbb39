//! Why statements are broken, as far as found.

use super::Statement;

/// How a statement begins in our words, where it stands, and the cause.
const CAUSES: &[(&str, &str, &str)] = &[
    (
        "§6.4, Fig. 13",
        "FreeBSD with early fast retransmit follows FreeBSD closely.",
        "Here early fast retransmit takes 30% off the 90th percentile of what was lost. Three cures were tried. If its condition counts \
         packets, as P10 §2 words it, and not bytes, as the public source does, 19 ± 7% (24 runs): a collapsed window then keeps it \
         from acting, which is the paper's own reason. If bursts last a second and nothing passes, 12% over 16 runs together: what it \
         sends early is lost, too. If only what is older than SRTT + 4 RTTVAR is sent again, as in 2011, 30 ± 8%. So it hangs on \
         the path's bursts and on that kernel's version, and neither is public.",
    ),
    (
        "§5, Paper I",
        "Six classes of flows.",
        "Six clusters of six kinds are there, but not the kinds: bulk flows of fast and slow paths share one, and short web flows that fit into the \
         initial window have one of their own. That the sixth class is a second family of bulk flows is our guess. Flows of one kind alone reach a \
         silhouette of 0.25, too.",
    ),
    (
        "§4.5, Table 3",
        "The numbers without SACK delay.",
        "The paper has one fast retransmission and we have 0.15 on average: a single packet decides the chi-square of the class \
         shares, p = 0.047.",
    ),
    (
        "§6.1, Fig. 8(a)",
        "TCP's maxima of the 1st and 2nd",
        "The RTO of the modified kernel stays at 200 ms where every message is sent again before its SACK, while TCP's is 200 \
         ms above the round-trip time. It is so under every reading (docs/readings.md).",
    ),
    (
        "§6.1",
        "Modified lksctp against TCP, each measure",
        "What is missed are the maxima of the 1st and 2nd retransmission, for the same reason.",
    ),
    (
        "§6.2, Fig. 8(b)",
        "The same: RTO.Min and fast retransmission.",
        "Only the second retransmission with RTO.Min alone is later, by 2%. With lksctp it is a timeout a second after the \
         message first left (2,018 of 2,181, three quarters in vain); with RTO.Min alone the early timeout is the first \
         retransmission, and the second of what is lost waits for three reports, 1.18 s. With ambiguous samples the ratio is 1.01, \
         undecided.",
    ),
    (
        "§6.2, Fig. 8(b)",
        "Each modification alone improves",
        "The same second retransmission with RTO.Min alone; and without backoff the means differ by less than 1%, since two \
         timeouts in a row are rare: 21 third retransmissions to 17,507 first ones.",
    ),
    (
        "§6.2, Fig. 8(b)",
        "The relative improvement tends to grow",
        "It does from the second to the third retransmission, not from the first to the second: with RTO.Min alone these take \
         0.43 and 1.02 of lksctp's time. With ambiguous samples it is so, too.",
    ),
    (
        "§6.2, Fig. 10",
        "lksctp's 99% is far above the others.",
        "At 50 ms lksctp's own three reports come within 150 ms of a loss, and its 99% is low already; at 100 ms and more it is \
         far above.",
    ),
    (
        "§6.2, Fig. 10",
        "Its distance to that of the lower RTO.Min falls as the interval grows.",
        "It falls from 100 ms on. At 50 ms lksctp's 99% is low, since its three reports come within 150 ms.",
    ),
    (
        "§6.2, Fig. 10",
        "It is below lksctp's mean from 4 to 20 packets a second.",
        "Up to 10 packets a second it is. At 20, lksctp's mean is low, since its three reports come within 150 ms; why that of \
         the modified sender lies 9% above it was not found.",
    ),
    (
        "§6.2, Fig. 9",
        "lksctp: so is a large share of the fast",
        "The bundled ones are. A second fast retransmission needs three more reports, and here all of them are of real losses: none of 104 \
         in p10-fig8b is in vain.",
    ),
    (
        "§6.2, Fig. 9",
        "Modified: slightly fewer first timeouts.",
        "The timer of the modified kernel expires while the SACK is delayed: 262,764 of 376,858 first retransmissions in \
         p10-fig8b are timeouts, and 97% of these are in vain. With ambiguous samples there are a twentieth as many, at quick \
         scale.",
    ),
    (
        "§6.2, Fig. 9",
        "Modified: bundling is the major cause",
        "The same timeouts in vain outnumber the bundled chunks.",
    ),
    (
        "§6.2",
        "A longer one increases retransmission times.",
        "From 100 to 400 ms lksctp's first retransmissions come earlier in the mean. At 400 ms more messages are outstanding at a \
         time, and more leave as bundled chunks, soon after they were first sent, as in p06-table2.",
    ),
    (
        "§6.2",
        "A longer one increases the number of fast",
        "With lksctp it does from 50 to 100 ms, and with all modifications from 100 to 400 ms. From 100 to 400 ms lksctp's fast ones become fewer, \
         since bundling comes before the third report: in four quick runs 1,125 chunks leave bundled, against 104.",
    ),
    (
        "§6.4, Fig. 13",
        "Up to 0.999 all set-ups",
        "Over the twelve hours together, as the figure has them, the quantiles at 0.999 lie between 68.16 and 68.42 ms. The \
         check takes half hours; in some of them bursts lose more than a thousandth, and the quantile is a repaired message.",
    ),
    (
        "§6.4, Table 2",
        "The shares of spurious",
        "Of what the modified kernel sends 0.64% are in vain with the fix by the age of the oldest chunk, 0.56% without it, \
         and 13.2% with the fix as §5.2 words it: the published 6.7% lie between both readings.",
    ),
    (
        "§6.4",
        "The gain is mainly due to the fix",
        "The lower RTO.Min gives 37% of the gain, the fix 1%, and the rest is that of fast retransmission and of no backoff. \
         The fix as §5.2 words it saves 46 ms more in the mean, with 13.2% in vain.",
    ),
    (
        "§6.4, §6.5",
        "The improvement costs a slightly increased",
        "With Karn's rule, a round-trip time of 100 ms and delayed SACKs every chunk is sent again after 200 ms, so that none \
         measures anything and the RTO stays there. It holds without SACK delay and with ambiguous samples \
         (docs/readings.md).",
    ),
    (
        "§6.4, §6.5",
        "The same beside web traffic.",
        "The same timeouts in vain while the SACK is delayed. With ambiguous samples it holds: 0.03 retransmissions more for \
         each message, at quick scale.",
    ),
    (
        "§5, Paper III",
        "TLPR is best in almost all cases: controlled tail loss.",
        "Where one packet is lost at a long round-trip time, R15's formula adds the delay of an acknowledgement, and the \
         restarted RTO comes first. Where four are lost, the restart changes nothing, and TLPR ties with TLP.",
    ),
    (
        "§III-C, Fig. 4a",
        "At 72 bytes and 15% load the inefficiency has no effect.",
        "With half of the messages important it takes 17 ± 3% longer than with 1%, and no more than 6 ± 3% longer than with all: what is important is \
         sent again, and what is not is given up.",
    ),
    (
        "§IV-C, Fig. 7a",
        "At 72 bytes, 30% load and 1% important",
        "The gain is 26 ± 4% with what FreeBSD 8.2's sources do and the paper does not mention: what has expired is given up as soon as it is missing, \
         without a cut of the window, and an application may have 3,200 chunks or 233,016 bytes unacknowledged, by default with 4 GB. If the sender \
         looks at lifetimes before retransmissions only, it is 34%. Three more things of those sources were tried: all of them together give 22%. With \
         512 chunks, which that kernel has with less than 96 MB of memory or by a setting, they give 77% (docs/lab.md). Of Nagle's rule and of how \
         Dummynet counts bytes it depends more than of all these.",
    ),
    (
        "§IV-C, Fig. 7a",
        "With 50% important messages, by over 65%.",
        "The gain is 44 ± 5%, read as for 1%; with the three things more it is 57%, and 78% with 512 chunks.",
    ),
    (
        "§IV-C, Fig. 7b",
        "With NR-SACK the delay grows with the share",
        "It grows up to a half, at 30% load by 40 ± 6% and 35 ± 8%. Where all messages are important it is lower again, at 45% load by 21 ± 5%, as it is with \
         the sender of 2012: nothing is abandoned then, and no FORWARD-TSN takes a round trip.",
    ),
    ("§5, Paper VII", "NR-SACK lowers PR-SCTP's average delay", "The same as in R12, Fig. 7a."),
    (
        "Paper VI, abstract",
        "Beside competing traffic PR-SCTP does not",
        "Through one bottleneck with lines of 90 bytes it is so: 1.00 ± 0.19 and 1.13 ± 0.214 of TCP's delay. With lines of 250 bytes, and through three \
         bottlenecks, PR-SCTP gains by delivering out of order what TCP delivers in order. The paper's loads and queues are not public.",
    ),
    (
        "§IV-B, Fig. 6",
        "NR-SACK recovers two round trips sooner.",
        "The packets are those of Fig. 6, drawn and counted one by one. They save one round trip.",
    ),
    (
        "§4.2, Table 3",
        "(1,3) has nine tenths of TCP's throughput",
        "The fixed buffer of 64 KB is what limits standard TCP on a path that is empty at first, so (2,0) exceeds it. With 521 KB it has \
         1.01 to 1.42 of it.",
    ),
    (
        "§4.1, Table 1",
        "MIN_BUF(1,0) and (1,3) deliver 95%",
        "Losses. Of (1,0) nothing waits in the sender, 0.1 ms in the mean, but the bottleneck drops 3 to 14% of all packets, and with a round \
         trip of 100 ms what is lost, or waits for it, arrives after 150 ms and the time in the queue at the earliest. A longer queue drops \
         fewer; its length was fitted to the mean latency of (1,0).",
    ),
    (
        "§4.2, Table 3",
        "(1,0) consistently has the least throughput",
        "Two things. Wake-ups that come 1 ms late cost (1,0) 13 to 14% of (1,3)'s throughput at 30 Mbit/s and 50 and 25 ms; later ones would \
         cost more, and the paper does not tell how late its were. And 64 KB limit the standard TCP that is compared with: with 521 KB (1,0) has 0.83 \
         to 1.20 of its throughput.",
    ),
    (
        "§4.4, Fig. 10",
        "With ECN a larger share of MIN_BUF's",
        "It is so for (1,0), which keeps nothing in its buffer, in each cell. DRED, which begins to act at one bandwidth-delay product, lets a longer          queue stand than the drop-tail queues have room for: at 12 Mbit/s and 100 ms the mean time in the network is 90 ms instead of 64, at 30          Mbit/s 88 instead of 60. With what (1,3) and (2,0) have in their buffers that is over 200 ms more often. Nearly all of the waits of over 500          ms, which come from losses, are gone.",
    ),
    (
        "§4.4, Fig. 10",
        "Standard TCP has worse tails with ECN.",
        "The paper's reason is that its flows with ECN had less throughput than those without, and so waited longer in the send buffer. Ours have as          much or more (12 Mbit/s, 25 ms: 1.67 instead of 1.37 Mbit/s), since without ECN the bottleneck drops a tenth of all packets, and with it 2          to 4%.",
    ),
];

/// The cause of a statement's being broken, if one is known.
pub(super) fn of(statement: &Statement) -> Option<&'static str> {
    let names =
        |(section, says, _): &&(&str, &str, &str)| statement.section == *section && statement.says.starts_with(says);
    CAUSES.iter().find(names).map(|(_, _, cause)| *cause)
}

#[cfg(test)]
mod tests {
    use super::super::statements;
    use super::*;

    #[test]
    fn every_cause_belongs_to_a_statement() {
        for (section, says, cause) in CAUSES {
            let found = statements().filter(|it| it.section == *section && it.says.starts_with(says)).count();
            assert!(found > 0 && !cause.is_empty(), "{section}: {says}");
        }
    }
}
