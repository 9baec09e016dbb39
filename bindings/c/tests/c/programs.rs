//! C programs over the loopback interface: what the header promises, and the examples, with the shared library and with the static one.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::{env, fs};

use festina::security::Identity;

use crate::compiler::{Compiler, is_there, manifest_folder};

/// What `behaviour.c` prints.
const PROMISES: usize = 19;

/// What `encryption.c` prints.
const ENCRYPTION_PROMISES: usize = 9;

fn promises_kept(output: &Output) -> usize {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn what_the_header_promises_holds() {
    let Some(compiler) = Compiler::find() else { return };
    let program = compiler.program("tests/c/behaviour.c", true);
    assert_eq!(promises_kept(&Command::new(program).output().unwrap()), PROMISES);
}

#[test]
fn a_call_may_fail_while_the_program_exits() {
    let Some(compiler) = Compiler::find() else { return };
    for shared in [true, false] {
        let program = compiler.program("tests/c/exit.c", shared);
        assert_eq!(promises_kept(&Command::new(program).output().unwrap()), 1);
    }
}

#[test]
fn it_is_installed_into_the_folder_that_the_caller_names() {
    if !is_there("pkg-config") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("install");
    let _absent = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("target/release")).unwrap();
    // An archive of nothing, which strip accepts.
    for (library, content) in [("libfestina_c.a", "!<arch>\n"), ("libfestina_c.so", "")] {
        fs::write(folder.join("target/release").join(library), content).unwrap();
    }
    // Instead of cargo: the libraries count as built.
    symlink("/bin/true", folder.join("cargo")).unwrap();
    let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap());
    let install = |prefix: &str| {
        let mut install = Command::new(manifest_folder().join("install"));
        install.arg(prefix).current_dir(&folder).env("PATH", &path).env("CARGO_TARGET_DIR", "target").output().unwrap()
    };
    let output = install("out & b");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let prefix = folder.join("out & b");
    let found = r#"flags=$(pkg-config --cflags --libs festina) && eval "set -- $flags" && printf '%s\n' "$@""#;
    let found = Command::new("sh").args(["-c", found]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).output();
    let expected = format!("-I{0}/include\n-L{0}/lib\n-lfestina\n", prefix.display());
    assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), expected);
    assert!(!install("out $b").status.success(), "pkg-config could not name it");
    assert!(prefix.join("share/festina/valgrind.supp").exists());
    if is_there("cmake") {
        assert!(cmake_finds(&folder, &prefix, "0.1"));
        assert!(!cmake_finds(&folder, &prefix, "0.2"), "each minor version may break programs");
    }
}

/// Whether CMake finds this version of the library under a prefix, and the files that its targets name.
fn cmake_finds(folder: &Path, prefix: &Path, version: &str) -> bool {
    let project = format!(
        "cmake_minimum_required(VERSION 3.16)
        project(program NONE)
        find_package(festina {version} REQUIRED CONFIG)
        foreach(target festina::festina festina::static)
            get_target_property(library ${{target}} IMPORTED_LOCATION)
            get_target_property(include ${{target}} INTERFACE_INCLUDE_DIRECTORIES)
            if(NOT EXISTS ${{library}} OR NOT EXISTS ${{include}}/festina.h)
                message(FATAL_ERROR ${{library}})
            endif()
        endforeach()"
    );
    let (source, built) = (folder.join("project"), folder.join("built").join(version));
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("CMakeLists.txt"), project).unwrap();
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(&source).arg("-B").arg(built).arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    cmake.output().unwrap().status.success()
}

/// A program under valgrind, if that is there.
fn valgrind(program: &Path) -> Option<Command> {
    let mut valgrind = is_there("valgrind").then(|| Command::new("valgrind"))?;
    valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    // Otherwise a thread that polls can keep the others from running on a busy machine.
    valgrind.arg("--fair-sched=try");
    let suppressions = manifest_folder().join("tests/c/valgrind.supp");
    valgrind.arg(format!("--suppressions={}", suppressions.display())).arg(program);
    Some(valgrind)
}

#[test]
fn nothing_leaks_and_no_memory_is_used_that_is_not_there() {
    let Some(compiler) = Compiler::find() else { return };
    let program = compiler.program("tests/c/behaviour.c", false);
    let Some(mut valgrind) = valgrind(&program) else { return };
    let output = valgrind.arg("under-valgrind").output().unwrap();
    assert_eq!(promises_kept(&output), PROMISES - 2);
}

