//! Several workers in one folder.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::*;
use crate::store::WORKER;

/// A beat that lets a worker die within a fraction of a second.
const SHORT_BEAT: Duration = Duration::from_millis(40);

fn json(results: Results) -> String {
    Report::new(&Md1, results).expect("the figure can be drawn").json().expect("JSON")
}

fn alone(test: &str) -> String {
    json(complete(&small(), &Folder::new(test).options()))
}

/// Creates the claims of a worker of another machine on the first runs of the plan, and its file.
fn of_another_machine(folder: &Folder, claims: usize) {
    let options = folder.options();
    fs::create_dir_all(&options.store).expect("the folder is ours");
    for name in Archive::names_of(&Md1, &small(), &options.code_version).iter().take(claims) {
        fs::write(options.store.join(format!("{name}{CLAIM}")), "00000000000000aa 0\n").expect("the folder is ours");
    }
    beat_elsewhere(&options.store, 0);
}

/// Rewrites that worker's file.
fn beat_elsewhere(store: &Path, beat: u32) {
    let text = format!("00000000000000aa 0\nprocess elsewhere 1 1 another-boot/another-space\nbeat {beat}\ndone 0\n");
    fs::write(store.join(format!("00000000000000aa{WORKER}")), text).expect("the folder is ours");
}

#[test]
fn workers_share_the_runs_and_compute_each_once() {
    let folder = Folder::new("shared");
    let measured = AtomicUsize::new(0);
    let measure = |point: &Point, seed: u64| {
        measured.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(20));
        Ok(Md1.run(point, seed))
    };
    let results: Vec<Results> = thread::scope(|scope| {
        let one = || run_with(&Md1, &small(), &folder.options(), &measure, &|_| {}).expect("the store can be used");
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        workers.into_iter().map(|worker| worker.join().expect("it does not panic")).collect()
    });
    assert_eq!(measured.into_inner(), 6);
    let expected = alone("shared-alone");
    assert!(results.into_iter().all(|results| json(results) == expected));
    assert_eq!(folder.stored().len(), 6, "neither claims nor workers are left: {:?}", folder.stored());
}

#[test]
fn a_worker_ends_after_its_number_of_runs_and_the_next_one_continues() {
    let folder = Folder::new("number");
    let first = work(&Md1, &small(), &folder.options(), Some(2), &|_| {}).expect("the store can be used");
    assert_eq!(first, Worked { computed: 2, missing: 4, total: 6, given_up: Vec::new() });
    assert_eq!(folder.stored().len(), 2);
    let second = work(&Md1, &small(), &folder.options(), None, &|_| {}).expect("the store can be used");
    assert_eq!((second.computed, second.missing), (4, 0));
}

/// The living worker shows its signs of life whenever the waiting one is about to look, so that no stall of the machine makes it seem dead.
#[test]
#[expect(clippy::disallowed_methods, reason = "workers keep real time")]
fn the_runs_of_a_worker_that_falls_silent_are_taken_over_and_those_of_a_living_one_are_not() {
    let folder = Folder::new("silent");
    let options = RunOptions { beat: SHORT_BEAT, ..folder.options() };
    of_another_machine(&folder, 1);
    let computed = AtomicUsize::new(0);
    let measure = |point: &Point, seed: u64| {
        computed.fetch_add(1, Ordering::SeqCst);
        Ok(Md1.run(point, seed))
    };
    let begin = Instant::now();
    let (lived, looks) = (20 * SHORT_BEAT, AtomicU32::new(0));
    let progress = |progress: Progress| {
        if progress.awaited > 0 && begin.elapsed() < lived {
            beat_elsewhere(&options.store, looks.fetch_add(1, Ordering::SeqCst) + 1);
            assert_eq!(computed.load(Ordering::SeqCst), 5, "the other worker has its run");
        }
    };
    let results = run_with(&Md1, &small(), &options, &measure, &progress).expect("the store can be used");
    assert!(looks.into_inner() > 0 && begin.elapsed() > lived, "it waited for the living worker");
    assert_eq!((computed.into_inner(), json(results)), (6, alone("silent-alone")));
    assert_eq!(folder.stored().len(), 6, "the dead worker's files are removed: {:?}", folder.stored());
}

#[test]
fn a_process_waits_and_says_for_how_many_runs_of_others() {
    let folder = Folder::new("awaited");
    of_another_machine(&folder, 2);
    let told = Mutex::new(Vec::new());
    let options = RunOptions { beat: SHORT_BEAT, ..folder.options() };
    run(&Md1, &small(), &options, &|progress| told.lock().expect("no test panics").push(progress)).expect("it runs");
    assert!(told.into_inner().expect("no test panics").contains(&Progress { done: 4, total: 6, awaited: 2 }));
}

