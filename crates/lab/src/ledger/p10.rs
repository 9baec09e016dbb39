//! What Petlund et al. 2010 say.

use super::Tested::{Checks, Not, Numbers};
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::P10, section, says, tested }
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
        Checks("p10-fig1", &["Streams with less than the median loss"]),
    ),
    says("§3.1, Fig. 1", "The longest delay is 67 s.", Numbers("p10-fig1", "longest delay")),
    says(
        "§3.1",
        "Nearly all retransmissions of thin streams are timeouts.",
        Checks("p06-table2", &["At every round-trip time more first"]),
    ),
    says("Table 1", "Sizes and gaps of nine applications.", Numbers("p10-table1", "sizes and gaps")),
    says("Table 1", "Rates of nine applications.", Numbers("p10-table1", "rates")),
    says(
        "§4",
        "Delayed SACKs make the RTO too long for much of the time.",
        Checks("p10-fig4", &["With delayed SACKs the RTO is too long"]),
    ),
    says(
        "§5.2, Fig. 4(a)",
        "With a low RTO.Min the calculated RTO is above the measured one.",
        Checks("p10-fig4", &["The calculated RTO is above"]),
    ),
    says(
        "§5.2, Fig. 4(b)",
        "Without SACK delay it is greatly reduced.",
        Checks("p10-fig4", &["Without delayed SACKs the calculated"]),
    ),
    says(
        "§5.3, Fig. 5",
        "Without backoff retransmissions in a row come at equal distances.",
        Not("built into the model"),
    ),
    says(
        "§5.4",
        "Fast retransmissions hardly ever appear.",
        Checks("p06-table2", &["Hardly any first retransmission is a fast one"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Without backoff the maxima of the 2nd and 3rd retransmission are lower.",
        Checks("p10-fig8a", &["Without exponential backoff the maximum"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Its means and 99% are marginally lower only.",
        Checks("p10-fig8a", &["Without exponential backoff mean"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "An RTO.Min of 200 ms lowers mean and 99%.",
        Checks("p10-fig8a", &["An RTO.Min of 200 ms"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Fast retransmission on the first report lowers both drastically.",
        Checks("p10-fig8a", &["Fast retransmission on the first"]),
    ),
    says("§6.1, Fig. 8(a)", "Its maxima are still high.", Checks("p10-fig8a", &["Its maximum is still high"])),
    says(
        "§6.1, Fig. 8(a)",
        "All modifications improve maximum, 99% and mean much.",
        Checks("p10-fig8a", &["All modifications together lower"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "The improvements are more pronounced for the 2nd and 3rd retransmission.",
        Checks("p10-fig8a", &["The later the retransmission"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "TCP's 1st and 2nd retransmission are better than lksctp's.",
        Checks("p10-fig8a", &["TCP's 1st and 2nd"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "lksctp has the better mean of the 3rd.",
        Checks("p10-fig8a", &["lksctp has the better average"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "TCP has the better 99% and maximum of the 3rd.",
        Checks("p10-fig8a", &["99% and maximum of the 3rd"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Modified lksctp is better than TCP in mean and 99% of each.",
        Checks("p10-fig8a", &["All modifications together are better than TCP"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "TCP's maxima of the 1st and 2nd are better than modified lksctp's.",
        Checks("p10-fig8a", &["TCP's maximum of the 1st"]),
    ),
    says(
        "§6.1, Fig. 8(a)",
        "Its maximum of the 3rd is much higher.",
        Checks("p10-fig8a", &["TCP's maximum of the 3rd"]),
    ),
    says(
        "§6.1",
        "Modified lksctp against TCP, each measure of each retransmission.",
        Numbers("p10-fig8a", "all modifications over TCP"),
    ),
    says(
        "§6.1",
        "All tests show the same trends, over round-trip times, losses and intervals.",
        Checks("p10-fig8a", &["At every round-trip time, loss rate"]),
    ),
    says("§6.2", "The web traffic makes for 5% loss.", Numbers("p10-fig8b", "average packet loss")),
    says(
        "§6.2, Fig. 8(b)",
        "Beside web traffic it is very similar: no backoff.",
        Checks("p10-fig8b", &["Without exponential backoff"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "The same: RTO.Min and fast retransmission.",
        Checks("p10-fig8b", &["An RTO.Min of 200 ms", "Fast retransmission on the first", "Its maximum is still high"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "The same: all modifications.",
        Checks("p10-fig8b", &["All modifications together lower", "The later the retransmission"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "Each modification alone improves upon lksctp.",
        Checks("p10-fig8b", &["Each modification alone"]),
    ),
    says(
        "§6.2, Fig. 8(b)",
        "The relative improvement tends to grow with the number of retransmissions.",
        Checks("p10-fig8b", &["Relative to lksctp"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: most first retransmissions are fast.",
        Checks("p10-fig9", &["lksctp: fast retransmission is the dominant"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: bundled ones come second.",
        Checks("p10-fig9", &["lksctp: bundled chunks are the second"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: the majority of these is spurious.",
        Checks("p10-fig9", &["lksctp: the majority of the bundled"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: timeouts are a little more than 20% of the first.",
        Numbers("p10-fig9", "a little more than 20"),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: the share of timeouts is larger among the second.",
        Checks("p10-fig9", &["lksctp: the share of timeouts is larger"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: around 75% of the second are timeouts.",
        Numbers("p10-fig9", "second retransmissions of lksctp"),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: most of these are spurious.",
        Checks("p10-fig9", &["lksctp: most timeouts among the second"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: so is a large share of the fast and bundled second ones.",
        Checks("p10-fig9", &["lksctp: the share of spurious ones"]),
    ),
    says(
        "§6.2, Fig. 9",
        "lksctp: timeouts dominate the third.",
        Checks("p10-fig9", &["lksctp: timeouts still dominate the third"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: slightly fewer first timeouts.",
        Checks("p10-fig9", &["All modifications: the share of timeouts among the first"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: somewhat fewer fast ones.",
        Checks("p10-fig9", &["All modifications: a smaller share of the first"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: bundling is the major cause of the first.",
        Checks("p10-fig9", &["All modifications: bundling is the major"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: timeouts dominate the second.",
        Checks("p10-fig9", &["All modifications: timeouts still dominate"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: more spurious retransmissions.",
        Checks("p10-fig9", &["All modifications: a larger share"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: large improvement of all latencies.",
        Checks("p10-fig9", &["All modifications: every retransmission comes earlier"]),
    ),
    says(
        "§6.2, Fig. 9",
        "Modified: significant improvement of the maxima.",
        Checks("p10-fig9", &["All modifications: the maxima"]),
    ),
    says(
        "§6.2, Fig. 10",
        "lksctp's 99% is far above the others.",
        Checks("p10-fig10", &["The 99% of lksctp is far above"]),
    ),
    says(
        "§6.2, Fig. 10",
        "Its distance to that of the lower RTO.Min falls as the interval grows.",
        Checks("p10-fig10", &["The distance from the 99%"]),
    ),
    says(
        "§6.2, Fig. 10",
        "The 99% of all modifications is stable.",
        Checks("p10-fig10", &["The 99% of all modifications is stable"]),
    ),
    says(
        "§6.2, Fig. 10",
        "It is below lksctp's mean from 4 to 20 packets a second.",
        Checks("p10-fig10", &["From 4 to 20 messages"]),
    ),
    says(
        "§6.2",
        "A lower round-trip time helps only the smallest intervals.",
        Checks("p10-fig10", &["A round-trip time of 50 ms"]),
    ),
    says(
        "§6.2",
        "A longer one increases retransmission times.",
        Checks("p10-fig9", &["The longer the round-trip time, the later"]),
    ),
    says(
        "§6.2",
        "A longer one increases the number of fast retransmissions.",
        Checks("p10-fig9", &["The longer the round-trip time, the more"]),
    ),
    says("§6.3, Fig. 12(a)", "No noticeable difference at thin rates.", Checks("p10-fig12", &["Below 400 kbit/s"])),
    says(
        "§6.3, Fig. 12(a)",
        "At higher rates regular lksctp has a little more throughput.",
        Numbers("p10-fig12", "modified over unmodified stream"),
    ),
    says("§6.3", "At higher rates both use nearly the same.", Checks("p10-fig12", &["From 400 kbit/s on both"])),
    says(
        "§6.3, Fig. 12(b)",
        "The greedy stream has nearly the same throughput beside either.",
        Checks("p10-fig12", &["The greedy stream has the same"]),
    ),
    says(
        "§6.3, Fig. 12(b)",
        "It has slightly more beside the modified one at 400, 500 and 1000 kbit/s.",
        Numbers("p10-fig12", "greedy stream beside the modified one"),
    ),
    says(
        "§6.3, Fig. 11",
        "Only very small differences from moment to moment.",
        Checks("p10-fig11", &["The throughput of the greedy"]),
    ),
    says("§6.4", "Loss rates below 0.1%.", Numbers("p10-fig13", "loss rate")),
    says("§6.4, Fig. 13", "Up to 0.999 all set-ups are more or less equal.", Checks("p10-fig13", &["Up to 0.999"])),
    says("§6.4, Table 2", "All have similar average latencies.", Checks("p10-fig13", &["The averages lie"])),
    says("§6.4, Table 2", "The averages themselves, 302 to 304 ms.", Numbers("p10-fig13", "average latency")),
    says("§6.4, Table 2", "The maxima.", Numbers("p10-fig13", "maximum latency")),
    says("§6.4, Table 2", "The maxima less the averages.", Numbers("p10-fig13", "maximum of a run less")),
    says("§6.4, Table 2", "The shares of spurious retransmissions.", Numbers("p10-fig13", "spurious retransmissions")),
    says(
        "§6.4, Fig. 13",
        "lksctp is earlier than FreeBSD for some packets.",
        Checks("p10-fig13", &["Lost messages arrive earlier with lksctp"]),
    ),
    says(
        "§6.4, Fig. 13",
        "FreeBSD with early fast retransmit follows FreeBSD closely.",
        Checks("p10-fig13", &["FreeBSD with early fast"]),
    ),
    says(
        "§6.4, Fig. 13",
        "It has clear benefits over both between 0.9992 and 0.9995.",
        Checks("p10-fig13", &["The early half of the lost"]),
    ),
    says("§6.4", "A collapsed window keeps early fast retransmit from being triggered.", Not("no experiment")),
    says(
        "§6.4, Fig. 13",
        "Modified lksctp delivers a considerable number of packets earlier.",
        Checks("p10-fig13", &["Lost messages arrive earlier with the modified"]),
    ),
    says(
        "§6.4, Fig. 13",
        "Its maximum is much lower.",
        Checks("p10-fig13", &["The modified lksctp has the lowest maximum"]),
    ),
    says(
        "§6.4",
        "The gain is mainly due to the fix of the timer's restart.",
        Checks("p10-fig13", &["The gain is mainly due"]),
    ),
    says(
        "§6.4, Table 2",
        "Immensely more spurious retransmissions.",
        Checks("p10-fig13", &["The modified lksctp retransmits in vain"]),
    ),
    says(
        "§6.4, §6.5",
        "The improvement costs a slightly increased bandwidth: under random loss.",
        Checks("p10-fig8a", &["All modifications need slightly more"]),
    ),
    says("§6.4, §6.5", "The same beside web traffic.", Checks("p10-fig8b", &["All modifications need slightly more"])),
    says(
        "§6.4, Fig. 14",
        "From three access networks the same trends, and worst cases lower by seconds.",
        Not("neither the paths nor their losses are told"),
    ),
    says(
        "§7.4",
        "Among many streams modified lksctp is more aggressive than lksctp.",
        Checks("fairness-crowd", &["A crowd of petlund-2010"]),
    ),
    says("§7.4", "Its window collapses more often, and it backs off more than lksctp.", Not("no experiment")),
    says("§8", "The RTO is highly unstable, and remains so.", Checks("p10-fig4", &["The calculated RTO is unstable"])),
];
