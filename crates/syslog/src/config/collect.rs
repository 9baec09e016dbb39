//! The file of a collector.

use std::net::SocketAddr;
use std::path::PathBuf;

use festina_units::ByteCount;
use serde::Deserialize;
use toml::Spanned;

use crate::tls::{TlsClient, TlsError};

use super::text::{ConfigError, Text};
use super::{identity, loopback};

/// What a collector does.
#[derive(Clone, Debug)]
pub struct CollectorConfig {
    /// Where it remembers what it has.
    pub state: PathBuf,
    /// The UDP address on which relays reach it.
    pub listen: SocketAddr,
    /// Where lines go. At least one file.
    pub outputs: Vec<OutputConfig>,
    /// Where `/metrics` and `/status` are served.
    pub metrics: Option<SocketAddr>,
}

/// A place for lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputConfig {
    /// Which.
    pub place: OutputPlace,
    /// What a line looks like there.
    pub format: Format,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPlace {
    /// A file, whose name may contain `{source}`, `{app}`, `{severity}` and `{date}`.
    File {
        /// The name.
        path: String,
        /// A file that is larger gets a number behind its name, and a new one begins.
        rotate_bytes: Option<u64>,
    },
    /// Standard output.
    Stdout,
    /// A TCP peer that reads octet counting, with or without TLS.
    Forward(SocketAddr, Option<TlsClient>),
}

/// What a line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// As it came, with control characters escaped.
    #[default]
    Raw,
    /// One JSON object.
    Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCollector {
    state: PathBuf,
    listen: Spanned<String>,
    metrics: Option<Spanned<String>>,
    output: Vec<Spanned<RawOutput>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutput {
    kind: Spanned<String>,
    path: Option<String>,
    rotate: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    authorities: Option<PathBuf>,
    name: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
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
        let outputs: Vec<_> =
            raw.output.iter().map(|output| read_output(&text, output)).collect::<Result<_, ConfigError>>()?;
        if !outputs.iter().any(|output| matches!(output.place, OutputPlace::File { .. })) {
            let problem = "there is no [[output]] of kind \"file\": a line counts as delivered when it is in a file";
            return Err(text.error(0..0, problem.to_owned()));
        }
        Ok(Self {
            listen: text.value(&raw.listen)?,
            metrics: raw.metrics.as_ref().map(|address| loopback(&text, address)).transpose()?,
            state: raw.state,
            outputs,
        })
    }
}

impl CollectorConfig {
    /// Reads the files that it names: certificates and keys.
    ///
    /// # Errors
    /// What is wrong with the first that is.
    pub fn check_files(&self) -> Result<(), TlsError> {
        self.outputs.iter().try_for_each(|output| match &output.place {
            OutputPlace::Forward(_, Some(client)) => client.config().map(drop),
            _ => Ok(()),
        })
    }
}

/// What a name of a file may contain in braces.
const PLACEHOLDERS: [&str; 4] = ["source", "app", "severity", "date"];

fn read_output(text: &Text, raw: &Spanned<RawOutput>) -> Result<OutputConfig, ConfigError> {
    let output = raw.get_ref();
    let missing = |what: &str| text.error(raw.span(), format!("it needs {what}"));
    let place = match output.kind.get_ref().as_str() {
        "file" => {
            let path = output.path.clone().ok_or_else(|| missing("a path"))?;
            for piece in path.split('{').skip(1) {
                let name = piece.split_once('}').map(|(name, _)| name);
                if !name.is_some_and(|name| PLACEHOLDERS.contains(&name)) {
                    let problem = format!("braces in a path stand around one of {}", PLACEHOLDERS.join(", "));
                    return Err(text.error(raw.span(), problem));
                }
            }
            let rotate_bytes = match &output.rotate {
                Some(value) => Some(text.value::<ByteCount>(value)?.bytes().max(1)),
                None => None,
            };
            OutputPlace::File { path, rotate_bytes }
        }
        "stdout" => OutputPlace::Stdout,
        "forward" => {
            let to = output.to.as_ref().ok_or_else(|| missing("a peer, as in to = \"127.0.0.1:601\""))?;
            let to: SocketAddr = text.value(to)?;
            if output.certificate.is_some() != output.key.is_some() {
                return Err(missing("both a certificate and a key, or neither"));
            }
            let tls = output.authorities.clone().map(|authorities| TlsClient {
                authorities,
                name: output.name.clone().unwrap_or_else(|| to.ip().to_string()),
                identity: identity(output.certificate.as_ref(), output.key.as_ref()),
            });
            if tls.is_none() && (output.name.is_some() || output.key.is_some()) {
                return Err(missing("authorities: the PEM file with those whose certificates it believes"));
            }
            OutputPlace::Forward(to, tls)
        }
        kind => {
            return Err(
                text.error(output.kind.span(), format!("\"{kind}\" is no output; there are file, stdout and forward"))
            );
        }
    };
    Ok(OutputConfig { place, format: output.format })
}
