use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

use super::*;
use crate::scratch::Directory;

mod copies;
mod disk;
mod model;

const SECOND_US: u64 = 1_000_000;

/// A folder with a file that is followed.
struct World {
    folder: Directory,
    path: PathBuf,
    follower: Follower,
    reports: Reports,
    notices: Arc<Mutex<Vec<String>>>,
    position: Position,
    lines: Vec<String>,
    now_us: u64,
}

fn silent() -> Notice {
    Arc::new(|_: &str| {})
}

impl World {
    fn new() -> Self {
        let folder = Directory::new();
        let path = folder.0.join("app.log");
        Self::of(folder, path)
    }

    fn of(folder: Directory, path: PathBuf) -> Self {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&notices);
        let notice: Notice = Arc::new(move |notice: &str| all.lock().expect("no panic").push(notice.to_owned()));
        let reports = Reports { notice, losses: Arc::default() };
        let follower = Follower::new(&path, 100, reports.clone(), SECOND_US);
        let (position, lines, now_us) = (Position::default(), Vec::new(), SECOND_US);
        let mut world = Self { folder, path, follower, reports, notices, position, lines, now_us };
        world.look();
        world
    }

    /// How often lines may have been lost, and how often that was reported.
    fn losses(&self) -> (u64, usize) {
        (self.reports.losses.load(Ordering::Relaxed), self.notices.lock().expect("no panic").len())
    }

    /// Appends to the file that has the name.
    fn write(&self, text: &str) {
        let file = File::options().append(true).create(true).open(&self.path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("it can be written");
    }

    /// Has the file get another name.
    fn rotate(&self, end: &str) {
        fs::rename(&self.path, self.name(&format!("app.log.{end}"))).expect("it can be renamed");
    }

    fn name(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    fn take(&mut self, gathered: Gathered) {
        let lines = gathered.lines.iter().map(|line| String::from_utf8_lossy(&line.bytes).into_owned());
        self.lines.extend(lines);
        self.position = gathered.position;
    }

    /// Reads all there is.
    fn look(&mut self) {
        while let Some(gathered) = self.follower.read(self.now_us) {
            self.take(gathered);
        }
    }

    fn stop(&mut self) {
        self.look();
        if let Some(gathered) = self.follower.finish(self.now_us + SECOND_US) {
            self.take(gathered);
        }
    }

    /// Resumes as a new process does: at the position after the lines taken.
    fn restart(&mut self, spooled: &[&str]) {
        let mut times = HashMap::new();
        spooled.iter().for_each(|line| *times.entry(Bytes::from(line.to_string())).or_default() += 1);
        self.follower = Follower::resume(&self.path, 100, &self.position, times, self.reports.clone(), self.now_us);
    }

    fn pass(&mut self, seconds: u64) {
        self.now_us += seconds * SECOND_US;
        self.look();
    }
}

#[test]
fn lines_written_just_before_and_after_a_rename_come_once_and_in_order() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    world.write("last of the old\n");
    world.rotate("1");
    world.write("first of the new\n");
    world.look();
    assert_eq!(world.lines, ["one", "last of the old", "first of the new"]);
}

#[test]
fn what_is_unfinished_when_a_file_is_rotated_is_a_line_and_not_glued_to_the_next_file() {
    let mut world = World::new();
    world.write("unfinished");
    world.look();
    world.rotate("1");
    world.write("first of the next\n");
    world.look();
    world.pass(2);
    assert_eq!(world.lines, ["first of the next", "unfinished"]);
    // A line that is too long ends with its file as well.
    world.write(&"y".repeat(300));
    world.look();
    world.rotate("2");
    world.write("first of the third\n");
    world.pass(2);
    assert_eq!(world.lines[2..], ["y".repeat(100), "first of the third".to_owned()]);
}

#[test]
fn what_the_writer_adds_to_a_file_after_it_was_renamed_is_read() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    let old = File::options().append(true).open(&world.path).expect("it is there");
    world.rotate("1");
    world.write("new\n");
    world.pass(10);
    (&old).write_all(b"late\n").expect("it can be written");
    world.look();
    assert_eq!(world.lines, ["one", "new", "late"]);
    world.pass(100);
    assert_eq!(world.follower.files.len(), 1, "the old one is closed");
}

