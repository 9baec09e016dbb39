//! `festina trace classify`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use festina_lab::traces::{Classes, FEATURES, Features, ends};
use festina_trace::{AnalyserOptions, Finding, StreamReport, analyse};
use serde_json::{Map, Value, json};

use super::keys::{Keys, KeysArgs};
use super::thin::open;
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  festina trace classify capture.pcapng                      clusters, their centres, each flow's cluster
  festina trace classify *.pcap.gz --svg dendrogram.svg      all captures together, and the dendrogram
  festina trace classify capture.pcapng --json | jq .flows

The classes are those of Rajiullah 2015, Paper I; the bounds between them are Festina's, since the paper's are not public.";

/// Clusters side by side on a terminal of 80 columns.
const CLUSTERS_ABREAST: usize = 3;
/// Flows that are kept of all captures.
const FLOWS_MAX: usize = 200_000;

/// Arguments of `festina trace classify`.
#[derive(Debug, Args)]
pub(crate) struct ClassifyArgs {
    /// The captures; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the dendrogram
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print a JSON document instead of text
    #[arg(long)]
    json: bool,
    /// How many flows the table shows
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    keys: KeysArgs,
}

/// A flow and its features.
struct Flow {
    name: String,
    features: Features,
    limit: &'static str,
}

/// Clusters the flows of all captures. The readable part of a damaged one counts, and the command fails at the end.
pub(crate) fn run(arguments: &ClassifyArgs) -> Result<()> {
    let keys = arguments.keys.read()?;
    let (mut flows, mut short, mut failures) = (Vec::new(), 0u64, Vec::new());
    for path in &arguments.files {
        if let Err(error) = read(path, &keys, &mut flows, &mut short) {
            failures.push(output::causes(&error));
        }
    }
    if flows.len() > FLOWS_MAX {
        bail!("{} flows are too many; at most {FLOWS_MAX} are allowed, so take fewer captures at a time", flows.len());
    }
    let features: Vec<Features> = flows.iter().map(|flow| flow.features).collect();
    match Classes::of(&features) {
        Some(classes) => {
            let shown =
                if arguments.json { document(&flows, &classes) } else { text(arguments, &flows, short, &classes) };
            output::print(&shown)?;
            if let Some(path) = &arguments.svg {
                std::fs::write(path, &classes.svg).with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        None if failures.is_empty() => {
            bail!(
                "{} flows have three packets with data, and {short} have fewer; it takes three such flows",
                flows.len()
            )
        }
        None => {}
    }
    if failures.is_empty() { Ok(()) } else { Err(anyhow!(failures.join("; "))) }
}

fn read(path: &Path, keys: &Keys, flows: &mut Vec<Flow>, short: &mut u64) -> Result<()> {
    let analyser = keys.analyser(AnalyserOptions::default());
    let (summary, result) = analyse(open(path)?, analyser, |finding| {
        let Finding::Stream(stream) = finding else { return };
        match Features::of(&stream) {
            Some(_) if flows.len() > FLOWS_MAX => {}
            Some(features) => flows.push(Flow { name: ends(&stream), features, limit: limit(&stream) }),
            None => *short += 1,
        }
    });
    super::warn_unread(path, &summary);
    result.map_err(anyhow::Error::from).with_context(|| path.display().to_string())
}

/// What kept a flow from sending faster, as far as a sender's packets say. Windows that receivers announce are not looked at.
fn limit(stream: &StreamReport) -> &'static str {
    match (stream.thinness.share_thin(), stream.repair.loss()) {
        (Some(thin), _) if thin >= 0.9 => "application",
        (Some(_), Some(loss)) if loss > 0.0 => "network",
        _ => "-",
    }
}

fn text(arguments: &ClassifyArgs, flows: &[Flow], short: u64, classes: &Classes) -> String {
    let mut text = format!("{} flows; {short} with fewer than three packets are left out\n", flows.len());
    let count = classes.clusters.len();
    let silhouette = count.checked_sub(2).and_then(|index| classes.silhouettes.get(index));
    let _ = match silhouette {
        Some(mean) => writeln!(text, "the data supports {count} clusters: mean silhouette {mean:.2}\n"),
        None => writeln!(text, "the data supports no division: no mean silhouette reaches 0.25\n"),
    };
    for (block, clusters) in classes.clusters.chunks(CLUSTERS_ABREAST).enumerate() {
        let first = block * CLUSTERS_ABREAST + 1;
        let _ =
            writeln!(text, "{:24}{}", "medians of cluster", cells((first..).zip(clusters).map(|(n, _)| n.to_string())));
        let _ =
            writeln!(text, "{:24}{}", "class", cells(clusters.iter().map(|cluster| cluster.class.name().to_owned())));
        let _ = writeln!(text, "{:24}{}", "flows", cells(clusters.iter().map(|cluster| cluster.flows.to_string())));
        for (index, name) in FEATURES.iter().enumerate() {
            let values = clusters.iter().map(|cluster| short_number(cluster.centre.values()[index]));
            let _ = writeln!(text, "{name:24}{}", cells(values));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "cluster  class           limited by   flow");
    for (flow, cluster) in flows.iter().zip(&classes.of_flow).take(arguments.top) {
        let class = flow.features.class().name();
        let _ = writeln!(text, "{:>7}  {class:14}  {:11}  {}", cluster + 1, flow.limit, flow.name);
    }
    if flows.len() > arguments.top {
        let _ = writeln!(text, "{} more with --top or --json", flows.len() - arguments.top);
    }
    text.trim_end().to_owned()
}

fn cells(values: impl Iterator<Item = String>) -> String {
    values.map(|value| format!("{value:>16}")).collect()
}

/// Three digits, and no more zeros than can be read.
fn short_number(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{:.1} M", value / 1e6),
        large if large >= 1e4 => format!("{:.1} k", value / 1e3),
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn document(flows: &[Flow], classes: &Classes) -> String {
    let named = |features: &Features| {
        let pairs = FEATURES.iter().zip(features.values()).map(|(name, value)| ((*name).to_owned(), json!(value)));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    let clusters: Vec<Value> = classes
        .clusters
        .iter()
        .map(|cluster| json!({ "flows": cluster.flows, "class": cluster.class.name(), "median": named(&cluster.centre) }))
        .collect();
    let rows: Vec<Value> = flows
        .iter()
        .zip(&classes.of_flow)
        .map(|(flow, cluster)| {
            json!({
                "flow": flow.name, "cluster": cluster + 1, "class": flow.features.class().name(), "limited_by": flow.limit,
                "features": named(&flow.features),
            })
        })
        .collect();
    let silhouettes = &classes.silhouettes;
    format!("{:#}", json!({ "clusters": clusters, "silhouettes_from_two_clusters": silhouettes, "flows": rows }))
}
