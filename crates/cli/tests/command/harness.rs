//! Starts the command and reads its output, always with a time limit.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Begins a line about a peer that is slow to answer. On a busy machine any peer may be, so that only tests of that line read it.
pub(crate) const NARRATION: &str = "connecting to ";

/// A folder of the test's own, empty. Other runs of the tests have others; those of runs that have ended are removed.
pub(crate) fn folder(test: &str) -> PathBuf {
    static OWN: LazyLock<PathBuf> = LazyLock::new(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command");
        let has_ended = |process: &str| cfg!(target_os = "linux") && !Path::new("/proc").join(process).exists();
        for folder in std::fs::read_dir(&all).into_iter().flatten().flatten() {
            if folder.file_name().to_str().is_some_and(has_ended) {
                // Another run may be removing it as well.
                let _ = std::fs::remove_dir_all(folder.path());
            }
        }
        all.join(std::process::id().to_string())
    });
    let folder = OWN.join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the folder of an earlier run can be removed");
    }
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// The configuration folder of all commands without one of their own: with a key, away from the user's.
pub(crate) fn config_home() -> &'static Path {
    static HOME: LazyLock<PathBuf> = LazyLock::new(|| {
        let home = folder("config");
        let created = Command::new(env!("CARGO_BIN_EXE_festina")).arg("key").env("XDG_CONFIG_HOME", &home).status();
        assert!(created.is_ok_and(|status| status.success()), "a key can be made");
        home
    });
    &HOME
}

/// The fingerprint of the key in that folder.
pub(crate) fn own_key() -> String {
    run(&["key"]).stdout.trim_end().to_owned()
}

/// Has all commands know a peer of this address.
fn know(address: &str, key: &str) {
    let path = config_home().join("festina/known_peers");
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("it can be written");
    file.write_all(format!("{address} {key}\n").as_bytes()).expect("it can be written");
}

/// The command with these arguments, its three streams piped.
pub(crate) fn festina(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_festina"));
    command.args(arguments).current_dir(env!("CARGO_TARGET_TMPDIR")).env("XDG_CONFIG_HOME", config_home());
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

/// Standard output as a thread reads it.
struct Output {
    pieces: mpsc::Receiver<Vec<u8>>,
    read: Vec<u8>,
}

impl Output {
    fn of(mut stdout: Option<ChildStdout>) -> Self {
        let (sender, pieces) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            // A killed command's output is of no interest.
            while let Some(Ok(length @ 1..)) = stdout.as_mut().map(|stdout| stdout.read(&mut buffer)) {
                let _ = sender.send(buffer[..length].to_vec());
            }
        });
        Self { pieces, read: Vec::new() }
    }

    /// Reads until `is_enough`, or to the end. Returns whether the end has come.
    fn read_until(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> bool {
        while !is_enough(&self.read) {
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.read.extend(piece),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => panic!("the command prints nothing and does not end"),
            }
        }
        false
    }
}

/// A command that is running. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    stdout: Output,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the command starts");
        let stdout = Output::of(child.stdout.take());
        let stderr = BufReader::new(child.stderr.take().expect("standard error is piped"));
        Self { child, stdout, stderr }
    }

    /// Starts a command that says on standard error which address it uses, and returns that too. If it encrypts, other commands know its key.
    pub(crate) fn start_server(arguments: &[&str], words_before: &str, word_after: &str) -> (Self, String) {
        let mut running = Self::start(festina(arguments));
        let line = running.stderr_line();
        let address = line
            .strip_prefix(words_before)
            .and_then(|rest| rest.split_once(word_after))
            .map(|(address, _)| address.to_owned())
            .unwrap_or_else(|| panic!("no address in {line:?}"));
        if matches!(arguments, ["listen", ..] | ["tunnel", "exit", ..]) && !arguments.contains(&"--plain") {
            let line = running.stderr_line();
            let key = line.strip_prefix("encrypted, own key ").unwrap_or_else(|| panic!("no key in {line:?}"));
            know(&address, key);
        }
        (running, address)
    }

    /// The next line on standard error, apart from [`NARRATION`].
    pub(crate) fn stderr_line(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.stderr.read_line(&mut line).expect("standard error is text");
            if !line.starts_with(NARRATION) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Waits until standard output holds this text.
    pub(crate) fn wait_for_stdout(&mut self, text: &str) {
        let ended = self.stdout.read_until(|read| read.windows(text.len()).any(|window| window == text.as_bytes()));
        assert!(!ended, "standard output ends without {text:?}");
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
        self.signal("-INT");
    }

    /// Sends a signal, which is named as `kill` names it.
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill works");
    }

    /// The number of the process.
    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of a command whose standard output is not read, and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        const PAUSE: Duration = Duration::from_millis(10);
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            if let Some(status) = self.child.try_wait().expect("the command can be waited for") {
                return status.code();
            }
            thread::sleep(PAUSE);
        }
        panic!("the command does not end");
    }

    /// How a command that has ended did so.
    #[cfg(unix)]
    pub(crate) fn ended_with(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the command can be waited for")
    }

    /// Fills the pipe of standard error and keeps it full, as if its reader had paused.
    #[cfg(target_os = "linux")]
    pub(crate) fn fill_stderr(&self) {
        let pipe = format!("/proc/{}/fd/2", self.child.id());
        let mut pipe = std::fs::OpenOptions::new().write(true).open(pipe).expect("the command is running");
        thread::spawn(move || while pipe.write_all(&[b'\n'; 4_096]).is_ok() {});
    }

    /// Closes standard input and waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        self.ended()
    }

    /// Waits for an end that has another cause than the end of standard input, which stays open.
    pub(crate) fn ended(mut self) -> Ended {
        assert!(self.stdout.read_until(|_| false), "the command ends in time");
        let stdout = String::from_utf8(std::mem::take(&mut self.stdout.read)).expect("standard output is text");
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).expect("standard error is text");
        let stderr = stderr.split_inclusive('\n').filter(|line| !line.starts_with(NARRATION)).collect();
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
