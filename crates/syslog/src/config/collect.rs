//! The file of a collector.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use festina_units::ByteCount;
use serde::Deserialize;
use toml::Spanned;

use crate::collector::{Compression, FileOutput};
use crate::kafka_topic::KafkaTopic;
use crate::keys::{Protection, Relays};
use crate::render::Format;
use crate::tls::{Identity, TlsClient};

use super::security::RawCollectorSecurity;
use super::text::{ConfigError, Text};
use super::{CheckError, Network, check_address, identity, loopback};

/// Configuration of a collector.
#[derive(Clone, Debug)]
pub struct CollectorConfig {
    /// Directory of the collector's state.
    pub state: PathBuf,
    /// The UDP address on which relays reach it.
    pub listen: SocketAddr,
    /// The addresses that relays may have; `None` for any.
    pub allow: Option<Vec<Network>>,
    /// Where lines go. At least one file or Kafka, and Kafka once at most.
    pub outputs: Vec<OutputConfig>,
    /// Where `/metrics` and `/status` are served.
    pub metrics: Option<SocketAddr>,
    /// How the associations with relays are protected.
    pub security: Protection<Relays>,
}

/// A place for lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputConfig {
    /// Which.
    pub place: OutputPlace,
    /// Format of its lines.
    pub format: Format,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPlace {
    /// A file, whose name may contain `{source}`, `{app}`, `{severity}` and `{date}`.
    File {
        /// The name.
        path: String,
        /// Size beyond which a file gets a number after its name and a new one is started.
        rotate_bytes: Option<u64>,
        /// What becomes of a file that has its number.
        compression: Option<Compression>,
        /// Files that the relays of one address may make at once.
        new_files: u64,
    },
    /// Standard output.
    Stdout,
    /// A TCP peer that reads octet counting, with or without TLS.
    Forward(SocketAddr, Option<TlsClient>),
    /// Kafka, which has a part in each commit.
    Kafka(KafkaTopic),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCollector {
    state: PathBuf,
    listen: Spanned<String>,
    allow: Option<Vec<Spanned<String>>>,
    metrics: Option<Spanned<String>>,
    security: Option<Spanned<RawCollectorSecurity>>,
    output: Vec<Spanned<RawOutput>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    kind: Spanned<String>,
    path: Option<String>,
    rotate: Option<Spanned<String>>,
    compress: Option<Spanned<Compression>>,
    new_files: Option<Spanned<u64>>,
    to: Option<Spanned<String>>,
    authorities: Option<PathBuf>,
    name: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    brokers: Option<String>,
    topic: Option<String>,
    options: Option<Spanned<BTreeMap<String, String>>>,
    #[serde(default)]
    format: Format,
}

impl CollectorConfig {
    /// Reads the text of a file; the name is for messages only.
    ///
    /// # Errors
    /// The first thing that makes no sense, with file, line and column.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let text = Text::new(file, text);
        let raw: RawCollector = text.read()?;
        let state = raw.state.clone();
        let outputs: Vec<_> =
            raw.output.iter().map(|output| read_output(&text, output)).collect::<Result<_, ConfigError>>()?;
        for (output, raw) in outputs.iter().zip(&raw.output) {
            if let OutputPlace::File { path, .. } = &output.place
                && Path::new(path).starts_with(&state)
            {
                let problem = format!(
                    "{} is the directory of the collector's state; choose another path for lines",
                    state.display()
                );
                return Err(text.error(raw.span(), problem));
            }
        }
        let keeps = |output: &&OutputConfig| matches!(output.place, OutputPlace::File { .. } | OutputPlace::Kafka(_));
        if !outputs.iter().any(|output| keeps(&output)) {
            let problem =
                "there is no [[output]] of kind \"file\" or \"kafka\": a line counts as delivered when it is there";
            return Err(text.error(0..0, problem.to_owned()));
        }
        let mut kafka =
            outputs.iter().zip(&raw.output).filter(|(output, _)| matches!(output.place, OutputPlace::Kafka(_)));
        if let (Some(_), Some((_, second))) = (kafka.next(), kafka.next()) {
            let problem =
                "only one [[output]] of kind \"kafka\" is possible, since two could not take each line exactly once";
            return Err(text.error(second.span(), problem.to_owned()));
        }
        Ok(Self {
            listen: text.address(&raw.listen)?,
            allow: match &raw.allow {
                Some(networks) => Some(networks.iter().map(|network| text.value(network)).collect::<Result<_, _>>()?),
                None => None,
            },
            metrics: raw.metrics.as_ref().map(|address| loopback(&text, address)).transpose()?,
            security: RawCollectorSecurity::read(&text, raw.security.as_ref())?,
            state: raw.state,
            outputs,
        })
    }
}

