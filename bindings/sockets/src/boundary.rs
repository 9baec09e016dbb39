//! The room for code that trusts the program: pointers and lengths become references, and back. All unsafe code of this crate is here and in
//! `boundary::real`.
//!
//! The functions below have libc's names and types, and libc's duties for callers: pointers are valid for the lengths that come with them, and NULL
//! only where libc allows it. They may be cancelled while they wait, so that no value with a destructor is alive during a call that waits.
#![expect(unsafe_code, reason = "programs hand over pointers, and this is where they are used")]

mod real;

use std::ffi::c_void;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use festina_sockets::address;
use festina_sockets::wire::HEADER_BYTES;
use libc::{
    c_int, c_uint, c_ulong, iovec, mmsghdr, msghdr, off_t, off64_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

use crate::calls::{self, Received};
use crate::{client, table};

/// The longest list of parts that a program may pass, as IOV_MAX of limits.h.
const PARTS_MAX: usize = 1_024;
/// Bytes that were read before are skipped in steps of this size.
const SKIPPED_BYTES: usize = 4_096;
/// Room for the bytes of the longest part of a message that are skipped.
const SKIPS_MAX: usize = festina_sockets::wire::PART_BYTES_MAX / SKIPPED_BYTES + 1;

/// Sets `errno`, and returns the value of a call that has failed.
fn fail(errno: c_int) -> c_int {
    // SAFETY: the address is that of this thread's own variable.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn errno() -> c_int {
    // SAFETY: as in `fail`.
    unsafe { *libc::__errno_location() }
}

fn returned(result: Result<usize, c_int>) -> ssize_t {
    match result {
        Ok(bytes) => ssize_t::try_from(bytes).unwrap_or(ssize_t::MAX),
        Err(errno) => fail(errno) as ssize_t,
    }
}

fn status(result: Result<(), c_int>) -> c_int {
    result.map_or_else(fail, |()| 0)
}

/// Lends a descriptor that the program has named.
pub(crate) fn borrow<'a>(descriptor: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: it is not -1. Should the program close it meanwhile, system calls fail with EBADF or reach its successor, as they do without this library.
    (descriptor >= 0).then(|| unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// Takes over a descriptor that this library has just received.
pub(crate) fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: no other thread knows it yet.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// The bytes at `data`; nothing for NULL.
///
/// # Safety
/// As the functions of this module.
unsafe fn bytes<'a>(data: *const c_void, length: usize) -> &'a [u8] {
    if data.is_null() || length > isize::MAX.cast_unsigned() {
        return &[];
    }
    // SAFETY: it is not NULL; the caller's duty.
    unsafe { std::slice::from_raw_parts(data.cast(), length) }
}

/// Writes as many bytes as fit.
///
/// # Safety
/// As the functions of this module.
unsafe fn write_bytes(from: &[u8], to: *mut c_void, room: usize) {
    if !to.is_null() {
        // SAFETY: the target has `room` bytes, and is the program's.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), from.len().min(room)) };
    }
}

/// The parts of a message in the program's memory.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a>(&'a [iovec]);

impl Parts<'_> {
    pub(crate) const NONE: Self = Parts(&[]);

    /// # Safety
    /// As the functions of this module.
    unsafe fn new<'a>(parts: *const iovec, count: usize) -> Parts<'a> {
        if parts.is_null() {
            return Parts(&[]);
        }
        // SAFETY: it is not NULL; the caller's duty.
        Parts(unsafe { std::slice::from_raw_parts(parts, count.min(PARTS_MAX)) })
    }

    /// The sum of the lengths.
    pub(crate) fn length(&self) -> usize {
        self.0.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
    }
}

const NO_PART: iovec = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
const NO_MESSAGE: msghdr = msghdr {
    msg_name: std::ptr::null_mut(),
    msg_namelen: 0,
    msg_iov: std::ptr::null_mut(),
    msg_iovlen: 0,
    msg_control: std::ptr::null_mut(),
    msg_controllen: 0,
    msg_flags: 0,
};

/// Copies the next datagram without removing it or waiting: its header, and from `skipped` bytes after that into the parts. Returns its length.
pub(crate) fn peek(
    descriptor: RawFd,
    header: &mut [u8; HEADER_BYTES],
    skipped: usize,
    parts: Parts<'_>,
) -> Result<usize, c_int> {
    let mut unused = [0_u8; SKIPPED_BYTES];
    let mut all = [NO_PART; 1 + SKIPS_MAX + PARTS_MAX];
    all[0] = iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER_BYTES };
    let mut count = 1;
    let mut left = skipped;
    while left > 0 {
        if count > SKIPS_MAX {
            return Err(libc::EIO);
        }
        all[count] = iovec { iov_base: unused.as_mut_ptr().cast(), iov_len: left.min(SKIPPED_BYTES) };
        left -= left.min(SKIPPED_BYTES);
        count += 1;
    }
    for part in parts.0 {
        all[count] = *part;
        count += 1;
    }
    let mut message = NO_MESSAGE;
    (message.msg_iov, message.msg_iovlen) = (all.as_mut_ptr(), count as _);
    // SAFETY: the parts are buffers of this function and of the program. `unused` is written several times by the one call, which writes in order.
    let length =
        unsafe { real::recvmsg(descriptor, &raw mut message, libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
    usize::try_from(length).map_err(|_| errno())
}

/// Waits for a datagram as the descriptor's mode and time limit say. Returns whether there is one; the other end may be closed instead.
pub(crate) fn wait_for_datagram(descriptor: RawFd, flags: c_int) -> Result<bool, c_int> {
    let mut first = 0_u8;
    // SAFETY: there is room for a byte.
    match unsafe { real::recv(descriptor, (&raw mut first).cast(), 1, libc::MSG_PEEK | flags & libc::MSG_DONTWAIT) } {
        1.. => Ok(true),
        0 => Ok(false),
        _ => Err(errno()),
    }
}

/// Removes the next datagram.
pub(crate) fn discard(descriptor: RawFd) {
    // SAFETY: nothing is written.
    unsafe { real::recv(descriptor, std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
}

/// Sends a datagram, waiting as the descriptor's mode and time limit say. Returns the number of bytes without the header.
pub(crate) fn send_datagram(
    descriptor: RawFd,
    header: &[u8; HEADER_BYTES],
    parts: Parts<'_>,
    flags: c_int,
) -> Result<usize, c_int> {
    let mut all = [NO_PART; 1 + PARTS_MAX];
    all[0] = iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: HEADER_BYTES };
    all[1..=parts.0.len()].copy_from_slice(parts.0);
    let mut message = NO_MESSAGE;
    (message.msg_iov, message.msg_iovlen) = (all.as_mut_ptr(), (1 + parts.0.len()) as _);
    // SAFETY: the parts are the header and buffers of the program, which are only read.
    let sent =
        unsafe { real::sendmsg(descriptor, &raw const message, flags & (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)) };
    usize::try_from(sent).map(|sent| sent.saturating_sub(HEADER_BYTES)).map_err(|_| errno())
}

/// Sends bytes of this library as a message.
pub(crate) fn send_own(
    descriptor: RawFd,
    header: &[u8; HEADER_BYTES],
    contents: &[u8],
    flags: c_int,
) -> Result<usize, c_int> {
    let part = [iovec { iov_base: contents.as_ptr().cast_mut().cast(), iov_len: contents.len() }];
    send_datagram(descriptor, header, Parts(&part), flags)
}

/// Waits for a datagram that carries a descriptor, and returns both.
pub(crate) fn receive_descriptor(
    descriptor: RawFd,
    header: &mut [u8; HEADER_BYTES],
) -> Result<(usize, Option<RawFd>), c_int> {
    // Aligned as a control message has to be.
    let mut control = [0_u64; 4];
    let mut part = iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER_BYTES };
    let mut message = NO_MESSAGE;
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // SAFETY: all buffers are of this function.
    let length = unsafe { real::recvmsg(descriptor, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let length = usize::try_from(length).map_err(|_| errno())?;
    // SAFETY: the kernel has filled the buffer in.
    let passed = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const message);
        (!first.is_null() && (*first).cmsg_level == libc::SOL_SOCKET && (*first).cmsg_type == libc::SCM_RIGHTS)
            .then(|| libc::CMSG_DATA(first).cast::<c_int>().read_unaligned())
    };
    Ok((length, passed))
}

/// An address of the program.
///
/// # Safety
/// As the functions of this module.
unsafe fn address_at(address: *const sockaddr, length: socklen_t) -> Result<SocketAddr, c_int> {
    // SAFETY: the caller's duty.
    let bytes = unsafe { bytes(address.cast(), length as usize) };
    address::read(bytes).map(|(address, _)| address).ok_or(libc::EINVAL)
}

/// Writes an address as far as there is room, and its whole length.
///
/// # Safety
/// As the functions of this module.
unsafe fn write_address(shown: Option<SocketAddr>, address: *mut sockaddr, length: *mut socklen_t) {
    if address.is_null() || length.is_null() {
        return;
    }
    let mut written = Vec::new();
    if let Some(shown) = shown {
        address::write(shown, &mut written);
    }
    // SAFETY: neither is NULL; the caller's duty.
    unsafe {
        write_bytes(&written, address.cast(), *length as usize);
        *length = socklen_t::try_from(written.len()).unwrap_or_default();
    }
}

/// Runs at the start of a program, which may have inherited sockets of the program that started it.
extern "C" fn start() {
    if client::engine().is_some() {
        calls::mark_inherited();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

macro_rules! replace {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty { $socket:pat => $body:expr })*) => {$(
        /// As libc's function of this name.
        ///
        /// # Safety
        /// As libc's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(descriptor: c_int $(, $argument: $kind)*) -> $result {
            let Some($socket) = table::find(descriptor).map(|(slot, socket)| calls::Socket { descriptor, slot, socket }) else {
                // SAFETY: the caller's duty.
                return unsafe { real::$name(descriptor $(, $argument)*) };
            };
            $body
        }
    )*};
}

/// As libc's function of this name.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    match calls::socket(domain, kind, protocol) {
        // SAFETY: there are no pointers.
        None => unsafe { real::socket(domain, kind, protocol) },
        Some(created) => created.unwrap_or_else(fail),
    }
}

