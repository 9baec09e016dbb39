//! A message that came.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// A message that came; see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// `sizeof`.
    pub size: usize,
    /// Its bytes, until it is freed.
    pub data: *const c_void,
    /// Their number.
    pub length: usize,
    /// Owner of the bytes.
    pub owner: *mut c_void,
    /// Payload protocol identifier.
    pub ppid: u32,
    /// The stream that carried it.
    pub stream: u16,
    /// `UNORDERED`, or 0.
    pub flags: u16,
}

impl Message {
    /// One that holds nothing.
    pub const EMPTY: Self =
        Self { size: size_of::<Self>(), data: null(), length: 0, owner: null_mut(), ppid: 0, stream: 0, flags: 0 };
}
