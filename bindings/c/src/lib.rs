//! Festina for C programs. What they see is [`festina.h`](../include/festina.h), which is kept by hand; `tests/header.rs` has the C compiler
//! compare it with this crate.
//!
//! | room | what lives there |
//! |---|---|
//! | `config`, `endpoint`, `association` | the functions, each exported as it stands in the header |
//! | `options`, `message`, `event`, `stats` | the structs that programs and library hand to each other |
//! | `status` | what a function returns, and the text of the last error |
//! | `limit`, `ready` | time limits, and which objects of an endpoint may go on |
//! | `boundary` | the room for code that trusts the caller: pointers and lengths |
//!
//! Handles are pointers to the structs of these rooms. A parameter `Option<&T>` is a pointer that may be NULL, `Option<Box<T>>` one that is
//! given up, `Option<&mut MaybeUninit<T>>` one to something that is written and not read. That they point to what they say is the caller's
//! duty. All else is checked, and no panic gets out: every function that does more than read a field runs inside `status::guard`.

pub mod association;
mod boundary;
pub mod config;
pub mod endpoint;
pub mod event;
mod limit;
pub mod message;
pub mod options;
pub mod ready;
pub mod stats;
pub mod status;
