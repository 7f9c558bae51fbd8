//! Rules as words and files: read, written, edited, refused.

use manypath_rules::{
    Chain, Class, Document, Encrypt, Form, Network, Place, Policy, Ports, Profile, Protocol, Rule,
    StepAside,
};
use proptest::prelude::*;
use std::net::IpAddr;

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

fn error(text: &str) -> String {
    text.parse::<Rule>().unwrap_err().to_string()
}

#[test]
fn a_wrong_word_is_answered_with_the_right_ones() {
    assert!(error("loca enable").contains("local or remote"));
    assert!(error("local allow").contains("enable or disable"));
    assert!(error("remote enable prt 22").contains("port N, ports N-M"));
    assert!(error("remote enable sctp-only=yes").contains("on or off"));
    assert!(error("remote enable colour=red").contains("half-close=on|off"));
    assert!(error("remote enable class=realtime").contains("bulk or interactive"));
    assert!(error("remote enable form=tunnel").contains("mux or direct"));
    assert!(error("remote enable weight=0").contains("from 1 to 1000"));
    assert!(error("remote enable weight=many").contains("from 1 to 1000"));
    assert!(error("remote enable profile=paper").contains("production or dynamic"));
    assert!(error("remote enable port").contains("a number after port"));
    assert!(error("remote").contains("a policy: enable or disable"));
    assert!(error("remote enable ports").contains("needs a number"));
    assert!(error("remote enable port 1-5").contains("write ports 1-5"));
    assert!(error("remote enable host 10.0.0.0/8").contains("write net 10.0.0.0/8"));
}

