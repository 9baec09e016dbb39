//! Starts the command, reads what it prints, and never waits for ever.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of the test's own, empty.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the folder of an earlier run can be removed");
    }
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// The command with these arguments, its three streams piped.
pub(crate) fn festina(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_festina"));
    command.args(arguments).current_dir(env!("CARGO_TARGET_TMPDIR"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command that has ended leaves behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the command to its end.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    Running::start(festina(arguments)).end()
}

/// Runs the command to its end with something on its standard input.
pub(crate) fn run_with_input(arguments: &[&str], input: &str) -> Ended {
    let mut running = Running::start(festina(arguments));
    running.write(input);
    running.end()
}

/// A command that is running. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    stdout: mpsc::Receiver<String>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the command starts");
        let mut stdout = child.stdout.take().expect("standard output is piped");
        let stderr = BufReader::new(child.stderr.take().expect("standard error is piped"));
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut text = String::new();
            // A killed command's output is of no interest.
            let _ = stdout.read_to_string(&mut text);
            let _ = sender.send(text);
        });
        Self { child, stdout: receiver, stderr }
    }

    /// Starts a command that says on standard error which address it uses, and returns that too.
    pub(crate) fn start_server(arguments: &[&str], words_before: &str, word_after: &str) -> (Self, String) {
        let mut running = Self::start(festina(arguments));
        let line = running.stderr_line();
        let address = line
            .strip_prefix(words_before)
            .and_then(|rest| rest.split_once(word_after))
            .map(|(address, _)| address.to_owned())
            .unwrap_or_else(|| panic!("no address in {line:?}"));
        (running, address)
    }

    /// The next line on standard error.
    pub(crate) fn stderr_line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("standard error is text");
        line.trim_end().to_owned()
    }

    pub(crate) fn write(&mut self, input: &str) {
        let stdin = self.child.stdin.as_mut().expect("standard input is piped and open");
        stdin.write_all(input.as_bytes()).expect("the command reads its input");
    }

    /// Writes the input from a thread of its own, for as long as the command takes it and lives.
    pub(crate) fn write_in_the_background(&mut self, input: Vec<u8>) {
        let mut stdin = self.child.stdin.take().expect("standard input is piped and open");
        thread::spawn(move || {
            // A test that is over kills the command.
            let _ = stdin.write_all(&input);
        });
    }

    /// What Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let status = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill works");
    }

    /// Closes standard input and waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let stdout = self.stdout.recv_timeout(PATIENCE).expect("the command ends in time");
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).expect("standard error is text");
        let status: ExitStatus = self.child.wait().expect("the command can be waited for");
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has mostly ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
