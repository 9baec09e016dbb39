//! Which crate may use which, and under which licences.

use spdx::{Expression, ParseMode};

use crate::metadata::{Graph, Need, Package};

/// Which crates of ours each crate may use: the arrows of ARCHITECTURE.md. Crates that are missing here may use all: the
/// command at the top of the house, and the tools outside it.
const ARROWS: [(&str, &[&str]); 21] = [
    ("festina-units", &[]),
    ("festina-code", &[]),
    ("festina-recovery", &["festina-units"]),
    ("festina-netsim", &["festina-units"]),
    ("festina-minbuf", &["festina-recovery", "festina-units"]),
    ("festina-sctp", &["festina-code", "festina-recovery", "festina-units"]),
    ("festina-secure", &["festina-sctp", "festina-units"]),
    ("festina-trace", &["festina-sctp", "festina-secure", "festina-units"]),
    ("festina-emulate", &["festina-netsim", "festina-units"]),
    ("festina-models", &["festina-netsim", "festina-recovery", "festina-sctp", "festina-units"]),
    ("festina-playground", &["festina-models", "festina-netsim", "festina-recovery", "festina-sctp", "festina-units"]),
    (
        "festina-lab",
        &[
            "festina-endpoint",
            "festina-models",
            "festina-netsim",
            "festina-recovery",
            "festina-sctp",
            "festina-secure",
            "festina-trace",
            "festina-units",
        ],
    ),
    ("festina-endpoint", &["festina-sctp", "festina-secure", "festina-units"]),
    ("festina", &["festina-endpoint", "festina-sctp", "festina-secure", "festina-units"]),
    ("festina-web", &["festina", "festina-code", "festina-endpoint", "festina-sctp", "festina-units"]),
    ("festina-syslog", &["festina", "festina-recovery", "festina-units"]),
    ("festina-sockets", &["festina"]),
    ("festina-preload", &["festina-sockets"]),
    ("festina-settings", &["festina"]),
    ("festina-c", &["festina", "festina-settings"]),
    ("festina-python", &["festina", "festina-settings"]),
];

/// Crates of ours that may use any other.
const TOP: [&str; 5] =
    ["festina-bench-peers", "festina-bench-sockets", "festina-cli", "festina-fuzz-bodies", "festina-tidy"];

/// Everything that the protocol core may be built from. Those from `digest` to `spin` come with `crc-fast`, `block-buffer` as well if another crate
/// of the workspace asks `digest` for it, and `version_check` builds one of them; those from `thiserror-impl` on run in the compiler.
const CORE: [&str; 19] = [
    "festina-sctp",
    "festina-units",
    "festina-recovery",
    "festina-code",
    "block-buffer",
    "bytes",
    "crc-fast",
    "digest",
    "crypto-common",
    "generic-array",
    "typenum",
    "spin",
    "thiserror",
    "thiserror-impl",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
    "version_check",
];

/// Licences that a dependency may have.
const LICENSES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Complains about crates of ours that use one they must not know, and about tests that use a crate above theirs.
#[must_use]
pub fn direction(graph: &Graph) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in graph.ours() {
        let name = &package.name;
        let allowed = ARROWS.iter().find(|(from, _)| from == name).map(|(_, to)| *to);
        if allowed.is_none() && !TOP.contains(&name.as_str()) {
            complaints.push(format!("{name}: has no place in the house yet, give it one in {}", file!()));
        }
        let used = graph.direct(package, Need::Normal).chain(graph.direct(package, Need::Build));
        for used in used.filter(|used| used.is_ours) {
            if allowed.is_some_and(|allowed| !allowed.contains(&used.name.as_str())) {
                complaints.push(format!("{name}: must not use {}", used.name));
            }
        }
        for used in graph.direct(package, Need::Test).filter(|used| used.is_ours && used.name != *name) {
            if graph.closure(used).contains(name) {
                complaints.push(format!("{name}: its tests must not use {}, which stands above it", used.name));
            }
        }
    }
    complaints
}

/// Complains about everything in the protocol core that does not belong there.
#[must_use]
pub fn core(graph: &Graph) -> Vec<String> {
    let Some(package) = graph.ours().find(|package| package.name == CORE[0]) else {
        return vec![format!("{}: is not in the workspace", CORE[0])];
    };
    let strangers = graph.closure(package).into_iter().filter(|name| !CORE.contains(&name.as_str()));
    strangers.map(|stranger| format!("{}: is built from {stranger}", package.name)).collect()
}

/// Complains about packages whose licence is unknown or does not go with ours.
#[must_use]
pub fn licenses(graph: &Graph) -> Vec<String> {
    let complaint = |package: &Package| {
        let Package { name, version, license, .. } = package;
        match license {
            None => Some(format!("{name} {version}: states no licence")),
            Some(license) if !allows(license) => Some(format!("{name} {version}: {license} is not allowed")),
            Some(_) => None,
        }
    };
    graph.packages.values().filter_map(complaint).collect()
}

/// Whether an SPDX expression can be met with the allowed licences. Expressions that make no sense cannot.
fn allows(expression: &str) -> bool {
    let expression = Expression::parse_mode(expression, ParseMode::LAX);
    expression.is_ok_and(|it| it.evaluate(|license| LICENSES.contains(&license.to_string().as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::tests::graph;

    #[test]
    fn a_crate_uses_only_those_behind_its_arrow() {
        let good = graph(&[("festina-units", &[]), ("festina-recovery", &[("festina-units", Need::Normal)])]);
        assert!(direction(&good).is_empty());
        let bad = graph(&[("festina-units", &[("festina-recovery", Need::Normal)]), ("festina-recovery", &[])]);
        assert_eq!(direction(&bad), ["festina-units: must not use festina-recovery"]);
    }

    #[test]
    fn tests_may_use_a_neighbour_but_none_above() {
        let neighbour = graph(&[("festina-sctp", &[("festina-netsim", Need::Test)]), ("festina-netsim", &[])]);
        assert!(direction(&neighbour).is_empty());
        let above =
            graph(&[("festina-sctp", &[("festina", Need::Test)]), ("festina", &[("festina-sctp", Need::Normal)])]);
        assert_eq!(direction(&above), ["festina-sctp: its tests must not use festina, which stands above it"]);
    }

    #[test]
    fn a_new_crate_needs_a_place_in_the_house() {
        assert_eq!(direction(&graph(&[("festina-new", &[])])).len(), 1);
    }

    #[test]
    fn the_core_is_built_from_what_is_listed() {
        let good = graph(&[
            ("festina-sctp", &[("bytes", Need::Normal), ("tokio", Need::Test)]),
            ("bytes", &[]),
            ("tokio", &[]),
        ]);
        assert!(core(&good).is_empty());
        let bad = graph(&[
            ("festina-sctp", &[("bytes", Need::Normal)]),
            ("bytes", &[("tokio", Need::Normal)]),
            ("tokio", &[]),
        ]);
        assert_eq!(core(&bad), ["festina-sctp: is built from tokio"]);
        assert_eq!(core(&graph(&[])).len(), 1);
    }

    #[test]
    fn licence_expressions_are_understood() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "Unlicense/MIT",
            "(GPL-2.0-only OR MIT) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "MIT WITH GCC-exception-2.0", "MIT OR", "(MIT", "MIT)", ""]
        {
            assert!(!allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_package_without_a_licence_is_told() {
        let mut graph = graph(&[("a", &[])]);
        assert!(licenses(&graph).is_empty());
        graph.packages.get_mut("a").expect("it was put there").license = None;
        assert_eq!(licenses(&graph), ["a 1.0.0: states no licence"]);
    }
}
