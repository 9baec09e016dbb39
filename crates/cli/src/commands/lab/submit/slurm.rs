//! Scripts for Slurm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use festina_units::ByteCount;

use crate::output;

/// The folder of the tasks' output, which Slurm does not create.
const LOGS: &str = "logs";
const WORK: &str = "work.sh";
const REPORT: &str = "report.sh";
/// Longer names of jobs are cut.
const NAME_CHARS_MAX: usize = 64;

/// Resources of the tasks.
pub(super) struct Limits<'l> {
    pub(super) tasks: u16,
    /// Of each task.
    pub(super) threads: u16,
    pub(super) time: Duration,
    pub(super) memory: ByteCount,
    /// Options of sbatch.
    pub(super) further: &'l [String],
}

/// The scripts of the array and of the report. They have no paths in their directives, whose quoting is Slurm's own.
pub(super) struct Scripts {
    folder: PathBuf,
    tasks: u16,
    work: String,
    report: String,
}

/// The numbers of the jobs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Submitted {
    pub(super) array: String,
    pub(super) report: String,
}

impl Scripts {
    /// Scripts that run `command` on the plan that was submitted to `folder`.
    pub(super) fn new(name: &str, command: &Path, folder: &Path, limits: &Limits<'_>) -> Self {
        let Limits { tasks, threads, .. } = limits;
        let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).take(NAME_CHARS_MAX).collect();
        let run = format!("exec {} lab work {} --jobs {threads}", quoted(command), quoted(folder));
        let array = [format!("--array=1-{tasks}"), format!("--output={LOGS}/%A_%a.txt")];
        let single = [format!("--output={LOGS}/%j.txt")];
        Self {
            folder: folder.to_owned(),
            tasks: *tasks,
            work: script(&format!("festina-{name}"), &array, limits, &run),
            report: script(&format!("festina-{name}-report"), &single, limits, &format!("{run} --report")),
        }
    }

    pub(super) fn tasks(&self) -> u16 {
        self.tasks
    }

    /// Both scripts, as comments and commands of the shell.
    pub(super) fn shown(&self) -> String {
        let Self { folder, work, report, .. } = self;
        // A line end in the name must not end the comment.
        let [in_work, in_report] = [WORK, REPORT].map(|name| output::name(&folder.join(name)));
        format!(
            "# {in_work}, for sbatch --parsable\n{work}\n# {in_report}, for sbatch --parsable --dependency=afterany:ARRAY\n{report}"
        )
    }

    /// Writes the scripts and submits them.
    pub(super) fn submit(&self) -> Result<Submitted> {
        let failed = || format!("cannot write {}", output::name(&self.folder));
        fs::create_dir_all(self.folder.join(LOGS)).with_context(failed)?;
        for (name, script) in [(WORK, &self.work), (REPORT, &self.report)] {
            fs::write(self.folder.join(name), script).with_context(failed)?;
        }
        let array = self.sbatch(&[], WORK)?;
        let report = self
            .sbatch(&[format!("--dependency=afterany:{array}")], REPORT)
            .with_context(|| format!("array {array} is submitted without a report; `scancel {array}` ends it"))?;
        Ok(Submitted { array, report })
    }

    /// Submits a script and returns the number of the job.
    fn sbatch(&self, options: &[String], script: &str) -> Result<String> {
        let mut command = Command::new("sbatch");
        command.arg("--parsable").args(options).arg(script).current_dir(&self.folder).stdin(Stdio::null());
        let output = command
            .output()
            .context("cannot start sbatch; submit where Slurm is installed, or see --dry-run for the scripts")?;
        let [printed, complaint] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        if !output.status.success() {
            bail!("sbatch refused {script}: {}", complaint.trim());
        }
        number(&printed).with_context(|| format!("sbatch printed {:?}, and no number of a job", printed.trim()))
    }
}

/// The number that `sbatch --parsable` prints, before the name of a cluster if there is one. Sites may print lines of their own before.
fn number(printed: &str) -> Option<String> {
    let number = printed.trim().lines().last()?.split(';').next()?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.to_owned())
}

/// A character of a path that Slurm does not take as it is in the names of log files, for which it uses the folder of the job. Tasks would end
/// without a message.
pub(super) fn expanded(folder: &Path) -> Option<char> {
    folder.to_string_lossy().chars().find(|c| matches!(c, '%' | '\\'))
}

/// Whether a text can be an option in a directive.
pub(super) fn is_option(text: &str) -> bool {
    text.starts_with('-') && !text.chars().any(char::is_control)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn script(name: &str, own: &[String], limits: &Limits<'_>, run: &str) -> String {
    let Limits { threads, time, memory, further, .. } = limits;
    let minutes = time.as_millis().div_ceil(60_000);
    let megabytes = memory.bytes().div_ceil(1 << 20);
    let mut options = vec![format!("--job-name={name}")];
    options.extend_from_slice(own);
    options.extend(["--nodes=1".to_owned(), "--ntasks=1".to_owned(), format!("--cpus-per-task={threads}")]);
    options.extend([format!("--time={minutes}"), format!("--mem={megabytes}M")]);
    // A task whose machine fails starts again, and finds the runs that are finished.
    options.extend(["--requeue".to_owned(), "--open-mode=append".to_owned()]);
    options.extend_from_slice(further);
    let directives: String = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    format!("#!/bin/bash\n{directives}{run}\n")
}

/// A path as one word of the shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !text.is_empty() && text.chars().all(|c| is_plain(c) || c == '/') {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_job_is_read_with_and_without_a_cluster() {
        assert_eq!(number("12\n").as_deref(), Some("12"));
        assert_eq!(number("12;big\n").as_deref(), Some("12"));
        assert_eq!(number("Welcome to the cluster\n12\n").as_deref(), Some("12"));
        for text in ["", "\n", "Submitted batch job 12", "12 13", "-1", ";big"] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    #[test]
    fn limits_are_rounded_up_to_units_of_slurm() {
        let further = ["--partition=short".to_owned()];
        let (time, memory) = (Duration::from_secs(61), ByteCount::from_bytes((1 << 30) + 1));
        let limits = Limits { tasks: 4, threads: 2, time, memory, further: &further };
        let scripts = Scripts::new("a b\nc", Path::new("/bin/festina"), Path::new("/shared/lab/mine"), &limits);
        for expected in [
            "#SBATCH --job-name=festina-a-b-c\n",
            "#SBATCH --array=1-4\n",
            "#SBATCH --cpus-per-task=2\n",
            "#SBATCH --time=2\n",
            "#SBATCH --mem=1025M\n",
            "#SBATCH --partition=short\nexec /bin/festina lab work /shared/lab/mine --jobs 2\n",
        ] {
            assert!(scripts.work.contains(expected), "{expected} is missing in\n{}", scripts.work);
        }
        assert!(scripts.report.ends_with("--jobs 2 --report\n") && !scripts.report.contains("--array"));
    }

    #[test]
    fn options_are_one_line_each() {
        assert!(is_option("--partition=short") && is_option("-p short"));
        assert!(!is_option("short") && !is_option("--x\nrm") && !is_option(""));
    }
}
