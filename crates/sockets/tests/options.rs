//! Options of RFC 6458 and of Linux that change or tell something of associations as a whole.

use crate::common;

use common::{PORT, Pair, address, option, option_raw, set, set_raw};
use manypath_engine::{Duration, LocalAddress};
use manypath_sockets::constants::*;
use manypath_sockets::layout::Structure;
use manypath_sockets::structures::{
    sctp_assoc_stats, sctp_assoc_value, sctp_authinfo, sctp_authkey, sctp_authkeyid, sctp_hmacalgo,
    sctp_paddrinfo, sctp_sndinfo,
};
use manypath_sockets::{Control, Errno, Outbound, SendInfo, SocketId, Style, address::decode};
use std::net::{IpAddr, SocketAddr};

fn algorithms(list: &[u16]) -> Vec<u8> {
    let mut value = sctp_hmacalgo { shmac_number_of_idents: list.len() as u32 }.encode();
    value.extend(list.iter().flat_map(|number| number.to_ne_bytes()));
    value
}

#[test]
fn the_algorithms_of_authentication_are_those_that_were_set() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    let (sha1, sha256) = (SCTP_AUTH_HMAC_ID_SHA1 as u16, SCTP_AUTH_HMAC_ID_SHA256 as u16);
    let asked = |pair: &mut Pair| option_raw(pair, client, SCTP_HMAC_IDENT, &[0; 16]).unwrap();
    assert_eq!(asked(&mut pair), algorithms(&[sha256, sha1]));
    for list in [&[sha1, sha256][..], &[sha1], &[sha256, sha1]] {
        set_raw(&mut pair, client, SCTP_HMAC_IDENT, &algorithms(list)).unwrap();
        assert_eq!(asked(&mut pair), algorithms(list));
    }
    // RFC 4895 section 6.1: SHA-1 must be among them.
    for (list, error) in
        [(&[sha256][..], Errno::INVALID), (&[], Errno::INVALID), (&[2, sha1], Errno::NOT_SUPPORTED)]
    {
        let refused = set_raw(&mut pair, client, SCTP_HMAC_IDENT, &algorithms(list));
        assert_eq!(refused, Err(error), "{list:?}");
    }
    let mut cut = algorithms(&[sha1, sha256]);
    cut.pop();
    assert_eq!(set_raw(&mut pair, client, SCTP_HMAC_IDENT, &cut), Err(Errno::INVALID));
}

#[test]
fn what_the_peer_wants_authenticated_is_told() {
    let mut pair = Pair::new();
    let on = sctp_assoc_value { assoc_value: 1, ..Default::default() }.encode();
    let listener = pair.with(1, |sockets, host| {
        let id = sockets.open(Style::OneToOne, false);
        let mut set = |name, value: &[u8]| {
            sockets.set_option(host, id, (libc::IPPROTO_SCTP, name), value).unwrap();
        };
        set(SCTP_AUTH_SUPPORTED, &on);
        // DATA and HEARTBEAT.
        set(SCTP_AUTH_CHUNK, &[0]);
        set(SCTP_AUTH_CHUNK, &[4]);
        sockets.bind(id, SocketAddr::from(([0; 4], PORT))).unwrap();
        sockets.listen(host, id, 2).unwrap();
        id
    });
    for authenticates in [true, false] {
        let client = pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false));
        if authenticates {
            set_raw(&mut pair, client, SCTP_AUTH_SUPPORTED, &on).unwrap();
        }
        pair.connect(client, address(1, 1)).unwrap();
        pair.with(1, |sockets, _| sockets.accept(listener)).unwrap();
        let told = option_raw(&mut pair, client, SCTP_PEER_AUTH_CHUNKS, &[0; 16]).unwrap();
        let list = if authenticates { &[0, 4][..] } else { &[] };
        assert_eq!(told[4..8], (list.len() as u32).to_ne_bytes());
        assert_eq!(&told[8..], list);
    }
}

