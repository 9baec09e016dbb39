//! The functions of libc that this library replaces.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    c_char, c_int, c_uint, c_ulong, iovec, mmsghdr, msghdr, off_t, off64_t, size_t, sockaddr, socklen_t, ssize_t,
    timespec,
};

/// Declares a function that calls the next definition of its name, which `dlsym` finds at the first call.
///
/// Their ABI lets `pthread_cancel` unwind through them.
macro_rules! next {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let mut next = NEXT.load(Ordering::Relaxed);
            if next.is_null() {
                const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                // SAFETY: the name ends with a zero byte.
                next = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr().cast::<c_char>()) };
                if next.is_null() {
                    std::process::abort();
                }
                NEXT.store(next, Ordering::Relaxed);
            }
            // SAFETY: it is libc's function of this name, which has this type.
            let next: unsafe extern "C-unwind" fn($($kind),*) -> $result = unsafe { std::mem::transmute(next) };
            // SAFETY: the caller's duty.
            unsafe { next($($argument),*) }
        }
    )*};
}

next! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    listen(descriptor: c_int, backlog: c_int) -> c_int;
    accept(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    accept4(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    connect(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    getsockname(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getpeername(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    setsockopt(descriptor: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    getsockopt(descriptor: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
    shutdown(descriptor: c_int, how: c_int) -> c_int;
    read(descriptor: c_int, buffer: *mut c_void, size: size_t) -> ssize_t;
    readv(descriptor: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    recv(descriptor: c_int, buffer: *mut c_void, size: size_t, flags: c_int) -> ssize_t;
    recvfrom(
        descriptor: c_int, buffer: *mut c_void, size: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t
    ) -> ssize_t;
    recvmsg(descriptor: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(descriptor: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, limit: *mut timespec) -> c_int;
    write(descriptor: c_int, buffer: *const c_void, size: size_t) -> ssize_t;
    writev(descriptor: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    send(descriptor: c_int, buffer: *const c_void, size: size_t, flags: c_int) -> ssize_t;
    sendto(
        descriptor: c_int, buffer: *const c_void, size: size_t, flags: c_int, address: *const sockaddr, length: socklen_t
    ) -> ssize_t;
    sendmsg(descriptor: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(descriptor: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t;
    fcntl(descriptor: c_int, command: c_int, argument: usize) -> c_int;
    fcntl64(descriptor: c_int, command: c_int, argument: usize) -> c_int;
    ioctl(descriptor: c_int, request: c_ulong, argument: usize) -> c_int;
    dup(descriptor: c_int) -> c_int;
    dup2(descriptor: c_int, wanted: c_int) -> c_int;
    dup3(descriptor: c_int, wanted: c_int, flags: c_int) -> c_int;
}
