//! The files that a command line names, and one rule for those that are written: none is read or written by the same call for another purpose, and
//! one that exists is replaced with `--force` only.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};

use crate::usage::UsageError;

/// Options for files that are written. All other files on a command line are read.
const OUTPUTS: [&str; 6] = ["csv", "html", "parquet", "pcap", "report", "svg"];

/// Adds to all commands the properties that follow from the files they name: hints for shells, and `--force`.
pub(crate) fn described(command: Command) -> Command {
    let command = command.mut_subcommands(described).mut_args(|argument| match value_name(&argument) {
        name if name.starts_with("FILE") => argument.value_hint(ValueHint::FilePath),
        name if name == "DIR" => argument.value_hint(ValueHint::DirPath),
        _ => argument,
    });
    if !command.get_arguments().any(is_output) {
        return command;
    }
    let help = "Replace files that the options name and that exist";
    command.arg(Arg::new("force").long("force").action(ArgAction::SetTrue).help(help))
}

fn value_name(argument: &Arg) -> String {
    argument.get_value_names().and_then(<[_]>::first).map(ToString::to_string).unwrap_or_default()
}

fn is_output(argument: &Arg) -> bool {
    OUTPUTS.contains(&argument.get_id().as_str())
}

/// Checks the files of the subcommand whose definition and values these are.
///
/// # Errors
/// An output is also an input, or another output, or it exists and may not be replaced.
pub(crate) fn check(command: &Command, values: &ArgMatches) -> Result<(), UsageError> {
    let (mut inputs, mut outputs) = (standard_streams(), Vec::new());
    let files = command.get_arguments().filter(|argument| value_name(argument).starts_with("FILE"));
    for argument in files {
        let id = argument.get_id().as_str();
        let is_default = values.value_source(id) == Some(ValueSource::DefaultValue);
        for value in values.get_raw(id).into_iter().flatten() {
            match (is_output(argument), value == "-") {
                (true, true) if id != "csv" => {
                    return Err(UsageError::new("- is no file here; ./- is a file of that name"));
                }
                (_, true) => {}
                (true, _) => outputs.push((Path::new(value), is_default)),
                (false, _) => inputs.extend(Place::of(Path::new(value))),
            }
        }
    }
    let mut taken = Vec::new();
    for (path, _) in &outputs {
        let Some(place) = Place::of(path) else { continue };
        if inputs.contains(&place) {
            return Err(UsageError::new(format!(
                "{} is read and would be overwritten; choose another name",
                path.display()
            )));
        }
        if taken.contains(&place) {
            return Err(UsageError::new(format!("two outputs would go to {}", path.display())));
        }
        taken.push(place);
    }
    let may_replace = !outputs.is_empty() && values.get_flag("force");
    match outputs.into_iter().find(|(path, is_default)| !may_replace && !is_default && holds_data(path)) {
        Some((path, _)) => {
            let path = path.display();
            Err(UsageError::new(format!("{path} exists; choose another name, or replace it with --force")))
        }
        None => Ok(()),
    }
}

/// Whether there is anything to lose: a device holds no earlier result, and neither does an empty file.
fn holds_data(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.len() > 0)
}

/// Files that the shell has opened for this process.
fn standard_streams() -> Vec<Place> {
    let paths = ["/dev/stdin", "/dev/stdout", "/dev/stderr"].map(Path::new);
    paths.into_iter().filter(|path| path.is_file()).filter_map(Place::of).collect()
}

/// The file that a path names, the same for all its paths.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// One that exists, by the numbers of its device and its inode.
    #[cfg(unix)]
    Inode(u64, u64),
    Path(PathBuf),
}

impl Place {
    /// `None` for devices and pipes, which hold nothing that could be overwritten.
    fn of(path: &Path) -> Option<Self> {
        match path.metadata() {
            Ok(found) if !found.is_file() => None,
            #[cfg(unix)]
            Ok(found) => {
                use std::os::unix::fs::MetadataExt as _;
                Some(Self::Inode(found.dev(), found.ino()))
            }
            _ => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
                let found = path.canonicalize();
                Some(Self::Path(found.unwrap_or_else(|_| folder.join(path.file_name().unwrap_or_default()))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// The complaint about a command line of a command that reads `--key` and its positional files, and writes two others.
    fn complaint(arguments: &[&str]) -> Option<String> {
        let option = |name: &'static str| Arg::new(name).long(name).value_name("FILE");
        let files = Arg::new("files").num_args(0..).value_name("FILE");
        let options =
            [option("key"), option("csv"), option("pcap"), option("html").default_value("default.html"), files];
        let command = described(Command::new("x").args(options));
        let values = command.clone().try_get_matches_from(["x"].iter().chain(arguments)).expect("they are understood");
        check(&command, &values).err().map(|error| error.to_string())
    }

    #[test]
    fn an_output_is_no_input_and_no_other_output_by_any_path() {
        let scratch = Scratch::new("files-test").expect("it is made");
        let at = |name: &str| scratch.path().join(name).to_str().expect("text").to_owned();
        let (old, new) = (at("old"), at("new"));
        std::fs::write(&old, "something").expect("written");
        let around = scratch.path().join("..").join(scratch.path().file_name().expect("it has a name"));
        let around = |name: &str| around.join(name).to_str().expect("text").to_owned();
        for arguments in [
            [old.as_str(), "--csv", &old, "--force"],
            [&old, "--pcap", &around("old"), "--force"],
            [&around("new"), "--html", &new, "--force"],
            ["--key", &old, "--pcap", &old],
        ] {
            let complaint = complaint(&arguments).unwrap_or_default();
            assert!(complaint.contains(" is read and would be overwritten"), "{arguments:?}: {complaint}");
        }
        for name in [&around("new"), &new] {
            let complaint = complaint(&["--csv", &new, "--pcap", name]).unwrap_or_default();
            assert!(complaint.starts_with("two outputs would go to "), "{complaint}");
        }
        assert_eq!(complaint(&[&old, "--csv", "/dev/null", "--pcap", "/dev/null", "--html", &new]), None);
        #[cfg(unix)]
        {
            std::fs::hard_link(&old, at("link")).expect("linked");
            std::os::unix::fs::symlink(&old, at("symbolic")).expect("linked");
            for name in ["link", "symbolic"] {
                assert!(complaint(&[&old, "--csv", &at(name), "--force"]).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn an_output_that_exists_is_replaced_by_force_alone_unless_it_is_empty() {
        let scratch = Scratch::new("files-force-test").expect("it is made");
        let at = |name: &str| scratch.path().join(name).to_str().expect("text").to_owned();
        let (old, empty) = (at("old"), at("empty"));
        std::fs::write(&old, "something").expect("written");
        std::fs::write(&empty, "").expect("written");
        for option in ["--csv", "--html", "--pcap"] {
            let refused = complaint(&[option, &old]).unwrap_or_default();
            assert!(refused.ends_with("old exists; choose another name, or replace it with --force"), "{refused}");
            assert_eq!(complaint(&[option, &old, "--force"]), None);
            assert_eq!(complaint(&[option, &empty]), None);
        }
        assert_eq!(complaint(&["--csv", "-"]), None);
        assert!(complaint(&["--pcap", "-"]).unwrap_or_default().contains("- is no file here"));
    }
}
