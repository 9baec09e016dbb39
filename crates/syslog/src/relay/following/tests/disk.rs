//! A file system in memory with programs that change it between any two calls of the relay: they write, rotate, copy, truncate, rewrite, link and
//! delete the followed file, and have other logs next to it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::positions::FileId;
use crate::relay::following::tree::Stat;

mod model_tree;

pub(super) use model_tree::ModelTree;

/// Maximum number of programs that change files before the relay has read everything.
const PROGRAMS_MAX: u32 = 2;

/// The number of an inode in the list of all that ever were, and how often it was emptied.
pub(super) type Content = (usize, u32);

/// A line of the followed log.
pub(super) struct Line {
    pub(super) first: String,
    pub(super) second: String,
    /// Where it was written.
    pub(super) home: Content,
    /// It is whole in one content.
    pub(super) is_complete: bool,
    /// Its content is gone, and the relay had this number of losses at that time.
    pub(super) gone: Option<u64>,
    /// No reader could know that it is lost.
    pub(super) is_excused: bool,
}

#[derive(Default)]
pub(super) struct Inode {
    pub(super) stat: Stat,
    pub(super) bytes: Vec<u8>,
    pub(super) generation: u32,
    /// Lines that it holds.
    held: Vec<usize>,
    /// Handles of the relay.
    handles: u32,
}

enum Name {
    File(usize),
    Link(PathBuf, u64),
}

/// One call of the system by a program other than the relay.
enum Call {
    Rename(PathBuf, PathBuf),
    Create(PathBuf),
    Remove(PathBuf),
    Copy(PathBuf, PathBuf),
    HardLink(PathBuf, PathBuf),
    /// Puts a copy in the place of a file. If the relay was killed, it cannot know a copy that is shorter than its position.
    Replace(PathBuf, PathBuf),
    Truncate(PathBuf),
    /// The writer begins at the beginning of the file that it has emptied.
    Rewind,
    Write,
    Reopen,
    WriteOther(PathBuf),
    Switch(PathBuf),
}

struct Writer {
    inode: usize,
    /// `None` if it appends.
    offset: Option<u64>,
    /// The line whose second half is not written, and the content that has the first half.
    partial: Option<(usize, Content)>,
}

pub(super) struct Disk {
    pub(super) random: Xoshiro256PlusPlus,
    pub(super) storage: Storage,
    pub(super) programs: Programs,
    /// The followed name, and the name of the file itself if the former is a link.
    pub(super) path: PathBuf,
    pub(super) target: PathBuf,
    pub(super) lines: Vec<Line>,
    others: usize,
    /// Contents that the relay has read in part, and the least position that it may continue from.
    pub(super) read: BTreeMap<Content, u64>,
    /// The same as of the position on disk.
    pub(super) recorded: BTreeMap<Content, u64>,
    pub(super) losses: Arc<AtomicU64>,
    /// One in how many calls of the relay something else happens; 0 for none.
    pub(super) one_in: u64,
    pub(super) actions: u64,
}

/// Files and names.
#[derive(Default)]
pub(super) struct Storage {
    pub(super) inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, Name>,
    folders: BTreeMap<PathBuf, u64>,
    now_ns: u64,
    has_births: bool,
}

