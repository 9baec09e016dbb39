//! Tables that a plan has any number of, each under a name of its own: `[flows.thin]` sets `flows.thin.size` and so on.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use toml::Spanned;

use super::error::{PlanError, Source};
use super::raw::{RawPlan, Settings, Tables};
use super::{Parameter, Value};
use crate::experiment::Experiment;

/// The most tables of one kind in a plan.
pub const TABLES_MAX: usize = 64;
/// The most characters of a table's name.
pub const NAME_CHARS_MAX: usize = 40;

/// A kind of table. A plan without any tables has those of the experiment's own plan.
#[derive(Clone, Debug)]
pub struct Table {
    /// The kind: `links`, `flows` or `probes`.
    pub kind: &'static str,
    /// What such a table is about, as half a sentence.
    pub about: &'static str,
    /// Its keys.
    pub keys: Vec<Key>,
}

/// Something that a table can set.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name, without that of the table, its meaning, and its valid values.
    pub parameter: Parameter,
    /// What holds if the table does not set it.
    pub default: Value,
}

/// The text, kept until the process ends. Each is kept once; plans have few.
pub(super) fn interned(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return known;
    }
    let text: &'static str = text.to_owned().leak();
    kept.insert(text);
    text
}

/// Whether a text can be the name of a table: lower case letters, digits and hyphens, a letter first.
pub(super) fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    let is_plain = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    starts && is_plain && text.len() <= NAME_CHARS_MAX
}

/// A parameter that comes of a table, under its whole name.
#[derive(Clone, Debug)]
pub(super) struct TableParameter {
    pub(super) parameter: Parameter,
    pub(super) default: Value,
}

/// The parameters of all tables that a plan has, in the order in which they stand there; without any, of those of the experiment's
/// own plan.
///
/// # Errors
/// If the experiment has no such tables, or a name makes no sense.
pub(super) fn parameters(
    experiment: &dyn Experiment,
    plan: (&Source, &RawPlan),
    own: (&Source, &RawPlan),
) -> Result<Vec<TableParameter>, PlanError> {
    let known = experiment.tables();
    let mut parameters = Vec::new();
    let (source, raw) = if plan.1.has_tables() { plan } else { own };
    for (kind, tables) in raw.tables() {
        let names = in_order(tables);
        let Some(first) = names.first() else { continue };
        let table = known.iter().find(|table| table.kind == kind).ok_or_else(|| {
            let problem = format!("the experiment {} has no {kind}; the experiment scenario has", experiment.name());
            source.error(&first.span(), problem)
        })?;
        if let Some(beyond) = names.get(TABLES_MAX) {
            let problem = format!("there are {} {kind}; expected at most {TABLES_MAX}", names.len());
            return Err(source.error(&beyond.span(), problem));
        }
        for name in names {
            if !is_name(name.get_ref()) {
                let problem = format!(
                    "\"{}\" is no name; expected lower case letters, digits and hyphens, at most {NAME_CHARS_MAX}",
                    name.get_ref()
                );
                return Err(source.error(&name.span(), problem));
            }
            parameters.extend(table.keys.iter().map(|key| {
                let whole = interned(&format!("{kind}.{}.{}", name.get_ref(), key.parameter.name));
                TableParameter { parameter: Parameter { name: whole, ..key.parameter.clone() }, default: key.default }
            }));
        }
    }
    Ok(parameters)
}

/// The names in the order of the file.
fn in_order(tables: &Tables) -> Vec<&Spanned<String>> {
    let mut names: Vec<_> = tables.keys().collect();
    names.sort_by_key(|name| name.span().start);
    names
}

/// All keys of tables under their full names, with their values.
pub(super) fn flattened(tables: [(&'static str, &Tables); 3]) -> Settings {
    let mut settings = Settings::new();
    for (kind, tables) in tables {
        for (name, keys) in tables {
            for (key, setting) in keys {
                let whole = format!("{kind}.{}.{}", name.get_ref(), key.get_ref());
                settings.insert(Spanned::new(key.span(), whole), setting.clone());
            }
        }
    }
    settings
}