impl CollectorConfig {
    /// Checks that depend on this machine: reads certificates and keys, and checks that outputs are not directories. Refuses port 0, which changes at
    /// each start.
    ///
    /// # Errors
    /// The first problem.
    pub fn check_files(&self) -> Result<(), CheckError> {
        check_address("listen", Some(self.listen))?;
        check_address("metrics", self.metrics)?;
        self.security.check_files()?;
        self.outputs.iter().try_for_each(|output| match &output.place {
            OutputPlace::Forward(_, Some(client)) => {
                client.config()?;
                Ok(client.identity.as_ref().map_or(Ok(()), Identity::check_dates)?)
            }
            OutputPlace::File { path, .. } if Path::new(path).is_dir() => Err(CheckError::NoFile(path.into())),
            _ => Ok(()),
        })
    }
}

/// Placeholders in a file name.
const PLACEHOLDERS: [&str; 4] = ["source", "app", "severity", "date"];

fn read_output(text: &Text, raw: &Spanned<RawOutput>) -> Result<OutputConfig, ConfigError> {
    let output = raw.get_ref();
    let missing = |name: &str| text.error(raw.span(), format!("the output needs {name}"));
    let place = match output.kind.get_ref().as_str() {
        "file" => {
            let path = output.path.clone().filter(|path| !path.is_empty()).ok_or_else(|| missing("a path"))?;
            if path.ends_with('/') || matches!(path.rsplit('/').next(), Some("." | "..")) {
                return Err(text.error(raw.span(), format!("\"{path}\" is a directory; the path must name a file")));
            }
            for piece in path.split('{').skip(1) {
                let name = piece.split_once('}').map(|(name, _)| name);
                if !name.is_some_and(|name| PLACEHOLDERS.contains(&name)) {
                    let problem = format!("braces in a path must contain one of {}", PLACEHOLDERS.join(", "));
                    return Err(text.error(raw.span(), problem));
                }
            }
            let rotate_bytes = match &output.rotate {
                Some(value) => Some(text.value::<ByteCount>(value)?.bytes().max(1)),
                None => None,
            };
            OutputPlace::File {
                path,
                rotate_bytes,
                compression: output.compress.as_ref().map(|value| *value.get_ref()),
                new_files: output.new_files.as_ref().map_or(FileOutput::NEW_FILES_DEFAULT, |value| *value.get_ref()),
            }
        }
        "stdout" => OutputPlace::Stdout,
        "forward" => {
            let to = output.to.as_ref().ok_or_else(|| missing("a peer, as in to = \"127.0.0.1:601\""))?;
            let to = text.address(to)?;
            if output.certificate.is_some() != output.key.is_some() {
                return Err(missing("both a certificate and a key, or neither"));
            }
            let tls = output.authorities.clone().map(|authorities| TlsClient {
                authorities,
                name: output.name.clone().unwrap_or_else(|| to.ip().to_string()),
                identity: identity(output.certificate.as_ref(), output.key.as_ref()),
            });
            if tls.is_none() && (output.name.is_some() || output.key.is_some()) {
                return Err(missing("authorities, the PEM file of the trusted authorities"));
            }
            OutputPlace::Forward(to, tls)
        }
        "kafka" => OutputPlace::Kafka(read_kafka(text, raw)?),
        kind => {
            let problem = format!("\"{kind}\" is not a kind of output; use file, stdout, forward or kafka");
            return Err(text.error(output.kind.span(), problem));
        }
    };
    if let Some(compress) = &output.compress
        && !matches!(place, OutputPlace::File { rotate_bytes: Some(_), .. })
    {
        return Err(text.error(compress.span(), "compress is for files with rotate only".to_owned()));
    }
    if let Some(new_files) = &output.new_files
        && !matches!(&place, OutputPlace::File { path, .. } if path.contains('{'))
    {
        let problem = "new_files is for files with braces in their path only".to_owned();
        return Err(text.error(new_files.span(), problem));
    }
    Ok(OutputConfig { place, format: output.format })
}

/// Settings of librdkafka that the promise depends on.
const OURS: [&str; 16] = [
    "acks",
    "bootstrap.servers",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "group.id",
    "isolation.level",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.timeout.ms",
    "metadata.broker.list",
    "request.required.acks",
    "retries",
    "transaction.timeout.ms",
    "transactional.id",
];

fn read_kafka(text: &Text, raw: &Spanned<RawOutput>) -> Result<KafkaTopic, ConfigError> {
    let output = raw.get_ref();
    let missing = |name: &str| text.error(raw.span(), format!("the output needs {name}"));
    let topic = KafkaTopic {
        brokers: output
            .brokers
            .clone()
            .ok_or_else(|| missing("brokers, as in brokers = \"kafka1:9092,kafka2:9092\""))?,
        topic: output.topic.clone().ok_or_else(|| missing("a topic"))?,
        options: output.options.as_ref().map(|options| options.get_ref().clone()).unwrap_or_default(),
    };
    let span = output.options.as_ref().map_or_else(|| raw.span(), Spanned::span);
    if let Some(ours) = topic.options.keys().find(|name| OURS.contains(&name.as_str())) {
        return Err(text.error(span, format!("{ours} cannot be set, because exactly-once delivery depends on it")));
    }
    topic.check().map_err(|problem| text.error(span, problem))?;
    Ok(topic)
}
