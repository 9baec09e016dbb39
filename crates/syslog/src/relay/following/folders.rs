//! The folders of a followed file: which files have its name, had it, or may have had it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::tree::{Stat, Tree, folder_of, open_file};
use crate::positions::FileId;

/// Maximum number of names in a folder that are checked.
const NAMES_MAX: usize = 65_536;

/// Maximum number of lists in a survey.
const LISTS_MAX: usize = 6;

/// Maximum number of surveys in a row that have no result, since files are renamed meanwhile.
pub(super) const REPEATS_MAX: u32 = 32;

/// A folder that has changed is listed again after this time, in microseconds: two changes within a tick of the file system's clock look like one.
/// Old file systems have ticks of two seconds.
const TICK_US: u64 = 2_000_000;

/// Suffixes of compressed copies of other files.
const COMPRESSED: [&str; 8] = [".gz", ".zst", ".bz2", ".xz", ".lz4", ".lzma", ".Z", ".zip"];

/// Another file that is or may be one of the input.
pub(super) struct Sibling {
    pub(super) path: PathBuf,
    pub(super) stat: Stat,
    /// Its name is that of a rotated version: the followed name and a number or date.
    pub(super) is_version: bool,
}

impl Sibling {
    /// Returns its identity, and when it last changed.
    pub(super) fn known(&self) -> (FileId, Option<u64>) {
        (self.stat.id, Some(self.stat.modified_ns))
    }
}

/// The files at one moment.
pub(super) struct Survey<F> {
    /// The file that has the followed name.
    pub(super) present: io::Result<Option<(F, Stat)>>,
    pub(super) siblings: Vec<Sibling>,
    /// Two lists in a row were equal, so no renamed file was missed.
    pub(super) is_settled: bool,
}

impl<F> Survey<F> {
    pub(super) fn present_id(&self) -> Option<FileId> {
        self.present.as_ref().ok()?.as_ref().map(|(_, stat)| stat.id)
    }
}

/// The folders that can have files of an input.
pub(super) struct Folders<T> {
    pub(super) tree: T,
    /// The followed name; if it is a link, also the names of the file that it led to before, and of the present one.
    names: Vec<PathBuf>,
    /// When names in the folders last changed, as of the last check, and the time of the check that noticed it.
    changes: (Vec<Option<u64>>, u64),
    /// When the last survey was used; `None` if it has to be repeated.
    surveyed_us: Option<u64>,
    /// Surveys since then.
    repeats: u32,
}

