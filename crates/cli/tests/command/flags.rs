//! Help, and command lines that make no sense.

use std::process::Stdio;

use crate::harness::{festina, folder, run};

#[test]
fn every_help_has_examples_and_leaves_standard_error_empty() {
    let commands: [&[&str]; 9] = [
        &["--help"],
        &["listen"],
        &["send"],
        &["ping"],
        &["emulate", "udp"],
        &["emulate", "tun"],
        &["compare"],
        &["lab", "run"],
        &["lab", "check"],
    ];
    for command in commands {
        let mut arguments = command.to_vec();
        if command != ["--help"] {
            arguments.push("--help");
        }
        let help = run(&arguments);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{command:?}");
        assert!(help.stdout.contains("Usage: festina"), "{}", help.stdout);
        assert!(help.stdout.contains("Examples:\n  "), "{}", help.stdout);
    }
}

#[test]
fn the_version_is_told() {
    let version = concat!("festina ", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["-V"]).stdout.trim(), version);
    let long = run(&["--version"]).stdout;
    let lines: Vec<&str> = long.lines().collect();
    assert!(lines[0] == version && lines[1].starts_with("commit: ") && lines.len() == 3, "{long}");
    assert_eq!(lines[2].contains("parquet"), cfg!(feature = "parquet"), "{long}");
}

#[test]
fn without_a_subcommand_the_help_is_shown_and_the_code_is_two() {
    let help = run(&[]);
    assert_eq!(help.code, Some(2));
    assert!(help.stderr.contains("Usage: festina"), "{}", help.stderr);
}