// SAFETY of all pointers below: the caller's duty.
replace! {
    bind(address: *const sockaddr, length: socklen_t) -> c_int {
        socket => status(unsafe { address_at(address, length) }.and_then(|address| socket.bind(&[address])))
    }
    listen(backlog: c_int) -> c_int { socket => status(socket.listen(backlog)) }
    accept(address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        socket => unsafe { accepted(socket, address, length, 0) }
    }
    accept4(address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
        socket => unsafe { accepted(socket, address, length, flags) }
    }
    connect(address: *const sockaddr, length: socklen_t) -> c_int {
        socket => status(unsafe { address_at(address, length) }.and_then(|address| socket.connect(&[address]).map(drop)))
    }
    getsockname(address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        socket => status(socket.local_name().map(|name| unsafe { write_address(Some(name), address, length) }))
    }
    getpeername(address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        socket => status(socket.peer_name().map(|name| unsafe { write_address(Some(name), address, length) }))
    }
    setsockopt(level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int {
        socket => match socket.set_option(level, name, unsafe { bytes(value, length as usize) }) {
            None => unsafe { real::setsockopt(socket.descriptor, level, name, value, length) },
            Some(set) => set.unwrap_or_else(fail),
        }
    }
    getsockopt(level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int {
        socket => unsafe { option(socket, level, name, value, length) }
    }
    shutdown(how: c_int) -> c_int {
        socket => if socket.is_many() { 0 } else { unsafe { real::shutdown(socket.descriptor, how) } }
    }
    read(buffer: *mut c_void, size: size_t) -> ssize_t {
        // The system does not ask sockets for nothing.
        socket => if size == 0 { 0 } else { unsafe { received(socket, buffer, size, 0) } }
    }
    readv(parts: *const iovec, count: c_int) -> ssize_t {
        socket => {
            let parts = unsafe { Parts::new(parts, usize::try_from(count).unwrap_or(0)) };
            returned(socket.receive(parts, 0).map(|received| received.bytes))
        }
    }
    recv(buffer: *mut c_void, size: size_t, flags: c_int) -> ssize_t {
        socket => unsafe { received(socket, buffer, size, flags) }
    }
    recvfrom(
        buffer: *mut c_void, size: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t
    ) -> ssize_t {
        socket => {
            let part = [iovec { iov_base: buffer, iov_len: size }];
            let received = socket.receive(Parts(&part), flags);
            returned(received.map(|received| {
                unsafe { write_address(received.address, address, length) };
                received.bytes
            }))
        }
    }
    recvmsg(message: *mut msghdr, flags: c_int) -> ssize_t {
        socket => returned(unsafe { received_message(&socket, message, flags) })
    }
    recvmmsg(messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec) -> c_int {
        socket => {
            // As without this library, the time limit is looked at after a message only.
            let _limit = limit;
            let mut done = 0;
            while done < count {
                let later = if done > 0 { libc::MSG_DONTWAIT } else { 0 };
                let one = unsafe { &mut *messages.add(done as usize) };
                match unsafe { received_message(&socket, &raw mut one.msg_hdr, flags | later) } {
                    Ok(bytes) => one.msg_len = c_uint::try_from(bytes).unwrap_or(c_uint::MAX),
                    Err(errno) if done == 0 => return fail(errno),
                    Err(_) => break,
                }
                done += 1;
            }
            c_int::try_from(done).unwrap_or(c_int::MAX)
        }
    }
    write(buffer: *const c_void, size: size_t) -> ssize_t {
        socket => returned(socket.send(Parts(&[iovec { iov_base: buffer.cast_mut(), iov_len: size }]), None, &[], 0))
    }
    writev(parts: *const iovec, count: c_int) -> ssize_t {
        socket => {
            let parts = unsafe { Parts::new(parts, usize::try_from(count).unwrap_or(0)) };
            returned(socket.send(parts, None, &[], 0))
        }
    }
    send(buffer: *const c_void, size: size_t, flags: c_int) -> ssize_t {
        socket => returned(socket.send(Parts(&[iovec { iov_base: buffer.cast_mut(), iov_len: size }]), None, &[], flags))
    }
    sendto(
        buffer: *const c_void, size: size_t, flags: c_int, address: *const sockaddr, length: socklen_t
    ) -> ssize_t {
        socket => {
            let to = if address.is_null() { Ok(None) } else { unsafe { address_at(address, length) }.map(Some) };
            let part = [iovec { iov_base: buffer.cast_mut(), iov_len: size }];
            returned(to.and_then(|to| socket.send(Parts(&part), to, &[], flags)))
        }
    }
    sendmsg(message: *const msghdr, flags: c_int) -> ssize_t {
        socket => returned(unsafe { sent_message(&socket, message, flags) })
    }
    sendmmsg(messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        socket => {
            let mut done = 0;
            while done < count {
                let one = unsafe { &mut *messages.add(done as usize) };
                match unsafe { sent_message(&socket, &raw const one.msg_hdr, flags) } {
                    Ok(bytes) => one.msg_len = c_uint::try_from(bytes).unwrap_or(c_uint::MAX),
                    Err(errno) if done == 0 => return fail(errno),
                    Err(_) => break,
                }
                done += 1;
            }
            c_int::try_from(done).unwrap_or(c_int::MAX)
        }
    }
    // Programs fall back to read() and write().
    sendfile(from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        _ => {
            let _unused = (from, offset, count);
            fail(libc::EINVAL) as ssize_t
        }
    }
    sendfile64(from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t {
        _ => {
            let _unused = (from, offset, count);
            fail(libc::EINVAL) as ssize_t
        }
    }
    // C passes a variable argument as any other on the systems that this library is for.
    ioctl(request: c_ulong, argument: usize) -> c_int {
        socket => {
            let place = std::ptr::with_exposed_provenance_mut::<c_void>(argument);
            if request != libc::FIONREAD || place.is_null() {
                return unsafe { real::ioctl(socket.descriptor, request, argument) };
            }
            match socket.readable_bytes() {
                Ok(bytes) => {
                    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX).to_ne_bytes();
                    unsafe { write_bytes(&bytes, place, bytes.len()) };
                    0
                }
                Err(errno) => fail(errno),
            }
        }
    }
}

/// Duplicates of descriptors by either name of fcntl().
macro_rules! replace_fcntl {
    ($($name:ident)*) => {$(
        /// As libc's function of this name.
        ///
        /// # Safety
        /// As libc's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(descriptor: c_int, command: c_int, argument: usize) -> c_int {
            // SAFETY: the caller's duty.
            let result = unsafe { real::$name(descriptor, command, argument) };
            if [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&command) {
                table::mark_duplicate(descriptor, result);
            }
            result
        }
    )*};
}

replace_fcntl! { fcntl fcntl64 }

unsafe fn accepted(socket: calls::Socket, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
    match socket.accept(flags) {
        Ok((descriptor, peer)) => {
            // SAFETY: the caller's duty.
            unsafe { write_address(peer, address, length) };
            descriptor
        }
        Err(errno) => fail(errno),
    }
}

unsafe fn option(
    socket: calls::Socket,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    if value.is_null() || length.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: neither is NULL; the caller's duty.
    let room = unsafe { *length } as usize;
    // SAFETY: the caller's duty.
    let mut given = unsafe { bytes(value, room.min(calls::OPTION_BYTES_MAX)) };
    let addresses;
    if level == festina_sockets::numbers::IPPROTO_SCTP && name == festina_sockets::numbers::option::CONNECTX3 {
        // struct sctp_getaddrs_old: the association, the size of the addresses, and where they are.
        let Some((head, place)) = given.split_first_chunk::<8>() else { return fail(libc::EINVAL) };
        let Some(place) = place.first_chunk() else { return fail(libc::EINVAL) };
        let size = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]) as usize;
        addresses = std::ptr::with_exposed_provenance::<c_void>(usize::from_ne_bytes(*place));
        // SAFETY: the caller's duty.
        given = unsafe { bytes(addresses, size.min(calls::OPTION_BYTES_MAX)) };
    }
    match socket.option(level, name, given, room) {
        // SAFETY: the caller's duty.
        None => unsafe { real::getsockopt(socket.descriptor, level, name, value, length) },
        Some(Err(errno)) => fail(errno),
        Some(Ok((result, shown))) => {
            // SAFETY: neither is NULL; the caller's duty.
            unsafe {
                write_bytes(&shown, value, room);
                *length = socklen_t::try_from(shown.len().min(room)).unwrap_or_default();
            }
            result
        }
    }
}