#[test]
fn an_association_says_what_it_has_sent_and_received() {
    let mut pair = Pair::new();
    let (client, server) = pair.connected();
    pair.pass(Duration::from_secs(1));
    pair.send(0, client, &[], "question").unwrap();
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.next(1, server), Ok("question".into()));
    let stats: sctp_assoc_stats =
        option(&mut pair, client, SCTP_GET_ASSOC_STATS, &sctp_assoc_stats::default()).unwrap();
    assert_eq!((stats.sas_oodchunks, stats.sas_ouodchunks, stats.sas_rtxchunks), (1, 0, 0));
    assert_eq!((stats.sas_iodchunks, stats.sas_gapcnt), (0, 0));
    assert!(stats.sas_isacks >= 1 && stats.sas_opackets > 3 && stats.sas_ipackets > 3, "{stats:?}");
    assert!(stats.sas_octrlchunks > 2 && stats.sas_ictrlchunks > stats.sas_isacks, "{stats:?}");
    assert!(stats.sas_maxrto > 0, "in milliseconds");
    let ip = decode(&stats.sas_obs_rto_ipaddr.0).unwrap().ip();
    assert!([1, 2].map(|net| address(net, 1).ip()).contains(&ip), "{ip}");
    // An older program knows of fewer counters.
    let short = option_raw(&mut pair, client, SCTP_GET_ASSOC_STATS, &[0; 160]).unwrap();
    assert_eq!(short.len(), 160);
    assert_eq!(option_raw(&mut pair, client, SCTP_GET_ASSOC_STATS, &[0; 3]), Err(Errno::INVALID));
}

fn third(host: usize) -> IpAddr {
    address(3, host).ip()
}

/// A host has a third address from now on, or not any more.
fn change_address(pair: &mut Pair, host: usize, there: bool) {
    let ip = third(host);
    let addr = SocketAddr::new(ip, 9899);
    let local = LocalAddress { addr, prefix_len: 24, interface: 3, mtu: 1500 };
    pair.with(host, |sockets, host| {
        if there {
            host.endpoint.add_local_address(local);
            sockets.on_address_added(host, SocketAddr::new(ip, 0));
        } else {
            sockets.on_address_removed(host, ip);
        }
    });
    pair.pass(Duration::from_secs(5));
}

/// As [`Pair::connected`], with a server that lets its peers change their addresses, and a client that does so or not.
fn connected(pair: &mut Pair, follows: bool) -> (SocketId, SocketId) {
    let listener = pair.with(1, |sockets, host| {
        let id = sockets.open(Style::OneToOne, false);
        let on = sctp_assoc_value { assoc_value: 1, ..Default::default() }.encode();
        let option = (libc::IPPROTO_SCTP, SCTP_ASCONF_SUPPORTED);
        sockets.set_option(host, id, option, &on).unwrap();
        sockets.bind(id, SocketAddr::from(([0; 4], PORT))).unwrap();
        sockets.listen(host, id, 2).unwrap();
        id
    });
    let client = pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false));
    let flag = i32::from(follows).to_ne_bytes();
    assert_eq!(option_raw(pair, client, SCTP_AUTO_ASCONF, &[0; 4]), Ok(vec![0; 4]));
    set_raw(pair, client, SCTP_AUTO_ASCONF, &flag).unwrap();
    assert_eq!(option_raw(pair, client, SCTP_AUTO_ASCONF, &[0; 4]), Ok(flag.to_vec()));
    pair.connect(client, address(1, 1)).unwrap();
    (client, pair.with(1, |sockets, _| sockets.accept(listener)).unwrap())
}

fn own_addresses(pair: &mut Pair, id: SocketId) -> Vec<IpAddr> {
    let all = pair.with(0, |sockets, host| sockets.local_addresses(host, id, 0)).unwrap();
    all.iter().map(SocketAddr::ip).collect()
}

/// What host 1 knows of the addresses of its peer.
fn known(pair: &mut Pair, id: SocketId) -> Vec<IpAddr> {
    let all = pair.with(1, |sockets, host| sockets.peer_addresses(host, id, 0)).unwrap();
    all.iter().map(SocketAddr::ip).collect()
}

#[test]
fn an_association_follows_the_addresses_of_the_host_where_that_is_wanted() {
    for follows in [false, true] {
        let mut pair = Pair::new();
        let (client, server) = connected(&mut pair, follows);
        pair.pass(Duration::from_secs(1));
        change_address(&mut pair, 0, true);
        assert_eq!(known(&mut pair, server).contains(&third(0)), follows);
        assert_eq!(own_addresses(&mut pair, client).contains(&third(0)), follows);
        change_address(&mut pair, 0, false);
        assert!(!known(&mut pair, server).contains(&third(0)));
        pair.send(0, client, &[], "after it").unwrap();
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.next(1, server), Ok("after it".into()));
    }
}