#[test]
fn parts_given_twice_are_refused() {
    for twice in [
        "remote enable tcp udp",
        "remote enable host 10.0.0.1 net 10.0.0.0/8",
        "remote enable port 1 ports 2-3",
        "remote enable sctp-only=on sctp-only=on",
        "remote enable weight=2 weight=3",
        "remote enable any host ::1",
    ] {
        assert!(error(twice).contains("already") || error(twice).contains("twice"), "{twice}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    assert!(error("remote disable port 1 half-close=on").contains("nothing is carried"));
    assert!(error("remote enable proxy=on").contains("local rules"));
    assert!(error("local enable sctp-only=on").contains("remote rules"));
    assert!(error("local enable profile=dynamic").contains("add key or peer"));
    assert!(error("local enable from=192.0.2.0/24 profile=dynamic").contains("add key or peer"));
    assert!("local enable peer=alice profile=dynamic".parse::<Rule>().is_ok());
    assert!(error("remote enable form=direct weight=2").contains("one for each"));
    assert!(error("local disable port 1 class=bulk").contains("nothing is carried"));
    assert!(error("remote enable udp half-close=on").contains("udp knows only"));
    assert!(error("remote enable udp class=interactive").contains("udp knows only"));
    assert!(error("remote enable lifetime=200ms").contains("write udp"));
    assert!(error("remote disable udp lifetime=200ms").contains("nothing is carried"));
    assert!(error("remote enable form=direct redundant=on").contains("share an association"));
    assert!(error("remote enable udp redundant=yes").contains("on or off"));
    assert!(error("remote enable step-aside=on").contains("auto or never"));
    assert!(error("local enable step-aside=never").contains("remote rules"));
    assert!(error("remote enable udp step-aside=never").contains("udp knows only"));
    assert!(error("remote enable form=direct step-aside=never").contains("one for each"));
    assert!(error("remote enable sctp-only=on step-aside=auto").contains("nothing to plain TCP"));
    for wrong in ["0ms", "200", "61s", "-1s", "1.5s", "5000000s"] {
        let text = error(&format!("remote enable udp lifetime={wrong}"));
        assert!(text.contains("1ms to 60s"), "{wrong}: {text}");
    }
}

#[test]
fn connections_and_datagrams_may_be_redundant() {
    for text in ["remote enable port 22 redundant=on", "local enable udp port 5004 redundant=off"] {
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.options.redundant, Some(text.ends_with("on")));
        assert_eq!(rule.to_string(), text);
    }
}

#[test]
fn a_rule_says_what_is_encrypted_and_what_must_be_never_falls_back() {
    for encrypt in Encrypt::ALL {
        for protocol in ["", "udp "] {
            let words = format!("remote enable {protocol}encrypt={}", encrypt.name());
            let rule: Rule = words.parse().unwrap();
            assert_eq!((rule.options.encrypt, rule.to_string()), (Some(encrypt), words));
            assert_eq!(rule.options.is_sctp_only(), encrypt == Encrypt::Require);
        }
    }
    assert_eq!(rule("local enable encrypt=require").options.encrypt, Some(Encrypt::Require));
    assert!(error("local enable encrypt=off").contains("encrypt=require alone"));
    assert!(error("remote enable form=direct encrypt=require").contains("native SCTP programs"));
    assert!(error("remote enable step-aside=auto encrypt=require").contains("encrypt=require"));
    assert!(error("remote enable encrypt=on").contains("off, opportunistic or require"));
}

#[test]
fn a_rule_says_which_uplinks_are_used_and_what_happens_without_them() {
    for (words, strict) in [
        ("remote enable host 192.0.2.1 path=eth0,wlan0", true),
        ("remote enable udp port 53 path=10.0.0.2 path-down=wait", true),
        ("remote enable path=eth0 path-down=any", false),
        ("remote enable port 443 never-metered=on", true),
        ("remote enable path=eth0 never-metered=off", true),
        ("remote enable never-metered=off", false),
    ] {
        let rule = rule(words);
        assert_eq!(rule.to_string(), words);
        assert_eq!(rule.options.path_limits().is_strict(), strict, "{words}");
        assert_eq!((rule.options.may_need_sctp(), rule.options.is_sctp_only()), (strict, false));
    }
    let limits = rule("remote enable path=eth0,10.0.0.9 never-metered=on").options.path_limits();
    let allow = |interface: &str, addr: &str, metered| {
        limits.allow(interface, addr.parse().unwrap(), metered)
    };
    assert!(allow("eth0", "10.0.0.2", false) && allow("wwan0", "10.0.0.9", false));
    assert!(!allow("wwan0", "10.0.0.2", false) && !allow("eth0", "10.0.0.2", true));
    for (words, why) in [
        ("local enable path=eth0", "remote rules"),
        ("remote enable path=eth/0", "an interface or an address"),
        ("remote enable path=eth0,", "an interface or an address"),
        ("remote enable path=eth0 path-down=never", "wait or any"),
        ("remote enable path-down=any", "write path=NAME"),
        ("remote enable path=eth0 path-down=any never-metered=on", "would use metered uplinks"),
        ("remote enable form=direct never-metered=on", "send over every path"),
        ("remote enable path=eth0 step-aside=auto", "where the kernel sends it"),
        ("remote enable path=a,b,c,d,e,f,g,h,i", "more than 8"),
    ] {
        assert!(error(words).contains(why), "{words}: {}", error(words));
    }
}

#[test]
fn a_local_rule_says_which_peers_it_is_about_and_what_one_may_have() {
    let key = "SHA256:uNiVztksCsDhcc0u9e8BrwAAAAAAAAAAAAAAAAAAAAA";
    for words in [
        format!("local enable port 22 from=10.1.0.0/16 key={key} encrypt=require connections=3"),
        "local disable udp from=192.0.2.1 peer=alice's-notebook".to_owned(),
        "local enable class=interactive connections=16384 rate=5mbit".to_owned(),
        "local enable peer=alice rate=5mbit quota=10GB/month".to_owned(),
    ] {
        assert_eq!(rule(&words).to_string(), words);
    }
    for wrong in ["SHA256:", "SHA256:short", &key[..key.len() - 1], &key.replace("SHA256:", "")] {
        assert!(error(&format!("local enable key={wrong}")).contains("a fingerprint"), "{wrong}");
    }
    // Bits behind the last byte.
    assert!(error(&format!("local enable key={}B", &key[..key.len() - 1])).contains("fingerprint"));
    assert!(error("local enable peer=").contains("--authorized"));
    assert!(error("local enable peer=a key=SHA256:").contains("a fingerprint"));
    assert!(error("local enable peer=a peer=b").contains("already"));
    assert!(error("remote enable peer=a").contains("local rules"));
    assert!(error("remote enable from=10.0.0.0/8").contains("local rules"));
    assert!(error("remote enable rate=5mbit").contains("local rules"));
    assert!(error("local enable form=direct peer=a").contains("no keys"));
    assert!(error("local enable udp port 53 connections=3").contains("udp knows only"));
    assert!(error("local enable connections=0").contains("from 1 to 16384"));
    assert!(error("local enable rate=5").contains("5mbit"));
    assert!(error("local enable announce=all").contains("it is a setting"));
    assert!(error("remote enable form=direct announce=all").contains("no keys"));
    let words = "remote enable udp net 10.0.0.0/8 announce=authenticated";
    assert_eq!(rule(words).to_string(), words);
    assert!(error("remote enable quota=1GB/day").contains("local rules"));
    assert!(error("local enable quota=1GB/day").contains("encrypt=require"));
    assert!(error("local enable peer=a quota=1GB").contains("10GB/month"));
    assert!(error("local disable peer=a rate=5mbit").contains("no options"));
}

#[test]
fn a_rule_says_whether_connections_step_aside() {
    for (word, aside) in [("auto", StepAside::Auto), ("never", StepAside::Never)] {
        let text = format!("remote enable net 192.0.2.0/24 step-aside={word}");
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.options.step_aside, Some(aside));
        assert_eq!(rule.to_string(), text);
    }
    let both = "remote enable sctp-only=on step-aside=never";
    assert_eq!(rule(both).to_string(), both);
}

