//! Ctrl-C and its like. One [`watch`] for all commands ends the program unless the command has an [`interruption`] of its own.

use std::future::{Future, pending};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

/// A program that is ended by a signal reports this plus its number to shells.
const EXIT_SIGNAL: i32 = 128;

/// The exit code for the latest request to end.
static REQUESTED: LazyLock<watch::Sender<Option<i32>>> = LazyLock::new(|| watch::Sender::new(None));
/// The number of interruptions that the command waits for at present.
static CLAIMS: AtomicUsize = AtomicUsize::new(0);
/// Whether the command has noticed a request, and is about to end.
static IS_NOTICED: AtomicBool = AtomicBool::new(false);

/// Runs before a signal ends the program.
static FAREWELL: OnceLock<fn()> = OnceLock::new();

/// Whether SIGHUP asks for something else than the end.
static HANGUP_RELOADS: AtomicBool = AtomicBool::new(false);

/// From this call on, Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) end the program, unless the command itself waits for them with
/// [`interruption`]. The system would end it, too, but without what the command has yet to write, and not the first process of a container, for
/// which signals have no default effect. A program that was started with SIGHUP ignored, as by nohup, goes on ignoring it. The caller is inside a
/// runtime.
/// `farewell` runs before the end, for a moment at most.
#[cfg(unix)]
pub(crate) fn watch(farewell: fn()) {
    use tokio::signal::unix::{SignalKind, signal};

    let _ = FAREWELL.set(farewell);
    survive_file_limits();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        if kind == SignalKind::hangup() && !ends_on_hangup() {
            continue;
        }
        // Without a handler the signal ends the program by itself.
        let Ok(mut signal) = signal(kind) else { continue };
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                if kind != SignalKind::hangup() || !HANGUP_RELOADS.load(Ordering::SeqCst) {
                    request(EXIT_SIGNAL + kind.as_raw_value());
                }
            }
        });
    }
}

/// Whether SIGHUP has its default effect, which proc(5) tells without unsafe code.
#[cfg(unix)]
fn ends_on_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 0)
}

/// From this call on, Ctrl-C ends the program, unless the command itself waits for it with [`interruption`]. The caller is inside a runtime.
/// `farewell` runs before the end, for a moment at most.
#[cfg(not(unix))]
pub(crate) fn watch(farewell: fn()) {
    const SIGINT: i32 = 2;
    let _ = FAREWELL.set(farewell);
    tokio::spawn(async {
        while tokio::signal::ctrl_c().await.is_ok() {
            request(EXIT_SIGNAL + SIGINT);
        }
    });
}

/// Has a file that reaches the limit of the process (RLIMIT_FSIZE) cause an error of the write, as a full disk does, and not the end of the program.
/// Programs that this one starts have the signal's default again.
#[cfg(target_os = "linux")]
fn survive_file_limits() {
    use tokio::signal::unix::{SignalKind, signal};

    // The handler stays. Without it the signal ends the program by itself.
    drop(signal(SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32)));
}

#[cfg(all(unix, not(target_os = "linux")))]
fn survive_file_limits() {}

fn request(exit_code: i32) {
    REQUESTED.send_replace(Some(exit_code));
    end_unless_claimed();
}

fn end_unless_claimed() {
    let requested = *REQUESTED.borrow();
    if let Some(exit_code) = requested
        && CLAIMS.load(Ordering::SeqCst) == 0
        && !IS_NOTICED.load(Ordering::SeqCst)
    {
        if let Some(farewell) = FAREWELL.get() {
            farewell();
        }
        process::exit(exit_code);
    }
}

/// An interruption that the command waits for. If it stops waiting after a request that it has not noticed, the program ends.
struct Claim;

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMS.fetch_sub(1, Ordering::SeqCst);
        end_unless_claimed();
    }
}

/// While this future exists, neither the user (Ctrl-C) nor the system (SIGTERM) ends the program; it is ready when one of them has asked for the end,
/// which is then up to the command. Call this before announcing that something is ready.
pub(crate) fn interruption() -> impl Future<Output = ()> {
    CLAIMS.fetch_add(1, Ordering::SeqCst);
    let claim = Claim;
    async move {
        requested().await;
        IS_NOTICED.store(true, Ordering::SeqCst);
        drop(claim);
    }
}

/// As an [`interruption`], for a thread that looks for requests from time to time.
pub(crate) struct Requests {
    _claim: Claim,
}

impl Requests {
    pub(crate) fn new() -> Self {
        CLAIMS.fetch_add(1, Ordering::SeqCst);
        Self { _claim: Claim }
    }

    /// Returns whether there was a request to end, which is then up to the caller. The next one is another request.
    pub(crate) fn take(&self) -> bool {
        REQUESTED.send_replace(None).is_some()
    }
}

/// Returns the exit code for a program that ends because of the latest request.
pub(crate) fn exit_code() -> i32 {
    REQUESTED.borrow().unwrap_or(EXIT_SIGNAL)
}

/// Waits until the user or the system asks the program to end.
pub(crate) async fn interrupted() {
    interruption().await;
}

/// Waits until the program has been asked to end and this time has passed since, or since the call.
pub(crate) async fn overdue(patience: Duration) {
    requested().await;
    tokio::time::sleep(patience).await;
}

async fn requested() {
    if REQUESTED.subscribe().wait_for(Option::is_some).await.is_err() {
        // The sender is never dropped.
        pending::<()>().await;
    }
}

/// Requests of the system to read the configuration again and to open files again (SIGHUP).
#[cfg(unix)]
pub(crate) struct Hangups(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Hangups {
    /// From this call on SIGHUP does not end the program.
    pub(crate) fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};

        HANGUP_RELOADS.store(true, Ordering::SeqCst);
        Self(signal(SignalKind::hangup()).ok())
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => pending().await,
        }
    }
}
