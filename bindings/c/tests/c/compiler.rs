//! Compiles C against the library that was built for the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// The warnings that are errors.
const FLAGS: [&str; 6] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"];

pub(crate) fn manifest_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A program that tests need. If it is not there they are skipped, except in continuous integration, where it has to be.
pub(crate) fn is_there(name: &str) -> bool {
    let there = Command::new(name).arg("--version").output().is_ok();
    assert!(there || env::var_os("CI").is_none(), "there is no {name}");
    if !there {
        eprintln!("skipped: there is no {name}");
    }
    there
}

/// A C compiler.
pub(crate) struct Compiler {
    name: String,
    folder: PathBuf,
}

impl Compiler {
    /// The compiler of the environment, if there is one.
    pub(crate) fn find() -> Option<Self> {
        let name = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        is_there(&name).then(|| Self { name, folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")) })
    }

    fn run(&self, arguments: &[&str]) {
        let include = format!("-I{}", manifest_folder().join("include").display());
        let output = Command::new(&self.name).args(FLAGS).arg(include).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Checks that a text compiles.
    pub(crate) fn check(&self, name: &str, text: &str) {
        let file = self.folder.join(format!("{name}.c"));
        fs::write(&file, text).unwrap();
        self.run(&["-fsyntax-only", file.to_str().unwrap()]);
    }

    /// Checks that C++ programs can use the header.
    pub(crate) fn check_as_cpp(&self, name: &str) {
        if !is_there("c++") {
            return;
        }
        let file = self.folder.join(format!("{name}.cpp"));
        fs::write(&file, "#include <festina.h>\nfestina_message message = FESTINA_MESSAGE_INIT;\n").unwrap();
        let include = format!("-I{}", manifest_folder().join("include").display());
        let flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
        let output = Command::new("c++").args(flags).arg(include).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn installed(&self, libraries: &Path) -> &'static Path {
        INSTALLED.get_or_init(|| {
            let version = format!("{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
            let installed = self.folder.join(format!("libfestina.so.{version}"));
            fs::copy(libraries.join("libfestina_c.so"), &installed).unwrap();
            if is_there("strip") {
                assert!(Command::new("strip").arg(&installed).status().unwrap().success());
            }
            installed
        })
    }

    /// Compiles a file of this crate into a program: with the static library, or with the shared one.
    pub(crate) fn program(&self, source: &str, shared: bool) -> PathBuf {
        let libraries = library_folder();
        let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
        let program = self.folder.join(format!("{name}-{}", if shared { "shared" } else { "static" }));
        let source = manifest_folder().join(source);
        let mut arguments = vec![source.to_str().unwrap().to_owned(), "-o".to_owned()];
        arguments.push(program.to_str().unwrap().to_owned());
        if shared {
            arguments.push(self.installed(&libraries).to_str().unwrap().to_owned());
            arguments.push(format!("-Wl,-rpath,{}", self.folder.display()));
        } else {
            arguments.push(libraries.join("libfestina_c.a").to_str().unwrap().to_owned());
            arguments.extend(["-ldl".to_owned(), "-lm".to_owned()]);
        }
        arguments.push("-lpthread".to_owned());
        self.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        program
    }
}

/// The shared library under the name by which programs look for it, as `install` puts it there: once, since programs of other tests run with it.
static INSTALLED: OnceLock<PathBuf> = OnceLock::new();

/// Where cargo put the libraries that this test was built with.
fn library_folder() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}
