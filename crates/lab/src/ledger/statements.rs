//! Reads what the papers say from `experiments/ledger`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Headline, Paper, Statement, Sum, Tested};
use crate::plan::constant;

/// The statements of each paper.
const FILES: [(Paper, &str); 5] = [
    (Paper::P06, include_str!("../../../../experiments/ledger/p06.toml")),
    (Paper::P10, include_str!("../../../../experiments/ledger/p10.toml")),
    (Paper::R12, include_str!("../../../../experiments/ledger/r12.toml")),
    (Paper::R15, include_str!("../../../../experiments/ledger/r15.toml")),
    (Paper::G02, include_str!("../../../../experiments/ledger/g02.toml")),
];

/// All statements, in the order of the papers.
pub(super) static ALL: LazyLock<Vec<Statement>> = LazyLock::new(|| {
    let read = |(paper, text): &(Paper, &str)| {
        let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("the statements of {paper:?}: {error}"));
        file.statement.into_iter().map(|raw| raw.statement(*paper)).collect::<Vec<_>>()
    };
    FILES.iter().flat_map(read).collect()
});

#[derive(Deserialize)]
struct File {
    statement: Vec<RawStatement>,
}

/// A statement with one of the five ways in which it is tested.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatement {
    section: String,
    says: String,
    /// As `experiment: id, id`.
    checks: Option<String>,
    /// As `experiment: part of the names`.
    numbers: Option<String>,
    sums: Option<Vec<RawSum>>,
    fitted: Option<String>,
    not_tested: Option<String>,
    #[serde(default)]
    cause: String,
    /// Why it is undecided, if the numbers do not tell.
    #[serde(default)]
    reason: String,
    headline: Option<RawHeadline>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSum {
    what: String,
    unit: String,
    published: f64,
    /// Arithmetic with numbers of the paper.
    calculated: String,
    within: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHeadline {
    published: String,
    label: String,
    unit: String,
}

impl RawStatement {
    fn statement(self, paper: Paper) -> Statement {
        let pair = |text: String| {
            let text: &'static str = text.leak();
            text.split_once(": ").expect("an experiment and a colon come first")
        };
        let tested = match (self.checks, self.numbers, self.sums, self.fitted, self.not_tested) {
            (Some(checks), None, None, None, None) => {
                let (experiment, ids) = pair(checks);
                Tested::Checks(experiment, ids.split(", ").collect::<Vec<_>>().leak())
            }
            (None, Some(numbers), None, None, None) => {
                let (experiment, part) = pair(numbers);
                Tested::Numbers(experiment, part)
            }
            (None, None, Some(sums), None, None) => {
                Tested::Arithmetic(sums.into_iter().map(RawSum::sum).collect::<Vec<_>>().leak())
            }
            (None, None, None, Some(how), None) => Tested::Fitted(how.leak()),
            (None, None, None, None, Some(why)) => Tested::Not(why.leak()),
            _ => panic!("\"{}\" is tested in one way", self.says),
        };
        let headline = self.headline.map(|raw| Headline {
            published: raw.published.leak(),
            label: raw.label.leak(),
            unit: raw.unit.leak(),
        });
        let (section, says) = (self.section.leak(), self.says.leak());
        Statement { paper, section, says, tested, cause: self.cause.leak(), reason: self.reason.leak(), headline }
    }
}

impl RawSum {
    fn sum(self) -> Sum {
        let Self { what, unit, published, calculated, within } = self;
        let calculated = constant(&calculated).unwrap_or_else(|| panic!("{calculated} is arithmetic"));
        Sum { what: what.leak(), unit: unit.leak(), published, calculated, within }
    }
}
