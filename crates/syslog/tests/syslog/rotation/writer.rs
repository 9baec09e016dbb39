//! A program that writes numbered lines to a file and rotates it every second. After a kill it goes on with the next number.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use festina_units::Duration;

const NAME: &str = "app.log";

/// Time between two lines, and lines of a file: a second's.
const LINE_EVERY: Duration = Duration::from_millis(5);
const LINES_PER_FILE: u64 = 200;

/// The numbers of rotated files.
fn rotations(directory: &Path) -> Vec<u64> {
    let names = fs::read_dir(directory)
        .expect("a directory")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u64> =
        names.filter_map(|name| name.strip_prefix(NAME)?.strip_prefix('.')?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Everything that has been written so far, in its order.
pub(crate) fn written(directory: &Path) -> String {
    let rotated = rotations(directory).into_iter().map(|number| format!("{NAME}.{number}"));
    let files = rotated.chain([NAME.to_owned()]);
    files.map(|name| fs::read_to_string(directory.join(name)).unwrap_or_default()).collect()
}

/// Writes until the process is killed.
pub(crate) fn write(directory: &Path) -> ! {
    let folder = directory.join("input");
    let path = folder.join(NAME);
    let mut number = written(&folder).lines().count();
    let mut rotation = rotations(&folder).last().map_or(1, |last| last + 1);
    let open = || fs::File::options().append(true).create(true).open(&path).expect("it can be written");
    let (mut file, mut lines) = (open(), 0);
    loop {
        // One system call for a whole line: a kill leaves no half of it.
        file.write_all(format!("<11>number {number}\n").as_bytes()).expect("it can be written");
        (number, lines) = (number + 1, lines + 1);
        if lines == LINES_PER_FILE {
            fs::rename(&path, folder.join(format!("{NAME}.{rotation}"))).expect("it can be renamed");
            rotation += 1;
            (file, lines) = (open(), 0);
        }
        std::thread::sleep(LINE_EVERY);
    }
}
