//! Client and server with an address of each on every path.

use crate::uplinks::cases::{ADDED, CHANGED, ROAMING, UNPLUGGED, ms};
use crate::uplinks::course::logged;

#[test]
fn an_uplink_is_unplugged_and_plugged_in_again() {
    let (site, course) = UNPLUGGED.run();
    let (_, last) = course.carried[0].expect("A is used again");
    assert!(last > ms(3000), "{course:?}");
    assert!(logged(&site, "has no link") > 0);
}

#[test]
fn the_address_of_an_uplink_changes() {
    let (site, course) = CHANGED.run();
    let changes = site.server_counter("stack_address_changes_of_peers");
    assert!(changes >= 2, "{changes} of {course:?}");
    let (_, last) = course.carried[0].expect("A is used");
    assert!(last > ms(3000), "{course:?}");
}

#[test]
fn an_uplink_comes_during_a_download() {
    let (_site, course) = ADDED.run();
    assert!(course.carried[1].is_some(), "{course:?}");
}

#[test]
fn all_addresses_go_and_another_comes() {
    let (_site, course) = ROAMING.run();
    assert!(course.carried[0].is_some_and(|(_, last)| last > ms(7000)), "{course:?}");
}
