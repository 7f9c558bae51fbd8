//! Doors: clients that say where they want to go, and are carried as programs are.

use crate::common::{
    Host, LIMIT, Launcher, Network, Table, counter, echo, pattern, service, unused_port,
};
use crate::relayed_datagrams::echoes as udp_echoes;
use manypath_control::status::StackStatus;
use manypath_daemon::{Allow, Doors, StackConfig, Users};
use manypath_rules::Protocol;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;

/// A stack with a proxy, and where that is.
struct Proxy {
    at: SocketAddr,
    stack: Host,
    status: Launcher,
}

fn proxy_for(
    network: Network,
    clients: &[&str],
    users: Option<Users>,
    max_clients: usize,
) -> Proxy {
    let config = network.client_config();
    proxy_with(network, config, clients, users, max_clients)
}

fn proxy_with(
    network: Network,
    config: StackConfig,
    clients: &[&str],
    users: Option<Users>,
    max_clients: usize,
) -> Proxy {
    let listener = TcpListener::bind((network.client()[0], 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let clients = clients.iter().map(|text| text.parse().unwrap()).collect();
    let doors = Doors {
        proxies: vec![listener],
        lans: Vec::new(),
        lan_datagrams: Vec::new(),
        tun: None,
        dns: None,
        clients,
        users,
        max_clients,
    };
    let config = StackConfig { doors: Some(doors), ..config };
    let (stack, status) = Host::with_launcher(config);
    Proxy { at, stack, status }
}

fn proxy(network: Network) -> Proxy {
    proxy_for(network, &[], None, 100)
}

impl Proxy {
    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// A client that has said hello and where it wants to go; the code of the answer.
    fn socks(&self, request: &[u8]) -> (TcpStream, u8) {
        let mut client = self.client();
        client.write_all(&[&b"\x05\x01\x00"[..], request].concat()).unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..3], [5, 0, 5]);
        (client, answer[3])
    }

    fn connect(&self, to: SocketAddr) -> (TcpStream, u8) {
        let IpAddr::V4(ip) = to.ip() else { panic!("IPv4") };
        let port = to.port().to_be_bytes();
        self.socks(&[&b"\x05\x01\x00\x01"[..], &ip.octets(), &port].concat())
    }

    /// A client that sends datagrams, and its socket.
    fn associate(&self) -> (TcpStream, UdpSocket) {
        let client = self.client();
        let socket = UdpSocket::bind((client.local_addr().unwrap().ip(), 0)).unwrap();
        self.associate_from(client, socket, 0)
    }

    /// The same of one that says from which port it is going to send.
    fn associate_from(
        &self,
        mut client: TcpStream,
        socket: UdpSocket,
        port: u16,
    ) -> (TcpStream, UdpSocket) {
        client.write_all(b"\x05\x01\x00\x05\x03\x00\x01\0\0\0\0").unwrap();
        client.write_all(&port.to_be_bytes()).unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).unwrap();
        let [5, 0, 5, 0, 0, 1, a, b, c, d, high, low] = answer else { panic!("{answer:?}") };
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.connect((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]))).unwrap();
        (client, socket)
    }

    /// All that an HTTP client hears.
    fn http(&self, head: &str) -> String {
        let mut client = self.client();
        client.write_all(head.as_bytes()).unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        said
    }
}

