//! The room for code that trusts the caller: pointers and lengths become references, and back. All unsafe code of this crate is here, but for
//! the attributes that export names.
#![expect(unsafe_code, reason = "C programs hand over pointers, and this is where they are used")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd, BorrowedFd};

use bytes::Bytes;

use crate::event::Event;
use crate::message::Message;
use crate::options::{ConnectOptions, Outgoing, SendOptions};
use crate::path::Path;
use crate::stats::{Path as PathGauges, Stats};
use crate::status::{Failure, Status, guard_value};

/// A plain-data struct whose first field is its size as the program was compiled, a `usize`. Any bytes are valid, and new fields are only
/// appended.
///
/// # Safety
/// It is `repr(C)`, begins with a `usize`, and contains only integers and raw pointers.
pub(crate) unsafe trait Versioned: Copy {
    /// The size that the first version of the struct had: no program knows a smaller one.
    const SIZE_MIN: usize;
}

macro_rules! grows_behind {
    ($($type:ty, $field:ident: $field_type:ty;)*) => {$(
        // SAFETY: see the struct: a size, then integers and raw pointers.
        unsafe impl Versioned for $type {
            const SIZE_MIN: usize = offset_of!($type, $field) + size_of::<$field_type>();
        }
    )*};
}

// The last field of each first version.
grows_behind! {
    SendOptions, reserved: [u16; 3];
    ConnectOptions, reserved: [u16; 3];
    Message, flags: u16;
    Event, at_us: u64;
    Stats, path: PathGauges;
    Path, address: [c_char; 64];
}

/// The bytes of the argument `name`: at most `length_max`, so that no length makes a copy of them fail.
pub(crate) fn bytes<'a>(
    name: &str,
    data: *const c_void,
    length: usize,
    length_max: usize,
) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Failure::null(name));
    }
    if length > length_max.min(isize::MAX.cast_unsigned()) {
        return Err(Failure::invalid(format_args!("{name} has {length} bytes, but at most {length_max} are allowed")));
    }
    // SAFETY: it is not null, and no longer than an object can be. The caller ensures that `length` bytes can be read there until the
    // function returns.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// The bytes at `text` up to a zero byte, or nothing for NULL.
pub(crate) fn zero_terminated<'a>(text: *const c_char) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: it is not null. That it ends with a zero byte and stays until the function returns is the caller's duty.
    Some(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The text at `text`, or nothing for NULL.
pub(crate) fn text<'a>(name: &str, text: *const c_char) -> Result<Option<&'a str>, Failure> {
    let text = zero_terminated(text).map(str::from_utf8).transpose();
    text.map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
}

/// Writes a text and a zero byte, as much of it as fits. Returns the length of the whole text, as snprintf does.
fn write_text(text: &str, buffer: *mut c_char, capacity: usize) -> usize {
    let room = capacity.saturating_sub(1);
    let mut length = text.len().min(room);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    if !buffer.is_null() && capacity > 0 {
        // SAFETY: the buffer is not null, and at most `capacity` bytes are written. The caller ensures that it has them. The text is ours, so they do
        // not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), length);
            buffer.add(length).write(0);
        }
    }
    text.len()
}

/// As [`guard_value`], for a function that writes a text. On failure the text is empty, because programs may print the buffer anyway.
pub(crate) fn guard_text<T: AsRef<str>>(
    buffer: *mut c_char,
    capacity: usize,
    work: impl FnOnce() -> Result<T, Failure>,
) -> usize {
    guard_value(0, || {
        write_text("", buffer, capacity);
        Ok(write_text(work()?.as_ref(), buffer, capacity))
    })
}

/// Writes bytes, as many of them as fit. Returns the number of all of them.
pub(crate) fn write_bytes(bytes: &[u8], buffer: *mut c_void, capacity: usize) -> usize {
    write_all(bytes.iter().copied(), buffer.cast::<u8>(), capacity);
    bytes.len()
}

/// Returns how much of a struct both sides know.
fn known<T: Versioned>(pointer: *const T) -> Result<usize, Failure> {
    // SAFETY: every struct begins with its size. The caller ensures that the pointer is one to a struct; as a C object it is aligned.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size < T::SIZE_MIN {
        return Err(Failure::invalid(format!(
            "a struct says that it has {size} bytes, but has at least {}",
            T::SIZE_MIN
        )));
    }
    Ok(size.min(size_of::<T>()))
}

/// Reads a struct. Fields that the program does not know are taken from `otherwise`, and all fields if the pointer is NULL.
pub(crate) fn read<T: Versioned>(pointer: *const T, otherwise: T) -> Result<T, Failure> {
    if pointer.is_null() {
        return Ok(otherwise);
    }
    let known = known(pointer)?;
    let mut value = MaybeUninit::new(otherwise);
    // SAFETY: both structs have at least `known` bytes, and any bytes are a valid value (`Versioned`).
    unsafe {
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known);
        Ok(value.assume_init())
    }
}

/// A struct of the program that will be written.
pub(crate) struct Slot<T: Versioned> {
    pointer: *mut T,
    known: usize,
}

