//! Runs the seeds of each fuzz target, changed seeds and random bytes through the target's body.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use festina_fuzz_bodies::dialogue::Tagging;
use festina_netsim::RandomStream;

#[global_allocator]
static ALLOCATOR: Tagging = Tagging;

/// Random inputs for each target, and their maximum length in bytes.
const INPUTS: usize = 64;
const INPUT_BYTES_MAX: usize = 512;

/// Declares one test for each target.
macro_rules! targets {
    ($($target:ident),*) => {
        const TARGETS: &[&str] = &[$(stringify!($target)),*];

        mod no_input_breaks_an_invariant_of {
            $(
                #[test]
                fn $target() {
                    super::run(stringify!($target), festina_fuzz_bodies::$target::run);
                }
            )*
        }
    };
}

targets!(
    association,
    capture,
    code,
    collector,
    dcep,
    dialogue,
    endpoint,
    framing,
    packet,
    sdp,
    secure,
    sockets,
    stun,
    syslog,
    web
);

/// The files of a folder of `fuzz`, in the order of their names.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    paths.sort();
    paths
}

fn stems(folder: &str) -> BTreeSet<String> {
    files(folder).iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}

#[test]
fn each_target_is_run_here_and_each_folder_of_seeds_has_a_target_and_a_seed() {
    let targets = TARGETS.iter().map(|&target| target.to_owned()).collect();
    assert_eq!(stems("fuzz_targets"), targets);
    for folder in stems("seeds") {
        assert!(targets.contains(&folder), "fuzz/seeds/{folder} has no target");
        assert!(!files(&format!("seeds/{folder}")).is_empty(), "fuzz/seeds/{folder} is empty");
    }
}

/// If the target panics, the last line printed names the input.
fn run(target: &str, body: fn(&[u8])) {
    let paths = if stems("seeds").contains(target) { files(&format!("seeds/{target}")) } else { Vec::new() };
    let mut seeds = Vec::new();
    for path in paths {
        println!("{}", path.display());
        let seed = fs::read(path).expect("the seed can be read");
        body(&seed);
        seeds.push(seed);
    }
    let mut random = RandomStream::new(1, target);
    for number in 0..INPUTS {
        let input = input(&mut random, &seeds);
        println!("random input {number}: {input:02x?}");
        body(&input);
    }
}

/// Random bytes; or mostly zeros and small numbers, which more often are valid types and lengths; or a seed with changed bytes.
fn input(random: &mut RandomStream, seeds: &[Vec<u8>]) -> Vec<u8> {
    let length = below(random, INPUT_BYTES_MAX + 1);
    match random.below(3) {
        0 if !seeds.is_empty() => {
            let mut input = seeds[below(random, seeds.len())].clone();
            input.truncate(INPUT_BYTES_MAX);
            for _ in 0..=random.below(8) {
                let place = below(random, input.len());
                input[place] = byte(random);
            }
            input
        }
        1 => (0..length).map(|_| byte(random)).collect(),
        _ => {
            let masks = [0, 0, 0x1f, 0xff];
            (0..length).map(|_| byte(random) & masks[below(random, 4)]).collect()
        }
    }
}

fn byte(random: &mut RandomStream) -> u8 {
    random.bits().to_le_bytes()[0]
}

fn below(random: &mut RandomStream, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).expect("it is below a usize")
}
