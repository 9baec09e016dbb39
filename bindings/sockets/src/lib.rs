//! `libfestina-sockets.so`: SCTP sockets for unmodified programs, loaded by `LD_PRELOAD`.
//!
//! It replaces the functions of libc that use sockets. Calls on SCTP sockets go to the engine, which is another process; all others go to libc.
//! There is no thread, no lock that outlives a fork, and no state that a program could lose by closing descriptors: which socket a descriptor is
//! says the kernel, by the name of the other end of its pair.
//!
//! | module | purpose |
//! |---|---|
//! | `boundary` | the replaced functions, and all code that uses pointers |
//! | `table` | the state of descriptors |
//! | `client` | requests to the engine |
//! | `calls` | the system calls on SCTP sockets |

pub mod boundary;
mod calls;
mod client;
mod table;
