//! Applies the rules of the house to the repository.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use festina_tidy::circles::circles;
use festina_tidy::measure::{Measures, measure};
use festina_tidy::metadata::Graph;
use festina_tidy::passage::{Passage, passages};
use festina_tidy::ratchet::{Limit, Sizes, check, exceptions};
use festina_tidy::structure::Structure;
use festina_tidy::tree::{File, files, root};
use festina_tidy::{conformance, constants, dependencies, evidence, names, prose, reports, source, text};

const FILE_CODE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const STRUCT_FIELDS_MAX: usize = 15;
const README_WORDS_MAX: usize = 1_000;
/// Owners of state that one message and one SACK pass, and how often each.
const OWNERS_MAX: usize = 9;
const PHASES_MAX: usize = 2;

/// The exceptions from these limits.
const RATCHET: &str = include_str!("../ratchet.toml");

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| files(&root()).expect("the repository is readable"));

static GRAPH: LazyLock<Graph> = LazyLock::new(|| Graph::of_workspace(&root()).expect("cargo describes the workspace"));

/// The workspace of the bindings. Who has no network may not have what they are built with, and does without, except in continuous
/// integration.
static BINDINGS: LazyLock<Option<Graph>> = LazyLock::new(|| match Graph::of_workspace(&root().join("bindings")) {
    Ok(graph) => Some(graph),
    Err(error) => {
        assert!(std::env::var_os("CI").is_none(), "{error}");
        eprintln!("skipped for the bindings: {error}");
        None
    }
});

fn graphs() -> impl Iterator<Item = &'static Graph> {
    std::iter::once(&*GRAPH).chain(BINDINGS.as_ref())
}

fn with_extension(extension: &str) -> impl Iterator<Item = &'static File> {
    FILES.iter().filter(move |file| file.path.ends_with(extension))
}

fn named_file(path: &str) -> &'static File {
    FILES.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("there is no {path}"))
}

fn measures() -> impl Iterator<Item = (&'static str, Measures)> {
    with_extension(".rs").map(|file| match measure(&file.text) {
        Ok(measures) => (file.path.as_str(), measures),
        Err(error) => panic!("{}: {error}", file.path),
    })
}

/// The sizes in a file, under names that tell the file.
fn named(path: &str, sizes: &Sizes) -> Sizes {
    sizes.iter().map(|(name, size)| (format!("{path} {name}"), *size)).collect()
}

fn hold(what: &str, most: usize, table: &str, sizes: &Sizes) {
    let exceptions = exceptions(RATCHET, table).expect("the ratchet file lists sizes");
    report(check(&Limit { what, most, exceptions: &exceptions }, sizes));
}

fn report(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{} complaints\n{}\n", complaints.len(), complaints.join("\n"));
}

#[test]
fn a_file_is_short_enough_to_be_read() {
    let sizes = measures().map(|(path, measures)| (path.to_owned(), measures.code_lines)).collect();
    hold("lines of code", FILE_CODE_LINES_MAX, "file_code_lines", &sizes);
}

#[test]
fn a_function_fits_on_a_screen() {
    let sizes = measures().flat_map(|(path, measures)| named(path, &measures.functions)).collect();
    hold("lines in a function", FUNCTION_LINES_MAX, "function_lines", &sizes);
}

#[test]
fn a_struct_groups_its_fields() {
    let sizes = measures().flat_map(|(path, measures)| named(path, &measures.structs)).collect();
    hold("fields in a struct", STRUCT_FIELDS_MAX, "struct_fields", &sizes);
}

#[test]
fn nothing_is_unfinished_or_hidden_and_no_test_is_ignored() {
    let complaints = with_extension(".rs").map(|file| match source::unfinished(file) {
        Ok(complaints) => complaints,
        Err(error) => vec![format!("{}: {error}", file.path)],
    });
    report(complaints.flatten());
}

#[test]
fn a_module_lies_beside_its_folder() {
    report(with_extension("/mod.rs").filter_map(source::mod_rs));
}

#[test]
fn a_module_says_what_it_is() {
    report(with_extension(".rs").filter_map(source::introduction));
}

#[test]
fn a_crate_for_others_has_a_readme() {
    let has_readme = |folder: &str| FILES.iter().any(|file| file.path == format!("{folder}README.md"));
    let folders = with_extension("Cargo.toml")
        .filter(|file| file.text.contains("[package]") && !file.text.contains("publish = false"));
    let folders = folders.filter_map(|file| file.path.strip_suffix("Cargo.toml"));
    report(folders.filter(|folder| !has_readme(folder)).map(|folder| format!("{folder}: a README.md is missing")));
}

#[test]
fn unsafe_code_is_forbidden_or_explained() {
    report(source::unsafe_code(&FILES));
}

#[test]
fn no_file_tells_where_or_with_what_it_was_made() {
    report(FILES.iter().flat_map(text::banned));
}

#[test]
fn tests_show_each_row_of_the_tables_about_security() {
    let tests: BTreeSet<String> = with_extension(".rs").flat_map(evidence::tests).collect();
    let [security, list] = ["docs/security.md", "docs/security-tests.tsv"].map(named_file);
    let sections = [
        "Threat model of plain associations",
        "Limits",
        "Encrypted associations",
        "Plain and encrypted clients on one port",
        "Keys of the commands",
    ];
    report(evidence::unshown(security, list, &sections, &tests));
}

