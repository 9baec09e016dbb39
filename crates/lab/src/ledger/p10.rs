//! What Petlund et al. 2010 say.

use super::Tested::{Checks, Fitted, Not, Numbers};
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::P10, section, says, tested, cause: "" }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§3.1, Fig. 1",
        "Nearly half of the game's streams had delays above 500 ms.",
        Numbers("p10-fig1", "streams with delays above 500 ms"),
    ),
    says(
        "§3.1, Fig. 1",
        "So had streams with little loss.",
        Checks("p10-fig1", &["little-loss"]),
    ),
    says("§3.1, Fig. 1", "The longest delay is 67 s.", Numbers("p10-fig1", "longest delay")),
    says("Table 1", "Sizes and gaps of nine applications.", Numbers("p10-table1", "sizes and gaps")),
    says("Table 1", "Rates of nine applications.", Numbers("p10-table1", "rates")),
    says(
        "§4",
        "Delayed SACKs make the RTO too long for much of the time.",
        Checks("p10-fig4", &["mostly-too-long"]),
    ),
    says(
        "§5.2, Fig. 4(a)",
        "The lower RTO.Min, the more delayed SACKs weigh in the calculated RTO.",
        Checks("p10-fig4", &["effect-grows"]),
    ),
    says(
        "§5.3, Fig. 5",
        "Without backoff retransmissions in a row come at equal distances.",
        Not("built into the model"),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Without backoff the maxima of the 2nd and 3rd retransmission are lower.",
        Checks("p10-fig8a", &["no-backoff-maximum"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Its means and 99% are marginally lower only.",
        Checks("p10-fig8a", &["no-backoff-mean"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "An RTO.Min of 200 ms lowers mean and 99%.",
        Checks("p10-fig8a", &["min-rto"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Fast retransmission on the first report lowers both drastically.",
        Checks("p10-fig8a", &["fast"]),
    ),
    says("§6.1, Fig. 8(a)", "Its maxima are still high.", Checks("p10-fig8a", &["fast-maximum"])),
    says(
        "§6.1, Fig. 8(a)",
        "All modifications improve maximum, 99% and mean much.",
        Checks("p10-fig8a", &["all-modifications"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "The improvements are more pronounced for the 2nd and 3rd retransmission.",
        Checks("p10-fig8a", &["later-more"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "TCP's 1st and 2nd retransmission are better than lksctp's.",
        Checks("p10-fig8a", &["tcp-first-second"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "lksctp has the better mean of the 3rd.",
        Checks("p10-fig8a", &["lksctp-third-mean"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "TCP has the better 99% and maximum of the 3rd.",
        Checks("p10-fig8a", &["tcp-third"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Modified lksctp is better than TCP in mean and 99% of each.",
        Checks("p10-fig8a", &["better-than-tcp"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "TCP's maxima of the 1st and 2nd are better than modified lksctp's.",
        Checks("p10-fig8a", &["tcp-maxima"]),
    ).because(
        "The RTO of the modified kernel stays at 200 ms where every message is sent again before its SACK, while TCP's is 200 ms above \
     the round-trip time. It is so under every reading (docs/readings.md).",
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Its maximum of the 3rd is much higher.",
        Checks("p10-fig8a", &["tcp-third-maximum"]),
    ),
    says(
        "§6.1",
        "All tests show the same trends, over round-trip times, losses and intervals.",
        Checks("p10-fig8a", &["trends"]),
    ),
    says(
        "§6.2",
        "The web traffic makes for 5% loss.",
        Fitted("the TCP of the web traffic was chosen by this number (`web_tcp` of `p10-fig8b`)"),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "Beside web traffic it is very similar: no backoff.",
        Checks("p10-fig8b", &["no-backoff-mean", "no-backoff-maximum"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "The same: RTO.Min and fast retransmission.",
        Checks("p10-fig8b", &["min-rto", "fast", "fast-maximum"]),
    ).because(
        "Only the second retransmission with RTO.Min alone is later, by 2%. With lksctp it is a timeout a second after the message first \
     left (2,018 of 2,181, three quarters in vain); with RTO.Min alone the early timeout is the first retransmission, and the second \
     of what is lost waits for three reports, 1.18 s. With ambiguous samples the ratio is 1.01, undecided.",
    ),
    says(
        "§6.2, Fig. 8(b)",
        "The same: all modifications.",
        Checks("p10-fig8b", &["all-modifications", "later-more"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "Each modification alone improves upon lksctp.",
        Checks("p10-fig8b", &["each-alone"]),
    ).because(
        "The same second retransmission with RTO.Min alone; and without backoff the means differ by less than 1%, since two timeouts in a \
     row are rare: 21 third retransmissions to 17,507 first ones.",
    ),
    says(
        "§6.2, Fig. 8(b)",
        "The relative improvement tends to grow with the number of retransmissions.",
        Checks("p10-fig8b", &["relative"]),
    ).because(
        "It does from the second to the third retransmission, not from the first to the second: with RTO.Min alone these take 0.43 and \
     1.02 of lksctp's time. With ambiguous samples it is so, too.",
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: most first retransmissions are fast.",
        Checks("p10-fig9", &["lksctp-fast-first"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: bundled ones come second.",
        Checks("p10-fig9", &["lksctp-bundled-second"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: the majority of these is spurious.",
        Checks("p10-fig9", &["lksctp-bundled-spurious"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: timeouts are a little more than 20% of the first.",
        Numbers("p10-fig9", "a little more than 20"),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: the share of timeouts is larger among the second.",
        Checks("p10-fig9", &["lksctp-more-timeouts"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: around 75% of the second are timeouts.",
        Numbers("p10-fig9", "second retransmissions of lksctp"),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: most of these are spurious.",
        Checks("p10-fig9", &["lksctp-timeouts-spurious"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: so is a large share of the fast and bundled second ones.",
        Checks("p10-fig9", &["lksctp-others-spurious"]),
    ).because(
        "The bundled ones are. A second fast retransmission needs three more reports, and here all of them are of real losses: none of \
     104 in p10-fig8b is in vain.",
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: timeouts dominate the third.",
        Checks("p10-fig9", &["lksctp-timeouts-third"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: slightly fewer first timeouts.",
        Checks("p10-fig9", &["fewer-timeouts"]),
    ).because(
        "The timer of the modified kernel expires while the SACK is delayed: 262,764 of 376,858 first retransmissions in p10-fig8b are \
     timeouts, and 97% of these are in vain. With ambiguous samples there are a twentieth as many, at quick scale.",
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: somewhat fewer fast ones.",
        Checks("p10-fig9", &["fewer-fast"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: bundling is the major cause of the first.",
        Checks("p10-fig9", &["bundling-first"]),
    ).because(
        "The same timeouts in vain outnumber the bundled chunks.",
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: timeouts dominate the second.",
        Checks("p10-fig9", &["timeouts-second"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: more spurious retransmissions.",
        Checks("p10-fig9", &["more-spurious"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: large improvement of all latencies.",
        Checks("p10-fig9", &["earlier"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: significant improvement of the maxima.",
        Checks("p10-fig9", &["maxima"]),
    ),
    says(
        "§6.2, Fig. 10",
        "lksctp's 99% is far above the others.",
        Checks("p10-fig10", &["far-above"]),
    ).because(
        "At 50 ms lksctp's own three reports come within 150 ms of a loss, and its 99% is low already; at 100 ms and more it is far \
     above.",
    ),
    says(
        "§6.2, Fig. 10",
        "Its distance to that of the lower RTO.Min falls as the interval grows.",
        Checks("p10-fig10", &["distance-falls"]),
    ).because(
        "It falls from 100 ms on. At 50 ms lksctp's 99% is low, since its three reports come within 150 ms.",
    ),
    says(
        "§6.2, Fig. 10",
        "The 99% of all modifications is stable.",
        Checks("p10-fig10", &["stable"]),
    ),
    says(
        "§6.2, Fig. 10",
        "It is below lksctp's mean from 4 to 20 packets a second.",
        Checks("p10-fig10", &["below-mean"]),
    ).because(
        "Up to 10 packets a second it is. At 20, lksctp's mean is low, since its three reports come within 150 ms; why that of the \
     modified sender lies 9% above it was not found.",
    ),
    says(
        "§6.2",
        "A lower round-trip time helps only the smallest intervals.",
        Checks("p10-fig10", &["lower-rtt"]),
    ),
    says(
        "§6.2",
        "A longer one increases retransmission times.",
        Checks("p10-fig9", &["rtt-later"]),
    ).because(
        "From 100 to 400 ms lksctp's first retransmissions come earlier in the mean. At 400 ms more messages are outstanding at a time, \
     and more leave as bundled chunks, soon after they were first sent, as in p06-table2.",
    ),
    says(
        "§6.2",
        "A longer one increases the number of fast retransmissions.",
        Checks("p10-fig9", &["rtt-more-fast"]),
    ).because(
        "With lksctp it does from 50 to 100 ms, and with all modifications from 100 to 400 ms. From 100 to 400 ms lksctp's fast ones \
     become fewer, since bundling comes before the third report: in four quick runs 1,125 chunks leave bundled, against 104.",
    ),
    says("§6.3, Fig. 12(a)", "No noticeable difference at thin rates.", Checks("p10-fig12", &["thin-alike"])),
    says(
        "§6.3, Fig. 12(a)",
        "At higher rates regular lksctp has a little more throughput.",
        Numbers("p10-fig12", "modified over unmodified stream"),
    ),
    says("§6.3", "At higher rates both use nearly the same.", Checks("p10-fig12", &["thick-alike"])),
    says(
        "§6.3, Fig. 12(b)",
        "The greedy stream has nearly the same throughput beside either.",
        Checks("p10-fig12", &["greedy-alike"]),
    ),
    says(
        "§6.3, Fig. 12(b)",
        "It has slightly more beside the modified one at 400, 500 and 1000 kbit/s.",
        Numbers("p10-fig12", "greedy stream beside the modified one"),
    ),
    says(
        "§6.3, Fig. 11",
        "Only very small differences from moment to moment.",
        Checks("p10-fig11", &["moment-to-moment"]),
    ),
    says("§6.4", "Loss rates below 0.1%.", Numbers("p10-fig13", "loss rate")),
    says("§6.4, Fig. 13", "Up to 0.999 all set-ups are more or less equal.", Checks("p10-fig13", &["alike"])).because(
        "Over the twelve hours together, as the figure has them, the quantiles at 0.999 lie between 68.16 and 68.42 ms. The check takes \
     half hours; in some of them bursts lose more than a thousandth, and the quantile is a repaired message.",
    ),
    says("§6.4, Table 2", "All have similar average latencies.", Checks("p10-fig13", &["averages"])),
    says("§6.4, Table 2", "The averages themselves, 302 to 304 ms.", Numbers("p10-fig13", "average latency")),
    says("§6.4, Table 2", "The maxima.", Numbers("p10-fig13", "maximum latency")),
    says("§6.4, Table 2", "The maxima less the averages.", Numbers("p10-fig13", "maximum of a run less")),
    says("§6.4, Table 2", "The shares of spurious retransmissions.", Numbers("p10-fig13", "spurious retransmissions")).because(
        "Of what the modified kernel sends 0.64% are in vain with the fix by the age of the oldest chunk, 0.56% without it, and 13.2% \
     with the fix as §5.2 words it: the published 6.7% lie between both readings.",
    ),
    says(
        "§6.4, Fig. 13",
        "lksctp is earlier than FreeBSD for some packets.",
        Checks("p10-fig13", &["lksctp-before-freebsd"]),
    ),
    says(
        "§6.4, Fig. 13",
        "FreeBSD with early fast retransmit follows FreeBSD closely.",
        Checks("p10-fig13", &["efr-follows"]),
    ).because(
        "Here early fast retransmit takes 30% off the 90th percentile of what was lost. Three cures were tried. If its condition counts \
     packets, as P10 §2 words it, and not bytes, as the public source does, 19 ± 7% (24 runs): a collapsed window then keeps it from \
     acting, which is the paper's own reason. If bursts last a second and nothing passes, 12% over 16 runs together: what it sends \
     early is lost, too. If only what is older than SRTT + 4 RTTVAR is sent again, as in 2011, 30 ± 8%. So it hangs on the path's \
     bursts and on that kernel's version, and neither is public.",
    ),
    says(
        "§6.4, Fig. 13",
        "It has clear benefits over both between 0.9992 and 0.9995.",
        Checks("p10-fig13", &["efr-benefit"]),
    ),
    says("§6.4", "A collapsed window keeps early fast retransmit from being triggered.", Not("no experiment")),
    says(
        "§6.4, Fig. 13",
        "Modified lksctp delivers a considerable number of packets earlier.",
        Checks("p10-fig13", &["modified-earlier"]),
    ),
    says(
        "§6.4, Fig. 13",
        "Its maximum is much lower.",
        Fitted(
            "the length of the bursts was chosen so that the maximum of lksctp has the order of magnitude of Table 2",
        ),
    ),
    says(
        "§6.4",
        "The gain is mainly due to the fix of the timer's restart.",
        Checks("p10-fig13", &["timer-fix"]),
    ).because(
        "The lower RTO.Min gives 37% of the gain, the fix 1%, and the rest is that of fast retransmission and of no backoff. The fix as \
     §5.2 words it saves 46 ms more in the mean, with 13.2% in vain.",
    ),
    says(
        "§6.4, Table 2",
        "Immensely more spurious retransmissions.",
        Checks("p10-fig13", &["spurious"]),
    ),
    says(
        "§6.4, §6.5",
        "The improvement costs a slightly increased bandwidth: under random loss.",
        Checks("p10-fig8a", &["costs-little"]),
    ).because(
        "With Karn's rule, a round-trip time of 100 ms and delayed SACKs every chunk is sent again after 200 ms, so that none measures \
     anything and the RTO stays there. It holds without SACK delay and with ambiguous samples (docs/readings.md).",
    ),
    says("§6.4, §6.5", "The same beside web traffic.", Checks("p10-fig8b", &["costs-little"])).because(
        "The same timeouts in vain while the SACK is delayed. With ambiguous samples it holds: 0.03 retransmissions more for each \
     message, at quick scale.",
    ),
    says(
        "§6.4, Fig. 14",
        "From three access networks the same trends, and worst cases lower by seconds.",
        Not("neither the paths nor their losses are told"),
    ),
    says(
        "§7.4",
        "Among many streams modified lksctp is more aggressive than lksctp.",
        Checks("fairness-crowd", &["many-thin-streams"]),
    ),
    says("§7.4", "Its window collapses more often, and it backs off more than lksctp.", Not("no experiment")),
];
