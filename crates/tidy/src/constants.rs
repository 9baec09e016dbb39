//! Constants that several documents quote: all quote the same value, and that of the code.

use toml::{Table, Value};

use crate::tree::File;

/// A constant of the list.
struct Constant<'t> {
    name: &'t str,
    value: &'t str,
    /// A file and a text in it, for constants of the code. Others name the command that prints them.
    source: Option<(&'t str, &'t str)>,
    /// Phrases with `{}` in place of the value.
    quoted: Vec<&'t str>,
}

/// Complains about pages that quote another value, and about constants that the code or no page has.
///
/// # Errors
/// The list is no TOML, or an entry has another form.
pub fn contradictions(list: &File, files: &[File]) -> Result<Vec<String>, String> {
    let table: Table = list.text.parse().map_err(|error| format!("{}: {error}", list.path))?;
    let entries = table.get("constants").and_then(Value::as_array).ok_or("`constants` is missing")?;
    let mut complaints = Vec::new();
    for entry in entries {
        let constant = constant(entry).ok_or_else(|| format!("{}: malformed: {entry:?}", list.path))?;
        complaints.extend(code_differs(&constant, files));
        let mut is_quoted = false;
        for page in files.iter().filter(|file| file.path.ends_with(".md")) {
            for (line, found) in constant.quoted.iter().flat_map(|phrase| quotations(&page.text, phrase)) {
                is_quoted = true;
                if found != constant.value {
                    let Constant { name, value, .. } = constant;
                    complaints.push(format!("{}:{line}: {name} is {value}, not {found}", page.path));
                }
            }
        }
        if !is_quoted {
            complaints.push(format!("{}: no page quotes \"{}\"", list.path, constant.name));
        }
    }
    Ok(complaints)
}

fn constant(entry: &Value) -> Option<Constant<'_>> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let source = match (text("file"), text("code"), text("command")) {
        (Some(file), Some(code), None) => Some((file, code)),
        (None, None, Some(_)) => None,
        _ => return None,
    };
    let quoted: Option<Vec<&str>> = entry.get("quoted")?.as_array()?.iter().map(Value::as_str).collect();
    Some(Constant { name: text("name")?, value: text("value")?, source, quoted: quoted? })
}

fn code_differs(constant: &Constant<'_>, files: &[File]) -> Option<String> {
    let (path, code) = constant.source?;
    let code = code.replace("{}", constant.value);
    let is_there = files.iter().any(|file| file.path == path && file.text.contains(&code));
    (!is_there).then(|| format!("{path}: {} should be {}: `{code}` is missing", constant.name, constant.value))
}

/// The numbers that stand in place of `{}` wherever the phrase occurs, with their lines. Case does not matter, nor do line breaks.
fn quotations(text: &str, phrase: &str) -> Vec<(usize, String)> {
    let (plain, lines) = plain(text);
    let phrase = phrase.to_ascii_lowercase();
    let Some((before, after)) = phrase.split_once("{}") else { return Vec::new() };
    let is_number = |c: char| c.is_ascii_digit() || c == ',' || c == '.';
    let number = |at: usize| {
        let number = plain[at..].split(|c: char| !is_number(c)).next()?.trim_end_matches([',', '.']);
        let follows = plain[at + number.len()..].starts_with(after);
        (follows && !number.is_empty()).then(|| (lines[at], number.to_owned()))
    };
    let ends = plain.match_indices(before).map(|(at, _)| at + before.len());
    ends.filter(|&at| !plain[..at].ends_with(is_number)).filter_map(number).collect()
}

/// The text in small letters with single spaces, and the line of each of its bytes.
fn plain(text: &str) -> (String, Vec<usize>) {
    let (mut plain, mut lines) = (String::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        for word in line.split_whitespace() {
            plain.push_str(&word.to_ascii_lowercase());
            plain.push(' ');
            lines.resize(plain.len(), index + 1);
        }
    }
    (plain, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn complaints(code: &str, page: &str) -> Vec<String> {
        let list = "constants = [{ name = \"wait\", value = \"1,200\", file = \"a.rs\", code = \"WAIT = {};\", \
                    quoted = [\"waits for {} ms\", \"wait | {} |\", \"{} ms wait\"] }]";
        contradictions(&file("c.toml", list), &[file("a.rs", code), file("a.md", page)]).expect("the list is in order")
    }

    #[test]
    fn pages_that_quote_the_value_of_the_code_are_accepted() {
        for page in [
            "It waits for 1,200 ms.",
            "Waits\n   for 1,200 ms",
            "| wait | 1,200 | waits for some ms",
            "| wait | 1,200 |, x 1,300",
        ] {
            assert_eq!(complaints("const WAIT = 1,200;", page), Vec::<String>::new(), "{page}");
        }
    }

    #[test]
    fn another_value_in_a_page_or_in_the_code_is_reported() {
        let code = "const WAIT = 1,200;";
        assert_eq!(complaints(code, "x\nIt waits\nfor 12 ms"), ["a.md:3: wait is 1,200, not 12"]);
        assert_eq!(complaints(code, "a 1,300 ms wait"), ["a.md:1: wait is 1,200, not 1,300"]);
        assert_eq!(complaints(code, "| wait | 1,200 |\n| wait | 1.3 |"), ["a.md:2: wait is 1,200, not 1.3"]);
        assert_eq!(
            complaints("const WAIT = 7;", "waits for 1,200 ms"),
            ["a.rs: wait should be 1,200: `WAIT = 1,200;` is missing"]
        );
        assert_eq!(complaints(code, "nothing"), ["c.toml: no page quotes \"wait\""]);
    }

    #[test]
    fn an_entry_names_its_value_its_phrases_and_either_code_or_a_command() {
        let of = |entry: &str| contradictions(&file("c.toml", &format!("constants = [{{ {entry} }}]")), &[]);
        assert!(of("name = \"a\", value = \"1\", command = \"x\", quoted = [\"{} s\"]").is_ok());
        assert!(of("name = \"a\", value = \"1\", quoted = [\"{} s\"]").is_err());
        assert!(of("name = \"a\", value = \"1\", command = \"x\"").is_err());
    }
}
