//! `festina sctp run`: an unmodified program whose SCTP sockets are Festina's.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use festina::Profile;
use festina_sockets::ENGINE_VARIABLE;
use festina_sockets::engine::{Carrier, Config, Engine};
use serde::Serialize;
use tokio::process::{Child, Command};

use super::EndedWith;
use crate::{args, output, signal};

/// The port of SCTP over UDP (RFC 6951).
const UDP_PORT: u16 = 9_899;
/// Names of the library: as packages install it, and as cargo builds it.
const LIBRARIES: [&str; 2] = ["libfestina-sockets.so", "libfestina_preload.so"];
/// Time for associations that the program has left to be shut down.
const GOODBYE_MAX: Duration = Duration::from_secs(30);
/// As shells tell of a program that a signal has ended.
const EXIT_SIGNAL: i32 = 128;

const EXAMPLES: &str = "\
Examples:
  festina sctp run -- ncat --sctp -l 7000                    a server, on UDP port 9899
  festina sctp run --udp 0 -- ncat --sctp 192.0.2.7 7000     a client on another UDP port, which reaches servers on 9899
  festina sctp run --raw -- freeDiameterd                    SCTP directly over IP, to reach peers without UDP; needs CAP_NET_RAW

The program's SCTP sockets, and those of programs that it starts, are served by this command. All other sockets are the system's. Peers need UDP encapsulation \
(RFC 6951) on the same UDP port, unless --raw is given.";

/// Programs with SCTP sockets.
#[derive(Debug, Subcommand)]
pub(crate) enum SctpCommand {
    /// Run a program whose SCTP sockets are Festina's
    Run(RunArgs),
}

/// Arguments of `festina sctp run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The own UDP port; 0 for any, which suits clients
    #[arg(long, value_name = "PORT", default_value_t = UDP_PORT, conflicts_with = "raw")]
    udp: u16,
    /// The UDP port of peers
    #[arg(long, value_name = "PORT", default_value_t = UDP_PORT, conflicts_with = "raw")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    peer_udp: u16,
    /// Send SCTP directly over IP instead of over UDP; needs the privilege CAP_NET_RAW, and a kernel without SCTP
    #[arg(long)]
    raw: bool,
    #[arg(long, value_name = "NAME", default_value_t = Profile::default())]
    #[arg(help = format!("How this side recovers from packet loss: {}", args::one_of(Profile::all())))]
    profile: Profile,
    /// Write counters to this file at the end, as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// The library that is loaded into the program, by default the one that lies beside this command or in ../lib/festina
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs a subcommand.
pub(crate) async fn run(command: SctpCommand) -> Result<()> {
    match command {
        SctpCommand::Run(arguments) => run_program(arguments).await,
    }
}

async fn run_program(arguments: RunArgs) -> Result<()> {
    // It is the program's.
    output::is_used();
    let library = arguments.library()?;
    let carrier = match arguments.raw {
        true => Carrier::Raw,
        false => Carrier::Udp { own: arguments.udp, peer: arguments.peer_udp },
    };
    let engine = Engine::start(Config { carrier, profile: arguments.profile }, output::notice)?;
    let interruption = signal::interruption();
    let mut child = arguments.start(&library, &engine)?;
    let status = tokio::select! {
        status = child.wait() => status?,
        () = interruption => {
            // Ctrl-C has reached the program as well; other signals have not.
            terminate(&child);
            child.wait().await?
        }
    };
    engine.finish(GOODBYE_MAX).await;
    if let Some(path) = &arguments.stats {
        write_stats(&engine, path).await?;
    }
    match code_of(status) {
        0 => Ok(()),
        code => Err(EndedWith(code).into()),
    }
}

impl RunArgs {
    /// Returns the library to load.
    fn library(&self) -> Result<PathBuf> {
        if let Some(library) = &self.library {
            return library.canonicalize().with_context(|| format!("cannot find the library {}", library.display()));
        }
        let command = std::env::current_exe().context("cannot find this command")?;
        let folder = command.parent().unwrap_or(Path::new("/"));
        let folders = [folder.to_owned(), folder.join("../lib/festina"), folder.join("../lib")];
        let places = folders.iter().flat_map(|folder| LIBRARIES.iter().map(move |name| folder.join(name)));
        match places.clone().find_map(|place| place.canonicalize().ok()) {
            Some(library) => Ok(library),
            None => bail!("cannot find {} beside {}: name it with --library", LIBRARIES[0], command.display()),
        }
    }

