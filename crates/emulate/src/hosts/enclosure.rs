//! Commands in a process namespace of their own, which ends with them or with this process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::gettid;

use super::commands::{Commands, SIGNALLED};
use super::first_process::Orders;
use crate::tun::Namespace;

/// Running commands. Dropping this kills them and their children.
#[derive(Debug)]
pub struct RunningCommands {
    ender: Option<Ender>,
    waiter: Option<JoinHandle<io::Result<ExitStatus>>>,
}

/// Ends the commands, from any thread.
#[derive(Debug)]
pub struct Ender {
    first_process: OwnedFd,
}

impl Ender {
    /// Kills the commands and their children. Does nothing if they have ended already.
    pub fn kill(&self) {
        // The descriptor refers to exactly this process, so the only possible failure is that it has ended.
        let _ = pidfd_send_signal(&self.first_process, Signal::KILL);
    }
}

impl RunningCommands {
    pub(super) fn start(
        mut first_process: Command,
        [client, server]: [&Namespace; 2],
        commands: &Commands,
    ) -> io::Result<Self> {
        let (started, start) = mpsc::channel();
        let (descriptors, commands) = ([client, server].map(Namespace::descriptor), commands.clone());
        // The kernel kills the first process when the thread that started it ends, so this thread must stay.
        let waiter = thread::Builder::new().name("enclosure".to_owned()).spawn(move || {
            let thread = u32::try_from(gettid().as_raw_nonzero().get()).unwrap_or_default();
            let orders = Orders { process: std::process::id(), thread, descriptors, commands };
            match enclose(first_process.args(orders.arguments())) {
                Ok((mut child, ender)) => {
                    // The caller waits for this.
                    let _ = started.send(Ok(ender));
                    child.wait()
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                    Ok(ExitStatus::default())
                }
            }
        })?;
        let ender =
            start.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts commands panicked")))?;
        Ok(Self { ender: Some(ender), waiter: Some(waiter) })
    }

    /// Returns the handle that ends the commands; `None` the second time.
    pub fn take_ender(&mut self) -> Option<Ender> {
        self.ender.take()
    }

    /// Waits until the client has ended and returns its exit code: 128 and the number of the signal, if one ended it.
    ///
    /// # Errors
    /// If the wait fails.
    pub fn wait(mut self) -> io::Result<u8> {
        match self.waiter.take().map(JoinHandle::join) {
            Some(Ok(status)) => status.map(exit_code),
            _ => Err(io::Error::other("the thread that waits for the commands panicked")),
        }
    }
}

impl Drop for RunningCommands {
    fn drop(&mut self) {
        if let (Some(ender), Some(waiter)) = (&self.ender, self.waiter.take()) {
            ender.kill();
            let _ = waiter.join();
        }
    }
}

/// Starts a process as the first one of a new process namespace. The calling thread can start no threads afterwards.
fn enclose(first_process: &mut Command) -> io::Result<(Child, Ender)> {
    unshare(CloneFlags::CLONE_NEWPID)?;
    let mut child = first_process.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let opened = pid.ok_or_else(|| io::Error::other("a process has an impossible number")).and_then(|pid| {
        let first_process = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Ender { first_process })
    });
    match opened {
        Ok(ender) => Ok((child, ender)),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}

/// Returns the exit code that shells report for a process.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(SIGNALLED + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