#[test]
fn a_remote_rule_says_whether_ports_below_1024_need_a_proof() {
    for text in
        ["remote enable host 192.0.2.1 unproven=on", "remote enable udp port 53 unproven=off"]
    {
        let rule: Rule = text.parse().unwrap();
        assert_eq!(rule.options.unproven, Some(text.ends_with("on")));
        assert_eq!(rule.to_string(), text);
    }
    assert!(error("local enable port 22 unproven=on").contains("remote rules"));
    assert!(error("remote enable unproven=perhaps").contains("on or off"));
}

#[test]
fn the_lifetime_of_datagrams_is_a_time_with_a_unit() {
    let rule: Rule = "local enable udp port 53 lifetime=2s".parse().unwrap();
    assert_eq!(rule.options.lifetime, Some(2000));
    assert_eq!(rule.to_string(), "local enable udp port 53 lifetime=2000ms");
}

const FILE: &str = "\
# first match wins
default remote enable

remote disable port 25          # mail goes by itself
  local   enable port 22
remote disable net 10.0.0.0/255.0.0.0
";

#[test]
fn a_file_is_kept_as_it_was_where_it_is_not_edited() {
    let mut document = Document::parse(FILE).unwrap();
    assert_eq!(document.to_string(), FILE);
    let place = document.add(rule("remote disable port 53"), None).unwrap();
    assert_eq!(place.number, 3);
    document.add(rule("remote disable port 26"), Some(1)).unwrap();
    document.set_default(Chain::Local, Policy::Enable);
    let expected = FILE
        .replace("# first match wins\n", "# first match wins\ndefault local enable\n")
        .replace("remote disable port 25", "remote disable port 26\nremote disable port 25")
        + "remote disable port 53\n";
    assert_eq!(document.to_string(), expected);
}

#[test]
fn rules_are_deleted_by_number_or_by_their_words() {
    let mut document = Document::parse(FILE).unwrap();
    let place = document.delete(&rule("remote disable net 10.0.0.0/8")).unwrap();
    assert_eq!(place.number, 2);
    let first = Place { chain: Chain::Remote, policy: Policy::Disable, number: 1 };
    assert_eq!(document.delete_at(first), Ok(rule("remote disable port 25")));
    assert!(document.delete_at(first).unwrap_err().to_string().contains("it has 0 rules"));
    assert!(document.delete(&rule("remote disable port 25")).is_err());
    assert_eq!(document.flush(), 1);
    assert_eq!(document.to_string(), "# first match wins\ndefault remote enable\n\n");
}

#[test]
fn a_place_beyond_the_list_is_refused_and_nothing_changes() {
    let mut document = Document::parse(FILE).unwrap();
    for at in [0, 4] {
        assert!(document.add(rule("remote disable port 53"), Some(at)).is_err());
    }
    assert_eq!(document.to_string(), FILE);
}

