//! A plan as it stands in the file: keys are known to make sense, values are not.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

/// Keys and their values, each with its place in the file.
pub(super) type Settings = BTreeMap<Spanned<String>, Spanned<Setting>>;

/// Tables of one kind by their names, each with its keys.
pub(super) type Tables = BTreeMap<Spanned<String>, Settings>;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPlan {
    pub(super) experiment: Spanned<String>,
    pub(super) title: Option<Spanned<String>>,
    pub(super) seed: Option<Spanned<Setting>>,
    pub(super) repetitions: Option<Spanned<Setting>>,
    /// Names, and lists of names.
    pub(super) one_at_a_time: Option<Vec<Spanned<Setting>>>,
    #[serde(default)]
    pub(super) parameters: Settings,
    #[serde(default)]
    pub(super) links: Tables,
    #[serde(default)]
    pub(super) flows: Tables,
    #[serde(default)]
    pub(super) probes: Tables,
    pub(super) more: Option<RawMore>,
    #[serde(default)]
    pub(super) quick: RawQuick,
    /// What only the own plan of an experiment has.
    pub(super) definition: Option<Spanned<Setting>>,
    #[serde(default)]
    pub(super) check: Vec<RawCheck>,
    #[serde(default)]
    pub(super) shared_checks: Vec<RawSharedChecks>,
    /// Names for parts of tests.
    #[serde(default, rename = "let")]
    pub(super) names: BTreeMap<String, String>,
}

/// The checks of a file that several experiments share, with further cells and checks for all of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSharedChecks {
    pub(super) file: Spanned<String>,
    #[serde(default)]
    pub(super) under: String,
    #[serde(default)]
    pub(super) each: Settings,
    #[serde(default, rename = "for")]
    pub(super) each_check: Settings,
}

/// How the numbers of all cells become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Together {
    #[serde(rename = "geometric mean")]
    GeometricMean,
}

/// A check as it stands in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCheck {
    pub(super) says: Spanned<String>,
    pub(super) test: Spanned<Setting>,
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) under: String,
    pub(super) cell: Option<Spanned<Setting>>,
    pub(super) together: Option<Together>,
    #[serde(default)]
    pub(super) delays_min: u64,
    #[serde(default)]
    pub(super) at: Settings,
    #[serde(default)]
    pub(super) each: Settings,
    #[serde(default)]
    pub(super) except: Settings,
    #[serde(default, rename = "for")]
    pub(super) each_check: Settings,
}

/// Which points are run more often.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMore {
    pub(super) repetitions: Spanned<Setting>,
    pub(super) parameters: Settings,
}

/// Differences at quick scale.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawQuick {
    pub(super) repetitions: Option<Spanned<Setting>>,
    #[serde(default)]
    pub(super) parameters: Settings,
    #[serde(default)]
    pub(super) links: Tables,
    #[serde(default)]
    pub(super) flows: Tables,
    #[serde(default)]
    pub(super) probes: Tables,
}

impl RawPlan {
    /// The tables of each kind.
    pub(super) fn tables(&self) -> [(&'static str, &Tables); 3] {
        [("links", &self.links), ("flows", &self.flows), ("probes", &self.probes)]
    }

    /// Returns whether the file sets any repetitions, for all points or for some.
    pub(super) fn sets_repetitions(&self) -> bool {
        self.repetitions.is_some() || self.more.is_some()
    }

    /// Whether there is any, at whichever scale.
    pub(super) fn has_tables(&self) -> bool {
        self.tables().iter().any(|(_, tables)| !tables.is_empty())
    }
}

impl RawQuick {
    /// The tables of each kind.
    pub(super) fn tables(&self) -> [(&'static str, &Tables); 3] {
        [("links", &self.links), ("flows", &self.flows), ("probes", &self.probes)]
    }
}

/// The value of a key.
#[derive(Clone, Debug)]
pub(super) enum Setting {
    Text(String),
    Integer(i64),
    List(Vec<Spanned<Setting>>),
    /// A value that no parameter accepts, described as a noun with its article.
    Senseless(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Integer(number) => write!(f, "{number}"),
            Self::List(_) => f.write_str("a list"),
            Self::Senseless(what) => f.write_str(what),
        }
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SettingVisitor)
    }
}

struct SettingVisitor;

impl<'de> Visitor<'de> for SettingVisitor {
    type Value = Setting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes, a whole number, or a list of these")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Setting, E> {
        Ok(Setting::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Setting, E> {
        Ok(Setting::Integer(number))
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Setting, E> {
        Ok(Setting::Senseless(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Setting, E> {
        Ok(i64::try_from(number).map_or_else(|_| Setting::Senseless(number.to_string()), Setting::Integer))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Setting, E> {
        Ok(Setting::Senseless(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Setting, E> {
        Ok(Setting::Senseless(format!("the bare fraction {number}")))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Setting, E> {
        Ok(Setting::Senseless(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Setting, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Setting::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Setting, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Setting::Senseless("a table or a date".to_owned()))
    }
}
