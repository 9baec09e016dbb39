//! The state of descriptors. The kernel has the truth; this table says which descriptors are worth asking about.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use festina_sockets::wire::{self, Facts, Operation};
use rustix::net::SocketAddrUnix;

use crate::client;

/// Descriptors that can be SCTP sockets.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// One descriptor.
pub(crate) struct Slot {
    /// It may be an SCTP socket.
    maybe: AtomicBool,
    /// The socket's number, 0 if it is not known.
    socket: AtomicU64,
    /// [`Facts`] as a number.
    facts: AtomicU32,
    /// Bytes of the next message that the program has read.
    consumed: AtomicU32,
    /// The process that reads a message.
    reader: AtomicU32,
}

static SLOTS: [Slot; DESCRIPTORS_MAX] = [const {
    Slot {
        maybe: AtomicBool::new(false),
        socket: AtomicU64::new(0),
        facts: AtomicU32::new(0),
        consumed: AtomicU32::new(0),
        reader: AtomicU32::new(0),
    }
}; DESCRIPTORS_MAX];

/// Numbers of associations that were there when they were asked about, each at its remainder. The engine gives a number once.
static KNOWN: [AtomicI32; 4_096] = [const { AtomicI32::new(0) }; 4_096];

fn place_of(association: i32) -> &'static AtomicI32 {
    &KNOWN[association.unsigned_abs() as usize % KNOWN.len()]
}

/// Whether an association was there and its end has not been read since.
pub(crate) fn is_known(association: i32) -> bool {
    place_of(association).load(Ordering::Relaxed) == association
}

/// Notes that an association is there.
pub(crate) fn note_known(association: i32) {
    place_of(association).store(association, Ordering::Relaxed);
}

/// Notes that the program has read of the end of an association.
pub(crate) fn note_ended(association: i32) {
    let _other = place_of(association).compare_exchange(association, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Held while a message is read.
pub(crate) struct Reading<'a>(&'a Slot);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.reader.store(0, Ordering::Release);
    }
}

/// Notes that a descriptor may be an SCTP socket. Returns whether there is room for it.
pub(crate) fn mark(descriptor: RawFd) -> bool {
    let Some(slot) = usize::try_from(descriptor).ok().and_then(|at| SLOTS.get(at)) else { return false };
    slot.socket.store(0, Ordering::Relaxed);
    slot.maybe.store(true, Ordering::Release);
    true
}

/// Notes that a descriptor is another descriptor's duplicate.
pub(crate) fn mark_duplicate(of: RawFd, descriptor: RawFd) {
    let original = usize::try_from(of).ok().and_then(|at| SLOTS.get(at));
    if original.is_some_and(|slot| slot.maybe.load(Ordering::Acquire)) {
        mark(descriptor);
    }
}

/// Returns the state of an SCTP socket, and its number; `None` for any other descriptor.
pub(crate) fn find(descriptor: RawFd) -> Option<(&'static Slot, u64)> {
    let slot = SLOTS.get(usize::try_from(descriptor).ok()?)?;
    if !slot.maybe.load(Ordering::Acquire) {
        return None;
    }
    let Some(socket) = socket_of(descriptor) else {
        // It was closed, and its number is used again.
        slot.maybe.store(false, Ordering::Release);
        return None;
    };
    if slot.socket.swap(socket, Ordering::Relaxed) != socket {
        slot.consumed.store(0, Ordering::Relaxed);
        slot.refresh(socket);
    }
    Some((slot, socket))
}

/// Asks the kernel for the socket's number.
fn socket_of(descriptor: RawFd) -> Option<u64> {
    let engine = client::engine()?;
    let descriptor = crate::boundary::borrow(descriptor)?;
    let name = peer_name(descriptor)?;
    wire::socket_of(&engine.name, name.abstract_name()?)
}

fn peer_name(descriptor: BorrowedFd<'_>) -> Option<SocketAddrUnix> {
    rustix::net::getpeername(descriptor).ok()?.and_then(|name| name.try_into().ok())
}

impl Slot {
    /// Asks the engine for the facts.
    pub(crate) fn refresh(&self, socket: u64) -> Facts {
        let asked = client::ask(Operation::Facts, socket, &[]);
        let facts = asked.ok().and_then(|bytes| Facts::decode(&bytes)).unwrap_or_default();
        self.set_facts(facts);
        facts
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts::decode(&self.facts.load(Ordering::Relaxed).to_ne_bytes()).unwrap_or_default()
    }

    pub(crate) fn set_facts(&self, facts: Facts) {
        self.facts.store(u32::from_ne_bytes(facts.encode()), Ordering::Relaxed);
    }

    /// Waits until no other thread reads a message of the socket.
    pub(crate) fn read(&self) -> Reading<'_> {
        let own = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
        loop {
            match self.reader.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Reading(self),
                // A thread of the process that forked this one: it does not exist here.
                Err(other) if other != own => {
                    let _freed = self.reader.compare_exchange(other, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    pub(crate) fn consumed(&self) -> usize {
        usize::try_from(self.consumed.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    pub(crate) fn set_consumed(&self, bytes: usize) {
        self.consumed.store(u32::try_from(bytes).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}
