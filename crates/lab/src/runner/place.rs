//! Processes and the machines that they run on, so that an end on the same machine is noticed at once.

use std::fmt;
use std::fs;
use std::io::ErrorKind;

/// A process of any machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// The machine's name, for people.
    pub(super) host: String,
    pub(super) id: u32,
    /// The boot, the namespace of process numbers, and the process' start. Empty on systems that do not say.
    place: String,
    started: u64,
}

impl Process {
    /// This process.
    pub(super) fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
        let (boot, id) = (read("/proc/sys/kernel/random/boot_id"), std::process::id());
        let space = fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default();
        let started = started(id).ok().flatten();
        let is_known = !boot.is_empty() && !space.is_empty() && started.is_some();
        let host: String =
            read("/proc/sys/kernel/hostname").chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
        Self {
            host: if host.is_empty() { "unknown".to_owned() } else { host },
            id,
            place: if is_known { format!("{boot}/{space}") } else { "-".to_owned() },
            started: started.unwrap_or(0),
        }
    }

    /// Reads the line that [`fmt::Display`] writes, out of several.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.lines().find_map(|line| line.strip_prefix("process "))?.split(' ');
        let host = words.next()?;
        if host.is_empty() || host.len() > 64 || !host.chars().all(|c| c.is_ascii_graphic()) {
            return None;
        }
        let (host, id) = (host.to_owned(), words.next()?.parse().ok()?);
        Some(Self { host, id, started: words.next()?.parse().ok()?, place: words.next()?.to_owned() })
    }

    /// Whether the process ran on this machine and has ended. `false` if that is unknown.
    pub(super) fn has_ended_here(&self) -> bool {
        let this = Self::this();
        this.place != "-" && this.place == self.place && started(self.id).is_ok_and(|now| now != Some(self.started))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} {} {} {}", self.host, self.id, self.started, self.place)
    }
}

/// When a process of this machine started, in the system's ticks; `None` if there is none or it has ended. An error if the system does not say.
fn started(id: u32) -> Result<Option<u64>, ()> {
    let stat = match fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(()),
    };
    // The name, in parentheses, may have any characters in it. The state follows, and the start is the 22nd field of proc(5).
    let mut fields = stat.rsplit_once(')').ok_or(())?.1.split_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return Ok(None);
    }
    fields.nth(18).and_then(|field| field.parse().ok()).map(Some).ok_or(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_start() {
        let this = Process::this();
        assert_eq!(Process::parse(&format!("x\n{this}\n")), Some(this.clone()));
        assert!(!this.has_ended_here());
        // Another process with the same number had started at another time.
        assert!(Process { started: this.started + 1, ..this.clone() }.has_ended_here());
        assert!(!Process { started: 0, place: "elsewhere".to_owned(), ..this }.has_ended_here());
        for text in ["", "process", "process a 1 2", "process a b 2 x", "process  1 2 x", "process \u{1b}[31m 1 2 x"] {
            assert_eq!(Process::parse(text), None, "{text:?}");
        }
    }
}
