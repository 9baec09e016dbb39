//! Copies that take the place of the followed file.

use super::*;

#[test]
fn a_copy_that_replaces_the_file_continues_at_the_position() {
    let mut world = World::new();
    let long: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
    world.write(&format!("{}\n", long.join("\n")));
    world.look();
    for is_down in [false, true] {
        fs::copy(&world.path, world.name("draft")).expect("it can be copied");
        fs::rename(world.name("draft"), &world.path).expect("it can be renamed");
        world.write("more\n");
        if is_down {
            world.restart(&[]);
        }
        world.look();
    }
    assert_eq!(world.lines[..50], long);
    assert_eq!(world.lines[50..], ["more", "more"]);
    assert_eq!(world.losses(), (0, 0));
}

#[test]
fn an_older_version_that_is_copied_over_the_file_is_not_read_again() {
    let mut world = World::new();
    let long: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
    world.write(&format!("{}\n", long.join("\n")));
    world.look();
    world.rotate("1");
    world.write("two\n");
    for seconds in [0, 100] {
        world.pass(seconds);
        fs::copy(world.name("app.log.1"), &world.path).expect("it can be copied");
        world.write(&format!("after {seconds}\n"));
        world.look();
    }
    assert_eq!(world.lines[..50], long);
    assert_eq!(world.lines[50..], ["two", "after 0", "after 100"]);
    // The lines that were overwritten may have been unread.
    assert_eq!(world.losses().0, 2);
}

#[test]
fn a_copy_that_replaces_the_file_is_known_although_both_are_rotated_at_once() {
    let mut world = World::new();
    let long: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
    world.write(&format!("{}\n", long.join("\n")));
    world.look();
    fs::hard_link(&world.path, world.name("app.log.2")).expect("it can be linked");
    fs::copy(&world.path, world.name("draft")).expect("it can be copied");
    fs::rename(world.name("draft"), &world.path).expect("it can be renamed");
    world.write("more\n");
    world.rotate("1");
    world.write("new\n");
    world.look();
    assert_eq!(world.lines[..50], long);
    assert_eq!(world.lines[50..], ["more", "new"]);
    assert_eq!(world.losses(), (0, 0));
}

#[test]
fn a_new_file_of_equal_lines_is_no_copy_of_the_one_before() {
    let mut world = World::new();
    world.write(&"tick\n".repeat(200));
    world.look();
    world.rotate("1");
    world.write(&"tick\n".repeat(300));
    world.look();
    world.rotate("2");
    world.write(&"tick\n".repeat(400));
    world.restart(&[]);
    world.look();
    assert_eq!((world.lines.len(), world.losses().0), (900, 0));
}