    fn start(&self, library: &Path, engine: &Arc<Engine>) -> Result<Child> {
        let (program, rest) = self.program.split_first().context("no program is named")?;
        if let Some(problem) = refusal(Path::new(program)) {
            bail!("{}: {problem}", program.display());
        }
        let mut preload = library.as_os_str().to_owned();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(program);
        command.args(rest).env("LD_PRELOAD", preload).env(ENGINE_VARIABLE, engine.variable());
        command.spawn().with_context(|| format!("cannot run {}", program.display()))
    }
}

/// Why the system would not load the library into a program: it is static, or has more privileges than its user.
fn refusal(program: &Path) -> Option<&'static str> {
    const SET_USER_ID: u32 = 0o4000;
    let path = find_program(program)?;
    let metadata = std::fs::metadata(&path).ok()?;
    let own_user = std::fs::metadata("/proc/self").ok()?.uid();
    if metadata.mode() & SET_USER_ID != 0 && metadata.uid() != own_user {
        return Some("it has the set-user-ID bit, and the system loads no library into such a program");
    }
    let mut start = Vec::new();
    std::fs::File::open(&path).ok()?.take(HEADERS_BYTES).read_to_end(&mut start).ok()?;
    (start.starts_with(b"\x7fELF") && !has_interpreter(&start))
        .then_some("it is a static program, whose system calls do not pass through a library")
}

/// Finds a program as the system does.
fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|place| place.is_file())
}

/// The part of a program that has its headers.
const HEADERS_BYTES: u64 = 4_096;

/// Whether an ELF file of 64 bits names a dynamic linker.
fn has_interpreter(file: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let two = |at: usize| Some(usize::from(u16::from_ne_bytes(*file.get(at..)?.first_chunk()?)));
    let eight = |at: usize| Some(u64::from_ne_bytes(*file.get(at..)?.first_chunk()?));
    let headers = || {
        let (start, size, count) = (usize::try_from(eight(32)?).ok()?, two(54)?, two(56)?);
        let mut kinds =
            file.get(start..)?.chunks_exact(size.max(1)).take(count).filter_map(|header| header.first_chunk());
        Some(kinds.any(|kind| u32::from_ne_bytes(*kind) == PT_INTERP))
    };
    // Something unknown is left to the system.
    headers().unwrap_or(true)
}

fn terminate(child: &Child) {
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
        let _gone = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM);
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| EXIT_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[derive(Serialize)]
struct Stats {
    sockets: Vec<Counters>,
    options: Vec<OptionCounters>,
}

/// Counters of one UDP or raw socket.
#[derive(Serialize)]
struct Counters {
    address: String,
    packets_sent: u64,
    bytes_sent: u64,
    packets_received: u64,
    bytes_received: u64,
    packets_dropped: u64,
    associations_refused: u64,
}

/// What the program asked of one option.
#[derive(Serialize)]
struct OptionCounters {
    call: &'static str,
    level: i32,
    option: i32,
    calls: u64,
    failed: u64,
    last_error: Option<String>,
}

async fn write_stats(engine: &Engine, path: &Path) -> Result<()> {
    let counters = engine.stats().await.into_iter().map(|(address, stats)| Counters {
        address: address.to_string(),
        packets_sent: stats.packets_sent,
        bytes_sent: stats.bytes_sent,
        packets_received: stats.packets_received,
        bytes_received: stats.bytes_received,
        packets_dropped: stats.packets_dropped,
        associations_refused: stats.associations_refused,
    });
    let options = engine.option_calls().into_iter().map(|(asked, counts)| OptionCounters {
        call: if asked.sets { "setsockopt" } else { "getsockopt" },
        level: asked.level,
        option: asked.name,
        calls: counts.calls,
        failed: counts.failed,
        last_error: counts.last_error.map(|error| format!("{error:?}")),
    });
    let stats = Stats { sockets: counters.collect(), options: options.collect() };
    let text = serde_json::to_string_pretty(&stats)?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
