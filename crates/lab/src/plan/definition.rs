//! What the plan of an experiment defines besides values: its texts, its parameters, and where its values come from.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use festina_recovery::Profile;
use festina_recovery::redundancy::Redundancy;
use festina_units::duration;
use serde::Deserialize;

use super::parameter::{Kind, Parameter};
use super::shared;
use super::tables::interned;
use crate::assumption::{Assumption, Origin};
use crate::experiment::Description;

/// What an experiment says of itself.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its texts.
    pub description: Description,
    /// Parameters that a plan can set.
    pub parameters: Vec<Parameter>,
    /// Where the values of its plan come from.
    pub assumptions: Vec<Assumption>,
}

#[derive(Deserialize)]
struct RawFile {
    experiment: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    definition: RawDefinition,
}

/// The table `[definition]`, or a file that several experiments share.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDefinition {
    /// The subject of the experiment, if the title of its plan is narrower.
    title: Option<String>,
    #[serde(default)]
    reference: String,
    #[serde(default)]
    question: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    parameters: Vec<RawParameter>,
    #[serde(default)]
    assumptions: Vec<RawAssumption>,
}

/// A parameter: its name, its meaning, and one range or list; or the name of a file that has some.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawParameter {
    shared: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    about: String,
    duration: Option<[String; 2]>,
    bandwidth: Option<[String; 2]>,
    bytes: Option<[String; 2]>,
    share: Option<[String; 2]>,
    count: Option<[u64; 2]>,
    /// `"all senders"` stands for the names of all profiles, and of Festina's with each redundancy.
    choice: Option<Vec<String>>,
    #[serde(default)]
    capture: bool,
    /// The values are stated in the publication, chosen, or fitted.
    stated: Option<String>,
    chosen: Option<String>,
    fitted: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAssumption {
    shared: Option<String>,
    #[serde(default)]
    of: String,
    #[serde(default)]
    values: Vec<String>,
    stated: Option<String>,
    chosen: Option<String>,
    fitted: Option<String>,
    /// It is about something that no plan can set.
    #[serde(default)]
    beside_the_plan: bool,
}

/// The definition in an experiment's own plan. Each is read once.
///
/// # Panics
/// If it makes no sense, which is a bug of the experiment that its tests find.
pub fn of(plan: &'static str) -> &'static Definition {
    static READ: Mutex<BTreeMap<usize, &'static Definition>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    read.entry(plan.as_ptr().addr()).or_insert_with(|| Box::leak(Box::new(definition(plan))))
}

/// The part of an experiment's own plan that another plan can have: all before its definition.
pub fn values(plan: &'static str) -> &'static str {
    plan.split_once("\n[definition]\n").map_or(plan, |(values, _)| values)
}

fn definition(plan: &'static str) -> Definition {
    let RawFile { experiment, title, definition } =
        toml::from_str(plan).unwrap_or_else(|error| panic!("a plan has a sound definition: {error}"));
    let mut parameters = Vec::new();
    let mut assumptions = Vec::new();
    definition.parameters.iter().for_each(|raw| raw.add_to(&mut parameters, &mut assumptions));
    definition.assumptions.iter().for_each(|raw| raw.add_to(&mut assumptions));
    let description = Description {
        name: interned(&experiment),
        title: interned(definition.title.as_ref().unwrap_or(&title)),
        reference: interned(&definition.reference),
        about: interned(&paragraphs(&definition.about)),
        plan,
        question: interned(&definition.question),
    };
    Definition { description, parameters, assumptions }
}

/// The text with one line for each paragraph. A paragraph `[name]` stands for the text of that file.
fn paragraphs(text: &str) -> String {
    let paragraphs = text.trim().split("\n\n").map(|paragraph| {
        let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        match paragraph.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => paragraphs(&shared_file(name).about),
            None => paragraph,
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn shared_file(name: &str) -> RawDefinition {
    let (_, text) = shared::FILES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no file {name}"));
    toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml is sound: {error}"))
}

impl RawParameter {
    fn add_to(&self, parameters: &mut Vec<Parameter>, assumptions: &mut Vec<Assumption>) {
        if let Some(name) = &self.shared {
            shared_file(name).parameters.iter().for_each(|raw| raw.add_to(parameters, assumptions));
            return;
        }
        let name = interned(&self.name);
        parameters.push(Parameter { name, about: interned(&self.about), kind: self.kind() });
        if let Some(origin) = origin([&self.stated, &self.chosen, &self.fitted]) {
            assumptions.push(Assumption { subject: name, values: &[], is_parameter: true, origin });
        }
    }

    fn kind(&self) -> Kind {
        match () {
            () if self.capture => Kind::Recording,
            () if let Some(range) = &self.duration => {
                let [low, high] =
                    range.each_ref().map(|text| duration::parse(text).unwrap_or_else(|error| panic!("{error}")));
                Kind::Duration(low..=high)
            }
            () if let Some(range) = &self.bandwidth => Kind::Bandwidth(parsed(range)),
            () if let Some(range) = &self.bytes => Kind::Bytes(parsed(range)),
            () if let Some(range) = &self.share => Kind::Probability(parsed(range)),
            () if let Some([low, high]) = self.count => Kind::Count(low..=high),
            () => {
                let words = self.choice.as_ref().unwrap_or_else(|| panic!("{} has a kind", self.name));
                Kind::Choice(words.iter().flat_map(|word| expanded(word)).collect::<Vec<_>>().leak())
            }
        }
    }
}

impl RawAssumption {
    fn add_to(&self, assumptions: &mut Vec<Assumption>) {
        if let Some(name) = &self.shared {
            shared_file(name).assumptions.iter().for_each(|raw| raw.add_to(assumptions));
            return;
        }
        let origin = origin([&self.stated, &self.chosen, &self.fitted])
            .unwrap_or_else(|| panic!("{} is stated, chosen or fitted", self.of));
        let (subject, values) = (interned(&self.of), all_interned(&self.values));
        assumptions.push(Assumption { subject, values, is_parameter: !self.beside_the_plan, origin });
    }
}

fn origin([stated, chosen, fitted]: [&Option<String>; 3]) -> Option<Origin> {
    let note = |text: &Option<String>| text.as_deref().map(interned);
    let origin = note(stated).map(Origin::Stated).or_else(|| note(chosen).map(Origin::Chosen));
    origin.or_else(|| note(fitted).map(Origin::Fitted))
}

/// The words that one stands for.
fn expanded(word: &str) -> Vec<&'static str> {
    match word {
        "all senders" => {
            let profiles = Profile::all().iter().map(|profile| profile.name());
            let others = Redundancy::NAMED.iter().filter(|redundancy| **redundancy != Redundancy::ADAPTIVE);
            profiles.chain(others.map(|redundancy| interned(&format!("festina+{redundancy}")))).collect()
        }
        _ => vec![interned(word)],
    }
}

fn all_interned(words: &[String]) -> &'static [&'static str] {
    words.iter().map(|word| interned(word)).collect::<Vec<_>>().leak()
}

fn parsed<T: FromStr<Err = festina_units::ParseError>>([low, high]: &[String; 2]) -> RangeInclusive<T> {
    let read = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    read(low)..=read(high)
}