unsafe fn received(socket: calls::Socket, buffer: *mut c_void, size: size_t, flags: c_int) -> ssize_t {
    let part = [iovec { iov_base: buffer, iov_len: size }];
    returned(socket.receive(Parts(&part), flags).map(|received| received.bytes))
}

unsafe fn received_message(socket: &calls::Socket, message: *mut msghdr, flags: c_int) -> Result<usize, c_int> {
    if message.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: it is not NULL; the caller's duty.
    let message = unsafe { &mut *message };
    // SAFETY: the caller's duty.
    let parts = unsafe { Parts::new(message.msg_iov, message.msg_iovlen) };
    let Received { bytes, flags, address, control } = socket.receive(parts, flags)?;
    let mut name_bytes = message.msg_namelen;
    // SAFETY: the caller's duty. The name may be NULL.
    unsafe { write_address(address, message.msg_name.cast(), &raw mut name_bytes) };
    message.msg_namelen = if message.msg_name.is_null() { 0 } else { name_bytes };
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let (fitting, is_cut) = festina_sockets::ancillary::fitting(&control, room);
    // SAFETY: the caller's duty.
    unsafe { write_bytes(fitting, message.msg_control, room) };
    message.msg_controllen = fitting.len() as _;
    message.msg_flags = flags | if is_cut { libc::MSG_CTRUNC } else { 0 };
    Ok(bytes)
}

