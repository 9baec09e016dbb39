use super::*;

#[test]
fn an_association_is_small_enough_that_an_idle_one_costs_little() {
    let bytes = size_of::<Association>();
    assert!(bytes <= 1_640, "{bytes} bytes: the budget of 2.3 KB per idle association has no room for that");
}
