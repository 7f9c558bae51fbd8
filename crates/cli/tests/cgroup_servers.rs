//! Servers in a cgroup that know nothing of manypath: one process serves clients of TCP and of manypath, and
//! is told the true address of both.

use crate::common;

use common::cgroup::Group;
use common::containers::Container;
use common::folder::Folder;
use common::gateways::sh;
use common::{Finished, Site, finish, wait_for};
use manypath_lab::Host;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A server of the right host, in a cgroup that manypath serves.
struct Served {
    group: Group,
    server: Child,
}

/// `attached_first`: manypath is at work when the server starts; else it finds the server running.
fn serve(
    site: &Site,
    program: &str,
    args: &[&str],
    port: u16,
    attached_first: bool,
) -> Option<Served> {
    let mut group = Group::new()?;
    if attached_first {
        group.attach(site, Host::Right, &["-v"]);
    }
    let log = std::fs::File::create(site.dir.join("server")).expect("log");
    let mut command = group.command(site, Host::Right, program, args);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("log")).stderr(log);
    let server = command.spawn().expect("a server");
    wait_for("the port", || {
        site.direct("nc", &["-z", "-w", "1", &site.server(), &port.to_string()]).code == Some(0)
    });
    if !attached_first {
        group.attach(site, Host::Right, &["-v"]);
    }
    wait_for("the server to be offered", || offered(site, port));
    Some(Served { group, server })
}

fn offered(site: &Site, port: u16) -> bool {
    let status = site.door_status(Host::Right);
    let ends = format!(":{port}");
    let mut listeners = status["listeners"].as_array().cloned().unwrap_or_default().into_iter();
    listeners.any(|one| {
        one["offered"] == true && one["addr"].as_str().is_some_and(|addr| addr.ends_with(&ends))
    })
}

/// Connections that the right host's door has carried.
fn carried(site: &Site) -> u64 {
    site.door_status(Host::Right)["counters"]["stack_relays_started"].as_u64().unwrap_or(0)
}