#[test]
fn files_that_had_the_name_between_two_looks_are_found() {
    let mut world = World::new();
    world.write("old\n");
    world.look();
    for number in 0..5 {
        world.rotate(&format!("{}", 9 - number));
        world.write(&format!("number {number}\n"));
        // Times of change decide the order, and may be coarse.
        std::thread::sleep(std::time::Duration::from_millis(15));
    }
    world.look();
    world.look();
    assert_eq!(world.lines, ["old", "number 0", "number 1", "number 2", "number 3", "number 4"]);
}

#[test]
fn copies_and_compressed_files_beside_it_are_not_read() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    fs::copy(&world.path, world.name("app.log.copy")).expect("it can be copied");
    world.look();
    world.rotate("1");
    fs::write(world.name("app.log.1.gz"), "no line\n").expect("it can be written");
    fs::write(world.name("other.log"), "no line\n").expect("it can be written");
    world.write("two\n");
    world.pass(2);
    // A shortened file is read from its start, and its copy is not a new file.
    fs::copy(&world.path, world.name("app.log.2")).expect("it can be copied");
    fs::write(&world.path, "3\n").expect("it can be written");
    world.pass(2);
    world.rotate("3");
    world.write("four\n");
    world.pass(2);
    assert_eq!(world.lines, ["one", "two", "3", "four"]);
}

#[test]
fn lines_written_and_files_rotated_while_the_relay_was_down_are_read() {
    let mut world = World::new();
    world.write("one\nunfinished");
    world.look();
    world.write(" line\ntwo\n");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "unfinished line", "two"]);
    for number in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(15));
        world.write(&format!("last {number}\n"));
        world.rotate(&format!("{number}"));
        world.write(&format!("first {number}\n"));
    }
    world.restart(&[]);
    world.look();
    let expected = ["last 0", "first 0", "last 1", "first 1", "last 2", "first 2"];
    assert_eq!(world.lines[3..], expected);
    world.restart(&[]);
    world.pass(100);
    world.restart(&[]);
    world.pass(100);
    assert_eq!(world.lines.len(), 9, "nothing comes again: {:?}", world.lines);
}

#[test]
fn many_files_rotated_while_the_relay_was_down_are_read_in_turns() {
    let mut world = World::new();
    world.write("line 0\n");
    world.look();
    for number in 1..60 {
        world.rotate(&format!("{number:03}"));
        std::thread::sleep(std::time::Duration::from_millis(12));
        world.write(&format!("line {number}\n"));
    }
    world.restart(&[]);
    for _ in 0..10 {
        world.look();
        assert!(world.follower.files.len() <= FILES_MAX + 1);
        world.restart(&[]);
    }
    let expected: Vec<String> = (0..60).map(|number| format!("line {number}")).collect();
    assert_eq!(world.lines, expected);
}

#[test]
fn lines_that_the_spool_has_behind_the_position_are_not_taken_again() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    world.write("two\nsame\nsame\nsame\nthree\n");
    world.restart(&["two", "same", "same"]);
    world.look();
    world.write("two\nsame\n");
    world.look();
    assert_eq!(world.lines, ["one", "same", "three", "two", "same"]);
}

#[test]
fn an_unfinished_line_counts_when_the_relay_stops() {
    let mut world = World::new();
    world.write("one\nthe end");
    world.stop();
    assert_eq!(world.lines, ["one", "the end"]);
    world.write(" comes later\n");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "the end", " comes later"]);
}

#[test]
fn the_rest_of_a_line_that_was_cut_is_no_line_after_a_restart() {
    let mut world = World::new();
    world.write(&"y".repeat(300));
    world.look();
    world.write("yyy\nnext\n");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["y".repeat(100), "next".to_owned()]);
}

#[test]
fn a_file_that_was_shortened_while_the_relay_was_down_is_read_from_its_beginning() {
    let mut world = World::new();
    world.write("one\ntwo\n");
    world.look();
    fs::write(&world.path, "three\nfour\nfive\nsix\n").expect("it can be written");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "two", "three", "four", "five", "six"]);
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let mut world = World::new();
    let made = std::process::Command::new("mkfifo").arg(&world.path).status();
    assert!(made.is_ok_and(|status| status.success()));
    world.restart(&[]);
    world.look();
    fs::remove_file(&world.path).expect("it can be removed");
    world.write("a line\n");
    world.look();
    assert_eq!(world.lines, ["a line"]);
}

