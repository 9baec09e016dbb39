//! Runs the real `festina` command.

mod compare;
mod emulate;
mod flags;
mod harness;
mod lab;
mod messages;
mod peers;
