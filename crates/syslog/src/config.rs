//! The configuration files of relay and collector: TOML with explicit units. Unknown keys are refused with file, line and column.
//!
//! [`RelayConfig::parse`] and [`CollectorConfig::parse`] read them; [`RELAY_TEMPLATE`] and [`COLLECTOR_TEMPLATE`] are commented templates.

mod collect;
mod collectors;
mod networks;
mod security;
mod text;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use festina::Redundancy;
use festina_units::{ByteCount, Duration, duration};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::Spanned;

use crate::framing::Framing;
use crate::keys::{Collectors, Protection};
use crate::line::Severity;
use crate::policy::{Matcher, PRIORITIES, Policy, Treatment};
use crate::state_lock::StateLock;
use crate::tls::{Identity, TlsError, TlsServer};
use crate::unix_socket;

pub use crate::collector::Compression;
pub use crate::kafka_topic::KafkaTopic;
pub use crate::render::Format;
pub use collect::{CollectorConfig, OutputConfig, OutputPlace};
pub use collectors::Failover;
use collectors::{OneOrMore, RawFailover};
pub use networks::Network;
use security::RawRelaySecurity;
pub use text::ConfigError;
use text::Text;

/// A commented file for a relay.
pub const RELAY_TEMPLATE: &str = include_str!("config/relay.toml");

/// A commented file for a collector.
pub const COLLECTOR_TEMPLATE: &str = include_str!("config/collect.toml");

/// The longest message of one line, unless the file says otherwise.
const MESSAGE_BYTES_DEFAULT: u64 = 8 << 10;

/// The longest message that may be asked for: it still fits into one message of the transport.
const MESSAGE_BYTES_MAX: u64 = 256 << 10;

/// The longest time that a line may wait until the disk confirms it: with a longer one, "reliable" would mean little.
const SYNC_EVERY_MAX: Duration = Duration::from_secs(1);

/// Default receive buffer of a UDP input. A datagram of 250 bytes takes about a kilobyte there.
const RECEIVE_BUFFER_BYTES_DEFAULT: u64 = 8 << 20;

/// Default mode of a Unix socket: programs of every user write to it, as to `/dev/log`.
const SOCKET_MODE_DEFAULT: u32 = 0o666;

/// Configuration of a relay.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Where the spool lies.
    pub state: PathBuf,
    /// The collectors' UDP addresses, the first to be asked first.
    pub collectors: Vec<SocketAddr>,
    /// How lines go to several of them.
    pub failover: Failover,
    /// Where lines come from.
    pub inputs: Vec<Input>,
    /// Longer messages are cut.
    pub message_bytes_max: usize,
    /// The spool's limits.
    pub spool: SpoolLimits,
    /// What lines are worth.
    pub policy: Policy,
    /// Proactive copies of important lines by the transport, in addition to those that the relay sends.
    pub redundancy: Redundancy,
    /// Where `/metrics` and `/status` are served.
    pub metrics: Option<SocketAddr>,
    /// How the associations with collectors are protected.
    pub security: Protection<Collectors>,
}

/// Limits of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    /// Bytes on disk.
    pub bytes_max: u64,
    /// Maximum age of a line.
    pub age_max: Duration,
    /// Maximum time until a line is on disk.
    pub sync_every: Duration,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self { bytes_max: 1 << 30, age_max: Duration::from_secs(7 * 24 * 3_600), sync_every: Duration::from_millis(10) }
    }
}

/// Where lines come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// How they come.
    pub kind: InputKind,
    /// Lines per second that one source may send; more are shed and counted. `None` is without limit.
    pub lines_per_second_max: Option<u32>,
}

