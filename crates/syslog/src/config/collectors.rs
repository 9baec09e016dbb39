//! To which collectors a relay sends.

use std::net::SocketAddr;

use festina_units::Duration;
use serde::Deserialize;
use toml::Spanned;

use super::{ConfigError, RelayConfig, Text};
use crate::sender::{COLLECTORS_MAX, Routing};

/// How lines go to several collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// Whether each source has a collector of its own, instead of all the first.
    pub spread: bool,
    /// Time after which another collector replaces an absent one.
    pub after: Duration,
    /// Time after which lines that wait for a gone collector are also sent to another; `None` means never.
    pub repeat_after: Option<Duration>,
}

/// One address, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it must be an address, as in \"192.0.2.1:9899\", or a list of them")]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFailover {
    after: Option<Spanned<String>>,
    repeat_after: Option<Spanned<String>>,
}

/// Reads the addresses of collectors.
pub(super) fn read(text: &Text, value: &Spanned<OneOrMore>) -> Result<Vec<SocketAddr>, ConfigError> {
    let names = match value.get_ref() {
        OneOrMore::One(name) => std::slice::from_ref(name),
        OneOrMore::More(names) => names,
    };
    let problem = |problem: String| text.error(value.span(), problem);
    if names.is_empty() || names.len() > COLLECTORS_MAX {
        return Err(problem(format!("there must be between 1 and {COLLECTORS_MAX} collectors")));
    }
    let mut addresses = Vec::new();
    for name in names {
        let address = festina::parse_address(name).map_err(|error| problem(error.to_string()))?;
        if address.port() == 0 {
            return Err(problem(format!("{address}: port 0 is invalid")));
        }
        if addresses.contains(&address) {
            return Err(problem(format!("{address} is listed twice")));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

impl Failover {
    pub(super) fn read(
        text: &Text,
        collectors: usize,
        spread: Option<&Spanned<bool>>,
        failover: Option<&Spanned<RawFailover>>,
    ) -> Result<Self, ConfigError> {
        let mut read = Self {
            spread: spread.is_some_and(|spread| *spread.get_ref()),
            after: Routing::AFTER_DEFAULT,
            repeat_after: None,
        };
        let needless = spread.filter(|_| read.spread).map(Spanned::span).or(failover.map(Spanned::span));
        if let Some(span) = needless.filter(|_| collectors == 1) {
            return Err(text.error(span, "spread and [failover] need several collectors".to_owned()));
        }
        let Some(failover) = failover.map(Spanned::get_ref) else { return Ok(read) };
        if let Some(after) = &failover.after {
            read.after = text.duration(after)?;
        }
        if let Some(repeat_after) = &failover.repeat_after {
            read.repeat_after = Some(text.duration(repeat_after)?);
        }
        Ok(read)
    }
}

impl RelayConfig {
    /// How lines go to collectors.
    pub(crate) fn routing(&self) -> Routing {
        let Failover { spread, after, repeat_after } = self.failover;
        Routing { collectors: self.collectors.iter().map(SocketAddr::to_string).collect(), spread, after, repeat_after }
    }
}