#[test]
fn help_is_also_a_subcommand() {
    let help = run(&["help", "ping"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert!(help.stdout.contains("Usage: festina ping"), "{}", help.stdout);
}

#[test]
fn flags_that_make_no_sense_get_one_line_and_code_two() {
    let cases: [(&[&str], &str); 40] = [
        (&["fly"], "unrecognized subcommand 'fly'"),
        (&["send"], "not provided: <ADDRESS>"),
        (&["send", "localhost:x"], "\"x\" is no port"),
        (&["send", "localhost", "--lifetime", "0ms"], "longer than zero"),
        (&["send", "localhost", "--port", "0"], "0 is not from 1 to 65535"),
        (&["send", "localhost", "--profile", "best"], "rfc9260"),
        (&["send", "localhost", "--raw", "--hex"], "cannot be used with"),
        (&["send", "[::1]x"], "it is not a host"),
        (&["send", "localhost", "--block", "9", "--file", "a"], "cannot be used with"),
        (&["listen", ":0", "--echo", "--raw"], "cannot be used with"),
        (&["ping", "localhost", "-s", "7"], "7 is not from 8 to 1048576"),
        (&["ping", "localhost", "-i", "0"], "longer than zero"),
        (&["ping", "localhost", "-c", "0"], "no whole number above zero"),
        (&["ping", "localhost", "-c", "x"], "no whole number above zero"),
        (&["ping", "localhost", "-c", "-3"], "values here cannot be negative"),
        (&["ping", "localhost", "--timeout", "5000000000000000h"], "longer than a year"),
        (&["ping", "localhost", "-i", "250"], "write for example \"250ms\""),
        (&["emulate", "udp", "--listen", ":0"], "--to <HOST:PORT>"),
        (&["emulate", "udp", "--listen", ":0", "--to", "localhost:1", "--queue", "9"], "\"100p\" or \"64KiB\""),
        (&["emulate", "udp", "--listen", ":0", "--to", "localhost:1", "--rate", "0bit/s"], "above zero"),
        (&["emulate", "udp", "--listen", ":0", "--to", "localhost:1", "--burst", "1s"], "--burst needs a loss"),
        (&["emulate", "udp", "--listen", ":0", "--to", "localhost:1", "--lose", "9-7"], "for example \"2,7-9\""),
        (&["emulate", "tun"], "not provided: --right <NAME>"),
        (&["emulate", "tun", "--left", "a", "--right", "a"], "the same network namespace"),
        (&["emulate", "tun", "--right", "a", "--left-address", "10.0.0.1"], "for example \"10.77.0.1/24\""),
        (&["emulate", "tun", "--right", "a", "--lose", "1", "--loss", "1%"], "cannot be used with"),
        (&["compare", "--associations", "0"], "0 is not from 1 to 10000"),
        (&["compare", "--loss", "150%"], "from 0% to 100%"),
        (&["compare", "--loss", "100%"], "nothing can ever arrive"),
        (&["compare", "--interval", "0ms"], "longer than zero"),
        (&["compare", "--size", "15"], "15 is not from 16 to 65536"),
        (&["compare", "--size", "65537"], "65537 is not from 16 to 65536"),
        (&["compare", "--profiles", "festina,festina"], "names festina twice"),
        (&["compare", "--rtt", "1h"], "--rtt is longer than 5s"),
        (&["compare", "--rate", "1bit/s"], "a message of 100 bytes takes 1248s to send"),
        (&["ping", "localhost", "--size", "7B"], "7 is not from 8 to 1048576"),
        (&["perf", "-c", "localhost", "-p", "5201"], "the port belongs to the address: -c HOST:PORT"),
        (&["compare", "--pcap", "-"], "is no file here"),
        (&["compare", "--html", "a", "--svg", "./a"], "two outputs would go to "),
        (&["compare", "--html", "a", "--svg", "a"], "two outputs would go to "),
    ];
    for (arguments, expected) in cases {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}: {refused:?}");
        assert_eq!(refused.stdout, "", "{arguments:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.starts_with("festina: "), "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{arguments:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("(see `festina ") && refused.stderr.ends_with("--help`)\n"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_misspelt_flag_gets_a_suggestion() {
    let refused = run(&["compare", "--los", "5%"]);
    assert_eq!(refused.code, Some(2));
    assert_eq!(
        refused.stderr,
        "festina: unexpected argument '--los' found; did you mean --loss? (see `festina compare --help`)\n"
    );
}

#[test]
fn an_output_that_cannot_be_written_is_told_before_the_comparison_starts() {
    let folder = folder("no-such-output");
    let page = folder.join("page.html");
    let missing = folder.join("missing").join("figure.svg");
    let [page_text, missing] = [&page, &missing].map(|path| path.to_str().expect("the path is text"));
    let failed = run(&["compare", "--html", page_text, "--svg", missing]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(failed.stderr.lines().count(), 1);
    assert!(failed.stderr.starts_with("festina: cannot write "), "{}", failed.stderr);
    assert!(!page.exists(), "no empty file is left behind");
}

#[test]
fn errors_of_the_system_are_in_its_words_alone() {
    for (arguments, problem) in [
        (&["key", "--of", "nothing.pem"][..], "cannot read nothing.pem: No such file or directory\n"),
        (&["listen", "127.0.0.1:0", "--cert", "nothing.pem", "--key", "nothing.pem"], ": No such file or directory\n"),
        (
            &["emulate", "udp", "--to", "127.0.0.1:1", "--trace", "nothing"],
            ": No such file or directory; the made ones",
        ),
    ] {
        let failed = run(arguments);
        assert!(failed.stderr.contains(problem) && !failed.stderr.contains("(os error"), "{failed:?}");
    }
}

#[test]
fn a_reader_that_leaves_early_causes_no_panic() {
    let mut command = festina(&["compare", "--help"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the command starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("the command ends");
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn shells_and_man_are_told_of_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{script:?}");
        assert!(["emulate", "tunnel", "perf"].iter().all(|word| script.stdout.contains(word)), "{shell}");
    }
    assert_eq!(run(&["completions", "cmd"]).code, Some(2));
    let folder = folder("manual");
    let written = run(&["man", &folder.display().to_string()]);
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""), "{written:?}");
    for page in ["festina.1", "festina-ping.1", "festina-emulate-udp.1", "festina-tunnel-tcp.1"] {
        let text = std::fs::read_to_string(folder.join(page)).expect("the page is there");
        assert!(text.contains(".TH"), "{page}");
    }
    for entry in std::fs::read_dir(&folder).expect("it was made") {
        let path = entry.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("the page is there");
        let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        for heading in ["\"EXIT STATUS\"", "ENVIRONMENT", "\"SEE ALSO\""] {
            assert!(headings.contains(&heading), "{}: {headings:?}", path.display());
        }
        assert!(!headings.contains(&"EXTRA") && !text.contains("Examples:"), "{}", path.display());
    }
    let ping = std::fs::read_to_string(folder.join("festina-ping.1")).expect("the page is there");
    let examples = ping.split_once(".SH EXAMPLES\n.nf\nfestina ping ").expect("they are not filled").1;
    let (examples, rest) = examples.split_once("\n.fi\n").expect("they end");
    assert_eq!(examples.lines().count(), 4, "{examples}");
    assert!(rest.ends_with("\nfestina(1), festina\\-listen(1)\n"), "{rest}");
    assert!(ping.contains("identity.pem") && ping.contains("\nMessages are reliable"), "{ping}");
}
