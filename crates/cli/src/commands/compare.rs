//! `festina compare`: the benefit of loss recovery.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::compare::capture::Capture;
use crate::compare::outcome::Outcome;
use crate::compare::run::Compared;
use crate::compare::scenario::Scenario;
use crate::compare::{bars, html, json, report, run, state};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  festina compare                                        about half a minute; then open compare.html
  festina compare --profiles rfc9260,festina --loss 1%   two profiles, one per cent of loss each way
  festina compare --loss 5% --burst 200ms                the same loss on average, in bursts
  festina compare --duration 2s --json | jq .results     for programs
  festina compare --pcap compare.pcapng                  and every packet, for Wireshark
  festina compare --state --interval 33ms                state updates: how old is the newest one at the receiver?

All profiles run at the same time over real UDP sockets on the loopback interface, each through an emulated network of \
its own with the same seed. No privilege is needed and nothing leaves the machine. Nothing is encrypted, since the other profiles are those of plain \
SCTP. Ctrl-C prints the results so far and fails.";

/// Arguments of `festina compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    scenario: Scenario,
    /// Send state updates, where only the newest matters, in the simulator: reliably, with redundancy, with a lifetime, or each replacing the one
    /// before
    #[arg(long, conflicts_with_all = ["profiles", "pcap"])]
    state: bool,
    /// File for the page; the default one is replaced if it exists
    #[arg(long, value_name = "FILE", default_value = "compare.html")]
    html: PathBuf,
    /// File for the figure; the default one is replaced if it exists
    #[arg(long, value_name = "FILE", default_value = "compare.svg")]
    svg: PathBuf,
    /// Print the results as JSON; the text goes to standard error
    #[arg(long)]
    json: bool,
    /// Record every packet in this file, as pcapng
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl CompareArgs {
    /// Writes the page and the figure, and returns the line about them.
    fn write(&self, page: &str, figure: &str) -> Result<String> {
        let Self { html, svg, .. } = self;
        for (path, text) in [(svg, figure), (html, page)] {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(format!("The distribution is drawn in {} and {}.", output::name(html), output::name(svg)))
    }

    /// Whether the text goes to a terminal.
    fn is_on_terminal(&self) -> bool {
        if self.json { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() }
    }
}

/// Runs the comparison and writes its results.
pub(crate) async fn run(arguments: CompareArgs) -> Result<()> {
    arguments.scenario.validate()?;
    // Fail before the measurement if its results could not be written.
    for path in [&arguments.html, &arguments.svg] {
        check_writable(path)?;
    }
    let scenario = &arguments.scenario;
    if let Some(warning) = scenario.overload() {
        output::notice(&warning);
    }
    if arguments.state {
        return run_state(&arguments).await;
    }
    let capture = arguments.pcap.as_deref().map(|path| create_capture(path, scenario)).transpose()?;
    let compared = run::run(scenario, capture.as_ref()).await?;
    if let Some(capture) = capture {
        capture.finish().context("cannot write the capture")?;
    }
    let outcomes = &compared.outcomes;
    if let Some(when) = &compared.interrupted {
        let end = "Messages that were on their way are missing, and neither page nor figure is written.";
        show(&arguments, &compared, &format!("Interrupted {when}: these are the results so far. {end}"))?;
        bail!("interrupted {when}");
    }
    let figure = html::figure(scenario, outcomes)?;
    let drawn = arguments.write(&html::page(scenario, outcomes, &figure), &figure)?;
    show(&arguments, &compared, &drawn)?;
    report_faults(scenario, outcomes)
}

/// The same for state updates.
async fn run_state(arguments: &CompareArgs) -> Result<()> {
    let scenario = &arguments.scenario;
    let outcomes = state::run(scenario).await?;
    let figure = state::figure(scenario, &outcomes)?;
    let drawn = arguments.write(&state::page(scenario, &outcomes, &figure), &figure)?;
    let text = format!("{}\n{drawn}", state::text(scenario, &outcomes));
    if arguments.json {
        output::notice(&text);
        output::print(&state::document(scenario, &outcomes)?)?;
    } else {
        output::print(&text)?;
    }
    Ok(())
}

fn show(arguments: &CompareArgs, Compared { outcomes, interrupted }: &Compared, end: &str) -> Result<()> {
    let notes: String = report::simulation_note(outcomes)
        .into_iter()
        .chain(bars::busy_note(outcomes))
        .map(|note| note + "\n")
        .collect();
    let bars = if arguments.is_on_terminal() { bars::bars(outcomes) + "\n" } else { String::new() };
    let text = format!(
        "{}\n\n{}\n\n{bars}{}\n{}\n{notes}{end}",
        arguments.scenario.summary(),
        report::tables(outcomes),
        report::COST_NOTE,
        report::finding(outcomes),
    );
    if arguments.json {
        output::notice(&text);
        output::print(&json::document(&arguments.scenario, outcomes, interrupted.is_none())?)?;
    } else {
        output::print(&text)?;
    }
    Ok(())
}

/// Reports missing messages, and fails on impossible results.
fn report_faults(scenario: &Scenario, outcomes: &[Outcome]) -> Result<()> {
    let mut faults = Vec::new();
    for outcome in outcomes {
        let profile = outcome.profile;
        let missing = outcome.messages_sent.saturating_sub(outcome.messages_delivered());
        if missing > 0 {
            let drain = festina_units::duration::display(scenario.drain);
            output::notice(&format!("{profile}: {missing} messages had not arrived after another {drain}"));
        }
        faults.extend(outcome.faults.iter().map(|fault| format!("{profile}: {fault}")));
    }
    if let Some(first) = faults.first() {
        let more = faults.len() - 1;
        bail!("{first}{}", if more > 0 { format!(" (and {more} more)") } else { String::new() });
    }
    Ok(())
}

/// Fails if the file could not be written later; leaves everything as it is.
fn check_writable(path: &Path) -> Result<()> {
    let existed = path.symlink_metadata().is_ok();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|_| if existed { Ok(()) } else { std::fs::remove_file(path) })
        .with_context(|| format!("cannot write {}", path.display()))
}

fn create_capture(path: &Path, scenario: &Scenario) -> Result<Capture> {
    File::create(path)
        .and_then(|file| Capture::create(file, &scenario.profiles))
        .with_context(|| format!("cannot write {}", path.display()))
}
