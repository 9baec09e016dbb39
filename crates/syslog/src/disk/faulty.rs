//! A disk in memory that fails as disks do: torn writes, a full disk, I/O errors, lost writes after a failed sync, and crashes.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, Naming};

/// How a machine or a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// `kill -9`: written data survives.
    Process,
    /// Power failure: any part of the unsynced data may survive.
    Power,
}

/// Injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// One in this many operations fails with an I/O error; 0 for none.
    pub error_one_in: u32,
    /// Bytes of all files together, as long as the disk is this small.
    pub bytes_max: Option<u64>,
}

/// A disk in memory. Clones are the same disk. Equal seeds and calls give equal faults.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
    /// Which life of the process this handle belongs to; those of earlier ones are dead.
    life: u64,
}

#[derive(Clone, Debug, Default)]
struct State {
    random: u64,
    life: u64,
    faults: Faults,
    /// Operations until the process dies within one of them.
    crash_after: Option<(u32, Crash)>,
    files: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    /// The names that survive a power failure, and later changes, in order, that may or may not survive.
    safe_names: BTreeMap<PathBuf, usize>,
    renamings: Vec<Renaming>,
    /// Operations until the simulated operator moves or removes a file.
    by_hand: Option<(u32, PathBuf, Option<PathBuf>)>,
    /// Open files now, and the most there were.
    open: usize,
    open_max: usize,
}

