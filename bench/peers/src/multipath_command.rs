//! The subcommand `multipath`: thin streams over two networks, beside the kernel's MPTCP.

use std::io;
use std::time::Duration;

use festina_bench_peers::multipath::{self, Row, Scale, Scenario};
use festina_units::Probability;

/// 100 bytes every 250 ms over two networks with round trips of 60 and 100 ms: Festina, the kernel's MPTCP and its TCP at the same time, over
/// real sockets in network namespaces
#[derive(clap::Args)]
pub(crate) struct MultipathArguments {
    /// Seconds of each measurement; a round has three measurements
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Connections of each contender at the same time
    #[arg(long, default_value_t = 20)]
    streams: u32,
    /// Rounds, each with other losses; medians and ranges are printed
    #[arg(long, default_value_t = 3)]
    rounds: u64,
}

const INTERVAL: Duration = Duration::from_millis(250);

/// Runs the command.
pub(crate) fn run(arguments: &MultipathArguments) -> io::Result<()> {
    let messages = arguments.seconds.saturating_mul(4);
    let scale = Scale { streams: arguments.streams, messages, interval: INTERVAL };
    for (name, loss_percent, has_outages) in [("no loss", 0, false), ("5 % loss", 5, false), ("outages", 0, true)] {
        let scenario = Scenario { loss: Probability::from_percent(loss_percent), has_outages };
        let rounds = (1..=arguments.rounds)
            .map(|seed| {
                multipath::runtime()?.block_on(multipath::measure(scenario, scale, seed)).map_err(io::Error::other)
            })
            .collect::<io::Result<Vec<_>>>()?;
        println!("{}", table(name, scale, &rounds));
    }
    Ok(())
}

fn table(name: &str, scale: Scale, rounds: &[Vec<Row>]) -> String {
    let sent = u64::from(scale.streams) * u64::from(scale.messages);
    let lateness = rounds.iter().flatten().map(|row| row.lateness).max().unwrap_or_default();
    let mut text = format!(
        "{name}: {sent} messages a round, {} rounds; the emulator was at most {} us late for 99 of 100 packets\n\n",
        rounds.len(),
        lateness.as_micros()
    );
    text += "| | p50, ms | p99 | p99.9 | longest | missing, twice | packets fast, slow | bytes |\n|---|---|---|---|---|---|---|---|\n";
    for contender in 0..rounds.first().map_or(0, Vec::len) {
        let rows: Vec<&Row> = rounds.iter().filter_map(|round| round.get(contender)).collect();
        let Some(first) = rows.first() else { continue };
        let spread = |digits, of: &dyn Fn(&Row) -> f64| spread(digits, rows.iter().map(|row| of(row)).collect());
        #[expect(clippy::cast_precision_loss, reason = "a report")]
        let each = |total: u64| total as f64 / sent.max(1) as f64;
        let delays = [500, 990, 999, 1_000].map(|per_mille| spread(0, &|row| row.delay_ms(per_mille)));
        let count = |of: &dyn Fn(&Row) -> usize| rows.iter().map(|row| of(row)).sum::<usize>();
        text += &format!(
            "| `{}` | {} | {}, {} | {}, {} | {} |\n",
            first.contender.name(),
            delays.join(" | "),
            count(&|row| row.missing),
            count(&|row| row.twice),
            spread(2, &|row| each(row.sent[0].packets)),
            spread(2, &|row| each(row.sent[1].packets)),
            spread(0, &|row| each(row.sent[0].bytes + row.sent[1].bytes)),
        );
    }
    text
}

/// The median, and the range in parentheses.
fn spread(digits: usize, mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    match (values.first(), values.last()) {
        (Some(least), Some(most)) if least < most => format!("{middle:.digits$} ({least:.digits$}-{most:.digits$})"),
        _ => format!("{middle:.digits$}"),
    }
}