unsafe fn sent_message(socket: &calls::Socket, message: *const msghdr, flags: c_int) -> Result<usize, c_int> {
    if message.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: it is not NULL; the caller's duty.
    let message = unsafe { &*message };
    let to = if message.msg_name.is_null() || message.msg_namelen == 0 {
        None
    } else {
        // SAFETY: the caller's duty.
        Some(unsafe { address_at(message.msg_name.cast(), message.msg_namelen) }?)
    };
    // SAFETY: the caller's duty.
    let parts = unsafe { Parts::new(message.msg_iov, message.msg_iovlen) };
    // SAFETY: the caller's duty.
    let control = unsafe { bytes(message.msg_control, message.msg_controllen) };
    socket.send(parts, to, control, flags)
}

/// The variants that programs with `_FORTIFY_SOURCE` call: `room` is the size of the buffer.
macro_rules! replace_checked {
    ($($name:ident => $plain:ident($($argument:ident: $kind:ty),*);)*) => {$(
        /// As glibc's function of this name.
        ///
        /// # Safety
        /// As glibc's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            descriptor: c_int, buffer: *mut c_void, size: size_t, room: size_t $(, $argument: $kind)*
        ) -> ssize_t {
            if size > room {
                std::process::abort();
            }
            // SAFETY: the caller's duty.
            unsafe { $plain(descriptor, buffer, size $(, $argument)*) }
        }
    )*};
}

replace_checked! {
    __read_chk => read();
    __recv_chk => recv(flags: c_int);
    __recvfrom_chk => recvfrom(flags: c_int, address: *mut sockaddr, length: *mut socklen_t);
}

/// As libc's function of this name.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(descriptor: c_int) -> c_int {
    // SAFETY: there are no pointers.
    let duplicate = unsafe { real::dup(descriptor) };
    table::mark_duplicate(descriptor, duplicate);
    duplicate
}

/// As libc's function of this name.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(descriptor: c_int, wanted: c_int) -> c_int {
    // SAFETY: there are no pointers.
    let duplicate = unsafe { real::dup2(descriptor, wanted) };
    table::mark_duplicate(descriptor, duplicate);
    duplicate
}

/// As libc's function of this name.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(descriptor: c_int, wanted: c_int, flags: c_int) -> c_int {
    // SAFETY: there are no pointers.
    let duplicate = unsafe { real::dup3(descriptor, wanted, flags) };
    table::mark_duplicate(descriptor, duplicate);
    duplicate
}