#[derive(Clone, Debug)]
enum Renaming {
    Set(PathBuf, usize),
    Removed(PathBuf),
    Moved(PathBuf, PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    safe: Vec<u8>,
    changes: Vec<Change>,
}

impl Inode {
    /// Lets the next process sync what a failed sync has dropped. A real disk may lose it at a later power cut, which no process can notice.
    fn make_dirty(&mut self) {
        let mut expected = self.safe.clone();
        self.changes.iter().for_each(|change| change.apply(&mut expected, usize::MAX));
        if expected != self.bytes {
            let offset = expected.iter().zip(&self.bytes).take_while(|(one, other)| one == other).count();
            self.changes.push(Change::Truncate(offset));
            self.changes.push(Change::Write { offset, bytes: self.bytes[offset..].to_vec() });
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

fn apply_name(names: &mut BTreeMap<PathBuf, usize>, change: &Renaming) {
    match change {
        Renaming::Set(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        Renaming::Removed(path) => {
            names.remove(path);
        }
        Renaming::Moved(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

impl Change {
    /// Does the change to the bytes, or of a write only the first `length` bytes.
    fn apply(&self, target: &mut Vec<u8>, length: usize) {
        match self {
            Self::Write { offset, bytes } => {
                let bytes = &bytes[..length.min(bytes.len())];
                if target.len() < offset + bytes.len() {
                    target.resize(offset + bytes.len(), 0);
                }
                target[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Self::Truncate(length) => target.truncate(*length),
        }
    }
}

impl State {
    /// The next number of a xorshift generator.
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    fn used(&self) -> u64 {
        self.names.values().map(|&inode| self.files[inode].bytes.len() as u64).sum()
    }

    fn change_names(&mut self, change: Renaming) {
        apply_name(&mut self.names, &change);
        self.renamings.push(change);
    }

    /// Advances the simulated operator by this many operations.
    fn act_by_hand(&mut self, operations: u32) {
        let Some((left, from, to)) = self.by_hand.take() else { return };
        if let Some(left @ 1..) = left.checked_sub(operations) {
            self.by_hand = Some((left, from, to));
        } else if self.names.contains_key(&from) {
            self.change_names(to.map_or(Renaming::Removed(from.clone()), |to| Renaming::Moved(from, to)));
        }
    }

    fn crash(&mut self, crash: Crash) {
        self.life += 1;
        self.crash_after = None;
        if crash == Crash::Process {
            return;
        }
        // Changes of names reach the disk in their order, as with a journal.
        let written = self.draw(self.renamings.len() as u64 + 1);
        let renamings = std::mem::take(&mut self.renamings);
        for change in renamings.iter().take(usize::try_from(written).unwrap_or(usize::MAX)) {
            apply_name(&mut self.safe_names, change);
        }
        self.names = self.safe_names.clone();
        for inode in 0..self.files.len() {
            self.write_back(inode);
            let file = &mut self.files[inode];
            file.bytes = file.safe.clone();
        }
    }

    /// Of the changes of a file, any reach the disk: wholly, in part, or not at all.
    fn write_back(&mut self, inode: usize) {
        for change in std::mem::take(&mut self.files[inode].changes) {
            let length = match (self.draw(3), &change) {
                (0, _) => continue,
                (1, Change::Write { bytes, .. }) => self.draw(bytes.len() as u64 + 1),
                _ => u64::MAX,
            };
            change.apply(&mut self.files[inode].safe, usize::try_from(length).unwrap_or(usize::MAX));
        }
    }
}

impl FaultyDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { state: Arc::new(Mutex::new(State { random, ..State::default() })), life: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the injected faults.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Has the process die within the operation after this many others.
    pub fn crash_after(&self, operations: u32, crash: Crash) {
        self.state().crash_after = Some((operations, crash));
    }

    /// Whether the process that this handle belongs to is dead.
    pub fn has_crashed(&self) -> bool {
        self.state().life != self.life
    }

    /// Ends the process that uses the disk now.
    pub fn crash(&self, crash: Crash) {
        self.state().crash(crash);
    }

    /// The same disk for the next process.
    #[must_use]
    pub fn restarted(&self) -> Self {
        let mut state = self.state();
        state.files.iter_mut().for_each(Inode::make_dirty);
        Self { state: Arc::clone(&self.state), life: state.life }
    }

    /// A copy of the whole disk as it is now, for a process of its own.
    #[must_use]
    pub fn copied(&self) -> Self {
        let mut state = self.state().clone();
        state.life += 1;
        state.open = 0;
        Self { life: state.life, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the contents of a file as a running process sees them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|&inode| state.files[inode].bytes.clone())
    }

    /// The most files that were open at the same time.
    pub fn open_files_max(&self) -> usize {
        self.state().open_max
    }

    /// Moves or removes a file, like an operator, after this many operations; this neither fails nor crashes.
    pub fn move_by_hand(&self, operations: u32, from: &Path, to: Option<&Path>) {
        let mut state = self.state();
        state.by_hand = Some((operations, from.to_owned(), to.map(Path::to_owned)));
        state.act_by_hand(0);
    }

    fn opened(&self, inode: usize) -> FaultyFile {
        let mut state = self.state();
        state.open += 1;
        state.open_max = state.open_max.max(state.open);
        FaultyFile { disk: self.clone(), inode }
    }

    /// All files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state().names.keys().cloned().collect()
    }

    /// Starts an operation: the process may be dead or die now, or the operation may fail. `true`: the process dies half-way.
    fn begin(&self) -> io::Result<(MutexGuard<'_, State>, bool)> {
        let mut state = self.state();
        if state.life != self.life {
            return Err(io::Error::other("the process is dead"));
        }
        state.act_by_hand(1);
        let dies = match &mut state.crash_after {
            Some((0, _)) => true,
            Some((left, _)) => {
                *left -= 1;
                false
            }
            None => false,
        };
        let one_in = state.faults.error_one_in;
        if !dies && one_in > 0 && state.draw(one_in.into()) == 0 {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok((state, dies))
    }

    /// The operation that the process dies within.
    fn die(state: &mut State) -> io::Error {
        let crash = state.crash_after.map_or(Crash::Process, |(_, crash)| crash);
        state.crash(crash);
        io::Error::other("the process dies")
    }

    fn named(state: &State, path: &Path) -> io::Result<usize> {
        state.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A file of a [`FaultyDisk`].
#[derive(Debug)]
pub struct FaultyFile {
    disk: FaultyDisk,
    inode: usize,
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.disk.state().open -= 1;
    }
}

impl Disk for FaultyDisk {
    type File = FaultyFile;

    fn append_to(&self, path: &Path) -> io::Result<FaultyFile> {
        let (mut state, dies) = self.begin()?;
        if dies {
            return Err(Self::die(&mut state));
        }
        let inode = match state.names.get(path) {
            Some(&inode) => inode,
            None => {
                let inode = state.files.len();
                state.files.push(Inode::default());
                state.change_names(Renaming::Set(path.to_owned(), inode));
                inode
            }
        };
        drop(state);
        Ok(self.opened(inode))
    }

    fn read_at(&self, path: &Path, offset: u64, bytes_max: usize) -> io::Result<Vec<u8>> {
        let (state, _) = self.begin()?;
        let bytes = &state.files[Self::named(&state, path)?].bytes;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes[from..from.saturating_add(bytes_max).min(bytes.len())].to_vec())
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        let (state, _) = self.begin()?;
        Ok(state.names.get(path).map(|&inode| state.files[inode].bytes.len() as u64))
    }

    fn is_file(&self, path: &Path) -> io::Result<bool> {
        let (state, _) = self.begin()?;
        Ok(state.names.contains_key(path))
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        let (mut state, dies) = self.begin()?;
        let inode = Self::named(&state, path)?;
        let change = Change::Truncate(usize::try_from(length).unwrap_or(usize::MAX));
        let file = &mut state.files[inode];
        change.apply(&mut file.bytes, usize::MAX);
        file.changes.push(change);
        if dies { Err(Self::die(&mut state)) } else { Ok(()) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, dies) = self.begin()?;
        Self::named(&state, from)?;
        state.change_names(Renaming::Moved(from.to_owned(), to.to_owned()));
        if dies { Err(Self::die(&mut state)) } else { Ok(()) }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut state, dies) = self.begin()?;
        if state.names.contains_key(path) {
            state.change_names(Renaming::Removed(path.to_owned()));
        }
        if dies { Err(Self::die(&mut state)) } else { Ok(()) }
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let (state, _) = self.begin()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        self.begin().map(|_| ())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        let (mut state, dies) = self.begin()?;
        if dies {
            return Err(Self::die(&mut state));
        }
        state.renamings.clear();
        state.safe_names = state.names.clone();
        Ok(())
    }
}

impl DiskFile for FaultyFile {
    fn handle(&self) -> io::Result<Self> {
        Ok(self.disk.opened(self.inode))
    }

    fn naming(&self, path: &Path) -> io::Result<Naming> {
        let state = self.disk.state();
        Ok(match state.names.get(path) {
            Some(&inode) if inode == self.inode => Naming::Kept(state.files[inode].bytes.len() as u64),
            _ if state.names.values().any(|&inode| inode == self.inode) => Naming::Moved,
            _ => Naming::Removed,
        })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut state, torn, problem) = match self.disk.begin() {
            Ok((mut state, true)) => {
                let torn = state.draw(bytes.len() as u64 + 1);
                (state, torn, Some(io::Error::other("the process dies")))
            }
            Ok((state, false)) => (state, u64::MAX, None),
            Err(error) if self.disk.has_crashed() => return Err(error),
            // An error may come after part of the bytes.
            Err(error) => {
                let mut state = self.disk.state();
                let torn = state.draw(bytes.len() as u64 + 1);
                (state, torn, Some(error))
            }
        };
        let room = state.faults.bytes_max.map_or(u64::MAX, |most| most.saturating_sub(state.used()));
        let length = usize::try_from(torn.min(room)).unwrap_or(usize::MAX).min(bytes.len());
        let file = &mut state.files[self.inode];
        let change = Change::Write { offset: file.bytes.len(), bytes: bytes[..length].to_vec() };
        change.apply(&mut file.bytes, length);
        file.changes.push(change);
        match problem {
            Some(_) if state.crash_after.is_some_and(|(left, _)| left == 0) => Err(FaultyDisk::die(&mut state)),
            Some(error) => Err(error),
            None if length < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.disk.begin() {
            Ok((mut state, false)) => {
                let file = &mut state.files[self.inode];
                for change in std::mem::take(&mut file.changes) {
                    change.apply(&mut file.safe, usize::MAX);
                }
                Ok(())
            }
            Ok((mut state, true)) => Err(FaultyDisk::die(&mut state)),
            Err(error) if self.disk.has_crashed() => Err(error),
            // Linux takes the pages for clean after an error: the next sync does not write them.
            Err(error) => {
                self.disk.state().write_back(self.inode);
                Err(error)
            }
        }
    }
}
