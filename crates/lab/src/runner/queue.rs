//! The runs that remain, from which the threads of this process take one after the other.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::claims::{Attempt, Claim, Claims, Listing};

/// As many runs in a row that others have taken since the folder was listed make another listing worthwhile.
const STALE_MAX: u32 = 16;
/// At most as many runs of others are looked at after each listing.
const WATCHED_MAX: usize = 64;
/// Time until the folder is listed again if others compute all that remains. It doubles up to the greater one.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// The runs of a folder that are not finished.
pub(super) struct Queue<'q> {
    folder: &'q Path,
    /// Of every run, by its index.
    names: &'q [String],
    claims: &'q Claims,
    runs_max: Option<u64>,
    state: Mutex<State>,
    /// A run of this process has ended.
    changed: Condvar,
}

struct State {
    /// Runs without results when the folder was last listed.
    remaining: Vec<usize>,
    /// Those of them to claim next, each with whether it was free.
    next: VecDeque<(usize, bool)>,
    /// Runs of this process.
    own: BTreeSet<usize>,
    given_up: BTreeSet<usize>,
    /// Runs that this process has finished.
    finished: u64,
    /// The same at the last listing.
    finished_before: u64,
    /// Runs that this process has claimed.
    begun: u64,
    /// The same at the last listing.
    begun_before: u64,
    stale: u32,
    is_stopped: bool,
    listings: usize,
    pause: Duration,
}

/// A claimed run.
pub(super) struct Taken<'q> {
    pub(super) run: usize,
    pub(super) claim: Claim<'q>,
}

/// What a thread does next.
pub(super) enum Step<'q> {
    /// Compute this run.
    Compute(Taken<'q>),
    /// Others compute as many runs as this; the queue is asked again after the pause.
    Wait(usize),
    /// Nothing remains for this thread.
    End,
}

impl<'q> Queue<'q> {
    /// A queue of all runs without results, in this order.
    pub(super) fn new(folder: &'q Path, names: &'q [String], order: Vec<usize>, claims: &'q Claims) -> Self {
        let state = State {
            remaining: order,
            next: VecDeque::new(),
            own: BTreeSet::new(),
            given_up: BTreeSet::new(),
            finished: 0,
            finished_before: 0,
            begun: 0,
            begun_before: 0,
            stale: 0,
            is_stopped: false,
            listings: 0,
            pause: PAUSES[0],
        };
        Self { folder, names, claims, runs_max: None, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The same, from which at most as many runs are taken.
    pub(super) fn with_runs_max(self, runs_max: Option<u64>) -> Self {
        Self { runs_max, ..self }
    }

    /// Takes a run, or says why there is none. Waits for the pause before it returns [`Step::Wait`].
    pub(super) fn step(&self) -> io::Result<Step<'q>> {
        let mut state = self.state();
        loop {
            if state.is_stopped || self.runs_max.is_some_and(|max| state.begun >= max) {
                return Ok(Step::End);
            }
            let Some((run, was_free)) = state.next.pop_front() else {
                match self.list(&mut state)? {
                    Remaining::None => return Ok(Step::End),
                    Remaining::Some => continue,
                    Remaining::Elsewhere(count) => {
                        let pause = state.pause;
                        state.pause = (pause * 2).min(PAUSES[1]);
                        drop(self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner));
                        return Ok(Step::Wait(count));
                    }
                }
            };
            match self.claims.claim(&self.names[run])? {
                // Another may have finished the run since the folder was listed.
                Attempt::Claimed(claim) if !self.folder.join(&self.names[run]).exists() => {
                    state.begun += 1;
                    state.stale = 0;
                    state.pause = PAUSES[0];
                    state.own.insert(run);
                    return Ok(Step::Compute(Taken { run, claim }));
                }
                Attempt::GivenUp => {
                    state.given_up.insert(run);
                }
                Attempt::Claimed(_) | Attempt::Taken => {
                    state.stale += u32::from(was_free);
                    if state.stale >= STALE_MAX {
                        state.next.clear();
                    }
                }
            }
        }
    }

    /// A run has ended, with results unless it failed. Returns the number of runs that are known to be finished.
    pub(super) fn ended(&self, Taken { run, claim }: Taken<'_>, is_finished: bool) -> usize {
        let mut state = self.state();
        state.own.remove(&run);
        if is_finished {
            state.finished += 1;
            claim.finish();
        } else {
            state.is_stopped = true;
        }
        self.changed.notify_all();
        self.known(&state)
    }

    /// Lets no thread take another run.
    pub(super) fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// Lists the folder for the first time. Returns the number of runs that are finished.
    pub(super) fn open(&self) -> io::Result<usize> {
        let mut state = self.state();
        self.list(&mut state)?;
        Ok(self.known(&state))
    }

    /// Number of runs that are known to be finished.
    pub(super) fn finished(&self) -> usize {
        self.known(&self.state())
    }

    /// Runs during which too many processes ended.
    pub(super) fn given_up(&self) -> Vec<usize> {
        self.state().given_up.iter().copied().collect()
    }

    /// Number of runs that this process has finished.
    pub(super) fn computed(&self) -> u64 {
        self.state().finished
    }

    fn known(&self, state: &State) -> usize {
        let since = usize::try_from(state.finished - state.finished_before).unwrap_or(usize::MAX);
        (self.names.len() - state.remaining.len()).saturating_add(since).min(self.names.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the folder, and decides about the runs to claim next: those that are free, then some of those that others may have left.
    fn list(&self, state: &mut State) -> io::Result<Remaining> {
        let listing = Listing::of(self.folder)?;
        state.remaining.retain(|run| !listing.finished.contains(&self.names[*run]));
        let open = state.remaining.iter().filter(|run| !state.given_up.contains(run) && !state.own.contains(run));
        let is_claimed = |run: &usize| listing.claimed.contains(&self.names[*run]);
        let (mut claimed, free): (Vec<usize>, Vec<usize>) = open.partition(|run| is_claimed(run));
        let has_begun_none = state.listings > 0 && state.begun == state.begun_before;
        let others = claimed.len() + free.len();
        if !claimed.is_empty() {
            let turn = state.listings.wrapping_mul(WATCHED_MAX) % claimed.len();
            claimed.rotate_left(turn);
            claimed.truncate(WATCHED_MAX);
        }
        state.listings += 1;
        (state.begun_before, state.finished_before) = (state.begun, state.finished);
        state.stale = 0;
        if free.is_empty() && claimed.is_empty() {
            if state.own.is_empty() && state.given_up.is_empty() {
                self.claims.tidy(&listing);
            }
            return Ok(Remaining::None);
        }
        state.next =
            free.into_iter().map(|run| (run, true)).chain(claimed.into_iter().map(|run| (run, false))).collect();
        Ok(if has_begun_none { Remaining::Elsewhere(others) } else { Remaining::Some })
    }
}

/// What a listing shows of the runs that this process does not compute.
enum Remaining {
    /// All are finished or given up.
    None,
    /// There are some to claim.
    Some,
    /// Others compute all of them.
    Elsewhere(usize),
}
