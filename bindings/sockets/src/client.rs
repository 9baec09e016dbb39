//! Requests to the engine, each on a connection of its own: a program may close all descriptors at any time.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use festina_sockets::ENGINE_VARIABLE;
use festina_sockets::wire::{Operation, REQUEST_BYTES_MAX, TOKEN_BYTES, read_engine_variable, request};
use libc::c_int;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// The engine as the environment names it.
pub(crate) struct Engine {
    pub(crate) name: String,
    token: [u8; TOKEN_BYTES],
}

/// Returns the engine; `None` if the program was not started by `festina sctp run`.
pub(crate) fn engine() -> Option<&'static Engine> {
    static ENGINE: OnceLock<Option<Engine>> = OnceLock::new();
    ENGINE
        .get_or_init(|| {
            let value = std::env::var(ENGINE_VARIABLE).ok()?;
            let (name, token) = read_engine_variable(&value)?;
            Some(Engine { name: name.to_owned(), token })
        })
        .as_ref()
}

/// Asks the engine, and returns its answer.
///
/// # Errors
/// The number of the error.
pub(crate) fn ask(operation: Operation, socket: u64, body: &[u8]) -> Result<Vec<u8>, c_int> {
    exchange(operation, socket, body, None).map(|(bytes, _)| bytes)
}

/// Asks the engine with a descriptor, and returns its answer, with a descriptor perhaps.
///
/// # Errors
/// The number of the error.
pub(crate) fn exchange(
    operation: Operation,
    socket: u64,
    body: &[u8],
    passed: Option<BorrowedFd<'_>>,
) -> Result<(Vec<u8>, Option<OwnedFd>), c_int> {
    let Some(engine) = engine() else { return Err(libc::EIO) };
    let (answer, descriptor) =
        send_and_receive(engine, operation, socket, body, passed).map_err(|error| match error {
            Errno::INTR => libc::EINTR,
            // Out of descriptors, which the program has to know.
            Errno::MFILE | Errno::NFILE => error.raw_os_error(),
            _ => libc::ENETDOWN,
        })?;
    let (errno, bytes) = answer.split_first_chunk().ok_or(libc::ENETDOWN)?;
    match i32::from_ne_bytes(*errno) {
        0 => Ok((bytes.to_vec(), descriptor)),
        errno => Err(errno),
    }
}

fn send_and_receive(
    engine: &Engine,
    operation: Operation,
    socket: u64,
    body: &[u8],
    passed: Option<BorrowedFd<'_>>,
) -> Result<(Vec<u8>, Option<OwnedFd>), Errno> {
    let connection = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let name = SocketAddrUnix::new_abstract_name(engine.name.as_bytes())?;
    retry_on_intr(|| rustix::net::connect(&connection, &name))?;
    let bytes = request(&engine.token, operation, socket, body);
    let descriptors: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
    retry_on_intr(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        rustix::net::sendmsg(&connection, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)
    })?;
    let mut answer = vec![0; REQUEST_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut receive = || {
        rustix::net::recvmsg(&connection, &mut [IoSliceMut::new(&mut answer)], &mut control, RecvFlags::CMSG_CLOEXEC)
    };
    // Only waiting for a connection takes long, and a signal may interrupt that.
    let received = if operation == Operation::Connected { receive()? } else { retry_on_intr(receive)? };
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    answer.truncate(received.bytes);
    Ok((answer, descriptor))
}
