//! The first process of the process namespace in which commands run: starts them, and ends with the client.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, set_parent_process_death_signal, wait};
use thiserror::Error;

use super::commands::{Commands, SIGNALLED};
use super::listening::somebody_listens;
use super::{CLIENT, SERVER};
use crate::tun::Namespace;

/// Maximum time that the client waits for the server to listen.
const SERVER_START_MAX: Duration = Duration::from_secs(10);
/// Maximum time that the server may take to end after SIGTERM.
const SERVER_END_MAX: Duration = Duration::from_secs(1);
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The reason why commands were not run, or not to their end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FirstProcessError {
    /// The caller is not the first process of a process namespace, or its arguments are not those that it was given.
    #[error("this is a part of `festina emulate run`, which starts it")]
    NotFirst,
    /// The process that started this one has ended.
    #[error("the process that started this one has ended")]
    Orphaned,
    /// The system refused a namespace, a mount or another resource.
    #[error("cannot prepare the commands' surroundings")]
    System(#[source] io::Error),
    /// A command cannot be started.
    #[error("cannot run {command}")]
    Start {
        /// Its program.
        command: String,
        /// The reason.
        source: io::Error,
    },
    /// The server failed before it was ready.
    #[error("the server ended with exit code {code} before it listened")]
    ServerFailed {
        /// Its exit code, as reported by shells.
        code: u8,
    },
}

impl FirstProcessError {
    /// Returns the exit code for this error: that of shells for commands that cannot be started, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            _ => 1,
        }
    }
}

/// The arguments of the first process.
#[derive(Debug)]
pub(super) struct Orders {
    /// The process that holds the namespaces, and its thread that starts this one.
    pub(super) process: u32,
    pub(super) thread: u32,
    /// The descriptors by which it holds the client's and the server's.
    pub(super) descriptors: [i32; 2],
    pub(super) commands: Commands,
}

impl Orders {
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let [client, server] = self.descriptors;
        let numbers = [self.process.to_string(), self.thread.to_string(), client.to_string(), server.to_string()];
        let mut arguments: Vec<OsString> = numbers.into_iter().map(OsString::from).collect();
        arguments.push(self.commands.server.is_some().to_string().into());
        arguments.push(self.commands.server.clone().unwrap_or_default());
        arguments.extend(self.commands.client.iter().cloned());
        arguments
    }

    fn read(arguments: &[OsString]) -> Option<Self> {
        let [process, thread, client, server, has_server, line, command @ ..] = arguments else {
            return None;
        };
        let has_server: bool = has_server.to_str()?.parse().ok()?;
        Some(Self {
            process: process.to_str()?.parse().ok()?,
            thread: thread.to_str()?.parse().ok()?,
            descriptors: [client.to_str()?.parse().ok()?, server.to_str()?.parse().ok()?],
            commands: Commands { server: has_server.then(|| line.clone()), client: command.to_vec() },
        })
    }

    /// Returns the two hosts. If they can still be opened, the thread that started this process is alive, because a
    /// thread closes its descriptors before the kernel notifies its children.
    fn hosts(&self) -> Option<[Namespace; 2]> {
        let [client, server] =
            self.descriptors.map(|descriptor| Namespace::of_thread(self.process, self.thread, descriptor));
        Some([client?, server?])
    }
}

/// Runs the commands that the arguments name and returns the exit code of the client. When it ends, the kernel ends all other
/// processes of the namespace.
///
/// # Errors
/// See [`FirstProcessError`].
pub fn first_process(arguments: &[OsString]) -> Result<u8, FirstProcessError> {
    const FIRST: u32 = 1;
    let orders = Orders::read(arguments).filter(|_| std::process::id() == FIRST).ok_or(FirstProcessError::NotFirst)?;
    // First this, then the check that the parent has not died already.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(system)?;
    let [client_host, server_host] = orders.hosts().ok_or(FirstProcessError::Orphaned)?;
    see_own_processes().map_err(FirstProcessError::System)?;
    let server_path = path_of(&server_host).map_err(FirstProcessError::System)?;
    let start = |mut command: Command, host: &Namespace| {
        command.env("FESTINA_SERVER_NAMESPACE", &server_path);
        for (name, addresses) in [("CLIENT", CLIENT), ("SERVER", SERVER)] {
            command.env(format!("FESTINA_{name}"), addresses.ipv4.to_string());
            command.env(format!("FESTINA_{name}6"), addresses.ipv6.to_string());
        }
        start_on(host, command)
    };
    let server = match &orders.commands.server {
        Some(line) => Some(start(shell(line), &server_host)?),
        None => None,
    };
    if let Some(server) = server {
        wait_for_server(server, &server_host)?;
    }
    let client = start(program(&orders.commands.client)?, &client_host)?;
    let code = wait_for(client)?;
    if let Some(server) = server {
        end(server);
    }
    Ok(code)
}