#[test]
fn a_new_address_can_be_bound_and_connected_to() {
    let mut pair = Pair::new();
    let (_, listener) = pair.sockets(Style::OneToOne);
    let at = SocketAddr::new(third(0), 0);
    let bound = |pair: &mut Pair| {
        pair.with(0, |sockets, _| {
            let id = sockets.open(Style::OneToOne, false);
            sockets.bind(id, at)
        })
    };
    assert_eq!(bound(&mut pair), Err(Errno::ADDRESS_NOT_AVAILABLE));
    change_address(&mut pair, 0, true);
    change_address(&mut pair, 1, true);
    assert_eq!(bound(&mut pair), Ok(()));
    let client = pair.with(0, |sockets, _| sockets.open(Style::OneToOne, false));
    assert_eq!(pair.connect(client, address(3, 1)), Ok(()), "the listener has it, too");
    assert!(pair.with(1, |sockets, _| sockets.accept(listener)).is_ok());
}

#[test]
fn only_sockets_that_have_all_addresses_follow_them() {
    let mut pair = Pair::new();
    let id = pair.with(0, |sockets, _| {
        let id = sockets.open(Style::OneToMany, false);
        sockets.bind(id, address(1, 0)).unwrap();
        id
    });
    let refused = set_raw(&mut pair, id, SCTP_AUTO_ASCONF, &1i32.to_ne_bytes());
    assert_eq!(refused, Err(Errno::INVALID));
    assert_eq!(set_raw(&mut pair, id, SCTP_AUTO_ASCONF, &0i32.to_ne_bytes()), Ok(()));
}

/// RFC 6458 section 8.1.31: of the association that is named, or of those that there are, of those to come, or of all.
#[test]
fn defaults_of_messages_are_those_of_their_association() {
    let mut pair = Pair::new();
    let (client, server) = pair.sockets(Style::OneToMany);
    let ppid =
        |snd_assoc_id, snd_ppid| sctp_sndinfo { snd_ppid, snd_assoc_id, ..Default::default() };
    let begin = |pair: &mut Pair, to| {
        let number = pair.with(0, |sockets, host| sockets.connect(host, client, &[to])).unwrap();
        pair.settle();
        number
    };
    set(&mut pair, client, SCTP_DEFAULT_SNDINFO, &ppid(SCTP_FUTURE_ASSOC, 1)).unwrap();
    let number = begin(&mut pair, address(1, 1));
    let told = |pair: &mut Pair, named| {
        option(pair, client, SCTP_DEFAULT_SNDINFO, &ppid(named, 0)).map(|info| info.snd_ppid)
    };
    set(&mut pair, client, SCTP_DEFAULT_SNDINFO, &ppid(SCTP_FUTURE_ASSOC, 2)).unwrap();
    assert_eq!((told(&mut pair, number), told(&mut pair, SCTP_FUTURE_ASSOC)), (Ok(1), Ok(2)));
    set(&mut pair, client, SCTP_DEFAULT_SNDINFO, &ppid(number, 3)).unwrap();
    assert_eq!((told(&mut pair, number), told(&mut pair, SCTP_FUTURE_ASSOC)), (Ok(3), Ok(2)));
    set(&mut pair, client, SCTP_DEFAULT_SNDINFO, &ppid(SCTP_CURRENT_ASSOC, 4)).unwrap();
    assert_eq!((told(&mut pair, number), told(&mut pair, SCTP_FUTURE_ASSOC)), (Ok(4), Ok(2)));
    let stranger = set(&mut pair, client, SCTP_DEFAULT_SNDINFO, &ppid(1234, 5));
    assert_eq!((stranger, told(&mut pair, 1234)), (Err(Errno::INVALID), Err(Errno::INVALID)));
    // A message that says nothing of itself, to the address of the peer.
    let info = pair.with(0, |sockets, host| {
        sockets.send_info(host, client, Some(address(1, 1)), |_| Ok(())).unwrap()
    });
    assert_eq!(info.info.snd_ppid, 4);
    let info = pair.with(1, |sockets, host| {
        sockets.send_info(host, server, Some(address(2, 0)), |_| Ok(())).unwrap()
    });
    assert_eq!(info.info.snd_ppid, 0);
}

