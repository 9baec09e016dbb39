//! The table `[security]` of both files: trusted peers.

use std::path::PathBuf;

use festina::security::Fingerprint;
use serde::Deserialize;
use toml::Spanned;

use super::{ConfigError, Text, identity};
use crate::keys::{Collectors, Protection, Relays};
use crate::tls::Identity;

/// The table of a relay.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRelaySecurity {
    #[serde(default)]
    plain: bool,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authorities: Option<PathBuf>,
    name: Option<String>,
    collectors: Option<Vec<Spanned<String>>>,
}

/// The table of a collector.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCollectorSecurity {
    #[serde(default)]
    plain: bool,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authorities: Option<PathBuf>,
    relays: Option<Spanned<RawRelays>>,
}

/// The word "any", or a list of fingerprints.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it must be a list of fingerprints, as in [\"sha256:...\"], or \"any\"")]
enum RawRelays {
    Word(String),
    List(Vec<String>),
}

impl RawRelaySecurity {
    pub(super) fn read(text: &Text, raw: Option<&Spanned<Self>>) -> Result<Protection<Collectors>, ConfigError> {
        let Some(raw) = raw else { return Ok(Protection::default()) };
        let (table, wrong) = (raw.get_ref(), |problem: &str| text.error(raw.span(), problem.to_owned()));
        let identity = both(table.certificate.as_ref(), table.key.as_ref()).map_err(wrong)?;
        let peers = match (&table.authorities, &table.collectors) {
            (Some(_), Some(_)) => {
                return Err(wrong("collectors are known by authorities or by fingerprints, not both"));
            }
            (Some(authorities), None) => Collectors::Authorities(authorities.clone(), table.name.clone()),
            (None, _) if table.name.is_some() => return Err(wrong("name needs authorities")),
            (None, Some(list)) if list.is_empty() => return Err(wrong("no collector would be trusted")),
            (None, Some(list)) => {
                Collectors::Fingerprints(list.iter().map(|value| text.value(value)).collect::<Result<_, _>>()?)
            }
            (None, None) => Collectors::FirstUse,
        };
        if !table.plain {
            return Ok(Protection::Encrypted { identity, peers });
        }
        match (identity, peers) {
            (None, Collectors::FirstUse) => Ok(Protection::Plain),
            _ => Err(wrong(ALONE)),
        }
    }
}

impl RawCollectorSecurity {
    pub(super) fn read(text: &Text, raw: Option<&Spanned<Self>>) -> Result<Protection<Relays>, ConfigError> {
        let Some(raw) = raw else { return Ok(Protection::default()) };
        let (table, wrong) = (raw.get_ref(), |problem: &str| text.error(raw.span(), problem.to_owned()));
        let identity = both(table.certificate.as_ref(), table.key.as_ref()).map_err(wrong)?;
        let peers = match (&table.authorities, &table.relays) {
            (Some(_), Some(_)) => return Err(wrong("relays are known by authorities or by fingerprints, not both")),
            (Some(authorities), None) => Some(Relays::Authorities(authorities.clone())),
            (None, Some(relays)) => Some(read_relays(text, relays)?),
            (None, None) => None,
        };
        match (table.plain, identity, peers) {
            (false, identity, peers) => Ok(Protection::Encrypted { identity, peers: peers.unwrap_or_default() }),
            (true, None, None) => Ok(Protection::Plain),
            (true, ..) => Err(wrong(ALONE)),
        }
    }
}

const ALONE: &str = "plain = true excludes all other settings of [security]";

fn read_relays(text: &Text, relays: &Spanned<RawRelays>) -> Result<Relays, ConfigError> {
    let wrong = |problem: String| text.error(relays.span(), problem);
    match relays.get_ref() {
        RawRelays::Word(word) if word == "any" => Ok(Relays::Any),
        RawRelays::Word(word) => Err(wrong(format!("\"{word}\": it must be a list of fingerprints or \"any\""))),
        RawRelays::List(list) => {
            let read =
                |name: &String| name.parse::<Fingerprint>().map_err(|error| wrong(format!("\"{name}\": {error}")));
            Ok(Relays::Fingerprints(list.iter().map(read).collect::<Result<_, _>>()?))
        }
    }
}

/// A certificate with its key, or neither.
fn both(certificate: Option<&PathBuf>, key: Option<&PathBuf>) -> Result<Option<Identity>, &'static str> {
    match (certificate, key) {
        (Some(_), Some(_)) | (None, None) => Ok(identity(certificate, key)),
        _ => Err("certificate and key belong together"),
    }
}
