//! The outcomes as a page that needs nothing but itself, and the figure on it.

use std::fmt::Write as _;
use std::time::Duration;

use festina_lab::figure::{DelayDistribution, FigureError, Threshold};
use festina_units::duration;

use super::outcome::Outcome;
use super::report::{self, GROUPS};
use super::scenario::{Scenario, spaced};
use crate::link;

/// What players notice: shooters, role-playing games, strategy games (Petlund et al. 2010, §3).
const THRESHOLDS_MS: [u64; 3] = [100, 500, 1000];

/// With more profiles than this, the simulated curves, which mostly lie on the measured ones, would be too many.
const SIMULATED_PROFILES_MAX: usize = 3;

/// The delays' distributions as SVG, measured and, if there is room, simulated.
pub(crate) fn figure(scenario: &Scenario, outcomes: &[Outcome]) -> Result<String, FigureError> {
    let mut distribution = DelayDistribution::new("How long messages take to arrive", &scenario.summary());
    distribution = distribution.to_the_999th_permille();
    for delay_ms in THRESHOLDS_MS {
        let delay = Duration::from_millis(delay_ms);
        distribution.threshold(Threshold::new(delay, &spaced(delay)));
    }
    for outcome in outcomes {
        distribution.curve(outcome.profile.name(), &outcome.delays);
        if let Some(simulated) = outcome.simulated.as_ref().filter(|_| outcomes.len() <= SIMULATED_PROFILES_MAX) {
            distribution.curve(&format!("{}, simulated", outcome.profile.name()), &simulated.delays);
        }
    }
    distribution.figure().to_svg()
}

/// The whole page.
pub(crate) fn page(scenario: &Scenario, outcomes: &[Outcome], figure: &str) -> String {
    let summary = scenario.summary();
    let [rtt, sack_delay, drain] = [scenario.rtt, scenario.sack_delay, scenario.drain].map(spaced);
    let rto_initial = spaced(scenario.rto_initial());
    let loss = scenario.loss;
    let finding = report::finding(outcomes);
    let command = command_line(scenario);
    let (table, network) = (table(outcomes), network(outcomes));
    let simulation = report::simulation_note(outcomes).map_or(String::new(), |note| format!("<p>{note}</p>"));
    let body = format!(
        r#"<h1>What loss recovery is worth on thin streams</h1>
<p class="lead">{finding}</p>
<p>Every profile sent the same messages at the same pace, over real UDP sockets, through a network
with a round-trip time of {rtt} that lost {loss} of the packets in each direction. Each line shows which share of a
profile's messages took longer than the delay below it: the further left and the lower, the better.</p>
<figure class="wide">
{figure}
</figure>
<p>The dashed lines are the delays at which players of shooters (100 ms), role-playing games (500 ms) and strategy games
(1 s) notice. Both axes are logarithmic: one line down means ten times fewer messages.
The figure ends where the slowest profile has delivered 99.9% of its messages; the longest delays are in the table.</p>
<h2>Numbers</h2>
<div class="wide even">
{table}
</div>
{simulation}
<p class="note">The delay runs from the call that sends a message until the receiving application has it, on one clock.
Messages that never arrived have no delay; the second column counts them. Percentiles are within 0.1%. A message costs packets there and back and bytes of
both ends, with the headers of SCTP, UDP and IP: all that was sent while messages were measured, over the messages. Retransmissions are DATA chunks by what caused them; spurious
ones had already arrived, as far as the acknowledgements tell, and are given as a share of all.</p>
<h2>Scenario</h2>
<p>{summary}. The receivers are standard ones for every profile and may delay acknowledgements by {sack_delay}. The
emulated network draws its losses from the same seed ({seed}) for each profile. Handshakes cross the lossy network too,
with an RTO.Initial of {rto_initial}, and one uncounted message lets each association measure the round-trip time
before the first counted one. How long handshakes take is therefore not compared here, but by the laboratory's
<code>first-message</code>. After the last message was sent, late ones were waited for up to {drain}.</p>
<div class="wide even">
{network}
</div>
<p>To repeat it:</p>
<pre>{command}</pre>
"#,
        seed = scenario.seed,
    );
    festina_lab::page::document("loss recovery compared", &body)
}