fn client(site: &Site, through: bool, program: &str, args: &[&str]) -> Finished {
    let done = if through { site.through(program, args) } else { site.direct(program, args) };
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

impl Served {
    fn end(mut self) {
        let _ = std::process::Command::new("kill").arg(self.server.id().to_string()).status();
        let _ = self.server.wait();
        drop(self.group);
    }
}

const PYTHON: &str = "import socket, sys\n\
    s = socket.create_server(('::', 7100), family=socket.AF_INET6, dualstack_ipv6=True)\n\
    f = socket.create_server(('0.0.0.0', 7101))\n\
    import selectors\n\
    e = selectors.DefaultSelector()\n\
    [e.register(l, 1) for l in (s, f)]\n\
    while True:\n\
    \x20for k, _ in e.select():\n\
    \x20 c, peer = k.fileobj.accept()\n\
    \x20 told = [peer[0], c.getpeername()[0], c.getsockname()[0]]\n\
    \x20 c.sendall(' '.join(told).replace('::ffff:', '').encode()); c.close()\n";

#[test]
fn a_python_server_is_told_the_true_addresses_of_both_families() {
    let site = Site::new();
    let Some(served) = serve(&site, "python3", &["-c", PYTHON], 7101, true) else { return };
    wait_for("the other socket to be offered", || offered(&site, 7100));
    let (four, six) = (site.server(), site.lab.address_v6(Host::Right, 0).to_string());
    let own = (site.lab.address(Host::Left, 0), site.lab.address_v6(Host::Left, 0));
    let own = (own.0.to_string(), own.1.to_string());
    for (server, own, port) in
        [(&four, &own.0, "7101"), (&four, &own.0, "7100"), (&six, &own.1, "7100")]
    {
        for through in [false, true] {
            let mut clients = (0..if through { 3 } else { 1 }).map(|_| {
                let before = carried(&site);
                let done = client(&site, through, "nc", &["-d", server, port]);
                assert_eq!(carried(&site) - before, u64::from(through));
                done.stdout
            });
            // Where a busy machine has let a path fail for a moment, the client is told by another of its addresses.
            let told = format!("{own} {own} {server}");
            assert!(clients.any(|heard| heard == told), "{through}: {told}");
        }
    }
    served.end();
}

#[test]
fn nginx_that_runs_already_logs_the_true_addresses() {
    let site = Site::new();
    let folder = Folder::new("cgroup-nginx");
    folder.file("file", [b'x'; 20_000]);
    let (conf, d) = (folder.nginx(), folder.text());
    let log = format!("{d}/error.log");
    let args = ["-p", &d, "-c", &conf, "-e", &log];
    let Some(served) = serve(&site, "nginx", &args, 8080, false) else { return };
    let url = format!("http://{}:8080/file?[1-30]", site.server());
    let args = ["-sS", "-f", "-Z", "--parallel-max", "10", "-H", "Connection: close", "-o"];
    let args = [&args[..], &["/dev/null", &url]].concat();
    let before = carried(&site);
    client(&site, false, "curl", &args);
    client(&site, true, "curl", &args);
    assert_eq!(carried(&site) - before, 30);
    wait_for("the log", || folder.read("access.log").lines().count() == 60);
    let own = format!("{} ", site.lab.address(Host::Left, 0));
    let log = folder.read("access.log");
    assert!(log.lines().all(|line| line.starts_with(&own)), "{log}");
    served.end();
}

#[test]
fn sshd_tells_its_sessions_the_true_address() {
    let site = Site::new();
    site.ssh_files();
    let conf = site.dir.join("sshd_config").display().to_string();
    let Some(served) = serve(&site, "sshd", &["-D", "-e", "-f", &conf], 2222, true) else { return };
    let options = site.ssh_options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = site.server();
    let args =
        [&options[..], &["-p", "2222", &server, "echo $SSH_CLIENT; head -c 3000000 /dev/zero"]];
    let own = site.lab.address(Host::Left, 0).to_string();
    for through in [false, true] {
        let done = client(&site, through, "ssh", &args.concat());
        let told: Vec<&str> = done.stdout.lines().next().unwrap_or("").split(' ').collect();
        assert_eq!((told[0], told[2]), (own.as_str(), "2222"), "{told:?}");
        assert!(done.stdout.len() > 3_000_000);
    }
    assert_eq!(carried(&site), 1);
    served.end();
}

/// Tells clients, one after the other, of a socket that listens from then on, as FTP does in passive mode.
const PORTS: &str = "import socket, threading\n\
    def serve(c):\n\
    \x20for _ in range(20):\n\
    \x20 l = socket.create_server(('0.0.0.0', 0))\n\
    \x20 c.sendall(b'%d\\n' % l.getsockname()[1])\n\
    \x20 d, peer = l.accept(); l.close()\n\
    \x20 d.sendall(peer[0].encode() + b'\\n'); d.close()\n\
    \x20 c.recv(1)\n\
    \x20c.close()\n\
    s = socket.create_server(('0.0.0.0', 7100))\n\
    while True:\n\
    \x20threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()\n";

/// Prints who it was taken for at each of these sockets.
const VISITS: &str = "import socket, sys\n\
    c = socket.create_connection((sys.argv[1], 7100)); f = c.makefile()\n\
    while port := f.readline():\n\
    \x20d = socket.create_connection((sys.argv[1], int(port)))\n\
    \x20print(d.makefile().readline().strip()); d.close(); c.sendall(b'x')\n";

#[test]
fn a_peer_that_comes_as_soon_as_a_socket_listens_is_led_there() {
    let site = Site::new();
    let Some(served) = serve(&site, "python3", &["-c", PORTS], 7100, true) else { return };
    let own = site.lab.address(Host::Left, 0).to_string();
    let before = carried(&site);
    let done = client(&site, true, "timeout", &["30", "python3", "-c", VISITS, &site.server()]);
    let told: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(told, vec![own.as_str(); 20]);
    assert_eq!(carried(&site) - before, 21);
    served.end();
}

/// The way of a client that waits for a server to be there.
#[test]
fn a_peer_that_comes_before_anybody_listens_is_led_there_the_next_time() {
    let site = Site::new();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Right, &["-v"]);
    let (address, port) = (site.server(), "7103");
    let ask = ["-d", "-w", "2", &address, port];
    // Refused: nobody listens there.
    assert_eq!(site.through("nc", &ask).code, Some(1));
    let program = "import socket\ns=socket.create_server(('0.0.0.0',7103))\n\
        while 1:\n c,peer=s.accept()\n try: c.sendall(peer[0].encode()); c.close()\n except OSError: pass\n";
    let mut command = group.command(&site, Host::Right, "python3", &["-c", program]);
    let server = command.stdin(Stdio::null()).spawn().expect("a server");
    wait_for("the port", || site.direct("nc", &["-z", "-w", "1", &address, port]).code == Some(0));
    let done = client(&site, true, "nc", &ask);
    assert_eq!(done.stdout, site.lab.address(Host::Left, 0).to_string());
    assert_eq!(carried(&site), 1);
    Served { group, server }.end();
}

