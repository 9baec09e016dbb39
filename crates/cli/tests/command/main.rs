//! Runs the real `festina` command.

mod compare;
mod emulate;
#[cfg(target_os = "linux")]
mod emulate_run;
mod flags;
mod harness;
mod lab;
#[cfg(target_os = "linux")]
mod lab_real;
#[cfg(target_os = "linux")]
mod lab_shared;
mod messages;
#[cfg(target_os = "linux")]
mod modes;
mod peers;
mod reported;
mod secure;
#[cfg(unix)]
mod signals;
#[cfg(target_os = "linux")]
mod syslog;
mod tcp;
mod trace;
#[cfg(target_os = "linux")]
mod trace_both_ends;
#[cfg(target_os = "linux")]
mod trace_interface;
mod tunnel;
mod wireshark;
