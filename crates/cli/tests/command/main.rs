//! Runs the real `festina` command.

mod compare;
mod flags;
mod harness;
mod lab;
mod messages;