impl<T: Versioned> Slot<T> {
    /// Checks the pointer and the size, before anything is done that would be lost.
    pub(crate) fn new(what: &str, pointer: *mut T) -> Result<Self, Failure> {
        if pointer.is_null() {
            return Err(Failure::null(what));
        }
        Ok(Self { pointer, known: known(pointer)? })
    }

    /// Writes the fields that the program knows, except the size.
    pub(crate) fn fill(self, value: T) {
        let size = size_of::<usize>();
        // SAFETY: both structs have at least this many bytes. The value was created here and does not overlap the program's.
        unsafe {
            let from = (&raw const value).cast::<u8>().add(size);
            std::ptr::copy_nonoverlapping(from, self.pointer.cast::<u8>().add(size), self.known - size);
        }
    }
}

/// The array of `count` messages of the argument `name`.
pub(crate) fn outgoing<'a>(name: &str, messages: *const Outgoing, count: usize) -> Result<&'a [Outgoing], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if messages.is_null() {
        return Err(Failure::null(name));
    }
    if count > isize::MAX.cast_unsigned() / size_of::<Outgoing>() {
        return Err(Failure::invalid(format_args!("{name} has {count} messages, more than any array can hold")));
    }
    // SAFETY: it is not null, and no longer than an object can be. That the caller's structs can be read there until the function returns is the
    // caller's duty.
    Ok(unsafe { std::slice::from_raw_parts(messages, count) })
}

/// Writes at most `capacity` values into the array at `target`, and returns how many.
pub(crate) fn write_all<T: Copy>(values: impl Iterator<Item = T>, target: *mut T, capacity: usize) -> usize {
    let mut count = 0;
    for value in values.take(if target.is_null() { 0 } else { capacity }) {
        // SAFETY: it is not null, and fewer than `capacity` values are before this one. Room for `capacity` values is the caller's duty.
        unsafe { target.add(count).write(value) };
        count += 1;
    }
    count
}

/// The number of a descriptor that the library keeps.
pub(crate) fn descriptor(found: io::Result<BorrowedFd<'_>>) -> Result<c_int, Failure> {
    let failed = |error| Failure::new(Status::System, format_args!("no descriptor: {error}"));
    found.map(|descriptor| descriptor.as_raw_fd()).map_err(failed)
}

/// The pointer that a program passes with a function, for calls from any thread.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub(crate) *mut c_void);

impl Context {
    pub(crate) fn pointer(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: the library never reads the pointer. The header has the program expect calls of its function from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Hands bytes over to the program, which gives them back with [`release`].
pub(crate) fn lend(bytes: Bytes) -> *mut c_void {
    Box::into_raw(Box::new(bytes)).cast()
}

/// Frees the bytes lent in a message, and empties the message. A second call does nothing.
pub(crate) fn release(message: *mut Message) -> Result<(), Failure> {
    if message.is_null() {
        return Ok(());
    }
    let held = read(message, Message::EMPTY)?;
    if !held.owner.is_null() {
        // SAFETY: `owner` comes from `lend`, and is null once it was taken back. That the program has not changed it is its duty.
        drop(unsafe { Box::from_raw(held.owner.cast::<Bytes>()) });
    }
    Slot::new("message", message)?.fill(Message::EMPTY);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct of the library whose last field old programs do not know.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Grown {
        size: usize,
        first: u64,
        added: u64,
    }

    grows_behind! {
        Grown, first: u64;
    }

    const LIBRARYS: Grown = Grown { size: size_of::<Grown>(), first: 1, added: 2 };

    #[test]
    fn an_old_program_is_written_no_more_than_it_knows() {
        let mut programs = Grown { size: size_of::<Grown>() - 8, first: 0, added: 77 };
        Slot::new("grown", &raw mut programs).unwrap().fill(LIBRARYS);
        assert_eq!(programs, Grown { size: size_of::<Grown>() - 8, first: 1, added: 77 });
    }

    #[test]
    fn of_what_an_old_program_does_not_know_the_default_holds() {
        let programs = Grown { size: size_of::<Grown>() - 8, first: 5, added: 77 };
        let read = read(&raw const programs, LIBRARYS).unwrap();
        assert_eq!((read.first, read.added), (5, 2));
    }

    #[test]
    fn a_struct_smaller_than_the_first_version_is_refused() {
        let mut programs = Grown { size: size_of::<Grown>() - 9, ..LIBRARYS };
        assert!(Slot::new("grown", &raw mut programs).is_err());
        assert!(read(&raw const programs, LIBRARYS).is_err());
    }

    #[test]
    fn a_text_is_cut_between_characters_and_ends_with_a_zero() {
        let mut buffer: [c_char; 6] = [7; 6];
        assert_eq!(write_text("naïve", buffer.as_mut_ptr(), 4), 6);
        assert_eq!(buffer, [b'n' as c_char, b'a' as c_char, 0, 7, 7, 7]);
        assert_eq!(write_text("x", buffer.as_mut_ptr(), 1), 1);
        assert_eq!(buffer[..2], [0, b'a' as c_char]);
        assert_eq!(write_text("x", std::ptr::null_mut(), 0), 1);
    }
}
