//! The relay's view of the model's file system: each call may be followed by a change.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{Disk, Name};
use crate::relay::following::tree::{Stat, Tree, TreeFile};

#[derive(Clone)]
pub(in crate::relay::following::tests) struct ModelTree(pub(in crate::relay::following::tests) Rc<RefCell<Disk>>);

pub(in crate::relay::following::tests) struct Handle {
    disk: Rc<RefCell<Disk>>,
    inode: usize,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut disk = self.disk.borrow_mut();
        disk.storage.inodes[self.inode].handles -= 1;
        disk.forget_unreachable(self.inode);
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Tree for ModelTree {
    type File = Handle;

    fn open(&self, path: &Path) -> io::Result<Handle> {
        let mut disk = self.0.borrow_mut();
        disk.interfere();
        let inode = disk.inode_of(path).ok_or_else(not_found)?;
        disk.storage.inodes[inode].handles += 1;
        Ok(Handle { disk: Rc::clone(&self.0), inode })
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let mut disk = self.0.borrow_mut();
        disk.interfere();
        if let Some(modified_ns) = disk.storage.folders.get(path) {
            return Ok(Stat { modified_ns: *modified_ns, ..Stat::default() });
        }
        disk.inode_of(path).map(|inode| disk.stat(inode)).ok_or_else(not_found)
    }

    fn stat_name(&self, path: &Path) -> io::Result<Stat> {
        let mut disk = self.0.borrow_mut();
        disk.interfere();
        match disk.storage.names.get(path) {
            Some(Name::File(inode)) => Ok(disk.stat(*inode)),
            Some(Name::Link(_, modified_ns)) => {
                Ok(Stat { modified_ns: *modified_ns, is_link: true, ..Stat::default() })
            }
            None => Err(not_found()),
        }
    }

    fn names(&self, folder: &Path, _: usize) -> io::Result<Vec<(OsString, u64)>> {
        let mut disk = self.0.borrow_mut();
        disk.interfere();
        let names = disk.storage.names.iter().filter(|(path, _)| path.parent() == Some(folder));
        let number =
            |name: &Name| if let Name::File(inode) = name { disk.storage.inodes[*inode].stat.id.inode } else { 0 };
        Ok(names.map(|(path, name)| (path.file_name().expect("a name").to_owned(), number(name))).collect())
    }

    fn target(&self, path: &Path) -> io::Result<PathBuf> {
        let mut disk = self.0.borrow_mut();
        disk.interfere();
        Ok(disk.resolve(path))
    }
}

impl TreeFile for Handle {
    fn stat(&self) -> io::Result<Stat> {
        let mut disk = self.disk.borrow_mut();
        disk.interfere();
        Ok(disk.stat(self.inode))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk.borrow_mut();
        disk.interfere();
        let offset = usize::try_from(offset).expect("small");
        let rest = disk.storage.inodes[self.inode].bytes.get(offset..).unwrap_or_default();
        let length = rest.len().min(bytes.len());
        bytes[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}