/// The programs that change files.
#[derive(Default)]
pub(super) struct Programs {
    appends: bool,
    is_dated: bool,
    rotations: u64,
    script: VecDeque<Call>,
    /// Copies that the relay may not have seen yet: the source, the copy, and the action that made it.
    copies: Vec<(Content, usize, u64)>,
    /// How many ran since the relay read everything.
    count: u32,
    writer: Option<Writer>,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draw = |below: u64| random.next_u64() % below;
        let is_link = draw(4) == 0;
        let target = PathBuf::from(if is_link { "/data/0.log" } else { "/logs/app.log" });
        let (has_births, appends, is_dated) = (draw(4) > 0, draw(3) > 0, draw(3) == 0);
        let path = PathBuf::from("/logs/app.log");
        let mut names = BTreeMap::new();
        if is_link {
            names.insert(path.clone(), Name::Link(target.clone(), 1));
        }
        let folders = ["/logs", "/data"].map(|folder| (PathBuf::from(folder), 1)).into();
        let mut disk = Self {
            random,
            storage: Storage { names, folders, now_ns: 1_000, has_births, ..Storage::default() },
            programs: Programs { appends, is_dated, ..Programs::default() },
            path,
            target,
            lines: Vec::new(),
            others: 0,
            read: BTreeMap::new(),
            recorded: BTreeMap::new(),
            losses: Arc::default(),
            one_in: 0,
            actions: 0,
        };
        if disk.draw(2) == 0 {
            disk.create(&disk.target.clone());
        }
        disk
    }

    pub(super) fn draw(&mut self, below: u64) -> u64 {
        self.random.next_u64() % below
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        match self.storage.names.get(path) {
            Some(Name::Link(target, _)) => target.clone(),
            _ => path.to_owned(),
        }
    }

    pub(super) fn inode_of(&self, path: &Path) -> Option<usize> {
        match self.storage.names.get(&self.resolve(path)) {
            Some(Name::File(inode)) => Some(*inode),
            _ => None,
        }
    }

    /// Whether a file has a name of the input, or one of its rotated versions.
    pub(super) fn is_reachable(&self, inode: usize) -> bool {
        let is_own = |path: &PathBuf| {
            [&self.path, &self.target].iter().any(|base| {
                let name = path.to_str().and_then(|path| path.strip_prefix(base.to_str()?));
                name.is_some_and(|rest| rest.bytes().all(|byte| !byte.is_ascii_alphabetic()))
            })
        };
        self.storage.names.iter().any(|(path, name)| matches!(name, Name::File(of) if *of == inode) && is_own(path))
    }

    pub(super) fn content(&self, inode: usize) -> Content {
        (inode, self.storage.inodes[inode].generation)
    }

    /// Whether a content has lines before an offset: a hole at its beginning looks like that of any other.
    pub(super) fn has_text(&self, content: Content, offset: u64) -> bool {
        let mut before = self.storage.inodes[content.0].bytes.iter().take(usize::try_from(offset).expect("small"));
        content != self.content(content.0) && offset > 0 || before.any(|byte| *byte != 0)
    }

    fn touch(&mut self, path: &Path) {
        let folder = path.parent().expect("a folder").to_owned();
        self.storage.folders.insert(folder, self.storage.now_ns);
    }

    fn create(&mut self, path: &Path) -> usize {
        let path = self.resolve(path);
        self.remove(&path);
        let inode = self.storage.inodes.len();
        // With a birth time, numbers are used again.
        let is_free = |number: &u64| {
            self.storage
                .inodes
                .iter()
                .all(|other| other.stat.id.inode != *number || other.stat.links + u64::from(other.handles) == 0)
        };
        let number = if self.storage.has_births { (1..).find(is_free).expect("a number") } else { inode as u64 + 1 };
        let born_ns = if self.storage.has_births { self.storage.now_ns } else { 0 };
        let id = FileId { device: 1, inode: number, born_ns };
        let stat = Stat { id, length: 0, modified_ns: self.storage.now_ns, links: 1, is_file: true, is_link: false };
        self.storage.inodes.push(Inode { stat, ..Inode::default() });
        self.touch(&path);
        self.storage.names.insert(path, Name::File(inode));
        inode
    }

    fn remove(&mut self, path: &Path) {
        if let Some(Name::File(inode)) = self.storage.names.remove(path) {
            self.touch(path);
            self.storage.inodes[inode].stat.links -= 1;
            self.forget_unreachable(inode);
        }
    }

    fn forget_unreachable(&mut self, inode: usize) {
        if self.storage.inodes[inode].stat.links == 0 && self.storage.inodes[inode].handles == 0 {
            self.forget(inode);
        }
    }

    /// The content of a file is gone.
    fn forget(&mut self, inode: usize) {
        let content = self.content(inode);
        let losses = self.losses.load(Ordering::Relaxed);
        for line in std::mem::take(&mut self.storage.inodes[inode].held) {
            // Lines that are written between the copy and the truncation are lost to every reader.
            let is_in = |copy: usize| self.storage.inodes[copy].held.contains(&line);
            let is_late = self.programs.copies.iter().any(|(source, copy, _)| *source == content && !is_in(*copy));
            let line = &mut self.lines[line];
            if line.home == content && line.gone.is_none() {
                line.gone = Some(losses);
                line.is_excused |= is_late || !self.read.contains_key(&content);
            }
        }
    }

    fn truncate(&mut self, inode: usize) {
        self.forget(inode);
        let file = &mut self.storage.inodes[inode];
        file.generation += 1;
        file.bytes.clear();
        file.stat.modified_ns = self.storage.now_ns;
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(Name::File(inode)) = self.storage.names.remove(from) {
            self.remove(to);
            self.touch(from);
            self.touch(to);
            self.storage.names.insert(to.to_owned(), Name::File(inode));
        }
    }

    /// Copies a file into a new one.
    fn copy(&mut self, from: &Path, to: &Path) {
        let Some(source) = self.inode_of(from) else { return };
        if from != to {
            let inode = self.create(to);
            (self.storage.inodes[inode].bytes, self.storage.inodes[inode].held) =
                (self.storage.inodes[source].bytes.clone(), self.storage.inodes[source].held.clone());
            self.programs.copies.push((self.content(source), inode, self.actions));
        }
    }

    fn reopen(&mut self) {
        let inode = self.inode_of(&self.path).unwrap_or_else(|| self.create(&self.path.clone()));
        let offset = (!self.programs.appends).then_some(self.storage.inodes[inode].bytes.len() as u64);
        self.programs.writer = Some(Writer { inode, offset, partial: None });
        if self.storage.inodes[inode].bytes.last().is_some_and(|last| *last != b'\n') {
            self.put(b"\n");
        }
    }

    fn put(&mut self, text: &[u8]) {
        let Some(writer) = &mut self.programs.writer else { return };
        let file = &mut self.storage.inodes[writer.inode];
        let at = writer.offset.map_or(0, |offset| usize::try_from(offset).expect("small")).max(file.bytes.len());
        file.bytes.resize(at, 0);
        file.bytes.extend_from_slice(text);
        file.stat.modified_ns = self.storage.now_ns;
        writer.offset = writer.offset.map(|_| file.bytes.len() as u64);
    }

    /// Writes a line or one half of it.
    fn write(&mut self) {
        if self.programs.writer.is_none() {
            return self.reopen();
        }
        let Some(inode) = self.programs.writer.as_ref().map(|writer| writer.inode) else { return };
        let content = self.content(inode);
        let has_name = self.storage.inodes[inode].stat.links + u64::from(self.storage.inodes[inode].handles) > 0;
        let partial = self.programs.writer.as_mut().and_then(|writer| writer.partial.take());
        let (line, is_complete) = match partial {
            Some((line, began_in)) => {
                self.put(format!("{}\n", self.lines[line].second).as_bytes());
                (line, began_in == content)
            }
            None => {
                let (line, filler) = (self.lines.len(), usize::try_from(self.draw(90)).expect("small"));
                let (first, second) = (format!("a{line}.{}", "-".repeat(filler)), format!("b{line}"));
                let is_whole = self.draw(5) > 0;
                let text = if is_whole { format!("{first}{second}\n") } else { first.clone() };
                self.put(text.as_bytes());
                if !is_whole && let Some(writer) = &mut self.programs.writer {
                    writer.partial = Some((line, content));
                }
                let home = content;
                self.lines.push(Line { first, second, home, is_complete: false, gone: None, is_excused: false });
                (line, is_whole)
            }
        };
        self.lines[line].is_complete |= is_complete;
        self.lines[line].is_excused |= !has_name;
        if is_complete {
            self.storage.inodes[inode].held.push(line);
        }
    }

    /// One call of another program.
    pub(super) fn act(&mut self) {
        self.actions += 1;
        self.storage.now_ns += 1 + self.draw(1_000_000);
        if self.draw(2) == 0 {
            return self.write();
        }
        match self.programs.script.pop_front() {
            None => self.plan(),
            Some(Call::Rename(from, to)) => self.rename(&from, &to),
            Some(Call::Create(path)) => {
                self.create(&path);
            }
            Some(Call::Remove(path)) => self.remove(&path),
            Some(Call::Copy(from, to)) => self.copy(&from, &to),
            Some(Call::Replace(path, draft)) => {
                if self.may_replace(&path) {
                    self.copy(&path, &draft);
                    self.rename(&draft, &path);
                    self.reopen();
                }
            }
            Some(Call::HardLink(from, to)) => {
                if let Some(inode) = self.inode_of(&from) {
                    self.remove(&to);
                    self.storage.inodes[inode].stat.links += 1;
                    self.touch(&to);
                    self.storage.names.insert(to, Name::File(inode));
                }
            }
            Some(Call::Truncate(path)) => {
                if let Some(inode) = self.inode_of(&path) {
                    self.truncate(inode);
                }
            }
            Some(Call::Rewind) => {
                if let Some(writer) = &mut self.programs.writer {
                    writer.offset = writer.offset.map(|_| 0);
                }
            }
            Some(Call::Write) => self.write(),
            Some(Call::Reopen) => self.reopen(),
            Some(Call::WriteOther(path)) => {
                self.others += 1;
                if let Some(inode) = self.inode_of(&path) {
                    let text = format!("foreign {}\n", self.others);
                    self.storage.inodes[inode].bytes.extend_from_slice(text.as_bytes());
                    self.storage.inodes[inode].stat.modified_ns = self.storage.now_ns;
                }
            }
            Some(Call::Switch(target)) => {
                self.create(&target);
                self.touch(&self.path.clone());
                self.storage.names.insert(self.path.clone(), Name::Link(target.clone(), self.storage.now_ns));
                self.target = target;
            }
        }
    }

    /// The relay has seen all copies that were made before an action.
    pub(super) fn forget_copies(&mut self, before: u64) {
        self.programs.copies.retain(|(.., action)| *action > before);
        self.programs.count = 0;
    }

    /// The calls of a rotation with `create`.
    fn rotation(&mut self, base: &Path) -> Vec<Call> {
        self.programs.rotations += 1;
        let version = |number: u64| PathBuf::from(format!("{}.{number}", base.display()));
        let mut calls = Vec::new();
        if self.programs.is_dated {
            let dated = PathBuf::from(format!("{}-{}", base.display(), 20_261_100 + self.programs.rotations));
            calls.push(Call::Rename(base.to_owned(), dated));
        } else {
            calls.extend((0..4).rev().map(|number| Call::Rename(version(number), version(number + 1))));
            calls.pop();
            calls.push(Call::Rename(base.to_owned(), version(1)));
        }
        if self.draw(3) > 0 {
            calls.push(Call::Create(base.to_owned()));
        }
        calls
    }

    /// Whether the relay can know a copy of a file: it has read enough of it.
    fn may_replace(&self, path: &Path) -> bool {
        self.inode_of(path).and_then(|inode| self.read.get(&self.content(inode))).is_some_and(|at| *at >= 256)
    }

    /// Chooses a program to run next: at most two of them before the relay has read everything.
    fn plan(&mut self) {
        self.programs.count += 1;
        if self.programs.count > PROGRAMS_MAX {
            return self.reopen();
        }
        let base = self.target.clone();
        let named = |end: &str| PathBuf::from(format!("{}{end}", base.display()));
        let other = named([".err", "2", "-debug"][usize::try_from(self.draw(3)).expect("small")]);
        let version = named(&format!(".{}", 1 + self.draw(4)));
        let calls = match self.draw(12) {
            0..=2 => {
                let mut calls = self.rotation(&base);
                if self.draw(3) > 0 {
                    calls.push(Call::Reopen);
                }
                calls
            }
            3 => {
                let mut calls = if self.draw(2) == 0 { self.rotation(&other) } else { Vec::new() };
                calls.extend(self.rotation(&base));
                calls.extend(self.rotation(&other));
                calls.extend([Call::Create(other.clone()), Call::WriteOther(other), Call::Reopen]);
                calls
            }
            4 => vec![Call::Create(other.clone()), Call::WriteOther(other.clone()), Call::WriteOther(other)],
            5 | 6 => {
                let mut calls = self.rotation(&base);
                calls.retain(|call| !matches!(call, Call::Create(_)));
                if let Some(Call::Rename(from, to)) = calls.pop() {
                    calls.push(Call::Copy(from, to));
                }
                // A simple script copies over the version before.
                if self.draw(3) == 0 {
                    calls.drain(..calls.len() - 1);
                }
                calls.push(Call::Truncate(base));
                calls
            }
            7 => vec![Call::Truncate(base)],
            8 if self.inode_of(&base) == self.programs.writer.as_ref().map(|writer| writer.inode) => {
                vec![Call::Truncate(base), Call::Rewind, Call::Write, Call::Write, Call::Write]
            }
            9 => vec![Call::Copy(base, version)],
            10 => match self.draw(5) {
                0 => vec![Call::HardLink(base, version)],
                1 => vec![Call::Remove(base)],
                2 => vec![Call::Create(named(".1.gz")), Call::Remove(version)],
                3 => vec![Call::Rename(base.clone(), named(".9")), Call::Rename(named(".9"), base)],
                _ if base != self.path => {
                    self.programs.rotations += 1;
                    vec![Call::Switch(PathBuf::from(format!("/data/{}.log", self.programs.rotations))), Call::Reopen]
                }
                _ => Vec::new(),
            },
            _ if self.may_replace(&base) => {
                let draft = PathBuf::from("/data/draft");
                vec![Call::Replace(base, draft)]
            }
            _ => vec![Call::Reopen],
        };
        self.programs.script = calls.into();
    }

    /// Has the writer leave rotated files.
    pub(super) fn leave(&mut self) {
        while !self.programs.script.is_empty() {
            self.act();
        }
        self.reopen();
    }

    fn interfere(&mut self) {
        if self.one_in > 0 && self.draw(self.one_in) == 0 {
            for _ in 0..=self.draw(2) {
                self.act();
            }
        }
    }

    /// The relay is gone: it knows only the recorded contents any more.
    pub(super) fn narrow(&mut self) {
        let read = self.recorded.clone();
        for line in &mut self.lines {
            line.is_excused |=
                line.gone.is_some() && self.read.contains_key(&line.home) && !read.contains_key(&line.home);
        }
        self.read = read;
    }

    fn stat(&self, inode: usize) -> Stat {
        let file = &self.storage.inodes[inode];
        Stat { length: file.bytes.len() as u64, ..file.stat }
    }
}
