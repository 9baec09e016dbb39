use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const SECOND_US: u64 = 1_000_000;

/// A folder with a file that is followed. It goes with its value.
struct World {
    folder: PathBuf,
    path: PathBuf,
    follower: Follower,
    position: Position,
    lines: Vec<String>,
    now_us: u64,
}

fn silent() -> Notice {
    Arc::new(|_: &str| {})
}

impl World {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("festina-following-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let path = folder.join("app.log");
        let follower = Follower::new(&path, 100, silent());
        let mut world =
            Self { folder, path, follower, position: Position::default(), lines: Vec::new(), now_us: SECOND_US };
        world.look();
        world
    }

    /// Appends to the file that has the name.
    fn write(&self, text: &str) {
        let file = File::options().append(true).create(true).open(&self.path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("it can be written");
    }

    /// Has the file get another name.
    fn rotate(&self, end: &str) {
        fs::rename(&self.path, self.folder.join(format!("app.log.{end}"))).expect("it can be renamed");
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
        self.follower = Follower::resume(&self.path, 100, &self.position, times, silent());
    }

    fn pass(&mut self, seconds: u64) {
        self.now_us += seconds * SECOND_US;
        self.look();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
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
    fs::copy(&world.path, world.folder.join("app.log.copy")).expect("it can be copied");
    world.look();
    world.rotate("1");
    fs::write(world.folder.join("app.log.1.gz"), "no line\n").expect("it can be written");
    fs::write(world.folder.join("other.log"), "no line\n").expect("it can be written");
    world.write("two\n");
    world.pass(2);
    // A shortened file is read from its start, and its copy is not a new file.
    fs::copy(&world.path, world.folder.join("app.log.2")).expect("it can be copied");
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
    fs::copy(&world.path, world.folder.join("app.log.1")).expect("it can be copied");
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
    fs::write(world.folder.join("app.log.other"), "other\n").expect("it can be written");
    let notices = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&notices);
    let notice: Notice = Arc::new(move |_: &str| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    world.follower = Follower::resume(&world.path, 100, &world.position, HashMap::new(), notice);
    world.look();
    assert_eq!(world.lines, ["one", "two", "three", "new"]);
    assert_eq!(notices.load(Ordering::Relaxed), 0, "nothing is lost");
    // A second copy of a file that is whole has nothing new.
    world.write("newer\n");
    fs::copy(&world.path, world.folder.join("app.log.copy")).expect("it can be copied");
    world.restart(&[]);
    world.look();
    assert_eq!(world.lines[4..], ["newer"]);
}

#[test]
fn files_that_were_known_before_a_restart_are_not_read_after_it() {
    let mut world = World::new();
    let other = world.folder.join("app.log.other");
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
