//! Unix datagram sockets at paths: created without harm to anything that is there, with a mode, and removed at the end.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The name of a socket in the file system. Dropping it removes the name, unless it leads to something else by then.
#[derive(Debug)]
pub(crate) struct SocketName {
    path: PathBuf,
    file: FileId,
}

/// Device and inode.
type FileId = (u64, u64);

fn id_of(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

impl Drop for SocketName {
    fn drop(&mut self) {
        // If this fails, the next start removes it.
        let _ = remove(&self.path, self.file);
    }
}

/// Removes a name that leads to this file.
fn remove(path: &Path, file: FileId) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if id_of(&found) == file => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Binds a socket that programs may write to as the mode says, independent of the umask. A socket that no program receives on is replaced.
///
/// # Errors
/// The system's, and those of [`check`].
pub(crate) fn bind(path: &Path, mode: u32) -> io::Result<(UnixDatagram, SocketName)> {
    if let Some(dead) = look(path)? {
        remove(path, dead)?;
    }
    let socket = UnixDatagram::bind(path)?;
    // By descriptor: another user may be able to replace the name by a link to something else.
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.file_type().is_socket() {
        return Err(io::Error::other("another program has replaced the new socket"));
    }
    let name = SocketName { path: path.to_owned(), file: id_of(&metadata) };
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))?;
    Ok((socket, name))
}

/// Checks whether a socket can be bound: nothing has the name, or a socket that no program receives on.
///
/// # Errors
/// Something else has the name.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    look(path).map(drop)
}

/// As [`check`], for a relay that may be running: its own socket is in use.
///
/// # Errors
/// As of [`check`].
pub(crate) fn check_beside_a_relay(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(()),
        _ => check(path),
    }
}

/// Returns the socket with this name if no program receives on it; `None` if nothing has the name.
fn look(path: &Path) -> io::Result<Option<FileId>> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let kind = found.file_type();
    let taken = |text: String| Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    if kind.is_symlink() {
        let to = fs::read_link(path).unwrap_or_default();
        return taken(format!(
            "it is a link to {}, perhaps to another daemon's socket; choose another path, or remove the link",
            to.display()
        ));
    }
    if !kind.is_socket() {
        let what = if kind.is_dir() { "a directory" } else { "a file" };
        return taken(format!("it is {what} and no socket; kind = \"file\" follows a file"));
    }
    match UnixDatagram::unbound()?.connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Some(id_of(&found))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            taken(format!("whether another program receives on this socket is unknown: {error}"))
        }
        // Also a socket of another type that is in use.
        _ => taken("another program receives on this socket; stop it, or choose another path".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::scratch::Directory;

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
    }

    #[test]
    fn nothing_but_a_dead_socket_is_replaced() {
        let directory = Directory::new();
        fs::create_dir_all(&directory.0).expect("a directory can be made");
        let path = |name: &str| directory.0.join(name);
        fs::write(path("file"), "a day of logs\n").expect("it can be written");
        fs::create_dir(path("folder")).expect("it can be made");
        let _live = UnixDatagram::bind(path("live")).expect("a socket");
        let _stream = UnixListener::bind(path("stream")).expect("a socket");
        for (link, target) in [("to-live", "live"), ("to-file", "file"), ("to-nothing", "nothing")] {
            std::os::unix::fs::symlink(path(target), path(link)).expect("a link");
        }
        for (name, words) in [
            ("file", "a file and no socket; kind = \"file\""),
            ("folder", "a directory and no socket"),
            ("live", "another program receives"),
            ("stream", "another program receives"),
            ("to-live", "it is a link to"),
            ("to-file", "it is a link to"),
            ("to-nothing", "it is a link to"),
        ] {
            let before = fs::symlink_metadata(path(name)).expect("it is there");
            for error in [check(&path(name)).err(), bind(&path(name), 0o666).err()] {
                let error = error.expect("it is taken").to_string();
                assert!(error.contains(words), "{name}: {error}");
            }
            let after = fs::symlink_metadata(path(name)).expect("it is still there");
            assert_eq!(id_of(&after), id_of(&before), "{name}");
        }
        assert_eq!(fs::read(path("file")).expect("it is whole"), b"a day of logs\n");
    }

    #[test]
    fn a_socket_has_its_mode_and_is_removed_at_the_end_if_it_is_still_ours() {
        let directory = Directory::new();
        fs::create_dir_all(&directory.0).expect("a directory can be made");
        let path = directory.0.join("log");
        // The socket of a process that was killed.
        drop(UnixDatagram::bind(&path).expect("a socket"));
        check(&path).expect("it is dead");
        assert!(path.exists(), "a check changes nothing");
        for mode in [0o666, 0o600, 0o660] {
            let (_socket, name) = bind(&path, mode).expect("it is dead or gone");
            assert_eq!(mode_of(&path), mode);
            drop(name);
            assert!(!path.exists());
        }
        let (socket, name) = bind(&path, 0o666).expect("there is nothing");
        fs::remove_file(&path).expect("it is there");
        let _other = UnixDatagram::bind(&path).expect("another program's socket");
        drop((socket, name));
        assert!(path.exists(), "it is another program's");
    }
}