#[test]
fn each_requirement_of_a_standard_has_tests_or_a_reason_and_each_deviation_is_documented() {
    let tests: BTreeSet<String> = with_extension(".rs").flat_map(evidence::tests).collect();
    let [table, page] = ["docs/conformance.tsv", "docs/conformance.md"].map(named_file);
    report(conformance::untested(table, &tests).into_iter().chain(conformance::undocumented(table, page)));
}

#[test]
fn documents_quote_the_same_constants_as_the_code() {
    let list = named_file("crates/tidy/constants.toml");
    report(constants::contradictions(list, &FILES).expect("the list is in order"));
}

#[test]
fn documents_name_only_items_that_exist() {
    let identifiers: BTreeSet<&str> = with_extension(".rs").flat_map(names::identifiers).collect();
    let pages = ["docs/add-a-mechanism.md", "docs/life-of-a-message.md"].map(named_file);
    report(pages.into_iter().flat_map(|page| names::unknown(page, &identifiers)));
}

#[test]
fn documents_name_only_public_items_that_are_listed() {
    let lists = FILES.iter().filter(|file| file.path.starts_with("interface/") && file.path.ends_with(".txt"));
    let interface = names::Interface::of(lists);
    // The history names items that are gone.
    let pages = with_extension(".md").filter(|file| file.path != "CHANGELOG.md");
    report(pages.flat_map(|page| interface.unlisted(page)));
}

#[test]
fn no_shell_script_follows_cdpath() {
    report(FILES.iter().filter_map(text::cd_follows_cdpath));
}

#[test]
fn each_public_report_has_a_verdict_and_a_test_that_exists_or_a_reason() {
    let mut tests: BTreeSet<String> = with_extension(".rs").flat_map(evidence::tests).collect();
    tests.extend(with_extension(".py").flat_map(reports::python_tests));
    let file = named_file("tests/reports.toml");
    report(reports::faults(file, &tests));
}

#[test]
fn no_line_has_a_stiff_phrase() {
    report(FILES.iter().flat_map(prose::stiff_lines));
}

#[test]
fn the_readme_can_be_read_in_five_minutes() {
    let readme = named_file("README.md");
    let words = readme.text.split_whitespace().count();
    assert!(words <= README_WORDS_MAX, "README.md has {words} words, at most {README_WORDS_MAX} are allowed");
}

#[test]
fn one_function_alone_moves_the_congestion_window() {
    let movers = Structure::of(&FILES).expect("the core is Rust").window_movers;
    let movers: Vec<&str> = movers.iter().map(String::as_str).collect();
    assert_eq!(movers, ["crates/sctp/src/send/path.rs regulate"]);
}

#[test]
fn values_that_belong_together_have_a_struct_that_owns_them() {
    let structure = Structure::of(&FILES).expect("the core is Rust");
    hold("parameters that are tuples", 0, "tuple_parameters", &structure.tuple_parameters);
    hold("borrowed fields", 1, "borrowed_fields", &structure.borrowed_fields);
}

#[test]
fn circles_of_modules_have_a_reason_or_become_fewer() {
    let circles = circles(&FILES).expect("the sources are Rust");
    let architecture = &named_file("ARCHITECTURE.md").text;
    let unexplained = circles.iter().filter(|circle| !architecture.contains(&format!("`{}`", circle.name)));
    let sizes = unexplained.map(|circle| (circle.name.clone(), circle.modules)).collect();
    hold("modules that need each other without a reason in ARCHITECTURE.md", 1, "circles", &sizes);
}

#[test]
fn a_message_and_its_acknowledgement_pass_few_owners_and_seldom_come_back() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("passage");
    let passages = passages(&FILES, &folder).expect("the core runs");
    for (event, passage) in &passages {
        print!("{event}: {passage}");
    }
    let sizes = |count: fn(&Passage) -> usize| {
        passages.iter().map(|(event, passage)| (event.clone(), count(passage))).collect()
    };
    hold("owners", OWNERS_MAX, "owners", &sizes(|passage| passage.phases().len()));
    hold("hand-overs", 2 * OWNERS_MAX, "hand_overs", &sizes(Passage::hand_overs));
    let mut phases = Sizes::new();
    for (event, passage) in &passages {
        phases.extend(passage.phases().into_iter().map(|(owner, count)| (format!("{event} {owner}"), count)));
    }
    hold("phases", PHASES_MAX, "phases", &phases);
}

#[test]
fn a_crate_uses_only_those_below_it() {
    report(graphs().flat_map(dependencies::direction));
}

#[test]
fn the_protocol_core_is_built_from_little() {
    report(dependencies::core(&GRAPH));
}

#[test]
fn every_licence_goes_with_ours() {
    report(graphs().flat_map(dependencies::licenses));
}

#[test]
fn the_bindings_have_the_lints_of_the_workspace() {
    let lints = |path: &str| {
        let manifest = named_file(path);
        let from = manifest.text.find("[workspace.lints.rust]").expect("it has lints");
        let lints = &manifest.text[from..];
        lints[..lints.find("[profile").expect("profiles follow")].to_owned()
    };
    assert_eq!(lints("Cargo.toml"), lints("bindings/Cargo.toml"));
}
