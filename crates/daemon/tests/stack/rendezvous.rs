//! Hosts that are reached by their keys through relays.

use crate::common::{Host, Launcher, VirtualHost, counter, echo, exchange, pattern, service};
use crate::encryption::key_of;
use crate::relays::Ground;
use manypath_control::Reply;
use manypath_control::status::{SearchStatus, StackStatus};
use manypath_daemon::{Carrying, Locals, RelayConfig, StackConfig};
use manypath_engine::Announce;
use manypath_rules::Encrypt;
use manypath_trust::Fingerprint;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A client, a host that registers, and relays with an address each.
struct Meeting(Ground);

impl Meeting {
    fn new() -> Self {
        let meeting = Self(Ground::new());
        meeting.0.authorize(&["client", "home"]);
        meeting
    }

    fn addr(&self, host: u8) -> IpAddr {
        let IpAddr::V4(server) = self.0.network.server()[0] else { unreachable!() };
        let [a, b, c, _] = server.octets();
        Ipv4Addr::new(a, b, c, host).into()
    }

    fn relay_at(&self, host: u8) -> StackConfig {
        let mut keys = self.0.folder.files(&format!("relay-{host}"));
        keys.authorized_peers = Some(self.0.list());
        StackConfig {
            relay: Some(RelayConfig { to: Vec::new(), connections: 8, quota: None }),
            encrypt: Encrypt::Require,
            keys: Some(keys),
            locals: Locals::List(vec![self.addr(host)]),
            ..self.0.network.server_config(&[])
        }
    }

    /// A host that is registered at the first relay of these that does so, with a service.
    fn home(&self, relays: &[u8]) -> (StackConfig, SocketAddr) {
        let destination = service(self.addr(5), echo);
        let mut keys = self.0.folder.files("home");
        keys.authorized_peers = Some(self.0.list());
        let config = self.0.network.server_config(&[destination]);
        let carrying = Carrying { register: Some(self.via(relays)), ..config.carrying.clone() };
        let locals = Locals::List(vec![self.addr(5)]);
        let config =
            StackConfig { keys: Some(keys), encrypt: Encrypt::Require, carrying, locals, ..config };
        let key = Fingerprint::of(&key_of(&self.0.folder.files("home"))).address();
        (config, SocketAddr::new(key.into(), destination.port()))
    }

    fn via(&self, relays: &[u8]) -> manypath_rules::Via {
        let relays: Vec<String> = relays.iter().map(|host| self.addr(*host).to_string()).collect();
        relays.join(",").parse().unwrap()
    }

    fn client(&self, relays: &[u8]) -> (Host, Launcher) {
        Host::with_launcher(StackConfig { via: Some(self.via(relays)), ..self.0.client() })
    }
}

fn registered(status: &StackStatus) -> bool {
    counter(status, "stack_own_registrations") > 0
}

fn tried(search: &SearchStatus) -> Vec<(IpAddr, &str)> {
    search.tried.iter().map(|tried| (tried.relay, tried.outcome.as_str())).collect()
}

#[test]
fn a_host_is_found_at_the_next_relay_when_the_first_ones_do_not_lead_there() {
    let meeting = Meeting::new();
    let (_other, at_other) = Host::with_launcher(meeting.relay_at(8));
    let (_relay, _) = Host::with_launcher(meeting.relay_at(9));
    let (config, destination) = meeting.home(&[9]);
    let (_home, at_home) = Host::with_launcher(config);
    at_home.wait_for("the registration", registered);
    // Nobody is at the first one, and the second one does not know the host.
    let (_client, mut launcher) = meeting.client(&[7, 8, 9]);
    let sent = pattern(100_000, 7);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    assert_eq!(counter(&at_other.status(), "stack_onward_hosts_not_registered"), 1);
    let status = launcher.status();
    let [search] = &status.relaying.searches[..] else { panic!("{:?}", status.relaying.searches) };
    assert_eq!((search.host, search.relay), (destination.ip(), Some(meeting.addr(9))));
    let expected = [(meeting.addr(7), "no-answer"), (meeting.addr(8), "not-registered")];
    assert_eq!(tried(search), expected);
    assert_eq!(counter(&status, "stack_relays_passed_over"), 2);
    // The way is known then.
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    assert_eq!(counter(&launcher.status(), "stack_relays_passed_over"), 2);
}

#[test]
fn a_relay_that_does_not_take_the_key_of_this_host_is_passed_over_at_once_and_status_says_why() {
    let meeting = Meeting::new();
    let mut config = meeting.relay_at(8);
    let list = meeting.0.folder.0.join("others");
    std::fs::write(&list, key_of(&meeting.0.folder.files("other")).to_string()).unwrap();
    config.keys.as_mut().unwrap().authorized_peers = Some(list);
    let _first = Host::start(config);
    let _second = Host::start(meeting.relay_at(9));
    let (config, destination) = meeting.home(&[9]);
    let (_home, at_home) = Host::with_launcher(config);
    at_home.wait_for("the registration", registered);
    let (_client, mut launcher) = meeting.client(&[8, 9]);
    let sent = pattern(10_000, 7);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    let status = launcher.status();
    let [search] = &status.relaying.searches[..] else { panic!("{:?}", status.relaying.searches) };
    assert_eq!(tried(search), [(meeting.addr(8), "not-authorized")]);
}

