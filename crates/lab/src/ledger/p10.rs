//! What Petlund et al. 2010 say.

use super::Tested::{Checks, Fitted, Numbers};
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::P10, section, says, tested, cause: "", headline: None }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§3.1, Fig. 1",
        "Nearly half of the game's streams had delays above 500 ms.",
        Numbers("p10-fig1", "streams with delays above 500 ms"),
    )
    .headline("50 %", "streams with delays above 500 ms: stack new-reno, loss 0.9%, burst 0s", " %"),
    says("§3.1, Fig. 1", "So had streams with little loss.", Checks("p10-fig1", &["little-loss"])),
    says("§3.1, Fig. 1", "The longest delay is 67 s.", Numbers("p10-fig1", "longest delay")),
    says(
        "§3.1",
        "67 s are six losses of a segment in a row with an RTO that doubles.",
        Checks("p10-fig1", &["six-losses"]),
    ),
    says(
        "§3.1",
        "Nearly all retransmissions of thin TCP streams are timeouts.",
        Checks("p06-table2", &["tcp-nearly-all"]),
    ),
    says("Table 1", "Sizes and gaps of nine applications.", Numbers("p10-table1", "sizes and gaps")),
    says("Table 1", "Rates of nine applications.", Numbers("p10-table1", "rates")),
    says("§4", "Delayed SACKs make the RTO too long for much of the time.", Checks("p10-fig4", &["mostly-too-long"])),
    says(
        "§5.2, Fig. 4(a)",
        "The lower RTO.Min, the more delayed SACKs weigh in the calculated RTO.",
        Checks("p10-fig4", &["effect-grows"]),
    ),
    says(
        "§5.3, Fig. 5",
        "Without backoff retransmissions in a row come at equal distances.",
        Checks("p10-fig8a", &["equal-distances"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Without backoff the maxima of the 2nd and 3rd retransmission are lower.",
        Checks("p10-fig8a", &["no-backoff-maximum"]),
    ),
    says("§6.1, Fig. 8(a)", "Its means and 99% are marginally lower only.", Checks("p10-fig8a", &["no-backoff-mean"])),
    says("§6.1, Fig. 8(a)", "An RTO.Min of 200 ms lowers mean and 99%.", Checks("p10-fig8a", &["min-rto"])),
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
    )
    .headline("", "mean of the 1st", " "),
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
    says("§6.1, Fig. 8(a)", "lksctp has the better mean of the 3rd.", Checks("p10-fig8a", &["lksctp-third-mean"])),
    says("§6.1, Fig. 8(a)", "TCP has the better 99% and maximum of the 3rd.", Checks("p10-fig8a", &["tcp-third"])),
    says(
        "§6.1, Fig. 8(a)",
        "Modified lksctp is better than TCP in mean and 99% of each.",
        Checks("p10-fig8a", &["better-than-tcp"]),
    )
    .headline("", "mean of the 1st", " "),
    says(
        "§6.1",
        "Delayed SACKs keep the difference between TCP and modified lksctp from being larger.",
        Checks("p10-fig8a", &["gap"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "TCP's maxima of the 1st and 2nd are better than modified lksctp's.",
        Checks("p10-fig8a", &["tcp-maxima"]),
    ),
    says("§6.1, Fig. 8(a)", "Its maximum of the 3rd is much higher.", Checks("p10-fig8a", &["tcp-third-maximum"])),
    says(
        "§6.1",
        "TCP performs worse with each retransmission, against modified lksctp.",
        Checks("p10-fig8a", &["tcp-falls-behind"]),
    ),
    says(
        "§6.1",
        "All tests of thin streams show the same trends, over round-trip times, losses and intervals.",
        Checks("p10-fig8a", &["trends"]),
    ),
    says("§6.2", "The web traffic makes for 5% loss.", Numbers("p10-fig8b", "average packet loss")),
    says(
        "§6.2, Fig. 8(b)",
        "Beside web traffic it is very similar: no backoff.",
        Checks("p10-fig8b", &["no-backoff-mean", "no-backoff-maximum"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "The same: RTO.Min and fast retransmission.",
        Checks("p10-fig8b", &["min-rto", "fast", "fast-maximum"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "Beside web traffic all modifications improve the delays likewise.",
        Checks("p10-fig8b", &["all-modifications", "later-more"]),
    )
    .headline("", "mean of the 1st", " "),
    says("§6.2, Fig. 8(b)", "Each modification alone improves upon lksctp.", Checks("p10-fig8b", &["each-alone"])),
    says(
        "§6.2, Fig. 8(b)",
        "The relative improvement tends to grow with the number of retransmissions.",
        Checks("p10-fig8b", &["relative"]),
    ),
    says("§6.2, Fig. 9", "lksctp: most first retransmissions are fast.", Checks("p10-fig9", &["lksctp-fast-first"])),
    says("§6.2, Fig. 9", "lksctp: bundled ones come second.", Checks("p10-fig9", &["lksctp-bundled-second"])),
    says(
        "§6.2, Fig. 9",
        "lksctp: the majority of these is spurious.",
        Checks("p10-fig9", &["lksctp-bundled-spurious"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: timeouts are a little more than 20% of the first.",
        Checks("p10-fig9", &["lksctp-first-20"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: the share of timeouts is larger among the second.",
        Checks("p10-fig9", &["lksctp-more-timeouts"]),
    ),
    says("§6.2, Fig. 9", "lksctp: around 75% of the second are timeouts.", Checks("p10-fig9", &["lksctp-second-75"])),
    says("§6.2, Fig. 9", "lksctp: most of these are spurious.", Checks("p10-fig9", &["lksctp-timeouts-spurious"])),
    says(
        "§6.2, Fig. 9",
        "lksctp: so is a large share of the fast and bundled second ones.",
        Checks("p10-fig9", &["lksctp-others-spurious"]),
    ),
    says("§6.2, Fig. 9", "lksctp: timeouts dominate the third.", Checks("p10-fig9", &["lksctp-timeouts-third"])),
    says("§6.2, Fig. 9", "Modified: slightly fewer first timeouts.", Checks("p10-fig9", &["fewer-timeouts"])),
    says("§6.2, Fig. 9", "Modified: somewhat fewer fast ones.", Checks("p10-fig9", &["fewer-fast"])),
    says(
        "§6.2, Fig. 9",
        "Modified: bundling is the major cause of the first.",
        Checks("p10-fig9", &["bundling-first"]),
    ),
    says("§6.2, Fig. 9", "Modified: timeouts dominate the second.", Checks("p10-fig9", &["timeouts-second"])),
    says("§6.2, Fig. 9", "Modified: more spurious retransmissions.", Checks("p10-fig9", &["more-spurious"])),
    says("§6.2, Fig. 9", "Modified: large improvement of all latencies.", Checks("p10-fig9", &["earlier"])),
    says("§6.2, Fig. 9", "Modified: significant improvement of the maxima.", Checks("p10-fig9", &["maxima"])),
    says("§6.2, Fig. 10", "lksctp's 99% is far above the others.", Checks("p10-fig10", &["far-above"])),
    says(
        "§6.2, Fig. 10",
        "Its distance to that of the lower RTO.Min falls as the interval grows.",
        Checks("p10-fig10", &["distance-falls"]),
    ),
    says("§6.2, Fig. 10", "The 99% of all modifications is stable.", Checks("p10-fig10", &["stable"])),
    says(
        "§6.2, Fig. 10",
        "It is below lksctp's mean from 4 to 20 packets a second.",
        Checks("p10-fig10", &["below-mean"]),
    ),
    says("§6.2", "A lower round-trip time helps only the smallest intervals.", Checks("p10-fig10", &["lower-rtt"])),
    says("§6.2", "A longer one increases retransmission times.", Checks("p10-fig9", &["rtt-later"])),
    says("§6.2", "A longer one increases the number of fast retransmissions.", Checks("p10-fig9", &["rtt-more-fast"])),
    says(
        "§6.3, Fig. 12(a)",
        "Beside a greedy stream, modified and regular lksctp do not differ noticeably at thin rates.",
        Checks("p10-fig12", &["thin-alike"]),
    )
    .headline("", "ratio at rate 25kbit/s", " of its throughput"),
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
    says("§6.4", "Loss rates below 0.1%.", Checks("p10-fig13", &["loss-below"])),
    says("§6.4, Fig. 13", "Up to 0.999 all set-ups are more or less equal.", Checks("p10-fig13", &["alike"])),
    says(
        "§6.4, Table 2; §6.5",
        "All have similar average latencies.",
        Fitted(
            "the loss of the path was set to Table 2's, at which no way of recovery can move an average by more than 2 ms",
        ),
    ),
    says(
        "§6.4, Table 2",
        "The averages are 302 to 304 ms, and the maxima 1,725 to 5,326 ms. (The captures' clocks were not in step: their differences.)",
        Checks("p10-fig13", &["maxima-by-chance"]),
    ),
    says(
        "§6.4, Table 2",
        "Of 100 packets 6.7 are spurious retransmissions with modified lksctp, and at most 0.04 with the others.",
        Numbers("p10-fig13", "spurious retransmissions"),
    )
    .headline("6.7 %", "spurious retransmissions, modified lksctp", " %"),
    says(
        "§6.4, Fig. 13",
        "lksctp is earlier than FreeBSD for packets that it retransmits fast.",
        Checks("p10-fig13", &["lksctp-before-freebsd"]),
    ),
    says(
        "§6.4, Fig. 13",
        "FreeBSD with early fast retransmit follows FreeBSD closely.",
        Checks("p10-fig13", &["efr-follows"]),
    ),
    says(
        "§6.4, Fig. 13",
        "It has clear benefits over both between 0.9992 and 0.9995.",
        Checks("p10-fig13", &["efr-benefit"]),
    ),
    says(
        "§6.4",
        "A collapsed window keeps early fast retransmit from being triggered.",
        Checks("p10-fig13", &["collapse-prevents"]),
    ),
    says(
        "§6.4, Fig. 13",
        "Modified lksctp delivers a considerable number of packets earlier.",
        Checks("p10-fig13", &["modified-earlier"]),
    )
    .headline("", "ms before lksctp", " ms earlier"),
    says(
        "§6.4",
        "It delivers lost packets several round trips earlier.",
        Checks("p10-fig13", &["several-round-trips"]),
    ),
    says(
        "§6.4, Fig. 13",
        "Its maximum is much lower.",
        Fitted(
            "the length of the bursts was chosen so that the maximum of lksctp has the order of magnitude of Table 2",
        ),
    ),
    says(
        "§6.4, Table 2",
        "The maxima rise from modified lksctp over FreeBSD with early fast retransmit and lksctp to FreeBSD.",
        Checks("p10-fig13", &["order-of-maxima"]),
    ),
    says(
        "§7.5",
        "Plain SCTP performs more or less equally in Linux and FreeBSD.",
        Checks("p10-fig13", &["plain-alike"]),
    ),
    says("§6.4", "The gain is mainly due to the fix of the timer's restart.", Checks("p10-fig13", &["timer-fix"]))
        .headline("", "the fix gives", " % of the gain"),
    says(
        "§6.4, Table 2",
        "Modified lksctp has immensely more spurious retransmissions.",
        Checks("p10-fig13", &["spurious"]),
    ),
    says(
        "§6.4, §6.5",
        "The improvement costs a slightly increased bandwidth: under random loss.",
        Checks("p10-fig8a", &["costs-little"]),
    ),
    says("§6.4, §6.5", "The same beside web traffic.", Checks("p10-fig8b", &["costs-little"])),
    says(
        "§6.4, Fig. 14",
        "From three access networks the same trends, and worst cases lower by seconds.",
        Checks("p10-fig14", &["same-trends", "worst-cases"]),
    ),
    says(
        "§7.4",
        "Among many streams modified lksctp is more aggressive than lksctp.",
        Checks("fairness-crowd", &["many-thin-streams"]),
    ),
    says(
        "§6.5, §7.4",
        "The window of modified lksctp collapses more often than that of lksctp: under random loss.",
        Checks("p10-fig8a", &["collapses-more"]),
    ),
    says("§6.5, §7.4", "The same beside web traffic.", Checks("p10-fig8b", &["collapses-more"])),
    says(
        "§7.4",
        "Modified lksctp is less aggressive than TCP with Limited Transmit.",
        Checks("fairness-crowd", &["less-than-limited-transmit"]),
    ),
    says(
        "§7.4",
        "It is less aggressive than Early Retransmit (here: of SCTP).",
        Checks("fairness-crowd", &["less-than-early-retransmit"]),
    ),
];
