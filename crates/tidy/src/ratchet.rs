//! Limits with a list of exceptions that only shrinks.

use std::collections::BTreeMap;

/// Sizes by what they are the size of.
pub type Sizes = BTreeMap<String, usize>;

/// A limit and the exceptions from it. An exception holds exactly the size that its owner has now.
#[derive(Clone, Debug)]
pub struct Limit<'a> {
    /// What is limited, in a sentence: "lines of code".
    pub what: &'a str,
    /// The most that anything not listed may have.
    pub most: usize,
    /// What may have more, and how much.
    pub exceptions: &'a Sizes,
}

/// Reads one table of sizes from the ratchet file. A missing table is an empty one.
///
/// # Errors
/// If the text is not TOML or the table holds anything but sizes.
pub fn exceptions(toml: &str, table: &str) -> Result<Sizes, String> {
    let document: BTreeMap<String, Sizes> = toml::from_str(toml).map_err(|error| error.to_string())?;
    Ok(document.get(table).cloned().unwrap_or_default())
}

/// Holds the sizes against the limit. Something unlisted above the limit, something listed that grew, that shrank, that
/// no longer needs to be listed or that is gone: each is a complaint.
#[must_use]
pub fn check(limit: &Limit<'_>, sizes: &Sizes) -> Vec<String> {
    let Limit { what, most, exceptions } = limit;
    let mut complaints = Vec::new();
    for (name, size) in sizes {
        match exceptions.get(name) {
            None if size > most => complaints.push(format!("{name}: {size} {what}, at most {most} are allowed")),
            None => {}
            Some(_) if size <= most => {
                complaints.push(format!("{name}: {size} {what} are within the limit: take it off the ratchet"));
            }
            Some(listed) if size > listed => {
                complaints.push(format!("{name}: {size} {what}, the ratchet allows {listed} and never more"));
            }
            Some(listed) if size < listed => {
                complaints.push(format!("{name}: {size} {what}, lower the ratchet from {listed}"));
            }
            Some(_) => {}
        }
    }
    let gone = exceptions.keys().filter(|name| !sizes.contains_key(*name));
    complaints.extend(gone.map(|name| format!("{name}: is on the ratchet but not in the tree")));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(list: &[(&str, usize)]) -> Sizes {
        list.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
    }

    fn complaints(listed: &[(&str, usize)], found: &[(&str, usize)]) -> Vec<String> {
        check(&Limit { what: "lines", most: 10, exceptions: &sizes(listed) }, &sizes(found))
    }

    #[test]
    fn what_keeps_the_limit_or_its_exception_passes() {
        assert!(complaints(&[("big", 12)], &[("big", 12), ("small", 10)]).is_empty());
    }

    #[test]
    fn what_is_not_listed_must_keep_the_limit() {
        assert_eq!(complaints(&[], &[("a", 11)]), ["a: 11 lines, at most 10 are allowed"]);
    }

    #[test]
    fn an_exception_never_grows() {
        assert_eq!(complaints(&[("a", 12)], &[("a", 13)]), ["a: 13 lines, the ratchet allows 12 and never more"]);
    }

    #[test]
    fn an_exception_follows_its_owner_down() {
        assert_eq!(complaints(&[("a", 12)], &[("a", 11)]), ["a: 11 lines, lower the ratchet from 12"]);
        assert_eq!(
            complaints(&[("a", 12)], &[("a", 10)]),
            ["a: 10 lines are within the limit: take it off the ratchet"]
        );
        assert_eq!(complaints(&[("a", 12)], &[]), ["a: is on the ratchet but not in the tree"]);
    }

    #[test]
    fn exceptions_are_read_by_table() {
        let toml = "[file_code_lines]\n\"a.rs\" = 12\n";
        assert_eq!(exceptions(toml, "file_code_lines"), Ok(sizes(&[("a.rs", 12)])));
        assert_eq!(exceptions(toml, "struct_fields"), Ok(sizes(&[])));
        assert!(exceptions("[file_code_lines]\n\"a.rs\" = \"many\"\n", "file_code_lines").is_err());
    }
}
