//! Lookups: first match, defaults, options, and the words that explain them.

use manypath_rules::{Chain, Client, Decider, Document, Policy, Protocol, Query, Table};

fn table(text: &str) -> Table {
    Document::parse(text).unwrap().table()
}

fn query(chain: Chain, protocol: Protocol, address: &str) -> Query<'static> {
    Query { chain, protocol, address: address.parse().unwrap(), client: None }
}

fn connect(address: &str) -> Query<'static> {
    query(Chain::Remote, Protocol::Tcp, address)
}

fn service(address: &str) -> Query<'static> {
    query(Chain::Local, Protocol::Tcp, address)
}

#[test]
fn without_rules_connects_are_carried_and_services_closed() {
    let table = Table::default();
    assert_eq!(table.decide(connect("192.0.2.1:22")).policy, Policy::Enable);
    assert_eq!(table.decide(service("192.0.2.1:22")).policy, Policy::Disable);
}

#[test]
fn the_list_that_contradicts_the_default_is_searched() {
    let text = "remote enable port 22\nremote disable port 25\n";
    let enabled = table(text);
    assert_eq!(enabled.decide(connect("192.0.2.1:25")).policy, Policy::Disable);
    assert_eq!(enabled.decide(connect("192.0.2.1:80")).policy, Policy::Enable);
    let disabled = table(&format!("default remote disable\n{text}"));
    assert_eq!(disabled.decide(connect("192.0.2.1:22")).policy, Policy::Enable);
    assert_eq!(disabled.decide(connect("192.0.2.1:80")).policy, Policy::Disable);
    assert_eq!(disabled.decide(connect("192.0.2.1:25")).decider, Decider::Default);
}

#[test]
fn the_first_match_wins_over_a_better_one() {
    let table = table(
        "default remote disable\nremote enable ports 1-1024 half-close=off\n\
         remote enable net 10.1.2.0/24 port 1000 half-close=on\n",
    );
    let decision = table.decide(connect("10.1.2.3:1000"));
    let (options, place) = decision.options.unwrap();
    assert_eq!((options.to_string().as_str(), place.number), (" half-close=off", 1));
}

#[test]
fn under_an_enable_default_an_enable_rule_gives_options() {
    let table = table("remote disable host 192.0.2.9\nremote enable port 22 half-close=on\n");
    let decision = table.decide(connect("192.0.2.1:22"));
    assert_eq!((decision.policy, decision.decider), (Policy::Enable, Decider::Default));
    assert_eq!(decision.options.unwrap().0.to_string(), " half-close=on");
    assert_eq!(table.decide(connect("192.0.2.9:22")).options, None);
}

#[test]
fn udp_is_carried_only_by_rule() {
    let table = table("remote enable udp port 53\n");
    let udp = |address| table.decide(query(Chain::Remote, Protocol::Udp, address)).policy;
    assert_eq!(udp("192.0.2.1:53"), Policy::Enable);
    assert_eq!(udp("192.0.2.1:54"), Policy::Disable);
    let words = table.explain(query(Chain::Remote, Protocol::Udp, "192.0.2.1:53")).to_string();
    assert!(words.contains("datagrams carried over SCTP"), "{words}");
}

#[test]
fn a_service_on_every_address_is_not_judged_by_rules_with_an_address() {
    let table = table("local enable net 10.0.0.0/8 port 80\nlocal enable port 22\n");
    assert_eq!(table.decide(service("0.0.0.0:80")).policy, Policy::Disable);
    assert_eq!(table.decide(service("[::]:22")).policy, Policy::Enable);
    assert_eq!(table.decide(service("10.0.0.1:80")).policy, Policy::Enable);
    let words = table.explain(service("0.0.0.0:80")).to_string();
    assert!(words.contains("names an address: tried again for each connection"), "{words}");
}

#[test]
fn an_explanation_names_each_rule_that_was_tried() {
    let table =
        table("remote disable port 25\nremote disable net 10.0.0.0/8\nremote disable port 9\n");
    let words = table.explain(connect("10.0.0.1:22")).to_string();
    let expected = "\
connect to 10.0.0.1:22 (tcp): left to the kernel
  decided by remote-disable rule 2
  default of remote: enable
  remote-disable rule 1: remote disable port 25: other port
  remote-disable rule 2: remote disable net 10.0.0.0/8: MATCHES
";
    assert_eq!(words, expected);
}

#[test]
fn an_explanation_is_json_too() {
    let table = table("remote enable port 22 sctp-only=on\n");
    let json = serde_json::to_value(table.explain(connect("[2001:db8::1]:22"))).unwrap();
    assert_eq!(json["policy"], "enable");
    assert_eq!(json["decider"], "default");
    assert_eq!(json["options"], "sctp-only=on");
    assert_eq!(json["steps"][0]["place"]["number"], 1);
}

#[test]
fn a_rule_that_names_peers_is_about_them_alone_and_one_that_disables_holds_against_any() {
    let client = |address: &str, name: Option<&str>| Client {
        addresses: vec![address.parse().unwrap()],
        key: name.map(|name| format!("SHA256:{name}")),
        name: name.map(str::to_owned),
    };
    let text = "local enable port 22 peer=alice\nlocal enable port 80\n\
                local disable port 80 from=192.0.2.0/24\nlocal enable udp port 53 peer=alice\n";
    let table = Document::parse(text).unwrap().table();
    let ask = |port: u16, client: Option<&Client>| {
        let address = format!("10.0.0.1:{port}").parse().unwrap();
        let query = Query { client, ..Query::local(Protocol::Tcp, address, None) };
        let decision = table.decide(query);
        assert_eq!(decision.policy, table.explain(query).policy);
        (decision.policy, table.explain(query).steps.len())
    };
    let (alice, bob) = (client("192.0.2.1", Some("alice")), client("10.0.0.9", Some("bob")));
    let nobody = client("10.0.0.9", None);
    assert_eq!(ask(22, Some(&alice)).0, Policy::Enable);
    for other in [Some(&bob), Some(&nobody), None] {
        assert_eq!(ask(22, other).0, Policy::Disable);
        assert_eq!(ask(80, other).0, Policy::Enable);
    }
    assert_eq!(ask(80, Some(&alice)), (Policy::Disable, 1), "her address is closed");
    let asked = Query::local(Protocol::Tcp, "10.0.0.1:22".parse().unwrap(), None);
    let told = table.explain(asked).to_string();
    assert!(told.contains("names peers: tried again for each connection"), "{told}");
    assert!(told.contains("--from, --key, --peer"), "{told}");
}
