//! Colours of verdicts on terminals.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};

/// The kind of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Doubtful,
    Bad,
}

/// The text in the colour of its verdict if standard output is a terminal that shows colours and the user has not turned them off
/// (<https://no-color.org>).
pub(crate) fn coloured(text: &str, verdict: Verdict) -> String {
    let variable = |name: &str| std::env::var_os(name);
    if is_wanted(io::stdout().is_terminal(), variable("NO_COLOR").as_deref(), variable("TERM").as_deref()) {
        painted(text, verdict)
    } else {
        text.to_owned()
    }
}

fn is_wanted(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty) && term.is_some_and(|term| term != "dumb")
}

/// The text between the sequences of ECMA-48 (SGR) for a colour and for the default one.
fn painted(text: &str, verdict: Verdict) -> String {
    let colour = match verdict {
        Verdict::Good => 32,
        Verdict::Doubtful => 33,
        Verdict::Bad => 31,
    };
    format!("\x1b[{colour}m{text}\x1b[39m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_user_wants_them() {
        let (term, none) = (Some(OsStr::new("xterm")), Some(OsStr::new("")));
        assert!(is_wanted(true, None, term) && is_wanted(true, none, term));
        assert!(!is_wanted(false, None, term));
        assert!(!is_wanted(true, Some(OsStr::new("1")), term));
        assert!(!is_wanted(true, None, None) && !is_wanted(true, None, Some(OsStr::new("dumb"))));
        assert_eq!(painted("holds", Verdict::Good), "\x1b[32mholds\x1b[39m");
    }
}