#[test]
fn a_host_that_no_relay_knows_is_unreachable_and_status_says_who_was_asked() {
    let meeting = Meeting::new();
    let (_first, at_first) = Host::with_launcher(meeting.relay_at(8));
    let (_second, at_second) = Host::with_launcher(meeting.relay_at(9));
    let (_, destination) = meeting.home(&[9]);
    let (_client, mut launcher) = meeting.client(&[8, 9]);
    let (id, mut reply) = launcher.open(destination, true);
    while reply == (Reply::Pending { id }) {
        reply = launcher.receive();
    }
    assert!(matches!(reply, Reply::Failed { errno: libc::EHOSTUNREACH, .. }), "{reply:?}");
    for relay in [at_first, at_second] {
        assert_eq!(counter(&relay.status(), "stack_onward_hosts_not_registered"), 1);
    }
    let status = launcher.status();
    let [search] = &status.relaying.searches[..] else { panic!("{:?}", status.relaying.searches) };
    assert_eq!(search.relay, None);
    let expected = [8, 9].map(|host| (meeting.addr(host), "not-registered"));
    assert_eq!(tried(search), expected);
    assert_eq!(counter(&status, "stack_hosts_without_way"), 1);
}

#[test]
fn a_host_that_moves_to_another_relay_is_found_there() {
    let meeting = Meeting::new();
    let first = Host::start(meeting.relay_at(8));
    let (_second, at_second) = Host::with_launcher(meeting.relay_at(9));
    let (config, destination) = meeting.home(&[8, 9]);
    let (_home, at_home) = Host::with_launcher(config);
    at_home.wait_for("the registration", registered);
    let (_client, mut launcher) = meeting.client(&[8, 9]);
    let sent = pattern(10_000, 7);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    drop(first);
    at_second.wait_for("the host", |status| counter(status, "stack_hosts_registered") == 1);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
}

/// Time that these hosts share. One that takes no turn is silent, and nobody says so.
#[derive(Default)]
struct Time {
    ms: u64,
}

impl Time {
    /// Lets time pass until the first host's status or what its stack says is as it should be, ten minutes at most.
    fn pass(
        &mut self,
        hosts: &mut [&mut VirtualHost],
        mut is_over: impl FnMut(&StackStatus, &[Reply]) -> bool,
    ) {
        let (end, mut said) = (self.ms + 600_000, Vec::new());
        while !is_over(&hosts[0].status(), &said) {
            assert!(self.ms < end, "{:#?}", hosts[0].status());
            self.ms += 10;
            let all = hosts.iter_mut().map(|host| host.replies(self.ms));
            said = all.collect::<Vec<_>>().swap_remove(0);
        }
    }
}

/// Whether the service has echoed `text`, of which `read` has come so far.
fn has_echoed(program: &mut TcpStream, text: &[u8], read: &mut Vec<u8>) -> bool {
    let mut room = [0; 64];
    read.extend(program.read(&mut room).map_or(&[][..], |len| &room[..len]));
    read.as_slice() == text
}

#[test]
fn a_connection_goes_on_by_the_next_relay_when_the_first_one_has_gone_without_a_word() {
    let meeting = Meeting::new();
    // Neither end tells the other where else it is.
    let start = |seed, config: StackConfig| {
        let carrying = Carrying { announce: Announce::Authenticated, ..config.carrying };
        VirtualHost::new(StackConfig { carrying, seed: Some([seed; 32]), ..config })
    };
    let (mut config, destination) = meeting.home(&[8, 9]);
    config.keys.as_mut().unwrap().authorized_peers = None;
    let [mut first, mut second] = [8, 9].map(|host| start(host, meeting.relay_at(host)));
    let mut home = start(5, config);
    let via = Some(meeting.via(&[8, 9]));
    let mut client = start(1, StackConfig { via, ..meeting.0.client() });
    let mut time = Time::default();
    let registrations = |status: &StackStatus| counter(status, "stack_own_registrations");
    time.pass(&mut [&mut home, &mut first, &mut second], |home, _| registrations(home) == 1);
    client.open(1, destination);
    let is_accepted = |reply: &Reply| matches!(reply, Reply::Accepted { id: 1, .. });
    let all = &mut [&mut client, &mut home, &mut first, &mut second];
    time.pass(all, |_, said| said.iter().any(is_accepted));
    let mut program = client.attach(1);
    program.set_nonblocking(true).unwrap();
    let (mut text, mut read) = (b"before".to_vec(), Vec::new());
    program.write_all(b"before").unwrap();
    let all = &mut [&mut client, &mut home, &mut first, &mut second];
    time.pass(all, |_, _| has_echoed(&mut program, &text, &mut read));
    // The first relay takes no turn any more.
    program.write_all(b", after").unwrap();
    text.extend(b", after");
    let rest = &mut [&mut home, &mut client, &mut second];
    time.pass(rest, |home, _| registrations(home) == 2);
    let rest = &mut [&mut client, &mut home, &mut second];
    time.pass(rest, |_, _| has_echoed(&mut program, &text, &mut read));
    assert_eq!([&client, &home].map(|host| counter(&host.status(), "stack_relays_lost")), [1, 1]);
    // What the first one had still counts for nothing when it is there again.
    let all = &mut [&mut home, &mut client, &mut first, &mut second];
    time.pass(all, |home, _| home.associations.len() == 2);
    assert_eq!(registrations(&home.status()), 2);
}