fn system(errno: Errno) -> FirstProcessError {
    FirstProcessError::System(errno.into())
}

/// Gives the commands a `/proc` that shows their own processes, if the kernel permits, and hides it from all others.
fn see_own_processes() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // In containers with a masked /proc the kernel forbids a full one; then the outer one is used.
    let _ = mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None);
    Ok(())
}

/// Returns the path of the namespace for others, valid as long as this process lives.
fn path_of(namespace: &Namespace) -> io::Result<PathBuf> {
    let this_process = std::fs::read_link("/proc/self")?;
    Ok(PathBuf::from("/proc").join(this_process).join("fd").join(namespace.descriptor().to_string()))
}

fn shell(line: &OsStr) -> Command {
    let mut command = Command::new("sh");
    // The server must not read the client's input.
    command.arg("-c").arg(line).stdin(Stdio::null());
    command
}

fn program(words: &[OsString]) -> Result<Command, FirstProcessError> {
    let (program, arguments) = words.split_first().ok_or(FirstProcessError::NotFirst)?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

fn start_on(host: &Namespace, mut command: Command) -> Result<Pid, FirstProcessError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = host.run(|| command.spawn()).unwrap_or_else(Err);
    let child = started.map_err(|source| FirstProcessError::Start { command: name, source })?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| FirstProcessError::System(io::Error::other("a process has an impossible number")))
}

/// Waits until the server listens, has ended successfully, or the time is over.
fn wait_for_server(server: Pid, host: &Namespace) -> Result<(), FirstProcessError> {
    let mut waited = Duration::ZERO;
    while waited < SERVER_START_MAX && !somebody_listens(host) {
        match reap(WaitOptions::NOHANG).map_err(system)? {
            Some((pid, status)) if pid == server => match code_of(status) {
                0 => return Ok(()),
                code => return Err(FirstProcessError::ServerFailed { code }),
            },
            _ => {}
        }
        sleep(CHECK_INTERVAL);
        waited += CHECK_INTERVAL;
    }
    Ok(())
}

/// Waits until this process has ended, and reaps all others meanwhile, which is the duty of the first process.
fn wait_for(process: Pid) -> Result<u8, FirstProcessError> {
    loop {
        match reap(WaitOptions::empty()).map_err(system)? {
            Some((pid, status)) if pid == process => return Ok(code_of(status)),
            _ => {}
        }
    }
}

/// Asks the server to end, and waits a little for its last output.
fn end(server: Pid) {
    let mut waited = Duration::ZERO;
    // It may have ended already.
    let mut is_there = kill_process(server, Signal::TERM).is_ok();
    while is_there && waited < SERVER_END_MAX {
        match reap(WaitOptions::NOHANG) {
            Ok(Some((pid, _))) => is_there = pid != server,
            Ok(None) => {
                sleep(CHECK_INTERVAL);
                waited += CHECK_INTERVAL;
            }
            Err(_) => is_there = false,
        }
    }
}

/// Returns the next process that has ended.
fn reap(options: WaitOptions) -> Result<Option<(Pid, WaitStatus)>, Errno> {
    match wait(options) {
        Err(Errno::INTR) => Ok(None),
        outcome => outcome,
    }
}

fn code_of(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| Some(SIGNALLED + status.terminating_signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_given() {
        for server in [None, Some(""), Some("sleep 1 && true")] {
            let commands = Commands { server: server.map(OsString::from), client: vec!["a".into(), "-b c".into()] };
            let orders = Orders { process: 7, thread: 8, descriptors: [3, 4], commands };
            let read = Orders::read(&orders.arguments()).expect("they are complete");
            assert_eq!(format!("{read:?}"), format!("{orders:?}"));
        }
        assert!(Orders::read(&["7".into()]).is_none());
    }

    #[test]
    fn only_the_first_process_of_a_namespace_does_this() {
        let refused = first_process(&[]).expect_err("a test is an ordinary process");
        assert!(matches!(refused, FirstProcessError::NotFirst));
        assert_eq!(refused.exit_code(), 1);
    }
}