fn echoes(mut client: TcpStream) {
    let sent = pattern(300_000, 7);
    let mut copy = client.try_clone().unwrap();
    let bytes = sent.clone();
    let writer = std::thread::spawn(move || {
        copy.write_all(&bytes).unwrap();
        copy.shutdown(Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == sent);
}

fn is_closed(mut client: TcpStream) -> bool {
    match client.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A datagram as a SOCKS client writes it.
fn datagram(to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let IpAddr::V4(ip) = to.ip() else { panic!("IPv4") };
    [&[0, 0, 0, 1][..], &ip.octets(), &to.port().to_be_bytes(), payload].concat()
}

fn received(socket: &UdpSocket) -> Vec<u8> {
    let mut room = [0; 65_536];
    let len = socket.recv(&mut room).unwrap();
    room[..len].to_vec()
}

#[test]
fn datagrams_of_clients_are_carried_where_a_rule_says_so_and_plain_elsewhere() {
    let network = Network::new();
    let [carried, plain] = [(); 2].map(|()| udp_echoes(network.server()[0]));
    let allow = Allow { addr: Some(carried.ip()), port: carried.port(), protocol: Protocol::Udp };
    let server = StackConfig { allow: vec![allow], ..network.server_config(&[]) };
    let (_server, at_server) = Host::with_launcher(server);
    let rule = format!("remote enable udp port {} lifetime=5s\n", carried.port());
    let table = Table::new(network, &rule);
    let listener = TcpListener::bind((network.client()[0], 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let (lans, clients) = (Vec::new(), Vec::new());
    let doors = Doors {
        proxies: vec![listener],
        lans,
        lan_datagrams: Vec::new(),
        tun: None,
        dns: None,
        clients,
        users: None,
        max_clients: 9,
    };
    let config = StackConfig { doors: Some(doors), rules: table.file(), ..network.client_config() };
    let (stack, status) = Host::with_launcher(config);
    let proxy = Proxy { at, stack, status };
    let (client, socket) = proxy.associate();
    for to in [carried, plain] {
        for size in [0, 9, 1200, 40_000] {
            let sent = datagram(to, &pattern(size, 5));
            socket.send(&sent).unwrap();
            assert!(received(&socket) == sent, "{to}: {size}");
        }
    }
    assert_eq!(counter(&at_server.status(), "datagram_accepted"), 1);
    let now = proxy.status.status();
    let [host] = &now.door_hosts[..] else { panic!("{now:#?}") };
    assert_eq!((host.carried, host.plain), (1, 1));
    assert_eq!((host.sent_bytes, host.received_bytes), (82_418, 82_418));
    assert_eq!(now.associations[0].datagrams.len(), 1);
    // The end of the TCP connection is that of everything.
    drop(client);
    proxy.status.wait_for("the end", |now| now.associations[0].datagrams.is_empty());
    assert_eq!(counter(&proxy.status.status(), "stack_datagram_relays_ended"), 1);
}

#[test]
fn nobody_sends_datagrams_in_the_place_of_a_client() {
    let network = Network::new();
    // A server that tells to whom it has answered.
    let server = UdpSocket::bind((network.server()[0], 0)).unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let plain = server.local_addr().unwrap();
    let answer = || {
        let mut room = [0; 100];
        let (len, from) = server.recv_from(&mut room).unwrap();
        server.send_to(&room[..len], from).unwrap();
        from
    };
    let proxy = proxy(network);
    let (_client, socket) = proxy.associate();
    socket.send(&datagram(plain, b"mine")).unwrap();
    let flow = answer();
    assert_eq!(received(&socket), datagram(plain, b"mine"));
    let relayed = socket.peer_addr().unwrap();
    for host in [socket.local_addr().unwrap().ip(), network.client()[1]] {
        let stranger = UdpSocket::bind((host, 0)).unwrap();
        stranger.send_to(&datagram(plain, b"not mine"), relayed).unwrap();
    }
    // Nor is anybody heard in the place of the destination.
    for host in [network.server()[0], network.client()[1]] {
        UdpSocket::bind((host, 0)).unwrap().send_to(b"an answer", flow).unwrap();
    }
    // Parts of datagrams, and what is none.
    let mut part = datagram(plain, b"part");
    part[2] = 1;
    socket.send(&part).unwrap();
    socket.send(b"").unwrap();
    for _ in 0..3 {
        socket.send(&datagram(SocketAddr::from(([224, 0, 0, 1], 53)), b"group")).unwrap();
    }
    socket.send(&datagram(plain, b"mine, too")).unwrap();
    assert_eq!(answer(), flow);
    assert_eq!(received(&socket), datagram(plain, b"mine, too"));
    let status = proxy.status.status();
    let counts = ["of_strangers", "malformed", "refused"]
        .map(|what| counter(&status, &format!("stack_door_datagrams_{what}")));
    assert_eq!(counts, [2, 2, 3]);
    let host = &status.door_hosts[0];
    assert_eq!((host.plain, host.refused, host.received_bytes), (1, 1, 13));
    assert_eq!(host.sent_bytes, 13);
}

#[test]
fn a_client_that_names_its_port_is_heard_from_there_alone() {
    let network = Network::new();
    let plain = udp_echoes(network.server()[0]);
    let proxy = proxy(network);
    let client = proxy.client();
    let host = client.local_addr().unwrap().ip();
    let [socket, stranger] = [(); 2].map(|()| UdpSocket::bind((host, 0)).unwrap());
    let port = socket.local_addr().unwrap().port();
    let (_client, socket) = proxy.associate_from(client, socket, port);
    stranger.send_to(&datagram(plain, b"first"), socket.peer_addr().unwrap()).unwrap();
    socket.send(&datagram(plain, b"mine")).unwrap();
    assert_eq!(received(&socket), datagram(plain, b"mine"));
    assert_eq!(counter(&proxy.status.status(), "stack_door_datagrams_of_strangers"), 1);
}

#[test]
fn what_waits_of_a_clients_datagrams_is_bounded() {
    let network = Network::new();
    let peer = network.server()[0];
    // It reads nothing, so that nobody knows how they go on.
    let _silent = UdpSocket::bind((peer, manypath_daemon::DEFAULT_UDP_PORT)).unwrap();
    let table = Table::new(network, "remote enable udp any\n");
    let mut patient = StackConfig { rules: table.file(), ..network.client_config() };
    patient.limits.fallback_timeout = manypath_engine::Duration::from_secs(60);
    let proxy = proxy_with(network, patient, &[], None, 100);
    let (_client, socket) = proxy.associate();
    for port in 2001..=2005 {
        socket.send(&datagram(SocketAddr::new(peer, port), &pattern(40_000, 5))).unwrap();
    }
    let dropped = |status: &StackStatus| counter(status, "stack_door_datagrams_dropped");
    let status = proxy.status.wait_for("the others", |status| dropped(status) >= 2);
    assert_eq!(dropped(&status), 2);
    assert!(status.door_hosts.iter().all(|host| host.sent_bytes == 0));
}

#[test]
fn a_name_without_an_address_is_looked_up_once_for_datagrams() {
    let network = Network::new();
    let proxy = proxy(network);
    let (_client, socket) = proxy.associate();
    for _ in 0..3 {
        // RFC 6761 section 6.4: it does not exist.
        socket.send(b"\0\0\0\x03\x0enobody.invalid\0\x35x").unwrap();
    }
    let refused = |status: &StackStatus| counter(status, "stack_door_datagrams_refused");
    let status = proxy.status.wait_for("all", |status| refused(status) == 3);
    assert_eq!(status.door_hosts[0].failed, 1);
}

#[test]
fn clients_of_both_protocols_are_carried_over_sctp() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[open]));
    let proxy = proxy(network);
    let (client, code) = proxy.connect(open);
    assert_eq!(code, 0);
    echoes(client);
    let mut client = proxy.client();
    // What follows the head without waiting is for the service.
    write!(client, "CONNECT {open} HTTP/1.1\r\nHost: {open}\r\n\r\nearly").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(said, "HTTP/1.1 200 Connection established\r\n\r\nearly");
    let is_counted = |status: &manypath_control::status::StackStatus| {
        status.door_hosts.iter().any(|host| (host.open, host.carried) == (0, 2))
    };
    let status = proxy.status.wait_for("both", is_counted);
    assert_eq!(status.door_hosts.len(), 1);
    let host = &status.door_hosts[0];
    assert_eq!((host.sent_bytes, host.received_bytes), (300_005, 300_005));
    assert_eq!(status.allow, [format!("SOCKS5 and HTTP CONNECT clients at {}", proxy.at)]);
}

#[test]
fn a_service_without_manypath_is_reached_by_plain_tcp_and_errors_are_true() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let proxy = proxy(network);
    echoes(proxy.connect(open).0);
    let closed = unused_port(network.server()[0]);
    let (client, code) = proxy.connect(closed);
    assert_eq!(code, 5, "refused");
    assert!(is_closed(client));
    let said = proxy.http(&format!("CONNECT {closed} HTTP/1.1\r\n\r\n"));
    assert!(said.starts_with("HTTP/1.1 502 ") && said.contains("Connection refused"), "{said}");
    for nowhere in ["0.0.0.0:80", "224.0.0.1:80", "127.0.0.1:0"] {
        assert_eq!(proxy.connect(nowhere.parse().unwrap()).1, 2, "{nowhere}");
        let said = proxy.http(&format!("CONNECT {nowhere} HTTP/1.1\r\n\r\n"));
        assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    }
    let status = proxy.status.wait_for("all", |status| {
        status.door_hosts.iter().any(|host| (host.plain, host.failed, host.refused) == (1, 2, 6))
    });
    assert_eq!(counter(&status, "stack_door_clients"), 9);
}

#[test]
fn names_are_looked_up_without_holding_others_up() {
    let network = Network::new();
    let open = service("127.0.0.1".parse().unwrap(), echo);
    let proxy = proxy(network);
    let request = |name: &str, port: u16| {
        let length = u8::try_from(name.len()).unwrap();
        let head = [5, 1, 0, 3, length];
        [&head[..], name.as_bytes(), &port.to_be_bytes()].concat()
    };
    let (client, code) = proxy.socks(&request("localhost", open.port()));
    assert_eq!(code, 0);
    echoes(client);
    // RFC 6761 section 6.4: it does not exist.
    assert_eq!(proxy.socks(&request("nobody.invalid", 80)).1, 4);
    let said = proxy.http("CONNECT nobody.invalid:80 HTTP/1.1\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 502 ") && said.contains("no such name"), "{said}");
}

