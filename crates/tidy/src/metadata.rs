//! What cargo knows about the packages of the workspace and of their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What a package needs another one for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// To be used.
    Normal,
    /// To be built.
    Build,
    /// To be tested.
    Test,
}

/// A package.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name in the registry or in the workspace.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence as an SPDX expression, if it states one.
    pub license: Option<String>,
    /// Whether it lies in this repository.
    pub is_ours: bool,
    /// The identifiers of the packages it needs, and what for.
    pub needs: BTreeSet<(String, Need)>,
}

/// All packages by their identifier.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The packages.
    pub packages: BTreeMap<String, Package>,
}

impl Graph {
    /// Asks cargo for the workspace at `root`, as it is built on this machine.
    ///
    /// # Errors
    /// If cargo cannot be run, fails, or answers what this does not understand.
    pub fn of_workspace(root: &Path) -> Result<Self, String> {
        let answer = run(
            root,
            "CARGO",
            "cargo",
            &["metadata", "--format-version", "1", "--locked", "--filter-platform", &host(root)?],
        )?;
        let document: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        Self::read(&document).ok_or_else(|| "cargo metadata has another form than expected".to_owned())
    }

    fn read(document: &Value) -> Option<Self> {
        let mut graph = Self::default();
        for package in document["packages"].as_array()? {
            let entry = Package {
                name: package["name"].as_str()?.to_owned(),
                version: package["version"].as_str()?.to_owned(),
                license: package["license"].as_str().map(str::to_owned),
                is_ours: package["source"].is_null(),
                needs: BTreeSet::new(),
            };
            graph.packages.insert(package["id"].as_str()?.to_owned(), entry);
        }
        for node in document["resolve"]["nodes"].as_array()? {
            let package = graph.packages.get_mut(node["id"].as_str()?)?;
            for dependency in node["deps"].as_array()? {
                let id = dependency["pkg"].as_str()?;
                for kind in dependency["dep_kinds"].as_array()? {
                    let need = match kind["kind"].as_str() {
                        None => Need::Normal,
                        Some("build") => Need::Build,
                        Some("dev") => Need::Test,
                        Some(_) => return None,
                    };
                    package.needs.insert((id.to_owned(), need));
                }
            }
        }
        Some(graph)
    }

    /// The packages of this repository.
    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.is_ours)
    }

    /// The packages that `package` itself needs for `need`.
    pub fn direct<'a>(&'a self, package: &'a Package, need: Need) -> impl Iterator<Item = &'a Package> {
        let ids = package.needs.iter().filter(move |(_, needed_for)| *needed_for == need);
        ids.filter_map(|(id, _)| self.packages.get(id))
    }

    /// The names of all packages without which `package` cannot be built, itself among them.
    #[must_use]
    pub fn closure(&self, package: &Package) -> BTreeSet<String> {
        let mut names = BTreeSet::from([package.name.clone()]);
        let mut waiting = vec![package];
        while let Some(next) = waiting.pop() {
            for needed in self.direct(next, Need::Normal).chain(self.direct(next, Need::Build)) {
                if names.insert(needed.name.clone()) {
                    waiting.push(needed);
                }
            }
        }
        names
    }
}

/// The platform that this machine builds for.
fn host(root: &Path) -> Result<String, String> {
    let answer = run(root, "RUSTC", "rustc", &["-vV"])?;
    let host = answer.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

fn run(root: &Path, variable: &str, program: &str, arguments: &[&str]) -> Result<String, String> {
    let program = env::var(variable).unwrap_or_else(|_| program.to_owned());
    let output = Command::new(&program).args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A graph of packages of this repository, each with what it needs.
    pub(crate) fn graph(list: &[(&str, &[(&str, Need)])]) -> Graph {
        let package = |(name, needs): &(&str, &[(&str, Need)])| {
            let package = Package {
                name: (*name).to_owned(),
                version: "1.0.0".to_owned(),
                license: Some("MIT".to_owned()),
                is_ours: true,
                needs: needs.iter().map(|(id, need)| ((*id).to_owned(), *need)).collect(),
            };
            ((*name).to_owned(), package)
        };
        Graph { packages: list.iter().map(package).collect() }
    }

    #[test]
    fn the_closure_follows_use_and_build_but_not_test() {
        let graph = graph(&[
            ("a", &[("b", Need::Normal), ("c", Need::Test)]),
            ("b", &[("d", Need::Build)]),
            ("c", &[]),
            ("d", &[("a", Need::Normal)]),
        ]);
        let closure = graph.closure(&graph.packages["a"]);
        assert_eq!(closure.into_iter().collect::<Vec<_>>(), ["a", "b", "d"]);
    }

    #[test]
    fn the_answer_of_cargo_is_read() {
        let document = serde_json::json!({
            "packages": [
                {"id": "1", "name": "a", "version": "0.1.0", "license": "MIT", "source": null},
                {"id": "2", "name": "b", "version": "2.0.0", "license": null, "source": "registry"},
            ],
            "resolve": {"nodes": [
                {"id": "1", "deps": [{"pkg": "2", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
                {"id": "2", "deps": []},
            ]},
        });
        let graph = Graph::read(&document).expect("the document has the form of cargo's");
        assert_eq!(graph.ours().map(|package| &package.name).collect::<Vec<_>>(), ["a"]);
        let package = &graph.packages["1"];
        assert_eq!(graph.direct(package, Need::Normal).count(), 1);
        assert_eq!(graph.direct(package, Need::Build).count(), 0);
        assert_eq!(graph.direct(package, Need::Test).count(), 1);
        assert!(Graph::read(&serde_json::json!({"packages": [{}]})).is_none());
    }
}