impl<T: Tree> Folders<T> {
    pub(super) fn new(tree: T, path: &Path) -> Self {
        Self { tree, names: vec![path.to_owned()], changes: (Vec::new(), 0), surveyed_us: None, repeats: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        &self.names[0]
    }

    /// Whether anything may have changed since the last survey. `current` is the file that had the followed name.
    pub(super) fn have_changed(&mut self, current: Option<FileId>, now_us: u64) -> bool {
        let folders = self.names.iter().map(|name| folder_of(name));
        let changes: Vec<_> = folders.map(|folder| self.tree.stat(folder).ok().map(|stat| stat.modified_ns)).collect();
        let is_new = changes != self.changes.0;
        if is_new {
            self.changes = (changes, now_us);
        }
        let tick_us = self.changes.1 + TICK_US;
        let is_due = self.surveyed_us.is_none_or(|surveyed_us| surveyed_us < tick_us && tick_us <= now_us);
        let present = self.tree.stat(self.path()).ok().map(|stat| stat.id);
        is_new || is_due || present != current
    }

    /// Has the next check return that something has changed. Returns whether to wait for its survey: a folder that never settles holds nothing up.
    pub(super) fn repeat(&mut self) -> bool {
        self.surveyed_us = None;
        self.repeats += 1;
        self.repeats < REPEATS_MAX
    }

    /// Whether another [`repeat`](Self::repeat) would wait for its survey.
    pub(super) fn may_repeat(&self) -> bool {
        self.repeats + 1 < REPEATS_MAX
    }

    /// Has the next check return whether anything has changed since.
    pub(super) fn end_survey(&mut self, now_us: u64) {
        (self.surveyed_us, self.repeats) = (Some(now_us), 0);
    }

    /// Whether the last survey has to be repeated.
    pub(super) fn must_repeat(&self) -> bool {
        self.surveyed_us.is_none()
    }

    /// Lists the files until two lists are equal: one look is not enough, since a file that is renamed meanwhile can be missed. `wanted` are inode
    /// numbers of files to find under any name.
    pub(super) fn survey(&mut self, wanted: &BTreeSet<u64>) -> Survey<T::File> {
        let (mut before, mut number) = (None, 1);
        loop {
            self.follow_link();
            let present = open_file(&self.tree, self.path());
            let siblings = self.list(wanted);
            let mut survey = Survey { present, siblings, is_settled: false };
            let siblings = survey.siblings.iter().map(|sibling| (sibling.path.clone(), sibling.stat.id));
            let now = (survey.present_id(), siblings.collect::<BTreeSet<_>>());
            survey.is_settled = before.as_ref() == Some(&now);
            before = Some(now);
            if survey.is_settled || number == LISTS_MAX {
                return survey;
            }
            number += 1;
        }
    }

    /// Remembers the file that the name leads to, and the one before.
    fn follow_link(&mut self) {
        if let Ok(target) = self.tree.target(self.path())
            && self.names.last() != Some(&target)
        {
            self.names.push(target);
            if self.names.len() > 3 {
                self.names.remove(1);
            }
        }
    }

    /// Regular files whose names start with one of the followed ones, except compressed ones, and wanted files.
    fn list(&self, wanted: &BTreeSet<u64>) -> Vec<Sibling> {
        let mut siblings = Vec::new();
        // A link that was changed leads to a file that had no part in the input before.
        let link = self.tree.stat_name(self.path()).ok().filter(|stat| stat.is_link).map(|stat| stat.modified_ns);
        for (index, name) in self.names.iter().enumerate() {
            let (folder, Some(name)) = (folder_of(name), name.file_name()) else { continue };
            let since_ns = if index > 0 && index + 1 == self.names.len() { link.unwrap_or_default() } else { 0 };
            for (other, inode) in self.tree.names(folder, NAMES_MAX).unwrap_or_default() {
                let rest = rest_of(&other, name).filter(|rest| !rest.is_empty() || index > 0);
                let path = folder.join(&other);
                if (rest.is_none() && !wanted.contains(&inode)) || path == self.path() {
                    continue;
                }
                let Ok(stat) = self.tree.stat_name(&path) else { continue };
                let is_version = rest.is_some_and(is_number) && stat.modified_ns >= since_ns;
                if stat.is_file {
                    siblings.push(Sibling { path, stat, is_version });
                }
            }
        }
        siblings
    }
}

/// The rest of a name that starts with another and is not that of a compressed file.
fn rest_of<'n>(name: &'n OsStr, start: &OsStr) -> Option<&'n [u8]> {
    let rest = name.as_encoded_bytes().strip_prefix(start.as_encoded_bytes())?;
    (!COMPRESSED.iter().any(|end| rest.ends_with(end.as_bytes()))).then_some(rest)
}

/// Whether a name is that of the file, or goes on with a number or date, such as `.1`, `-20261128` or `.2026-11-28T12:00`. Another log, such as
/// `app.log.err`, has a word there.
fn is_number(rest: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".-_:+T".contains(byte);
    rest.first().is_none_or(|first| b".-_".contains(first)) && rest.iter().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_number_or_date_is_that_of_a_rotated_version_and_one_with_a_word_is_not() {
        let is_version = |name: &str| rest_of(name.as_ref(), "app.log".as_ref()).is_some_and(is_number);
        for name in ["app.log.1", "app.log.10", "app.log-20261128", "app.log.2026-11-28_12:00", "app.log-20261128-1795"]
        {
            assert!(is_version(name), "{name}");
        }
        for name in ["app.log.err", "app.log.err-20261128", "app.log2", "app.log.1.gz", "app.log-debug.1", "other.1"] {
            assert!(!is_version(name), "{name}");
        }
    }
}
