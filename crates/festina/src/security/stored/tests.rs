use super::*;

fn scratch(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("festina-stored-{}-{test}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn an_identity_is_created_once_and_only_its_owner_can_read_it() {
    let folder = scratch("identity");
    let path = folder.join("deeper/identity.pem");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn({
                let path = path.clone();
                move || read_identity(&path)
            })
        })
        .collect();
    let seen: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(seen.iter().all(|fingerprint| *fingerprint == seen[0]), "{seen:?}");
    assert_eq!(std::fs::read_dir(folder.join("deeper")).unwrap().count(), 1, "no draft is left");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    std::fs::write(&path, "no key").unwrap();
    let error = Identity::from_file_or_new(&path, "a.test").unwrap_err();
    assert!(matches!(error, StoredError::Unusable { .. }), "{error}");
    std::fs::write(&path, vec![b' '; usize::try_from(files::FILE_BYTES_MAX).unwrap() + 1]).unwrap();
    let error = Identity::from_file_or_new(&path, "a.test").unwrap_err();
    assert!(matches!(error, StoredError::Read { .. }), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn read_identity(path: &Path) -> Fingerprint {
    Identity::from_file_or_new(path, "a.test").unwrap().fingerprint()
}

#[test]
fn known_peers_are_read_line_by_line_and_forgotten() {
    let folder = scratch("known");
    std::fs::create_dir_all(&folder).unwrap();
    let peers = KnownPeers::new(folder.join("known_peers"));
    assert!(!peers.forget("a.test:9899").unwrap());
    let key = Fingerprint([7; 32]);
    std::fs::write(peers.path(), format!("# comment\n\nother:1 nonsense\na.test:9899 sha256:{key}")).unwrap();
    let known = |name: &str| peers.find(name).unwrap().known();
    assert_eq!(known("a.test:9899"), Some(key));
    assert_eq!(known("a.test:98"), None);
    assert!(matches!(peers.find("other:1"), Err(StoredError::Line { line: 3, .. })));
    assert!(peers.find("b.test:1").unwrap().met(key).unwrap());
    assert_eq!(known("b.test:1"), Some(key));
    assert_eq!(known("a.test:9899"), Some(key), "the last line had no end");
    for unusable in ["", "#a", "a b", "a\nb"] {
        assert!(matches!(peers.find(unusable), Err(StoredError::Name { .. })), "{unusable:?}");
    }
    assert!(peers.forget("a.test:9899").unwrap());
    assert_eq!((known("a.test:9899"), known("b.test:1")), (None, Some(key)));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_key_that_another_process_has_stored_meanwhile_counts() {
    let folder = scratch("meanwhile");
    let peers = KnownPeers::new(folder.join("known_peers"));
    let (genuine, forged) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
    let [first, second, third] = [(); 3].map(|()| peers.find("a.test:1").unwrap());
    assert!(first.met(genuine).unwrap());
    assert!(matches!(second.met(forged), Err(StoredError::Changed(_))));
    assert_eq!(second.known(), Some(genuine));
    assert!(!third.met(genuine).unwrap());
    assert_eq!(std::fs::read_to_string(peers.path()).unwrap().lines().count(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn clones_of_an_acquaintance_learn_its_key_together_and_refuse_another_one() {
    let folder = scratch("acquaintance");
    let peers = KnownPeers::new(folder.join("known_peers"));
    let (one, other) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
    let first = peers.find("a.test:1").unwrap();
    let second = first.clone();
    assert!(first.met(one).unwrap());
    assert!(!second.met(one).unwrap());
    assert!(
        matches!(second.met(other), Err(StoredError::Changed(ChangedKey { known, seen, .. })) if (known, seen) == (one, other))
    );
    assert_eq!(std::fs::read_to_string(peers.path()).unwrap(), format!("a.test:1 sha256:{one}\n"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn spellings_of_a_host_are_one_peer_and_a_changed_key_is_noticed_under_each() {
    let folder = scratch("spellings");
    std::fs::create_dir_all(&folder).unwrap();
    let (one, other) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
    for (first, others) in [
        ("Game.Example:9899", ["game.example:9899", "GAME.EXAMPLE.:9899"]),
        ("127.1:9899", ["127.0.0.1:9899", "[::FFFF:127.0.0.1]:9899"]),
        ("[2001:DB8:0::1]:9899", ["[2001:db8::1]:9899", "[2001:db8::0001]:9899"]),
    ] {
        let peers = KnownPeers::new(folder.join("known_peers"));
        assert!(peers.find(first).unwrap().met(one).unwrap());
        for spelling in others {
            assert_eq!(peers.find(spelling).unwrap().known(), Some(one), "{spelling}");
            assert!(peers.find(spelling).unwrap().met(other).is_err(), "{spelling}");
        }
        // Written by hand, or by an earlier version.
        std::fs::write(peers.path(), format!("{first} sha256:{one}\n")).unwrap();
        assert_eq!(peers.find(others[0]).unwrap().known(), Some(one), "{first}");
        assert!(peers.forget(others[1]).unwrap());
        assert_eq!(peers.find(first).unwrap().known(), None);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_lock_that_another_process_keeps_is_an_error_after_a_second() {
    let folder = scratch("lock");
    let peers = KnownPeers::new(folder.join("known_peers"));
    let held = peers.lock().unwrap();
    let peer = peers.find("a.test:1").unwrap();
    let waiting = std::thread::spawn(move || peer.met(Fingerprint([1; 32])));
    let error = waiting.join().unwrap().unwrap_err();
    assert!(matches!(&error, StoredError::Write { source, .. } if source.kind() == ErrorKind::TimedOut), "{error}");
    drop(held);
    assert!(peers.find("a.test:1").unwrap().met(Fingerprint([1; 32])).unwrap());
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(unix)]
#[test]
fn a_key_that_every_user_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = scratch("exposed");
    let path = folder.join("identity.pem");
    read_identity(&path);
    for (mode, is_refused) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let read = Identity::from_file_or_new(&path, "a.test");
        assert_eq!(matches!(read, Err(StoredError::Exposed { .. })), is_refused, "{mode:o}: {read:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_is_no_regular_one_is_refused_at_once() {
    let folder = scratch("special");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    // To open a FIFO waits for its other end, and there is none. A socket is no regular file either, and needs no further program.
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let is_refused = |error: StoredError| error.to_string().contains("it is no regular file");
    assert!(is_refused(Identity::from_file_or_new(&path, "a.test").unwrap_err()));
    assert!(is_refused(KnownPeers::new(&path).find("a.test:1").unwrap_err()));
    assert!(is_refused(KnownPeers::new(&path).forget("a.test:1").unwrap_err()));
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(unix)]
#[test]
fn forgetting_a_peer_writes_through_a_link() {
    let folder = scratch("link");
    let (target, link) = (folder.join("elsewhere/list"), folder.join("known_peers"));
    std::fs::create_dir_all(folder.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let peers = KnownPeers::new(&link);
    for name in ["a.test:1", "b.test:1"] {
        assert!(peers.find(name).unwrap().met(Fingerprint([1; 32])).unwrap());
    }
    assert!(peers.forget("a.test:1").unwrap());
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&target).unwrap(), format!("b.test:1 sha256:{}\n", Fingerprint([1; 32])));
    assert_eq!(std::fs::read_dir(folder.join("elsewhere")).unwrap().count(), 1, "no draft is left");
    std::fs::remove_dir_all(folder).unwrap();
}
