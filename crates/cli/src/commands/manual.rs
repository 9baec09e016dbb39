//! `festina man`: the command line, described for `man`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Arguments of `festina man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder to write the pages to, for example ~/.local/share/man/man1
    folder: PathBuf,
}

/// A term and its description.
type Entry = (&'static str, &'static str);

const EXIT_STATUS: [Entry; 3] = [
    ("0", "Done."),
    ("1", "Failed; standard error has the reason."),
    ("2", "The command line makes no sense, and nothing was done."),
];
const EXIT_STATUS_SIGNAL: Entry =
    ("128 + N", "Ended by signal number N, as 130 by Ctrl-C, unless the command ends in good order by itself.");
const EXIT_STATUS_CHECK: Entry = ("3", "No check is broken, but fewer than nine tenths of them were tested.");
const EXIT_STATUS_CLIENT: Entry =
    ("other", "The exit code of the client's command, which may also be one of the above.");

const ENVIRONMENT_COLOR: Entry =
    ("NO_COLOR", "If it is set and not empty, nothing is coloured; otherwise terminals alone get colours.");
const ENVIRONMENT_KEYS: [Entry; 2] = [
    ("XDG_CONFIG_HOME", "The folder of the files below is festina in this one."),
    ("HOME", "Where XDG_CONFIG_HOME is not set, its folder .config stands in."),
];
const ENVIRONMENT_HOSTS: Entry = (
    "FESTINA_CLIENT, FESTINA_SERVER, FESTINA_CLIENT6, FESTINA_SERVER6, FESTINA_SERVER_NAMESPACE",
    "Set for the commands: the addresses of both hosts, and the network namespace of the server.",
);

const FILES_KEYS: [Entry; 2] = [
    ("~/.config/festina/identity.pem", "The key of this user, created at its first use."),
    ("~/.config/festina/known_peers", "The fingerprints of the servers that this user has connected to."),
];
const FILES_COMPARE: Entry =
    ("compare.html, compare.svg", "The page and the figure of festina compare, in the current folder.");

/// Writes a manual page for the command and one for each subcommand.
///
/// # Errors
/// If the folder or a page cannot be written.
pub(crate) fn write(arguments: &ManArgs, definition: Command) -> Result<()> {
    let folder = &arguments.folder;
    let mut definition = definition.disable_help_subcommand(true);
    definition.build();
    std::fs::create_dir_all(folder)
        .map_err(Into::into)
        .and_then(|()| write_pages(&definition, &[], folder))
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}

/// Writes the pages of a command and its subcommands. `above` are the commands that it is part of, the outermost first.
fn write_pages(command: &Command, above: &[&Command], folder: &Path) -> Result<()> {
    let path = [above, &[command]].concat();
    for sub in visible(command) {
        write_pages(sub, &path, folder)?;
    }
    let file = folder.join(format!("{}.1", page_name(command)));
    std::fs::write(file, page(command, above)?)?;
    Ok(())
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command, above: &[&Command]) -> Result<Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone()).source(format!("festina {version}")).manual("Festina");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if visible(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let words = page_name(command);
    let uses_keys = above.is_empty()
        || words == "festina-key"
        || command.get_arguments().any(|argument| argument.get_id() == "plain");
    let hosts = (words == "festina-emulate-run").then_some(ENVIRONMENT_HOSTS);
    let client = (words == "festina-emulate-run").then_some(EXIT_STATUS_CLIENT);
    let check = (above.is_empty() || words == "festina-lab-check").then_some(EXIT_STATUS_CHECK);
    let compare = (above.is_empty() || words == "festina-compare").then_some(FILES_COMPARE);
    let keys = |entries: [Entry; 2]| entries.into_iter().filter(move |_| uses_keys);

    let mut roff = Roff::new();
    entries(&mut roff, "EXIT STATUS", EXIT_STATUS.into_iter().chain(check).chain(client).chain([EXIT_STATUS_SIGNAL]));
    entries(&mut roff, "ENVIRONMENT", std::iter::once(ENVIRONMENT_COLOR).chain(keys(ENVIRONMENT_KEYS)).chain(hosts));
    entries(&mut roff, "FILES", keys(FILES_KEYS).chain(compare));
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    notes_and_examples(&mut roff, &help);
    see_also(&mut roff, command, above, &help);
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// A section of terms, each with its description; nothing without any.
fn entries(roff: &mut Roff, heading: &str, entries: impl Iterator<Item = Entry>) {
    let mut entries = entries.peekable();
    if entries.peek().is_some() {
        roff.control("SH", [heading]);
    }
    for (term, description) in entries {
        roff.control("TP", []).text([bold(term)]).text([roman(description)]);
    }
}

/// The text behind the options of `--help`: its indented lines are examples, and the others notes, apart from those about exit codes.
fn notes_and_examples(roff: &mut Roff, help: &str) {
    let is_example = |line: &&str| line.starts_with("  ");
    let is_note = |line: &&str| !is_example(line) && !line.starts_with("Exit code") && *line != "Examples:";
    let last_example = help.lines().enumerate().filter(|(_, line)| is_example(line)).map(|(number, _)| number).last();
    let after = last_example.map_or(0, |number| number + 1);
    let notes: Vec<&str> = help.lines().skip(after).filter(is_note).skip_while(|line| line.is_empty()).collect();
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for note in notes {
        match note {
            "" => roff.control("PP", []),
            note => roff.text([roman(note)]),
        };
    }
    let examples = || help.lines().take(after).skip_while(|line| !is_example(line));
    if examples().next().is_some() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        examples().for_each(|line| {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        });
        roff.control("fi", []);
    }
}

/// The pages above and below, those of the same subcommand, and those that the help names.
fn see_also(roff: &mut Roff, command: &Command, above: &[&Command], help: &str) {
    let parent = above.last().copied();
    let is_named =
        |other: &&Command| above.len() > 1 || help.contains(&format!("{} ", page_name(other).replace('-', " ")));
    let others =
        parent.into_iter().flat_map(visible).filter(|other| page_name(other) != page_name(command)).filter(is_named);
    let pages = above.iter().copied().chain(visible(command)).chain(others);
    let names: Vec<String> = pages.map(|page| format!("{}(1)", page_name(page))).collect();
    // Neither spread nor hyphenated.
    roff.control("SH", ["SEE ALSO"]).control("ad", ["l"]).control("nh", []).text([roman(names.join(", "))]);
}