#[test]
fn a_host_is_found_at_once_when_its_only_relay_answers_again() {
    let meeting = Meeting::new();
    let (mut config, destination) = meeting.home(&[8]);
    config.keys.as_mut().unwrap().authorized_peers = None;
    let seeded = |seed, config| VirtualHost::new(StackConfig { seed: Some([seed; 32]), ..config });
    let (mut home, mut relay) = (seeded(5, config), seeded(8, meeting.relay_at(8)));
    let via = Some(meeting.via(&[8]));
    let mut client = seeded(1, StackConfig { via, ..meeting.0.client() });
    let mut time = Time::default();
    time.pass(&mut [&mut home, &mut relay], |home, _| registered(home));
    let first = home.status().associations[0].id;
    time.pass(&mut [&mut home], |home, _| counter(home, "stack_relays_lost") == 1);
    let until = time.ms + 120_000;
    let mut turns = (time.ms..until).step_by(10);
    time.pass(&mut [&mut home], |_, _| turns.next().is_none());
    let is_back = |home: &StackStatus| {
        let mut all = home.associations.iter().filter(|one| one.id == first);
        all.any(|one| one.paths.iter().any(|path| path.state == "active"))
    };
    time.pass(&mut [&mut home, &mut relay], |home, _| is_back(home));
    // It is looked every three seconds whether this host is registered.
    let mut turns = 0..300;
    time.pass(&mut [&mut home, &mut relay], |_, _| turns.next().is_none());
    client.open(1, destination);
    let is_decided = |reply: &Reply| matches!(reply, Reply::Accepted { .. } | Reply::Failed { .. });
    let mut said = None;
    time.pass(&mut [&mut client, &mut home, &mut relay], |_, replies| {
        said = said.take().or_else(|| replies.iter().find(|it| is_decided(it)).cloned());
        said.is_some()
    });
    assert!(matches!(said, Some(Reply::Accepted { .. })), "{said:?}: {:#?}", home.status());
}

#[test]
fn a_relay_with_which_no_association_can_begin_is_passed_over_and_counted() {
    let meeting = Meeting::new();
    let (_relay, _) = Host::with_launcher(meeting.relay_at(8));
    let (config, destination) = meeting.home(&[8]);
    let (_home, at_home) = Host::with_launcher(config);
    at_home.wait_for("the registration", registered);
    // The client has no address of the first one's kind.
    let far: IpAddr = "2001:db8::1".parse().unwrap();
    let via = Some(format!("{far},{}", meeting.addr(8)).parse().unwrap());
    let config = StackConfig { via, ..meeting.0.client() };
    let (_client, mut launcher) = Host::with_launcher(config);
    let sent = pattern(10_000, 7);
    assert!(exchange(launcher.connect_sctp(destination), sent.clone()) == sent);
    let status = launcher.status();
    let [search] = &status.relaying.searches[..] else { panic!("{:?}", status.relaying.searches) };
    assert_eq!(tried(search), [(far, "no-local-address")]);
    assert_eq!(counter(&status, "stack_relays_passed_over"), 1);
}

#[test]
fn an_association_by_which_nobody_is_registered_any_more_ends() {
    let meeting = Meeting::new();
    let mut config = meeting.relay_at(9);
    config.limits.peer_idle_timeout = Duration::from_millis(500);
    let (_relay, at_relay) = Host::with_launcher(config);
    // The same key at other addresses, as of a host that moves: the latest ones count.
    let homes = [4, 5, 6].map(|host| {
        let (config, _) = meeting.home(&[9]);
        let locals = Locals::List(vec![meeting.addr(host)]);
        let home = Host::with_launcher(StackConfig { locals, ..config });
        home.1.wait_for("the registration", registered);
        home
    });
    // A host that has noticed it may be there again, and makes another one idle.
    at_relay.wait_for("the end", |status| {
        let ended = counter(status, "stack_idle_peer_associations_ended");
        ended > 0 && status.associations.len() <= 2
    });
    // Who notices registers anew.
    homes[0].1.wait_for("it", |status| counter(status, "stack_own_registrations") > 1);
}
