use super::{
    acceptable, announced, candidates, gather, is_on_other_link, may_pair, pairs, same_scope,
};
use crate::config::LocalAddress;
use crate::path::{PathAddr, PathPolicy, PathRole, PathRule};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};

fn local(addr: &str, prefix_len: u8) -> LocalAddress {
    LocalAddress { addr: socket(addr), prefix_len, interface: 0, mtu: 1500 }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn socket(text: &str) -> SocketAddr {
    SocketAddr::new(ip(text), 9899)
}

fn pair(local: &str, remote: &str) -> PathAddr {
    PathAddr { local: socket(local), remote: socket(remote) }
}

fn mirrored(pairs: Vec<PathAddr>) -> Vec<PathAddr> {
    let mut pairs: Vec<_> =
        pairs.into_iter().map(|p| PathAddr { local: p.remote, remote: p.local }).collect();
    pairs.sort();
    pairs
}

fn sorted(mut pairs: Vec<PathAddr>) -> Vec<PathAddr> {
    pairs.sort();
    pairs
}

#[test]
fn two_networks_are_two_paths_seen_alike_by_both_ends() {
    let a = [local("10.1.0.1", 24), local("10.2.0.1", 24)];
    let z = [local("10.1.0.2", 24), local("10.2.0.2", 24)];
    let from_a = pairs(pair("10.1.0.1", "10.1.0.2"), &a, &[ip("10.1.0.2"), ip("10.2.0.2")]);
    let from_z = pairs(pair("10.1.0.2", "10.1.0.1"), &z, &[ip("10.2.0.1"), ip("10.1.0.1")]);
    assert_eq!(from_a, vec![pair("10.1.0.1", "10.1.0.2"), pair("10.2.0.1", "10.2.0.2")]);
    assert_eq!(sorted(from_a), mirrored(from_z));
}

#[test]
fn two_uplinks_to_a_server_with_one_address_are_two_paths() {
    let uplinks = [local("192.168.1.5", 24), local("10.9.0.3", 16)];
    let paths = pairs(pair("192.168.1.5", "198.51.100.1"), &uplinks, &[]);
    let expected = vec![pair("192.168.1.5", "198.51.100.1"), pair("10.9.0.3", "198.51.100.1")];
    assert_eq!(paths, expected);
    let server = [local("198.51.100.1", 24)];
    let seen = pairs(pair("198.51.100.1", "192.168.1.5"), &server, &[ip("10.9.0.3")]);
    assert_eq!(sorted(expected), mirrored(seen));
}

#[test]
fn routed_networks_use_the_handshake_address_for_every_remote() {
    let locals = [local("192.168.1.5", 24), local("10.9.0.3", 16)];
    let paths = pairs(pair("192.168.1.5", "198.51.100.1"), &locals, &[ip("203.0.113.1")]);
    let expected = vec![
        pair("192.168.1.5", "198.51.100.1"),
        pair("192.168.1.5", "203.0.113.1"),
        pair("10.9.0.3", "198.51.100.1"),
    ];
    assert_eq!(paths, expected);
}

#[test]
fn loopback_addresses_pair_off_one_to_one() {
    let locals = [local("127.0.0.1", 8), local("127.0.0.3", 8)];
    let paths = pairs(pair("127.0.0.1", "127.0.0.2"), &locals, &[ip("127.0.0.4")]);
    assert_eq!(paths, vec![pair("127.0.0.1", "127.0.0.2"), pair("127.0.0.3", "127.0.0.4")]);
}

#[test]
fn scopes_and_families_do_not_mix() {
    let locals =
        [local("10.1.0.1", 24), local("127.0.0.1", 8), local("fe80::1", 64), local("fd00::1", 64)];
    let listed = [ip("fe80::2"), ip("127.0.0.1"), ip("fd00::2")];
    let paths = pairs(pair("10.1.0.1", "10.1.0.2"), &locals, &listed);
    assert_eq!(paths, vec![pair("10.1.0.1", "10.1.0.2"), pair("fd00::1", "fd00::2")]);
    assert_eq!(announced(&paths[0], &locals), vec![ip("10.1.0.1"), ip("fd00::1")]);
}

#[test]
fn ipv4_mapped_addresses_are_not_used() {
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    let own: IpAddr = "2001:db8::1".parse().unwrap();
    assert!(!same_scope(own, mapped) && !same_scope(mapped, own));
    assert!(same_scope(own, "2001:db8::2".parse().unwrap()));
}

#[test]
fn a_single_address_is_not_announced() {
    let locals = [local("10.1.0.1", 24)];
    assert!(announced(&pair("10.1.0.1", "10.1.0.2"), &locals).is_empty());
}

#[test]
fn the_nearest_local_address_is_tried_first() {
    let locals = [local("10.1.0.1", 24), local("10.2.0.1", 24), local("fd00::1", 64)];
    let tried = candidates(&locals, socket("10.2.0.2"), &[]);
    assert_eq!(tried, vec![pair("10.2.0.1", "10.2.0.2"), pair("10.1.0.1", "10.2.0.2")]);
    assert!(candidates(&locals, socket("127.0.0.1"), &[]).is_empty());
}

#[test]
fn link_local_addresses_of_one_interface_make_a_handshake_and_no_further_path() {
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    let on = |addr| LocalAddress { addr: at(addr), ..local("fe80::1", 64) };
    let locals = [on("[fe80::1%2]:9899"), on("[fe80::2%3]:9899"), local("fd00::1", 64)];
    let remote = at("[fe80::9%3]:9899");
    let own = PathAddr { local: at("[fe80::2%3]:9899"), remote };
    assert_eq!(candidates(&locals, remote, &[]), vec![own]);
    assert!(candidates(&locals, at("[fe80::9]:9899"), &[]).is_empty(), "at no interface");
    assert!(candidates(&[local("fe80::1", 64)], at("[fe80::9]:9899"), &[]).is_empty());
    assert_eq!(pairs(own, &locals, &[ip("fe80::8"), ip("fd00::9")]), vec![own]);
    assert!(announced(&own, &locals).is_empty());
}

#[test]
fn two_families_on_one_interface_are_one_path() {
    let on =
        |interface, addr: &str, prefix_len| LocalAddress { interface, ..local(addr, prefix_len) };
    let a =
        [on(2, "10.1.0.1", 24), on(2, "fd01::1", 64), on(3, "10.2.0.1", 24), on(3, "fd02::1", 64)];
    let z = ["10.1.0.2", "fd01::2", "10.2.0.2", "fd02::2"].map(ip);
    let v4 = vec![pair("10.1.0.1", "10.1.0.2"), pair("10.2.0.1", "10.2.0.2")];
    assert_eq!(pairs(v4[0], &a, &z), v4);
    let v6 = vec![pair("fd02::1", "fd02::2"), pair("fd01::1", "fd01::2")];
    assert_eq!(sorted(pairs(v6[0], &a, &z)), sorted(v6), "the handshake decides the family");
}

#[test]
fn an_interface_with_the_other_family_only_is_used_with_it() {
    let on =
        |interface, addr: &str, prefix_len| LocalAddress { interface, ..local(addr, prefix_len) };
    let a = [on(2, "10.1.0.1", 24), on(3, "fd02::1", 64)];
    let z = ["10.1.0.2", "fd02::2"].map(ip);
    let both = vec![pair("10.1.0.1", "10.1.0.2"), pair("fd02::1", "fd02::2")];
    assert_eq!(pairs(both[0], &a, &z), both);
}

#[test]
fn hash_identifiers_are_reached_from_each_other_alone() {
    let (own, other, place) = (ip("2001:2f::1"), ip("2001:20::2"), ip("2001:db8::1"));
    assert!(may_pair(own, other) && may_pair(place, ip("2001:30::1")));
    assert!(!may_pair(own, place) && !may_pair(place, own));
    let (by_place, by_name) =
        (pair("2001:db8::2", "2001:db8::1"), pair("2001:2f::1", "2001:2f::2"));
    assert!(!acceptable(&by_place, own), "nobody lists the name of another host");
    assert!(acceptable(&by_name, place), "a host has places beside its name");
}

#[test]
fn a_link_local_address_is_another_host_on_another_link() {
    let at = |scope| SocketAddr::V6(SocketAddrV6::new("fe80::9".parse().unwrap(), 7, 0, scope));
    assert!(is_on_other_link(&at(2), &at(3)));
    assert!(!is_on_other_link(&at(2), &at(2)));
    assert!(!is_on_other_link(&at(2), &at(0)), "the link is not known");
    let global = |scope| SocketAddr::V6(SocketAddrV6::new("fd00::9".parse().unwrap(), 7, 0, scope));
    assert!(!is_on_other_link(&global(2), &global(3)));
}

#[test]
fn ways_that_are_as_good_before_they_are_tried_are_tried_at_once() {
    let on = |addr, interface| LocalAddress { interface, ..local(addr, 24) };
    let locals = [
        on("192.168.1.5", 1),
        on("192.168.1.6", 1),
        on("10.9.0.3", 2),
        on("10.8.0.3", 3),
        on("10.7.0.3", 4),
    ];
    let rule = |text, policy| PathRule { local: Some(ip(text)), remote: None, policy };
    let backup = PathPolicy { role: PathRole::Backup, ..PathPolicy::default() };
    let server = |local| pair(local, "198.51.100.1");
    let mut ways = candidates(&locals, socket("198.51.100.1"), &[]);
    assert_eq!(gather(&mut ways, &locals, &[rule("10.8.0.3", backup)]), 3);
    let expected = ["192.168.1.5", "10.9.0.3", "10.7.0.3", "192.168.1.6", "10.8.0.3"].map(server);
    assert_eq!(ways, expected);
    // Where each packet costs money, one must do.
    let metered = PathPolicy { metered: Some(1000), ..PathPolicy::default() };
    let all = PathRule { local: None, remote: None, policy: metered };
    assert_eq!(gather(&mut candidates(&locals, socket("198.51.100.1"), &[]), &locals, &[all]), 1);
    // In the network of the neighbour of one uplink, or in anybody's.
    for (private, from) in [("10.9.0.9", "10.9.0.3"), ("10.1.0.9", "192.168.1.5")] {
        let mut ways = candidates(&locals, socket(private), &[]);
        assert_eq!(gather(&mut ways, &locals, &[]), 1);
        assert_eq!(ways[0], pair(from, private));
    }
    let locals = [locals[0], local("203.0.113.7", 24)];
    let mut near = candidates(&locals, socket("203.0.113.1"), &[]);
    assert_eq!(gather(&mut near, &locals, &[]), 1);
    assert_eq!(near[0], pair("203.0.113.7", "203.0.113.1"));
    assert_eq!(gather(&mut [], &locals, &[]), 0);
}