/// Tells each client who it is, and prints whom it has told what, without the good ones.
const TELL: &str = "import socket, sys\n\
    s = socket.create_server(('0.0.0.0', 7105))\n\
    while True:\n\
    \x20c, peer = s.accept()\n\
    \x20if peer[0] != sys.argv[1]: print(peer[0], flush=True)\n\
    \x20try: c.sendall(b'x'); c.close()\n\
    \x20except OSError: pass\n";

/// Four that connect again and again.
const HAMMER: &str = "import socket, sys, threading, time\n\
    end, done = time.monotonic() + float(sys.argv[2]), []\n\
    def hammer():\n\
    \x20while time.monotonic() < end:\n\
    \x20 done.append(socket.create_connection((sys.argv[1], 7105)).recv(1))\n\
    threads = [threading.Thread(target=hammer) for _ in range(4)]\n\
    [t.start() for t in threads]; [t.join() for t in threads]\n\
    print(len(done))";

#[test]
fn nobody_is_led_to_a_server_before_the_kernel_can_tell_names_or_after() {
    let mut site = Site::new();
    let Some(mut group) = Group::new() else { return };
    // They ask anew each time.
    std::fs::write(site.dir.join("sysctl.conf"), "peer_cache = 0\ntcp_race = off\n")
        .expect("settings");
    site.serve("1");
    let own = site.lab.address(Host::Left, 0).to_string();
    let log = std::fs::File::create(site.dir.join("told")).expect("log");
    let mut command = group.command(&site, Host::Right, "python3", &["-c", TELL, &own]);
    let server = command.stdin(Stdio::null()).stdout(log).spawn().expect("a server");
    wait_for("the port", || {
        site.direct("nc", &["-z", "-w", "1", &site.server(), "7105"]).code == Some(0)
    });
    let args = ["-c", HAMMER, &site.server(), "4"];
    let mut hammer = site.through_command(&[], "python3", &args);
    let hammer = hammer.stdout(Stdio::piped()).spawn().expect("clients");
    wait_for("the clients", || site.server_status()["associations"][0]["state"] == "established");
    for _ in 0..6 {
        group.attach(&site, Host::Right, &["-v"]);
        group.end(&site, Host::Right, "-TERM");
    }
    let output = hammer.wait_with_output().expect("clients");
    let count: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    assert!(count > 100, "{count}");
    let told = std::fs::read_to_string(site.dir.join("told")).expect("log");
    assert_eq!(told, "", "of {count}");
    Served { group, server }.end();
}

/// Tells each client who it is, and is the first to end the connection.
const NAME: &str = "import socket\n\
    s = socket.create_server(('0.0.0.0', 7106))\n\
    while True:\n\
    \x20c, peer = s.accept()\n\
    \x20try: c.sendall(peer[0].encode()); c.close()\n\
    \x20except OSError: pass\n";

/// Connects from each address and port from where a connection to port 7106 has come that is over; prints who it was
/// taken for.
const FOLLOW: &str = "import socket, sys\n\
    for row in open('/proc/net/tcp').read().split('\\n')[1:-1]:\n\
    \x20_, own, far, state, *_ = row.split()\n\
    \x20if not own.endswith(':%04X' % 7106) or state != '06': continue\n\
    \x20ip, port = far.split(':')\n\
    \x20s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
    \x20ip = socket.inet_ntoa(bytes.fromhex(ip)[::-1])\n\
    \x20if ip != sys.argv[1]: continue\n\
    \x20s.bind((ip, int(port, 16))); s.connect((sys.argv[1], 7106)); print(s.recv(100).decode())\n";

#[test]
fn a_local_user_is_not_taken_for_a_peer_whose_connection_is_over() {
    let site = Site::new();
    let Some(served) = serve(&site, "python3", &["-c", NAME], 7106, true) else { return };
    let own = site.lab.address(Host::Left, 0).to_string();
    let done = client(&site, true, "nc", &["-d", &site.server(), "7106"]);
    assert_eq!(done.stdout, own);
    assert_eq!(carried(&site), 1);
    let mut follow = site.command(Host::Right, "setpriv");
    let user = "--reuid=65534";
    follow.args([user, "--clear-groups", "python3", "-c", FOLLOW, &site.server()]);
    // The user's own python3 may be out of a stranger's reach.
    follow.current_dir("/").env("PATH", "/usr/bin:/bin");
    let done = finish(follow);
    assert_eq!((done.code, done.stdout.trim()), (Some(0), site.server().as_str()), "{done:?}");
    served.end();
}