/// Writes a certificate authority and the identity of a server that it has signed, and returns the arguments of `encryption.c`.
fn certificates(folder: &Path) -> [PathBuf; 3] {
    let root_key = rcgen::KeyPair::generate().unwrap();
    let mut root = rcgen::CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root_certificate = root.self_signed(&root_key).unwrap().der().to_vec();
    let key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(["server.test".to_owned()]).unwrap();
    let server = server.signed_by(&key, &rcgen::Issuer::from_params(&root, &root_key)).unwrap().der().to_vec();
    let _absent = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let write = |name: &str, certificate, key| {
        let path = folder.join(name);
        fs::write(&path, Identity::from_der([certificate], key).unwrap().to_pem()).unwrap();
        path
    };
    let root = write("root.pem", root_certificate, root_key.serialize_der());
    [root, write("server.pem", server, key.serialize_der()), folder.join("keys.log")]
}

#[test]
fn encryption_holds_what_the_header_promises() {
    let Some(compiler) = Compiler::find() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("encryption");
    let program = compiler.program("tests/c/encryption.c", true);
    let run = |mut command: Command| {
        let arguments = certificates(&folder);
        let output = command.args(&arguments).env("SSL_CERT_FILE", &arguments[0]).env_remove("SSL_CERT_DIR").output();
        assert_eq!(promises_kept(&output.unwrap()), ENCRYPTION_PROMISES);
    };
    run(Command::new(program));
    // The shared library has no symbols, like an installed one.
    for shared in [true, false] {
        valgrind(&compiler.program("tests/c/encryption.c", shared)).map(run);
    }
}

/// A program that listens until it is dropped, and where.
struct Listening {
    program: Child,
    output: BufReader<ChildStdout>,
    address: String,
    fingerprint: String,
}

impl Listening {
    fn start(program: &Path, word: &str) -> Self {
        let mut program =
            Command::new(program).args([word, "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().expect("it was built");
        let mut output = BufReader::new(program.stdout.take().unwrap());
        let mut said = |what: &str| {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line.trim().strip_prefix(what).expect("it says where and who").to_owned()
        };
        let (address, fingerprint) = (said("listening on "), said("fingerprint "));
        Self { program, output, address, fingerprint }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _over = self.program.kill();
        let _status = self.program.wait();
    }
}

#[test]
fn the_echo_example_answers_one_peer_after_the_other() {
    let Some(compiler) = Compiler::find() else { return };
    let program = compiler.program("examples/echo.c", false);
    let mut server = Listening::start(&program, "listen");
    for text in ["make haste slowly", "festina lente"] {
        let client =
            Command::new(&program).args(["send", &server.address, &server.fingerprint, text]).output().unwrap();
        assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
        assert!(String::from_utf8_lossy(&client.stdout).starts_with(&format!("{text} after ")));
        let mut line = String::new();
        server.output.read_line(&mut line).unwrap();
        assert_eq!(line, "a peer is gone: the association has ended: shut down gracefully\n");
    }
    let failed = Command::new(&program).args(["send", "nowhere", &server.fingerprint, "x"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).starts_with("connect: \"nowhere\" is no address"));
}

#[test]
fn the_game_example_sends_thin_state_and_ends_in_good_order() {
    let Some(compiler) = Compiler::find() else { return };
    let program = compiler.program("examples/game_state.c", true);
    let mut watcher = Listening::start(&program, "watch");
    let player = Command::new(&program).args(["play", &watcher.address, &watcher.fingerprint, "30"]).output().unwrap();
    assert!(player.status.success(), "{}", String::from_utf8_lossy(&player.stderr));
    let said = String::from_utf8_lossy(&player.stdout).into_owned();
    assert!(said.starts_with("121 messages sent, ") && said.contains(", thin, "), "{said}");
    let mut seen = String::new();
    watcher.output.read_to_string(&mut seen).unwrap();
    assert!(seen.starts_with("game over\n"), "{seen}");
    let positions = seen.lines().nth(1).and_then(|line| line.split(' ').next()).and_then(|count| count.parse().ok());
    // A position may be replaced before it leaves, on a busy machine.
    assert!(positions.is_some_and(|count: u32| (60..=120).contains(&count)), "{seen}");
    assert!(watcher.program.wait().unwrap().success());
}