#[test]
fn only_clients_with_a_password_are_served_where_there_is_one() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let path = std::env::temp_dir().join(format!("manypath-door-{}", network.client()[0]));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&path).unwrap().write_all(b"ann:secret\n").unwrap();
    let users = Users::read(&path);
    std::fs::remove_file(&path).unwrap();
    let proxy = proxy_for(network, &[], Some(users.unwrap()), 100);
    let mut client = proxy.client();
    client.write_all(b"\x05\x01\x00").unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [5, 0xff]);
    assert!(is_closed(client));
    let head = format!("CONNECT {open} HTTP/1.1\r\n");
    assert!(proxy.http(&format!("{head}\r\n")).starts_with("HTTP/1.1 407 "));
    let wrong = proxy.http(&format!("{head}Proxy-Authorization: Basic YW5uOnNlY3JlVA==\r\n\r\n"));
    assert!(wrong.starts_with("HTTP/1.1 407 "), "{wrong}");
    let mut client = proxy.client();
    write!(client, "{head}Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n\r\n").unwrap();
    let mut granted = [0; 39];
    client.read_exact(&mut granted).unwrap();
    echoes(client);
}

#[test]
fn a_web_page_cannot_make_a_browser_speak_for_it() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let proxy = proxy(network);
    // What a page can have sent: a request of its own, whose body looks like one to the proxy.
    let body = format!("CONNECT {open} HTTP/1.1\r\n\r\nhello");
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n\r\n", proxy.at);
    let said = proxy.http(&format!("{head}{body}"));
    assert!(said.starts_with("HTTP/1.1 405 ") && !said.contains("200"), "{said}");
    assert_eq!(counter(&proxy.status.status(), "stack_relays_started"), 0);
}