#[test]
fn errors_in_a_file_name_the_line() {
    let wrong = |text: &str| Document::parse(text).unwrap_err();
    assert_eq!(wrong("\n# x\nremote enble\n").line, Some(3));
    assert!(wrong("default remote\n").to_string().starts_with("line 1: a default is written"));
    let twice = wrong("default local enable\ndefault local disable\n").to_string();
    assert!(twice.contains("line 2: the default of local was set in line 1"), "{twice}");
}

fn addresses() -> impl Strategy<Value = Option<Network>> {
    let v4 = (any::<u32>(), 0..=32_u8).prop_map(|(bits, prefix)| {
        let mask = u32::MAX.checked_shl(u32::from(32 - prefix)).unwrap_or(0);
        Network::new(IpAddr::from((bits & mask).to_be_bytes()), prefix).unwrap()
    });
    let v6 = (any::<u128>(), 0..=128_u8).prop_map(|(bits, prefix)| {
        let mask = u128::MAX.checked_shl(u32::from(128 - prefix)).unwrap_or(0);
        let address: IpAddr = (bits & mask).to_be_bytes().into();
        // Mapped addresses are hosts of IPv4.
        match address.to_canonical() {
            IpAddr::V6(_) => Network::new(address, prefix).unwrap(),
            v4 @ IpAddr::V4(_) => Network::host(v4),
        }
    });
    prop_oneof![Just(None), v4.prop_map(Some), v6.prop_map(Some)]
}

prop_compose! {
    fn rules()(
        local in any::<bool>(), enable in any::<bool>(), udp in any::<bool>(),
        network in addresses(), ports in proptest::option::of((1..=u16::MAX, 1..=u16::MAX)),
        half_close in proptest::option::of(any::<bool>()),
        class in proptest::option::of(any::<bool>()), weight in proptest::option::of(1..=1000_u16),
    ) -> Rule {
        let chain = if local { Chain::Local } else { Chain::Remote };
        let policy = if enable { Policy::Enable } else { Policy::Disable };
        let mut rule = Rule::open(chain, policy);
        rule.protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
        rule.network = network;
        rule.ports = ports.map(|(a, b)| Ports::new(a.min(b), a.max(b)).unwrap());
        rule.options.half_close = half_close.filter(|_| enable && !udp);
        if udp {
            rule.options.lifetime = weight.filter(|_| enable).map(u32::from);
            return rule;
        }
        let class = class.map(|bulk| if bulk { Class::Bulk } else { Class::Interactive });
        rule.options.class = class.filter(|_| enable);
        rule.options.form = class.filter(|_| enable).map(|_| Form::Mux);
        rule.options.weight = weight.filter(|_| enable);
        rule.options.profile = class.filter(|_| enable && !local).map(|class| match class {
            Class::Bulk => Profile::Production,
            Class::Interactive => Profile::Dynamic,
        });
        rule
    }
}

proptest! {
    #[test]
    fn a_written_rule_reads_as_the_same_rule(rule in rules()) {
        prop_assert_eq!(rule.to_string().parse(), Ok(rule));
    }

    /// A rule that is reported as never matching is really never the one that decides.
    #[test]
    fn a_rule_found_useless_never_decides(
        list in proptest::collection::vec(rules(), 1..8),
        probes in proptest::collection::vec((any::<u32>(), any::<u16>()), 32),
    ) {
        let text: String = list.iter().map(|rule| format!("{rule}\n")).collect();
        let table = Document::parse(&text).unwrap().table();
        let useless: Vec<Place> = table.findings().iter().map(|finding| finding.place).collect();
        for (bits, port) in probes {
            for (chain, protocol) in [(Chain::Local, Protocol::Tcp), (Chain::Remote, Protocol::Udp)] {
                let address = (IpAddr::from(bits.to_be_bytes()), port.max(1)).into();
                let query = manypath_rules::Query { chain, protocol, address, client: None };
                if let manypath_rules::Decider::Rule(place) = table.decide(query).decider {
                    prop_assert!(!useless.contains(&place), "{place} of\n{text}");
                }
            }
        }
    }

    #[test]
    fn reading_any_text_never_panics(text in "\\PC{0,200}") {
        let _ = Document::parse(&text);
    }
}