/// How lines come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A Unix datagram socket such as `/dev/log`, with its mode: who may write lines.
    Unix(PathBuf, u32),
    /// A UDP socket, with the size of its receive buffer in bytes; one datagram is one line (RFC 5426).
    Udp(SocketAddr, u64),
    /// A TCP socket (RFC 6587).
    Tcp(SocketAddr, Framing),
    /// A TCP socket with TLS (RFC 5425).
    Tls(SocketAddr, Framing, TlsServer),
    /// Standard input, one line each.
    Stdin,
    /// A file that grows, and may be rotated.
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRelay {
    state: PathBuf,
    collector: Spanned<OneOrMore>,
    spread: Option<Spanned<bool>>,
    failover: Option<Spanned<RawFailover>>,
    message_bytes_max: Option<Spanned<String>>,
    redundancy: Option<Spanned<String>>,
    metrics: Option<Spanned<String>>,
    security: Option<Spanned<RawRelaySecurity>>,
    #[serde(default)]
    spool: RawSpool,
    input: Vec<Spanned<RawInput>>,
    #[serde(default)]
    rule: Vec<Spanned<RawRule>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpool {
    bytes_max: Option<Spanned<String>>,
    age_max: Option<Spanned<String>>,
    sync_every: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInput {
    kind: Spanned<String>,
    path: Option<PathBuf>,
    listen: Option<Spanned<String>>,
    framing: Option<Framing>,
    receive_buffer: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    clients: Option<PathBuf>,
    lines_per_second_max: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    severity: Option<Spanned<String>>,
    #[serde(default)]
    facility: Vec<Spanned<String>>,
    app: Option<String>,
    contains: Option<String>,
    #[serde(default)]
    drop: bool,
    #[serde(default)]
    reliable: bool,
    priority: Option<Spanned<u8>>,
    ordered: Option<bool>,
    lifetime: Option<Spanned<String>>,
    retransmissions: Option<u16>,
}

impl RelayConfig {
    /// Reads the text of a file; the name is for messages only.
    ///
    /// # Errors
    /// The first thing that makes no sense, with file, line and column.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let text = Text::new(file, text);
        let raw: RawRelay = text.read()?;
        if raw.input.is_empty() {
            return Err(text.error(0..0, "there is no [[input]]: nothing would be relayed".to_owned()));
        }
        let rules = raw.rule.iter().map(|rule| read_rule(&text, rule)).collect::<Result<_, _>>()?;
        let collectors = collectors::read(&text, &raw.collector)?;
        Ok(Self {
            failover: Failover::read(&text, collectors.len(), raw.spread.as_ref(), raw.failover.as_ref())?,
            collectors,
            message_bytes_max: message_bytes(&text, raw.message_bytes_max.as_ref())?,
            redundancy: match &raw.redundancy {
                Some(name) => text.value(name)?,
                None => Redundancy::Off,
            },
            metrics: raw.metrics.as_ref().map(|address| loopback(&text, address)).transpose()?,
            security: RawRelaySecurity::read(&text, raw.security.as_ref())?,
            spool: read_spool(&text, &raw.spool)?,
            inputs: raw.input.iter().map(|input| read_input(&text, input)).collect::<Result<_, _>>()?,
            policy: Policy::new(rules),
            state: raw.state,
        })
    }
}

impl RelayConfig {
    /// Checks that depend on this machine: reads certificates and keys, and looks for files to follow. Refuses port 0, which changes at each start.
    ///
    /// # Errors
    /// The first problem.
    pub fn check_files(&self) -> Result<(), CheckError> {
        check_address("metrics", self.metrics)?;
        self.security.check_files()?;
        self.inputs.iter().try_for_each(|input| match &input.kind {
            InputKind::Tls(address, _, server) => {
                check_address("listen", Some(*address))?;
                server.config()?;
                Ok(server.identity.check_dates()?)
            }
            InputKind::Udp(address, _) | InputKind::Tcp(address, _) => check_address("listen", Some(*address)),
            InputKind::File(path) => match path.metadata() {
                Ok(metadata) if metadata.is_file() => Ok(()),
                Ok(_) => Err(CheckError::NoFile(path.clone())),
                Err(source) => Err(CheckError::Input { path: path.clone(), source }),
            },
            InputKind::Unix(path, _) => {
                let is_running = StateLock::is_taken(&self.state);
                let check = if is_running { unix_socket::check_beside_a_relay } else { unix_socket::check };
                check(path).map_err(|source| CheckError::Socket { path: path.clone(), source })
            }
            InputKind::Stdin => Ok(()),
        })
    }
}

/// Something that a file asks for and that this machine does not have.
#[derive(Debug, Error)]
pub enum CheckError {
    /// A certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A key or certificate for the associations between relay and collector.
    #[error(transparent)]
    Key(#[from] festina::security::StoredError),
    /// A port that programs could not find.
    #[error("{key} = \"{address}\": port 0 changes at each start; choose a port")]
    NoPort {
        /// The key in the file.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
    },
    /// An input that is not there.
    #[error("the input {} cannot be read: {source}", path.display())]
    Input {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something in the place of a Unix socket.
    #[error("the socket {} cannot be created: {source}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A folder, a FIFO or a device where a file is wanted.
    #[error("{} is not a regular file", .0.display())]
    NoFile(PathBuf),
}

pub(crate) fn check_address(key: &'static str, address: Option<SocketAddr>) -> Result<(), CheckError> {
    match address {
        Some(address) if address.port() == 0 => Err(CheckError::NoPort { key, address }),
        _ => Ok(()),
    }
}

fn message_bytes(text: &Text, value: Option<&Spanned<String>>) -> Result<usize, ConfigError> {
    let Some(value) = value else { return Ok(usize::try_from(MESSAGE_BYTES_DEFAULT).unwrap_or(usize::MAX)) };
    let bytes = text.value::<ByteCount>(value)?.bytes();
    if !(480..=MESSAGE_BYTES_MAX).contains(&bytes) {
        let most = ByteCount::from_bytes(MESSAGE_BYTES_MAX);
        return Err(text.error(value.span(), format!("must be between 480B (RFC 5424 §6.1) and {most}")));
    }
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn read_spool(text: &Text, raw: &RawSpool) -> Result<SpoolLimits, ConfigError> {
    let default = SpoolLimits::default();
    let time = |value: &Option<Spanned<String>>, default, most| {
        let Some(value) = value else { return Ok(default) };
        let time = text.positive(value)?;
        if time > most {
            let problem = format!("must be at most {}", duration::display(most));
            return Err(text.error(value.span(), problem));
        }
        Ok(time)
    };
    let bytes_max = match &raw.bytes_max {
        Some(value) => match text.value::<ByteCount>(value)?.bytes() {
            bytes @ 1_048_576.. => bytes,
            _ => return Err(text.error(value.span(), "a spool needs at least 1MiB".to_owned())),
        },
        None => default.bytes_max,
    };
    Ok(SpoolLimits {
        bytes_max,
        age_max: time(&raw.age_max, default.age_max, Duration::MAX)?,
        sync_every: time(&raw.sync_every, default.sync_every, SYNC_EVERY_MAX)?,
    })
}

fn read_input(text: &Text, raw: &Spanned<RawInput>) -> Result<Input, ConfigError> {
    let (input, span) = (raw.get_ref(), raw.span());
    let path = || {
        let path = input.path.clone().filter(|path| !path.as_os_str().is_empty());
        path.ok_or_else(|| text.error(span.clone(), "path is missing".to_owned()))
    };
    let listen = || match &input.listen {
        Some(address) => text.address(address),
        None => Err(text.error(span.clone(), "listen is missing; for example listen = \"0.0.0.0:514\"".to_owned())),
    };
    let kind = match input.kind.get_ref().as_str() {
        "unix" => InputKind::Unix(path()?, mode(text, input.mode.as_ref())?),
        "file" => InputKind::File(path()?),
        "stdin" => InputKind::Stdin,
        "udp" => InputKind::Udp(listen()?, receive_buffer(text, input.receive_buffer.as_ref())?),
        "tcp" => InputKind::Tcp(listen()?, input.framing.unwrap_or_default()),
        "tls" => {
            let server = identity(input.certificate.as_ref(), input.key.as_ref())
                .map(|identity| TlsServer { identity, clients: input.clients.clone() });
            let missing = || text.error(span.clone(), "certificate and key are missing (two PEM files)".to_owned());
            // RFC 5425 §4.3 knows no other framing.
            let framing = input.framing.unwrap_or(Framing::OctetCounting);
            InputKind::Tls(listen()?, framing, server.ok_or_else(missing)?)
        }
        kind => {
            return Err(text.error(
                input.kind.span(),
                format!("\"{kind}\" is no input; there are unix, udp, tcp, tls, stdin and file"),
            ));
        }
    };
    if input.framing.is_some() && !matches!(kind, InputKind::Tcp(..) | InputKind::Tls(..)) {
        return Err(text.error(span, "framing is for kind = \"tcp\" and \"tls\" only".to_owned()));
    }
    let named = [&input.certificate, &input.key, &input.clients].into_iter().any(Option::is_some);
    if named && !matches!(kind, InputKind::Tls(..)) {
        return Err(text.error(span, "certificate, key and clients are for kind = \"tls\" only".to_owned()));
    }
    if input.mode.is_some() && !matches!(kind, InputKind::Unix(..)) {
        return Err(text.error(span, "mode is for kind = \"unix\" only".to_owned()));
    }
    if input.receive_buffer.is_some() && !matches!(kind, InputKind::Udp(..)) {
        return Err(text.error(span, "receive_buffer is for kind = \"udp\" only".to_owned()));
    }
    Ok(Input { kind, lines_per_second_max: input.lines_per_second_max })
}

fn identity(certificate: Option<&PathBuf>, key: Option<&PathBuf>) -> Option<Identity> {
    certificate.zip(key).map(|(certificate, key)| Identity { certificate: certificate.clone(), key: key.clone() })
}

/// The mode of a socket in octal.
fn mode(text: &Text, value: Option<&Spanned<String>>) -> Result<u32, ConfigError> {
    let Some(value) = value else { return Ok(SOCKET_MODE_DEFAULT) };
    let mode = u32::from_str_radix(value.get_ref(), 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| text.error(value.span(), "must be a mode in octal, such as \"0660\"".to_owned()))
}

fn receive_buffer(text: &Text, value: Option<&Spanned<String>>) -> Result<u64, ConfigError> {
    let Some(value) = value else { return Ok(RECEIVE_BUFFER_BYTES_DEFAULT) };
    let bytes = text.value::<ByteCount>(value)?.bytes();
    if !(4_096..=1 << 30).contains(&bytes) {
        return Err(text.error(value.span(), "must be between 4KiB and 1GiB".to_owned()));
    }
    Ok(bytes)
}

fn read_rule(text: &Text, raw: &Spanned<RawRule>) -> Result<(Matcher, Treatment), ConfigError> {
    let rule = raw.get_ref();
    let severity = match &rule.severity {
        Some(value) => Some(severities(value.get_ref()).map_err(|problem| text.error(value.span(), problem))?),
        None => None,
    };
    let matcher = Matcher {
        severity,
        facilities: rule.facility.iter().map(|name| text.value(name)).collect::<Result<_, _>>()?,
        app: rule.app.clone(),
        contains: rule.contains.clone(),
    };
    let lifetime = rule.lifetime.as_ref().map(|value| text.positive(value)).transpose()?;
    let partial = lifetime.is_some() || rule.retransmissions.is_some();
    if usize::from(rule.drop) + usize::from(rule.reliable) + usize::from(partial) != 1 {
        let problem = "a rule needs one of drop = true, reliable = true, or lifetime and retransmissions";
        return Err(text.error(raw.span(), problem.to_owned()));
    }
    if rule.ordered.is_some() && !rule.reliable {
        return Err(text.error(raw.span(), "only reliable lines can be ordered".to_owned()));
    }
    let priority = match &rule.priority {
        Some(value) if *value.get_ref() >= PRIORITIES => {
            return Err(text.error(value.span(), format!("priorities range from 0 (highest) to {}", PRIORITIES - 1)));
        }
        Some(value) => *value.get_ref(),
        None => u8::from(!rule.reliable),
    };
    let treatment = match () {
        () if rule.drop => Treatment::Drop,
        () if rule.reliable => Treatment::Reliable { priority, ordered: rule.ordered.unwrap_or(true) },
        () => Treatment::Fresh { priority, lifetime, retransmissions: rule.retransmissions },
    };
    Ok((matcher, treatment))
}

/// "err", or "emerg..err" with both ends.
fn severities(text: &str) -> Result<std::ops::RangeInclusive<Severity>, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to): (Severity, Severity) = (from.trim().parse()?, to.trim().parse()?);
    if from > to {
        return Err(format!("the more important severity comes first: \"{to}..{from}\""));
    }
    Ok(from..=to)
}

/// Accepts loopback addresses only, since the counters reveal when a machine is under attack.
fn loopback(text: &Text, value: &Spanned<String>) -> Result<SocketAddr, ConfigError> {
    let address = text.address(value)?;
    if !address.ip().is_loopback() {
        return Err(text.error(value.span(), "metrics are served on a loopback address only".to_owned()));
    }
    Ok(address)
}

impl Text {
    fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.contents()).map_err(|error| {
            let problem =
                error.message().replace("unknown field", "unknown key").replace("missing field", "missing key");
            self.error(error.span().unwrap_or(0..0), problem.replace('\n', "; "))
        })
    }

    fn value<T: std::str::FromStr<Err: std::fmt::Display>>(&self, value: &Spanned<String>) -> Result<T, ConfigError> {
        self.read_by(str::parse, value)
    }

    /// An IP address and a port.
    fn address(&self, value: &Spanned<String>) -> Result<SocketAddr, ConfigError> {
        self.read_by(festina::parse_address, value)
    }

    fn read_by<T, E: std::fmt::Display>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, E>,
        value: &Spanned<String>,
    ) -> Result<T, ConfigError> {
        let text = value.get_ref();
        parse(text).map_err(|error| {
            let problem = error.to_string();
            let named = if problem.contains(text.as_str()) { problem } else { format!("\"{text}\": {problem}") };
            self.error(value.span(), named)
        })
    }

    /// A time above 0.
    fn positive(&self, value: &Spanned<String>) -> Result<Duration, ConfigError> {
        match self.duration(value)? {
            Duration::ZERO => Err(self.error(value.span(), "it must be more than 0".to_owned())),
            time => Ok(time),
        }
    }

    fn duration(&self, value: &Spanned<String>) -> Result<Duration, ConfigError> {
        duration::parse(value.get_ref()).map_err(|error| self.error(value.span(), error.to_string()))
    }
}

#[cfg(test)]
mod tests;
