use super::*;
use crate::outstanding::{PATHS_MAX, Tally};

#[test]
fn an_association_is_small_enough_that_an_idle_one_costs_little() {
    // A second path exists in unit tests only.
    let bytes = size_of::<Association>() - size_of::<[(Option<Path>, Tally); PATHS_MAX - 1]>();
    assert!(bytes <= 1_640, "{bytes} bytes: the budget of 2.3 KB per idle association has no room for that");
}
