//! Rules that choose the treatment of a line.
//!
//! The first matching rule decides. After the last one come [`Policy::defaults`], which follow the syslog experiments of Rajiullah's thesis (papers
//! IV, V and VII): important lines are reliable, all others are sent only while they are fresh.

use std::ops::RangeInclusive;

use festina_units::Duration;

use crate::line::{Facility, Header, Severity};

/// Number of priorities; 0 is the highest.
pub const PRIORITIES: u8 = 8;

/// How a line is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is thrown away, and counted.
    Drop,
    /// It is spooled until the collector has it on disk.
    Reliable {
        /// 0, the first to go, to 7.
        priority: u8,
        /// Whether lines of one source and priority keep their order.
        ordered: bool,
    },
    /// It is sent as long as it is worth it, and abandoned then.
    Fresh {
        /// 0, the first to go, to 7.
        priority: u8,
        /// Time after its receipt during which it may be sent or repaired; `None` means no limit while the association exists.
        lifetime: Option<Duration>,
        /// Maximum number of repairs; `None` means no limit.
        retransmissions: Option<u16>,
    },
}

/// Which lines a rule is for: those that fit in everything that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    /// Severities, the most important first.
    pub severity: Option<RangeInclusive<Severity>>,
    /// Any of these facilities; all if empty.
    pub facilities: Vec<Facility>,
    /// The application, where `*` stands for any text.
    pub app: Option<String>,
    /// Text that the line contains, byte for byte.
    pub contains: Option<String>,
}

impl Matcher {
    fn fits(&self, header: &Header<'_>, line: &[u8]) -> bool {
        self.severity.as_ref().is_none_or(|range| range.contains(&header.severity))
            && (self.facilities.is_empty() || self.facilities.contains(&header.facility))
            && self.app.as_ref().is_none_or(|pattern| {
                header.app.as_ref().is_some_and(|app| fits_pattern(pattern.as_bytes(), app.as_bytes()))
            })
            && self.contains.as_ref().is_none_or(|text| contains(line, text.as_bytes()))
    }
}

/// Rules in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<(Matcher, Treatment)>,
}

impl Policy {
    /// The given rules, and after them the defaults.
    pub fn new(mut rules: Vec<(Matcher, Treatment)>) -> Self {
        rules.extend(Self::defaults());
        Self { rules }
    }

    /// Severities emerg to err are reliable with priority 0; warning to info live 5 s with priority 1; debug lives 100 ms with priority 2.
    pub fn defaults() -> [(Matcher, Treatment); 3] {
        let severities =
            |from, to| Matcher { severity: Some(Severity::new(from)..=Severity::new(to)), ..Matcher::default() };
        let fresh = |priority, lifetime_ms| Treatment::Fresh {
            priority,
            lifetime: Some(Duration::from_millis(lifetime_ms)),
            retransmissions: None,
        };
        [
            (severities(0, 3), Treatment::Reliable { priority: 0, ordered: true }),
            (severities(4, 6), fresh(1, 5_000)),
            (severities(7, 7), fresh(2, 100)),
        ]
    }

    /// Whether any rule asks for the application. If not, [`read_worth`](crate::line::read_worth) is enough of a header.
    pub fn asks_for_app(&self) -> bool {
        self.rules.iter().any(|(matcher, _)| matcher.app.is_some())
    }

    /// Returns the treatment of a line: that of the first matching rule.
    pub fn treatment(&self, header: &Header<'_>, line: &[u8]) -> Treatment {
        let rule = self.rules.iter().find(|(matcher, _)| matcher.fits(header, line));
        rule.map_or(Treatment::Reliable { priority: 0, ordered: true }, |&(_, treatment)| treatment)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    text.is_empty() || line.windows(text.len()).any(|window| window == text)
}

/// Whether the whole text fits a pattern in which `*` stands for any bytes; takes at most the product of both lengths.
fn fits_pattern(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&byte) if byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match &mut star {
                Some((behind, taken)) => {
                    *taken += 1;
                    (at, from) = (*behind + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::read_header;

    fn treated(policy: &Policy, line: &[u8]) -> Treatment {
        policy.treatment(&read_header(line), line)
    }

    #[test]
    fn by_default_important_lines_are_reliable_and_the_others_live_as_long_as_in_the_papers() {
        let policy = Policy::default();
        let lifetime = |line| match treated(&policy, line) {
            Treatment::Fresh { lifetime, .. } => lifetime,
            _ => None,
        };
        for severity in 0..4 {
            let line = format!("<{severity}>x");
            assert_eq!(treated(&policy, line.as_bytes()), Treatment::Reliable { priority: 0, ordered: true });
        }
        assert_eq!(lifetime(b"<14>x"), Some(Duration::from_secs(5)));
        assert_eq!(lifetime(b"no priority"), Some(Duration::from_secs(5)));
        assert_eq!(lifetime(b"<15>x"), Some(Duration::from_millis(100)));
    }

    #[test]
    fn the_first_rule_that_fits_in_everything_decides() {
        let matcher = Matcher {
            facilities: vec!["auth".parse().expect("a facility")],
            app: Some("ss*d".to_owned()),
            contains: Some("Failed".to_owned()),
            ..Matcher::default()
        };
        let policy = Policy::new(vec![(matcher, Treatment::Drop)]);
        assert_eq!(treated(&policy, b"<38>Oct 11 22:14:15 host sshd: Failed password"), Treatment::Drop);
        for line in [
            &b"<38>Oct 11 22:14:15 host sshd: Accepted password"[..],
            b"<38>Oct 11 22:14:15 host sudo: Failed password",
            b"<14>Oct 11 22:14:15 host sshd: Failed password",
        ] {
            assert_ne!(treated(&policy, line), Treatment::Drop);
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "a", false),
            ("*aab", "aaab", true),
        ] {
            assert_eq!(fits_pattern(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }
}
