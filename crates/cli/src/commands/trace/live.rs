//! `festina trace thin --interface`: the current traffic of a network interface.
//!
//! Packets come from [`interface`] with the kernel's times and go through the analysis as those of a file do; [`screen`] shows the streams
//! with the longest delays at each interval. Streams that end become rows and part of the final report.

mod interface;
mod screen;

use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;

use anyhow::{Context as _, Result};
use festina_trace::analysis::columns::json_line;
use festina_trace::{Analyser, AnalyserOptions, Finding};
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::interface::Interface;
use self::screen::{Look, Watch};
use super::thin::{Kept, Rows, ThinArgs, conclude};
use crate::{output, signal};

/// The alternate screen of a terminal, which keeps the user's history.
const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";
const TO_THE_TOP: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// How often packets are read again at the end, so that a flood cannot delay it.
const BATCHES_LAST_MAX: usize = 256;

/// Watches until interrupted, or for as long as was asked for.
pub(super) async fn run(arguments: &ThinArgs, name: &str) -> Result<()> {
    let mut interruption = pin!(signal::interruption());
    let interface = Interface::open(name)?;
    output::notice(&format!("watching {name}; press Ctrl-C to stop"));
    let mut watched = Watched {
        analyser: Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() }),
        kept: Kept::default(),
        rows: Rows::new(arguments)?,
        watch: Watch::default(),
        dropped: 0,
    };
    let mut terminal = Terminal::new(!watched.rows.owns_stdout && io::stdout().is_terminal());
    let mut ticks = interval(arguments.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut end = pin!(async {
        match arguments.time {
            Some(time) => sleep(time).await,
            None => std::future::pending().await,
        }
    });
    loop {
        tokio::select! {
            biased;
            () = &mut interruption => break,
            () = &mut end => break,
            _ = ticks.tick() => {
                watched.dropped += interface.dropped()?;
                watched.show(arguments, name, &mut terminal)?;
            }
            result = interface.readable() => {
                result?;
                watched.take_packets(&interface, false).with_context(|| format!("cannot read from {name}"))?;
            }
        }
    }
    drop(terminal);
    for _ in 0..BATCHES_LAST_MAX {
        if !watched.take_packets(&interface, true)? {
            break;
        }
    }
    watched.dropped += interface.dropped()?;
    watched.analyser.finish();
    watched.take_findings()?;
    let summary = watched.analyser.summary();
    if watched.rows.owns_stdout && arguments.json {
        watched.rows.line(&screen::summary_line(&summary, watched.dropped))?;
    } else if watched.dropped > 0 {
        output::notice(&dropped_notice(watched.dropped));
    }
    conclude(arguments, name, summary, watched.kept, watched.rows)
}

fn dropped_notice(dropped: u64) -> String {
    format!("the kernel dropped {dropped} packets that this program did not read in time: their data looks lost")
}

/// The state of the watched interface so far.
struct Watched {
    analyser: Analyser,
    kept: Kept,
    rows: Rows,
    watch: Watch,
    dropped: u64,
}

impl Watched {
    /// Analyses packets that have come. Returns whether there may be more.
    fn take_packets(&mut self, interface: &Interface, is_last: bool) -> Result<bool> {
        let has_more = interface.take(is_last, |packet| self.analyser.handle_packet(packet))?;
        self.take_findings()?;
        Ok(has_more)
    }

    fn take_findings(&mut self) -> Result<()> {
        while let Some(finding) = self.analyser.poll_finding() {
            match finding {
                Finding::Write(write) => self.watch.write(&write),
                Finding::Stream(stream) => {
                    self.rows.write(&stream)?;
                    self.kept.add(*stream);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn show(&mut self, arguments: &ThinArgs, name: &str, terminal: &mut Terminal) -> Result<()> {
        let look = self.watch.look(&self.analyser, arguments.interval, arguments.top);
        if arguments.json {
            for line in look.json_lines(&self.analyser.summary(), self.dropped, json_line) {
                self.rows.line(&line)?;
            }
            return self.rows.flush();
        }
        if self.rows.owns_stdout {
            return Ok(());
        }
        terminal.show(&self.heading(name, &look), &look)
    }

    fn heading(&self, name: &str, look: &Look) -> String {
        let summary = self.analyser.summary();
        let mut text = format!("{name}: {} packets, {} streams alive", summary.packets, look.alive);
        if summary.conversations_retired > 0 {
            text += &format!(", {} conversations given up", summary.conversations_retired);
        }
        if self.dropped > 0 {
            text += &format!(", {} packets dropped by the kernel", self.dropped);
        }
        text
    }
}

/// Where looks are shown: in place on a terminal, one below the other elsewhere.
struct Terminal {
    in_place: bool,
    has_begun: bool,
}

impl Terminal {
    fn new(in_place: bool) -> Self {
        Self { in_place, has_begun: false }
    }

    fn show(&mut self, heading: &str, look: &Look) -> Result<()> {
        let text = format!("{heading}\n{}", look.text());
        if !self.in_place {
            return output::print(&text);
        }
        let begin = if self.has_begun { "" } else { ENTER_SCREEN };
        self.has_begun = true;
        let lines: String = text.lines().map(|line| format!("{line}{CLEAR_LINE}\r\n")).collect();
        let mut out = io::stdout().lock();
        let written = write!(out, "{begin}{TO_THE_TOP}{lines}{CLEAR_BELOW}").and_then(|()| out.flush());
        written.context("cannot write to standard output")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.has_begun {
            let mut out = io::stdout().lock();
            // Who does not read any more does not see it either.
            let _ = write!(out, "{LEAVE_SCREEN}").and_then(|()| out.flush());
        }
    }
}