/// socket(7).
#[test]
fn sizes_of_buffers_are_told_doubled() {
    let mut pair = Pair::new();
    let (client, _) = pair.sockets(Style::OneToOne);
    for (name, size, told) in [
        (libc::SO_RCVBUF, 2048i32, 4096i32),
        (libc::SO_SNDBUF, 2304, 4608),
        (libc::SO_SNDBUF, 1, 4608),
        // A program reads an int, which must not become negative.
        (libc::SO_RCVBUF, i32::MAX, i32::MAX),
    ] {
        let option = (libc::SOL_SOCKET, name);
        let value = size.to_ne_bytes();
        pair.with(0, |sockets, host| sockets.set_option(host, client, option, &value)).unwrap();
        let found = pair.with(0, |sockets, host| sockets.option(host, client, option, &value));
        assert_eq!(found, Ok(told.to_ne_bytes().to_vec()));
    }
}

#[test]
fn a_message_may_name_the_active_key_and_no_other() {
    let mut pair = Pair::new();
    let (client, _) = pair.connected();
    let mut send = |auth_keynumber: u16| {
        pair.with(0, |sockets, host| {
            let data = sctp_authinfo { auth_keynumber }.encode();
            let control = Control { kind: SCTP_AUTHINFO, data };
            let info = sockets.send_info(host, client, None, |info| info.apply(&control))?;
            sockets.send(host, client, Outbound { to: Vec::new(), info, data: "a".into() })
        })
    };
    assert_eq!((send(0), send(1)), (Ok(1), Err(Errno::NOT_SUPPORTED)));
}

/// RFC 6458 section 8.1.18: the active key is that of one association.
#[test]
fn each_association_has_an_active_key_of_its_own() {
    let mut pair = Pair::new();
    let on = sctp_assoc_value { assoc_value: 1, ..Default::default() }.encode();
    let supported = (libc::IPPROTO_SCTP, SCTP_AUTH_SUPPORTED);
    let (client, server) = pair.sockets(Style::OneToMany);
    let second = pair.with(1, |sockets, _| sockets.open(Style::OneToMany, false));
    for (host, id) in [(0, client), (1, server), (1, second)] {
        pair.with(host, |sockets, host| sockets.set_option(host, id, supported, &on)).unwrap();
    }
    let ports = [PORT, PORT + 1];
    let at = |port| SocketAddr::new(address(1, 1).ip(), port);
    pair.with(1, |sockets, host| {
        sockets.bind(second, at(ports[1])).unwrap();
        sockets.listen(host, second, 2).unwrap();
    });
    let numbers = ports.map(|port| {
        let to = [at(port)];
        let number = pair.with(0, |sockets, host| sockets.connect(host, client, &to)).unwrap();
        pair.settle();
        number
    });
    let head = sctp_authkey { sca_assoc_id: numbers[0], sca_keynumber: 1, sca_keylength: 3 };
    let key = [head.encode(), b"key".to_vec()].concat();
    set_raw(&mut pair, client, SCTP_AUTH_KEY, &key).unwrap();
    let named =
        |scact_assoc_id, scact_keynumber| sctp_authkeyid { scact_assoc_id, scact_keynumber };
    set(&mut pair, client, SCTP_AUTH_ACTIVE_KEY, &named(numbers[0], 1)).unwrap();
    let found = numbers.map(|number| {
        let asked = named(number, 0);
        option(&mut pair, client, SCTP_AUTH_ACTIVE_KEY, &asked).unwrap().scact_keynumber
    });
    assert_eq!(found, [1, 0]);
    let mut send = |port, key| {
        pair.with(0, |sockets, host| {
            let info = SendInfo { key: Some(key), ..SendInfo::default() };
            sockets.send(host, client, Outbound { to: vec![at(port)], info, data: "a".into() })
        })
    };
    assert_eq!(ports.map(|port| send(port, 1)), [Ok(1), Err(Errno::NOT_SUPPORTED)]);
    assert_eq!(ports.map(|port| send(port, 0)), [Err(Errno::NOT_SUPPORTED), Ok(1)]);
}

#[test]
fn the_port_of_an_address_that_is_asked_for_is_the_peers() {
    let mut pair = Pair::new();
    let (client, _) = pair.connected();
    let mut ask = |port| {
        let at = SocketAddr::new(address(1, 1).ip(), port);
        let spinfo_address = manypath_sockets::address::storage(at, false);
        let asked = sctp_paddrinfo { spinfo_address, ..Default::default() };
        option(&mut pair, client, SCTP_GET_PEER_ADDR_INFO, &asked).map(|found| found.spinfo_state)
    };
    assert_eq!([PORT, 0].map(&mut ask), [Ok(SCTP_ACTIVE); 2]);
    assert_eq!(ask(PORT + 1), Err(Errno::INVALID));
}