#[test]
fn claims_that_are_damaged_or_no_files_are_taken_over() {
    let folder = Folder::new("damaged-claims");
    let options = RunOptions { beat: SHORT_BEAT, ..folder.options() };
    fs::create_dir_all(&options.store).expect("the folder is ours");
    let names = Archive::names_of(&Md1, &small(), "1");
    let claim = |run: usize| options.store.join(format!("{}{CLAIM}", names[run]));
    fs::write(claim(0), "").expect("the folder is ours");
    fs::write(claim(1), [0xff_u8; 100_000]).expect("the folder is ours");
    fs::create_dir(claim(2)).expect("the folder is ours");
    fs::write(claim(3), "../../../etc/pass 99999999999999999999\n").expect("the folder is ours");
    fs::write(claim(4), "00000000000000bb 4294967295\n").expect("the folder is ours");
    fs::write(options.store.join(format!("00000000000000bb{WORKER}")), "process").expect("the folder is ours");
    assert_eq!(json(complete(&small(), &options)), alone("damaged-claims-alone"));
}

#[test]
fn a_run_that_ends_three_workers_is_given_up_by_workers_but_not_by_the_report() {
    let folder = Folder::new("given-up");
    let options = RunOptions { beat: SHORT_BEAT, ..folder.options() };
    of_another_machine(&folder, 1);
    let name = Archive::names_of(&Md1, &small(), "1").remove(0);
    let claim = options.store.join(format!("{name}{CLAIM}"));
    fs::write(&claim, "00000000000000aa 2\n").expect("the folder is ours");
    let worked = work(&Md1, &small(), &options, None, &|_| {}).expect("the store can be used");
    let given_up = vec![("load 30%".to_owned(), claim.clone())];
    assert_eq!(worked, Worked { computed: 5, missing: 1, total: 6, given_up });
    assert_eq!(fs::read_to_string(claim).expect("it is kept"), "00000000000000aa 2\n");
    assert_eq!(json(complete(&small(), &options)), alone("given-up-alone"));
}

#[test]
fn the_state_of_a_folder_tells_who_works_on_which_part() {
    let folder = Folder::new("status");
    let store = folder.options().store;
    let state = || Status::of(&Md1, &small(), &store, "1").expect("the store can be read");
    let none = Status { finished: 0, claimed: 0, total: 6, workers: Vec::new() };
    assert_eq!(state(), none);
    work(&Md1, &small(), &folder.options(), Some(3), &|_| {}).expect("the store can be used");
    assert_eq!(state(), Status { finished: 3, ..none });
    of_another_machine(&folder, 6);
    let state = state();
    assert_eq!((state.finished, state.claimed, state.workers.len()), (3, 3, 1));
    assert_eq!((state.workers[0].host.as_str(), state.workers[0].process), ("elsewhere", 1));
    assert!(state.workers[0].silent.is_some_and(|silent| silent < Duration::from_secs(60)));
    assert_eq!(prune(&store, "1").expect("the store can be read").files, 7, "six claims and the worker");
}

#[test]
fn a_folder_that_disappears_is_an_error() {
    let folder = Folder::new("disappears");
    let store = folder.options().store;
    let measure = |point: &Point, seed: u64| {
        fs::remove_dir_all(&store).expect("the folder is ours");
        Ok(Md1.run(point, seed))
    };
    let error = run_with(&Md1, &small(), &folder.options(), &measure, &|_| {}).expect_err("the folder is gone");
    assert!(error.to_string().starts_with("cannot keep finished runs in "), "{error}");
}

#[test]
fn a_finished_run_that_cannot_be_read_is_an_error_and_stays_but_a_damaged_one_is_replaced() {
    let folder = Folder::new("unreadable");
    let options = folder.options();
    fs::create_dir_all(&options.store).expect("the folder is ours");
    let name = |run: usize| options.store.join(Archive::names_of(&Md1, &small(), "1").remove(run));
    fs::write(name(0), [0xff; 9]).expect("the folder is ours");
    fs::create_dir(name(1)).expect("the folder is ours");
    let error = run(&Md1, &small(), &options, &|_| {}).expect_err("a folder is in the way");
    assert!(error.to_string().starts_with("cannot keep finished runs in "), "{error}");
    fs::remove_dir(name(1)).expect("it stays");
    assert_eq!(json(complete(&small(), &options)), alone("unreadable-alone"));
}
