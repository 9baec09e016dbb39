//! The files of the repository.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// What was built or found, not written. `.git` is a file in a linked worktree.
const SKIPPED: [&str; 6] = [".git", "target", "out", "corpus", "artifacts", "node_modules"];

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this crate lies two folders below the root").into()
}

/// A file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path below the root, with `/` between the parts.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// All files below `root` that hold text, in the order of their paths. Build output is left out.
///
/// # Errors
/// If a folder or a file cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
        {
            files.push(File { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_this_file_and_no_build_output() {
        let files = files(&root()).expect("the repository is readable");
        assert!(files.iter().any(|file| file.path == "crates/tidy/src/tree.rs"));
        assert!(files.iter().any(|file| file.path == "Cargo.toml"));
        assert!(
            files.iter().all(|file| !file.path.starts_with("target/")
                && !file.path.starts_with(".git/")
                && file.path != ".git")
        );
    }
}