/// Copies the file and truncates it, like `copytruncate` of logrotate.
fn copy_and_truncate(world: &World) {
    fs::copy(&world.path, world.name("app.log.1")).expect("it can be copied");
    File::options().write(true).open(&world.path).and_then(|file| file.set_len(0)).expect("it can be truncated");
}

#[test]
fn a_copy_made_while_the_relay_was_down_continues_where_the_file_was_read_to() {
    let mut world = World::new();
    world.write("one\ntwo\n");
    world.look();
    world.write("three\n");
    copy_and_truncate(&world);
    world.write("new\n");
    fs::write(world.name("app.log.other"), "other\n").expect("it can be written");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "two", "three", "new"]);
    assert_eq!(world.losses(), (0, 0), "nothing is lost");
    // A second copy of a file that is whole has nothing new.
    world.write("newer\n");
    fs::copy(&world.path, world.name("app.log.copy")).expect("it can be copied");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines[4..], ["newer"]);
}

#[test]
fn files_that_were_known_before_a_restart_are_not_read_after_it() {
    let mut world = World::new();
    let other = world.name("app.log.other");
    world.write("one\n");
    world.look();
    fs::write(&other, "other\n").expect("it can be written");
    // The file is not read in between.
    copy_and_truncate(&world);
    world.look();
    std::thread::sleep(std::time::Duration::from_millis(15));
    fs::write(&other, "other\nand another\n").expect("it can be written");
    world.write("two\n");
    world.rotate("2");
    world.write("three\n");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "two", "three"]);
}

#[test]
fn a_file_that_is_renamed_while_the_relay_starts_continues_at_its_position() {
    // The instants of the model: the name is another file's when it is opened, and the folder was listed before.
    let mut world = World::new();
    world.write("one\n");
    world.look();
    world.write("two\n");
    let position = world.position.clone();
    world.rotate("1");
    world.write("three\n");
    world.position = position;
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "two", "three"]);
    assert_eq!(world.losses(), (0, 0));
}

#[test]
fn a_file_that_is_truncated_and_grows_beyond_the_position_is_read_from_its_beginning_and_the_loss_is_counted() {
    let mut world = World::new();
    let numbered = |range: std::ops::Range<u32>| range.map(|number| format!("line {number}\n")).collect::<String>();
    world.write(&numbered(0..10));
    world.write("unfinished");
    world.look();
    fs::write(&world.path, numbered(10..60)).expect("it can be written");
    world.look();
    let mut expected: Vec<String> = (0..60).map(|number| format!("line {number}")).collect();
    expected.insert(10, "unfinished".to_owned());
    assert_eq!(world.lines, expected);
    assert_eq!(world.losses(), (1, 1));
    // It is also noticed if the length is the same.
    fs::write(&world.path, numbered(60..110)).expect("it can be written");
    world.look();
    assert_eq!((world.lines.len(), world.losses()), (111, (2, 2)));
}

#[test]
fn lines_that_only_the_copy_of_a_truncated_file_has_are_read_from_it() {
    let mut world = World::new();
    world.write("one\ntw");
    world.look();
    world.write("o\nthree\n");
    copy_and_truncate(&world);
    world.write("new\nand newer\nand newest\n");
    world.look();
    assert_eq!(world.lines, ["one", "two", "three", "new", "and newer", "and newest"]);
    assert_eq!(world.losses(), (0, 0));
    world.restart(&[]);
    world.pass(100);
    assert_eq!(world.lines.len(), 6, "nothing comes again: {:?}", world.lines);
}

#[test]
fn the_hole_at_the_beginning_of_a_file_that_was_truncated_under_its_writer_is_no_part_of_a_line() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    for (number, length) in [(2, 4), (3, 90), (4, 300), (5, 200_000)] {
        File::options().write(true).open(&world.path).and_then(|file| file.set_len(0)).expect("it can be truncated");
        File::options().write(true).open(&world.path).and_then(|file| file.set_len(length)).expect("it can be");
        world.write(&format!("line {number}\n"));
        world.look();
    }
    assert_eq!(world.lines, ["one", "line 2", "line 3", "line 4", "line 5"]);
}

