//! `festina trace`: analyses the streams of packet captures.

mod classify;
mod keys;
mod live;
mod parquet;
mod slow_start;
mod table;
mod thin;
mod what_if;

use std::path::Path;

use anyhow::Result;
use clap::Subcommand;
use festina_trace::analysis::Summary;

use crate::output;

/// The analyses.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Report thin streams, their losses, the causes of retransmissions, and the delays of their messages
    #[command(after_help = thin::EXAMPLES)]
    Thin(Box<thin::ThinArgs>),
    /// Group similar flows of a capture
    #[command(after_help = classify::EXAMPLES)]
    Classify(classify::ClassifyArgs),
    /// Report how transfers begin, and the effect of a larger initial window
    #[command(after_help = slow_start::EXAMPLES)]
    SlowStart(slow_start::SlowStartArgs),
    /// Estimate the delays that thin streams would have had with another transport
    #[command(after_help = what_if::EXAMPLES)]
    WhatIf(what_if::WhatIfArgs),
}

/// Runs the analysis.
pub(crate) async fn run(command: TraceCommand) -> Result<()> {
    match command {
        TraceCommand::Thin(arguments) => match &arguments.interface {
            Some(interface) => live::run(&arguments, interface).await,
            None => thin::run(&arguments),
        },
        TraceCommand::Classify(arguments) => classify::run(&arguments),
        TraceCommand::SlowStart(arguments) => slow_start::run(&arguments),
        TraceCommand::WhatIf(arguments) => what_if::run(&arguments),
    }
}

/// Reports on standard error packets that were not read, for output that holds no such line.
fn warn_unread(name: &Path, summary: &Summary) {
    for unread in table::unread(summary) {
        output::notice(&format!("{}: {unread}", name.display()));
    }
}