/// As `systemctl restart manypathd` does.
#[test]
fn a_service_that_is_started_anew_has_its_port_again() {
    let mut site = Site::new();
    site.serve("1");
    let program = "import socket\ns=socket.create_server(('0.0.0.0',7104))\n\
        while 1:\n c,peer=s.accept()\n try: c.sendall(peer[0].encode()); c.close()\n except OSError: pass\n";
    let Some(served) = serve(&site, "python3", &["-c", program], 7104, true) else { return };
    let mut service = site.services.pop().expect("manypath serve");
    service.kill().expect("to kill it");
    service.wait().expect("its end");
    std::thread::sleep(std::time::Duration::from_millis(700));
    site.serve("1");
    wait_for("the server to be offered", || offered(&site, 7104));
    let ended = site.services.last_mut().expect("the service").try_wait().expect("its state");
    assert_eq!(ended, None, "somebody else has its port");
    let done = client(&site, true, "nc", &["-d", "-w", "2", &site.server(), "7104"]);
    assert_eq!(done.stdout, site.lab.address(Host::Left, 0).to_string());
    assert_eq!(carried(&site), 1);
    served.end();
}

/// Who would take a peer for a local client must not keep the peer's connection.
#[test]
fn when_the_daemon_dies_led_connections_are_reset_and_tcp_goes_on() {
    let site = Site::new();
    let program = "import socket\ns=socket.create_server(('0.0.0.0',7102))\n\
        while 1:\n c,_=s.accept()\n c.sendall(b'x')\n try: c.recv(1)\n except OSError as e: print(e.errno, flush=True)\n";
    let Some(mut served) = serve(&site, "python3", &["-c", program], 7102, true) else { return };
    let address = site.server();
    let ask = "import socket,sys\ns=socket.create_connection((sys.argv[1],7102))\nprint(s.recv(1),flush=True)\n\
        try: print(s.recv(1))\nexcept OSError as e: print(e.errno)";
    let mut waiting = site.through_command(&[], "python3", &["-c", ask, &address]);
    let mut waiting = waiting.stdout(Stdio::piped()).spawn().expect("client");
    let mut heard = BufReader::new(waiting.stdout.take().expect("stdout")).lines();
    assert_eq!(heard.next().expect("a line").expect("text"), "b'x'");
    assert_eq!(carried(&site), 1);
    served.group.end(&site, Host::Right, "-KILL");
    assert!(waiting.wait().expect("client").success());
    wait_for("the reset", || site.direct("cat", &["server"]).stdout.contains("104"));
    let done = client(&site, false, "nc", &["-d", "-w", "2", &address, "7102"]);
    assert_eq!(done.stdout, "x");
    served.end();
}

/// As `-p 7000:7000 -p 9899:9899/udp` of an engine does: the ports of the host are those of the container.
#[test]
fn a_server_in_a_container_is_reached_at_published_ports() {
    let mut site = Site::new();
    let Some(mut group) = Group::new() else { return };
    group.attach(&site, Host::Right, &["--containers", "-v"]);
    let container = Container::new(&mut site, Host::Right, &group);
    let publish = "nft -f - <<.
table ip published {
  chain pre { type nat hook prerouting priority -100; iifname path* tcp dport 7000 dnat to 10.88.0.2
              iifname path* udp dport 9899 dnat to 10.88.0.2; }
}
.";
    sh(&site, Host::Right, publish);
    container.wait_until_served(&group);
    let program = "
import socket
listener = socket.create_server(('0.0.0.0', 7000))
while True:
    client, address = listener.accept()
    client.sendall(f'hello {address[0]}'.encode())
    client.close()";
    let server = container.command(&site, "python3", &["-c", program]).spawn().expect("a server");
    site.services.push(server);
    let ask = "
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=10) as s:
    print(s.makefile().read())";
    let args = ["-c", ask, &site.server()];
    wait_for("the server", || site.direct("python3", &args).code == Some(0));
    let told = format!("hello {}\n", site.lab.address(Host::Left, 0));
    assert_eq!(site.direct("python3", &args).stdout, told);
    wait_for("the server to be reached over SCTP", || {
        let done = site.through_command(&["--report"], "python3", &args);
        let done = finish(done);
        assert!(done.stdout == told || done.stdout.starts_with("hello 10.77."), "{done:?}");
        done.stderr.contains("sctp=1")
    });
    let _ = site.services.last_mut().map(Child::kill);
    container.end();
}
