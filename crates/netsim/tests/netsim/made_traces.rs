//! The traces in the repository are those that the code generates.

use std::path::Path;

use festina_netsim::{MadeTrace, RateTrace};

#[test]
fn each_synthetic_trace_is_in_the_repository_in_mahimahis_format() {
    for made in MadeTrace::ALL {
        let name = format!("../../experiments/traces/{}.trace", made.name());
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&name)).expect("the file is there");
        assert!(text.len() < 100_000, "{name} is small");
        assert_eq!(RateTrace::parse(&text), Ok(made.trace()), "{name}: regenerate it with the example `traces`");
    }
}
