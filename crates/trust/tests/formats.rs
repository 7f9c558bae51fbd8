//! The formats of files, with lines that nobody expects.

use crate::common::{addr, key};
use manypath_trust::{AuthorizedPeers, KnownPeers, SshHosts};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};

const TEXT: &str = "# compared by telephone\n\
    192.0.2.7 bWFueXBhdGggbGV0cyBhbnkgVENQIHByb2dyYW0gdXM= the server\n\
    \n\
    what is this\n\
    2001:DB8::7\tssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG1hbnlwYXRoIGxldHMgYW55IFRDUCBwcm9ncmFtIHVz me@host\n\
    192.0.2.8\n\
    192.0.2.9 short=\n\
    @revoked\n\
    @unknown bWFueXBhdGggbGV0cyBhbnkgVENQIHByb2dyYW0gdXM=\n\
    ::ffff:192.0.2.10 bWFueXBhdGggbGV0cyBhbnkgVENQIHByb2dyYW0gdXM=\n";

#[test]
fn lines_that_cannot_be_read_are_told_and_do_no_harm() {
    let peers = KnownPeers::parse(TEXT);
    let addrs: Vec<_> = peers.peers().map(|(addr, _)| addr.to_string()).collect();
    assert_eq!(addrs, ["192.0.2.7", "2001:db8::7", "192.0.2.10"]);
    let faults: Vec<_> = peers.faults().map(|fault| fault.to_string()).collect();
    assert_eq!(faults.len(), 5, "{faults:#?}");
    assert_eq!(faults[0], "line 4: \"what\" is neither an address nor @revoked");
    assert_eq!(faults[1], "line 6: the key is missing");
    assert!(
        faults[2].starts_with("line 7: \"short=\" is not a public key: write"),
        "{}",
        faults[2]
    );
    assert_eq!(faults[3], "line 8: the key is missing");
}

#[test]
fn what_is_not_changed_stays_as_it_was_written() {
    let mut peers = KnownPeers::parse(TEXT);
    assert_eq!(peers.to_string(), TEXT);
    assert!(peers.remember(addr("192.0.2.20"), key(1)));
    assert!(peers.revoke(key(2)) && !peers.revoke(key(2)));
    peers.trust(addr("192.0.2.20"), key(3));
    assert_eq!(peers.forget(addr("192.0.2.7")), 1);
    let kept: Vec<_> = TEXT.lines().filter(|line| !line.starts_with("192.0.2.7")).collect();
    let new = [format!("@revoked {}", key(2)), format!("192.0.2.20 {}", key(3))];
    let expected = kept.into_iter().chain(new.iter().map(String::as_str));
    assert!(peers.to_string().lines().eq(expected), "{peers}");
    assert_eq!(peers.forget_key(&key(2)), 1);
    assert_eq!(peers.revoked().count(), 0);
}

#[test]
fn a_full_file_takes_no_more_and_forgets_nothing() {
    let mut peers = KnownPeers::default();
    let nth = |n: u32| IpAddr::from(Ipv4Addr::from_bits(n));
    assert!((0..8192).all(|n| peers.remember(nth(n), key(1))));
    assert!(!peers.remember(nth(9000), key(1)));
    assert!(peers.remember(nth(0), key(1)), "it was known already");
    assert!(peers.to_string().len() < 1 << 20, "it can be read again");
}

#[test]
fn authorized_peers_have_names() {
    let text = format!("# mine\n{} alice's  notebook\n\nnonsense\n{}\n{0} again\n", key(1), key(2));
    let peers = AuthorizedPeers::parse(&text);
    assert_eq!(peers.allows(&key(1)), Some("alice's notebook"));
    assert_eq!(peers.allows(&key(2)), Some(""));
    assert_eq!(peers.allows(&key(3)), None);
    assert_eq!(peers.faults.len(), 1);
    assert_eq!(peers.faults[0].line, 4);
    assert_eq!(peers.peers(), [(key(1), "alice's notebook"), (key(2), "")]);
}

fn line() -> impl Strategy<Value = String> {
    let addrs = prop_oneof![
        any::<[u8; 4]>().prop_map(|addr| IpAddr::from(addr).to_string()),
        any::<[u16; 8]>().prop_map(|addr| IpAddr::from(addr).to_string()),
        Just("@revoked".to_owned()),
    ];
    let entry = (addrs, any::<u8>(), "[ a-z#]{0,8}");
    prop_oneof![
        3 => entry.prop_map(|(addr, of, comment)| format!("{addr} {} {comment}", key(of))),
        1 => "[^\r\n]{0,40}",
        1 => "#[ -~]{0,20}",
    ]
}

proptest! {
    #[test]
    fn any_text_is_read_and_written_again(text in "\\PC{0,200}", more in "([ -~]{0,30}\n){0,8}") {
        for text in [text, more] {
            let peers = KnownPeers::parse(&text);
            prop_assert_eq!(&KnownPeers::parse(&peers.to_string()), &peers);
            let _ = (AuthorizedPeers::parse(&text), SshHosts::parse(&text));
        }
    }

    #[test]
    fn a_change_touches_no_other_line(lines in prop::collection::vec(line(), 0..20), last in any::<u8>()) {
        let addr = addr("192.0.2.7");
        let before = KnownPeers::parse(&lines.join("\n"));
        let mut after = before.clone();
        prop_assume!(!before.is_revoked(&key(last)) && !before.is_known(addr));
        prop_assert!(after.remember(addr, key(last)));
        prop_assert!(after.is_known(addr));
        prop_assert_eq!(after.forget(addr), 1);
        prop_assert_eq!(&after, &before);
        after.revoke(key(last));
        prop_assert!(after.is_revoked(&key(last)));
        prop_assert!(after.peers().eq(before.peers()));
    }
}