#[test]
fn another_log_whose_name_starts_with_that_of_the_file_is_not_taken_for_a_rotated_version() {
    let mut world = World::new();
    let twins = ["app.log.err", "app.log-debug", "app.log2"].map(|twin| world.name(twin));
    twins.iter().for_each(|twin| fs::write(twin, "foreign\n").expect("it can be written"));
    world.write("one\n");
    world.look();
    for (is_down, date) in [(false, "-20261128"), (true, "-20261129")] {
        for twin in &twins {
            fs::rename(twin, format!("{}{date}", twin.display())).expect("it can be renamed");
            fs::write(twin, "also foreign\n").expect("it can be written");
        }
        fs::rename(&world.path, world.name(&format!("app.log{date}"))).expect("it can be renamed");
        world.write("two\n");
        if is_down {
            fs::write(world.name("app.log.new"), "foreign\n").expect("it can be written");
            world.restart(&[]);
        }
        world.look();
        world.pass(10);
    }
    assert_eq!(world.lines, ["one", "two", "two"]);
    assert_eq!(world.losses(), (0, 0));
}

#[test]
fn a_rotated_version_is_found_under_any_name_by_its_inode() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    world.write("two\n");
    fs::rename(&world.path, world.name("app-20261128.log")).expect("it can be renamed");
    world.write("three\n");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "two", "three"]);
    // It has the name again.
    world.pass(100);
    fs::rename(world.name("app-20261128.log"), &world.path).expect("it can be renamed");
    world.write("four\n");
    world.look();
    assert_eq!(world.lines[3..], ["four"]);
    assert_eq!(world.losses(), (0, 0));
}

#[test]
fn the_target_of_a_link_is_followed_through_rotations_in_its_own_folder() {
    let (links, data) = (Directory::new(), Directory::new());
    let target = data.0.join("0.log");
    let path = links.0.join("app.log");
    fs::write(&target, "").expect("it can be written");
    std::os::unix::fs::symlink(&target, &path).expect("it can be linked");
    let mut world = World::of(links, path.clone());
    world.write("0\n");
    world.look();
    let rotate = |world: &World, number: u32| {
        fs::rename(&target, data.0.join(format!("0.log.20261128-{number}"))).expect("it can be renamed");
        world.write(&format!("{number}\n"));
    };
    (1..4).for_each(|number| rotate(&world, number));
    world.look();
    world.look();
    (4..8).for_each(|number| rotate(&world, number));
    world.restart(&[]);
    world.look();
    let expected: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    assert_eq!(world.lines, expected);
    // The container begins again: the link leads to another file, after a last rotation of the old one.
    rotate(&world, 8);
    fs::write(data.0.join("1.log"), "9\n").expect("it can be written");
    fs::remove_file(&path).expect("it can be removed");
    std::os::unix::fs::symlink(data.0.join("1.log"), &path).expect("it can be linked");
    world.look();
    assert_eq!(world.lines[8..], ["8", "9"]);
    assert_eq!(world.losses(), (0, 0));
}

#[test]
fn a_file_that_is_gone_when_the_relay_starts_is_counted() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    world.write("two\n");
    fs::remove_file(&world.path).expect("it can be removed");
    world.restart(&[]);
    world.write("three\n");
    world.look();
    assert_eq!(world.lines, ["one", "three"]);
    assert_eq!(world.losses(), (1, 1));
}

#[test]
fn lines_of_the_spool_are_not_taken_again_if_another_file_is_read_first() {
    let mut world = World::new();
    world.write("one\n");
    world.look();
    let old = File::options().append(true).open(&world.path).expect("it is there");
    world.rotate("1");
    world.write("new\n");
    world.look();
    (&old).write_all(b"late\n").expect("it can be written");
    world.write("two\n");
    // The spool has a line of the second file; the relay is killed again after it has read a piece.
    world.restart(&["two"]);
    let gathered = world.follower.read(world.now_us).expect("there is more");
    world.take(gathered);
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines, ["one", "new", "late"]);
}