fn table(outcomes: &[Outcome]) -> String {
    let mut html = String::from("<table>\n<thead>\n<tr class=\"groups\">");
    for (name, columns) in GROUPS {
        let _ = write!(html, "<th colspan=\"{}\"{}>{name}</th>", columns.len(), border(name, 0));
    }
    html += "</tr>\n<tr>";
    for (name, columns) in GROUPS {
        for (index, column) in columns.iter().enumerate() {
            let _ = write!(html, "<th{}>{column}</th>", border(name, index));
        }
    }
    html += "</tr>\n</thead>\n<tbody>\n";
    for row in report::rows(outcomes) {
        html += if row.is_simulated { "<tr class=\"simulated\">" } else { "<tr>" };
        let mut cells = row.cells.iter();
        for (name, columns) in GROUPS {
            for (index, cell) in cells.by_ref().take(columns.len()).enumerate() {
                let _ = match (name, index) {
                    ("", 0) => write!(html, "<th scope=\"row\">{cell}</th>"),
                    _ => write!(html, "<td{}>{cell}</td>", border(name, index)),
                };
            }
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table>"
}

/// A line parts the groups of columns.
fn border(group: &str, index_in_group: usize) -> &'static str {
    if index_in_group == 0 && !group.is_empty() { " class=\"first\"" } else { "" }
}

/// What the network did to each profile's packets: the check that it was as bad as it should be.
fn network(outcomes: &[Outcome]) -> String {
    let mut html = String::from(
        "<table>\n<thead>\n<tr><th>network</th><th>packets there</th><th>lost</th><th>packets back</th><th>lost</th>\
         <th>delivered late by (mean, worst)</th></tr>\n</thead>\n<tbody>\n",
    );
    for outcome in outcomes {
        let network = &outcome.network;
        let (there, back) = (network.forward, network.backward);
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2} ms, {:.2} ms</td></tr>",
            outcome.profile.name(),
            there.offered,
            there.lost + there.queue_dropped,
            back.offered,
            back.lost + back.queue_dropped,
            network.lateness.mean().as_secs_f64() * 1000.0,
            network.lateness.max.as_secs_f64() * 1000.0,
        );
    }
    html + "</tbody>\n</table>"
}

/// The command that runs the same scenario again.
fn command_line(scenario: &Scenario) -> String {
    let profiles: Vec<&str> = scenario.profiles.iter().map(|profile| profile.name()).collect();
    let time = duration::display;
    let mut command = format!(
        "festina compare --profiles {} --associations {} --size {} --interval {} --duration {} --rtt {} --loss {} \
         --sack-delay {} --seed {}",
        profiles.join(","),
        scenario.associations,
        scenario.size,
        time(scenario.interval),
        time(scenario.duration),
        time(scenario.rtt),
        scenario.loss,
        time(scenario.sack_delay),
        scenario.seed,
    );
    if let Some(congestion) = scenario.congestion {
        let _ = write!(command, " --congestion {congestion}");
    }
    if let Some(burst) = scenario.burst {
        let _ = write!(command, " --burst {}", time(burst));
    }
    if !scenario.jitter.is_zero() {
        let _ = write!(command, " --jitter {}", time(scenario.jitter));
    }
    if let Some(rate) = scenario.rate {
        let _ = write!(command, " --rate {rate} --queue {}", link::queue_text(scenario.queue));
    }
    command
}

#[cfg(test)]
mod tests {
    use festina_sctp::Profile;

    use super::*;
    use crate::compare::outcome::example;
    use crate::compare::scenario::tests::default_scenario;
    use crate::compare::simulated::tests::simulated_example;

    #[test]
    fn a_figure_of_few_profiles_shows_the_simulated_curves_too() {
        let with = |profile: &Profile| Outcome { simulated: simulated_example(&[10, 30]), ..example(*profile) };
        let drawn = |profiles: &[Profile]| {
            let outcomes: Vec<_> = profiles.iter().map(with).collect();
            figure(&default_scenario(), &outcomes).expect("the axes are sound")
        };
        assert!(drawn(&[Profile::Festina]).contains("festina, simulated"));
        assert!(!drawn(Profile::all()).contains("simulated"));
    }

    #[test]
    fn the_page_holds_figure_table_and_the_command_to_repeat_it_and_loads_nothing() {
        let outcomes = [example(Profile::Rfc9260), example(Profile::Festina)];
        let scenario = default_scenario();
        let figure = figure(&scenario, &outcomes).expect("the axes are sound");
        let page = page(&scenario, &outcomes, &figure);
        assert!(page.contains(&figure));
        assert!(page.contains("<th scope=\"row\">festina</th><td>1000/1001</td>"));
        assert!(page.contains("festina compare --profiles rfc9260,"));
        let loads = ["src=", "href=", "url(", "@import", "<script"];
        assert!(loads.iter().all(|load| !page.contains(load)));
    }
}
