//! Festina for C programs. Its interface is [`festina.h`](../include/festina.h), which is kept by hand; `tests/header.rs` has the C compiler
//! compare it with this crate.
//!
//! | module | purpose |
//! |---|---|
//! | `config`, `endpoint`, `association` | the exported functions |
//! | `identity`, `request`, `peer` | those of encryption: identities, trust and admission |
//! | `options`, `message`, `event`, `stats`, `path` | the structs shared with programs |
//! | `outgoing`, `incoming` | messages and options of programs in the library's form; messages lent to programs |
//! | `status` | status codes, and the text of the last error |
//! | `limit`, `ready` | time limits, and the ready objects of an endpoint |
//! | `log` | log records |
//! | `boundary` | unsafe code that trusts the caller's pointers and lengths |
//!
//! Handles are pointers to the structs of these modules. A parameter `Option<&T>` is a pointer that may be NULL, `Option<Box<T>>` one that is
//! consumed, `Option<&mut MaybeUninit<T>>` one that is written without being read. The caller ensures that they point to valid objects.
//! Everything else is checked, and no panic gets out: every function that does more than read a field runs inside `status::guard`.

pub mod association;
mod boundary;
pub mod config;
pub mod endpoint;
pub mod event;
pub mod identity;
pub mod incoming;
mod limit;
pub mod log;
pub mod message;
pub mod options;
mod outgoing;
pub mod path;
pub mod peer;
pub mod ready;
pub mod request;
pub mod stats;
pub mod status;