#[test]
fn clients_that_say_nothing_or_too_much_or_are_too_many_are_let_go() {
    let network = Network::new();
    let proxy = proxy_for(network, &[], None, 3);
    let silent: Vec<TcpStream> = (0..3).map(|_| proxy.client()).collect();
    proxy.status.wait_for("three", |status| counter(status, "stack_door_clients") == 3);
    assert!(is_closed(proxy.client()), "one too many");
    let status = proxy.status.status();
    assert_eq!(counter(&status, "stack_door_clients_refused_too_many"), 1);
    let mut client = &silent[0];
    let _ = client.write_all(&[b'A'; 20_000]);
    let mut said = Vec::new();
    // The rest of what it says may reset it.
    let _ = client.read_to_end(&mut said);
    assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 4"), "{said:?}");
    for client in silent.into_iter().skip(1) {
        assert!(is_closed(client), "ten seconds are over");
    }
    let status = proxy.status.status();
    assert_eq!(counter(&status, "stack_door_clients_too_slow"), 2);
}

#[test]
fn a_client_that_goes_while_its_connection_is_made_leaves_nothing() {
    let network = Network::new();
    // It reads nothing, so that the connect waits for an answer to its INIT.
    let peer = network.server()[0];
    let _silent = UdpSocket::bind((peer, manypath_daemon::DEFAULT_UDP_PORT)).unwrap();
    let mut patient = network.client_config();
    patient.limits.fallback_timeout = manypath_engine::Duration::from_secs(60);
    let proxy = proxy_with(network, patient, &[], None, 100);
    let mut client = proxy.client();
    let IpAddr::V4(ip) = peer else { panic!("IPv4") };
    let request = [&b"\x05\x01\x00\x05\x01\x00\x01"[..], &ip.octets(), &[31, 144]].concat();
    client.write_all(&request).unwrap();
    let flows = |status: &StackStatus| -> usize {
        status.associations.iter().map(|association| association.flows.len()).sum()
    };
    proxy.status.wait_for("a flow", |status| flows(status) == 1);
    drop(client);
    proxy.status.wait_for("no flow", |status| flows(status) == 0);
    let status = proxy.status.status();
    assert_eq!(counter(&status, "stack_opens_cancelled"), 1);
}

#[test]
fn the_end_of_the_stack_ends_clients_and_takes_no_more() {
    let network = Network::new();
    let proxy = proxy(network);
    let waiting = proxy.client();
    proxy.status.wait_for("the client", |status| counter(status, "stack_door_clients") == 1);
    let Proxy { at, stack, status } = proxy;
    drop(stack);
    assert!(is_closed(waiting));
    assert!(TcpStream::connect(at).is_err());
    drop(status);
}
