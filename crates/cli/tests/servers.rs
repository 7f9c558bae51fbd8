//! Stock servers under `manypath run`, or in a cgroup (`MANYPATH_IN_CGROUP`): each serves clients of TCP and of manypath in one run, and its
//! own log or answer shows the true address of both. Slow, and `scripts/setup full` installs them:
//! `make test-full` runs them.

use crate::common;

use common::folder::Folder;
use common::{Finished, Site, find, finish, in_cgroup, postgresql, wait_for};
use manypath_lab::Host;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Starts a server on the right host through manypath, and waits until peers can reach it.
fn serve(site: &mut Site, program: &str, args: &[&str], protocol: &str, port: u16) {
    site.service_through(program, args, protocol, port);
    wait_for("the server to be offered", || listener(site, port)["offered"] == true);
}

/// What `manypath status` says of the listening socket at a port.
fn listener(site: &Site, port: u16) -> serde_json::Value {
    let status = site.door_status(Host::Right);
    let listeners = status["listeners"].as_array().cloned().unwrap_or_default();
    let ends = format!(":{port}");
    let mut here = listeners.into_iter();
    here.find(|one| one["addr"].as_str().is_some_and(|addr| addr.ends_with(&ends)))
        .unwrap_or_default()
}

/// Connections that came to a port over SCTP, and others.
fn accepted(site: &Site, port: u16) -> (u64, u64) {
    let status = site.door_status(Host::Right);
    let listeners = status["listeners"].as_array().cloned().unwrap_or_default();
    let ends = format!(":{port}");
    let here =
        |one: &&serde_json::Value| one["addr"].as_str().is_some_and(|addr| addr.ends_with(&ends));
    let sum = |key: &str| listeners.iter().filter(here).filter_map(|one| one[key].as_u64()).sum();
    (sum("sctp"), sum("plain"))
}

/// Connections that the right host's door has carried.
fn carried(site: &Site) -> u64 {
    site.door_status(Host::Right)["counters"]["stack_relays_started"].as_u64().unwrap_or(0)
}

/// Connections that the left host's door has carried, where it outlives its programs.
fn called_back(site: &Site) -> u64 {
    site.door_status(Host::Left)["counters"]["stack_relays_started"].as_u64().unwrap_or(0)
}

fn client_address(site: &Site) -> String {
    site.lab.address(Host::Left, 0).to_string()
}

fn client(site: &Site, through: bool, program: &str, args: &[&str]) -> Finished {
    let done = if through { site.through(program, args) } else { site.direct(program, args) };
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

/// 30 requests each way, ten at a time; every line of the log must begin with the client's address.
fn web_clients(site: &Site, port: u16, log: impl Fn() -> String) {
    let url = format!("http://{}:{port}/file?[1-30]", site.server());
    let args = ["-sS", "-f", "-Z", "--parallel-max", "10", "-H", "Connection: close", "-o"];
    let args = [&args[..], &["/dev/null", &url]].concat();
    client(site, false, "curl", &args);
    client(site, true, "curl", &args);
    wait_for("the counts", || accepted(site, port) == (30, 30));
    wait_for("the log", || log().lines().count() == 60);
    let own = format!("{} ", client_address(site));
    assert!(log().lines().all(|line| line.starts_with(&own)), "{}", log());
}

#[test]
#[ignore = "slow; make test-full"]
fn nginx_with_two_workers_logs_the_true_addresses() {
    let mut site = Site::new();
    let folder = Folder::new("nginx");
    folder.file("file", [b'x'; 20_000]);
    let d = folder.text();
    let conf = folder.nginx();
    let log = format!("{d}/error.log");
    serve(&mut site, "nginx", &["-p", &d, "-c", &conf, "-e", &log], "tcp", 8080);
    web_clients(&site, 8080, || folder.read("access.log"));
}

#[test]
#[ignore = "slow; make test-full"]
fn apache_with_prefork_logs_the_true_addresses() {
    let mut site = Site::new();
    let folder = Folder::new("apache");
    folder.file("file", [b'x'; 20_000]);
    let d = folder.text();
    let modules: String = ["mpm_prefork", "authz_core"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let conf = folder.file(
        "conf",
        format!(
            "{modules}ServerRoot {d}\nServerName test\nListen 0.0.0.0:8080\nUser www-data\n\
             Group www-data\nPidFile {d}/pid\nDefaultRuntimeDir {d}\nMutex file:{d}\n\
             DocumentRoot {d}\nErrorLog {d}/error.log\nLogFormat \"%a %r\" own\n\
             CustomLog {d}/access.log own\nStartServers 4\n<Directory {d}>\n\
             Require all granted\n</Directory>\n"
        ),
    );
    serve(&mut site, "apache2", &["-f", &conf, "-DFOREGROUND"], "tcp", 8080);
    web_clients(&site, 8080, || folder.read("access.log"));
}

#[test]
#[ignore = "slow; make test-full"]
fn sshd_tells_its_sessions_the_true_address() {
    let mut site = Site::new();
    site.ssh_files();
    let conf = site.dir.join("sshd_config").display().to_string();
    serve(&mut site, "sshd", &["-D", "-e", "-f", &conf], "tcp", 2222);
    let options = site.ssh_options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = site.server();
    let args =
        [&options[..], &["-p", "2222", &server, "echo $SSH_CLIENT; head -c 3000000 /dev/zero"]];
    for through in [false, true] {
        let done = client(&site, through, "ssh", &args.concat());
        let told: Vec<&str> = done.stdout.lines().next().unwrap_or("").split(' ').collect();
        assert_eq!((told[0], told[2]), (client_address(&site).as_str(), "2222"), "{told:?}");
        assert!(done.stdout.len() > 3_000_000);
    }
    wait_for("the counts", || accepted(&site, 2222) == (1, 1));
    assert_eq!(carried(&site), 1);
}

/// Built once, which takes its time: the library comes with it.
fn go_server() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join("go-server");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/go_server.go");
    let mut build = Command::new(find("go"));
    build.args(["build", "-o"]).arg(&program).arg(source).env("CGO_ENABLED", "0");
    build.env("GOCACHE", folder.join("go-cache")).env("HOME", folder);
    assert!(build.status().expect("go").success());
    program
}

#[test]
#[ignore = "slow; make test-full"]
fn a_static_go_server_sees_the_true_addresses_with_and_without_mptcp() {
    let mut site = Site::new();
    let program = go_server();
    let program = program.display().to_string();
    for (mptcp, port) in [("multipathtcp=0", 8080), ("multipathtcp=1", 8081)] {
        let setting = format!("GODEBUG={mptcp}");
        serve(&mut site, "env", &[&setting, &program, &port.to_string()], "tcp6", port);
        let four = (site.server(), client_address(&site));
        let six = |host| format!("[{}]", site.lab.address_v6(host, 0));
        for (server, own) in [four, (six(Host::Right), six(Host::Left))] {
            for through in [false, true] {
                let url = format!("http://{server}:{port}/");
                let done = client(&site, through, "curl", &["-sS", "-f", "-g", &url]);
                assert!(done.stdout.starts_with(&format!("{own}:")), "{own}: {done:?}");
            }
        }
        wait_for("the counts", || accepted(&site, port) == (2, 2));
    }
}

#[test]
#[ignore = "slow; make test-full"]
fn vsftpd_sends_files_in_passive_and_active_mode() {
    let mut site = Site::new();
    // The server shall ask anew whether a client that it calls back has manypath.
    fs::write(site.dir.join("sysctl.conf"), "peer_cache = 0\ntcp_race = off\n").expect("settings");
    let folder = Folder::new("vsftpd");
    fs::set_permissions(folder.text(), fs::Permissions::from_mode(0o755))
        .expect("as vsftpd wants it");
    let content = site.random_file("file", 5_000_000);
    folder.file("file", &content);
    let d = folder.text();
    // Its own sandbox knows less of this C library than the library needs.
    let conf = folder.file(
        "conf",
        format!(
            "listen=YES\nlisten_port=2121\nbackground=NO\nanonymous_enable=YES\nanon_root={d}\n\
             no_anon_password=YES\nseccomp_sandbox=NO\nxferlog_enable=YES\n\
             vsftpd_log_file={d}/log\ndual_log_enable=YES\nlog_ftp_protocol=YES\n\
             secure_chroot_dir=/var/empty\n"
        ),
    );
    fs::create_dir_all("/var/empty").expect("an empty folder");
    serve(&mut site, "vsftpd", &[&conf], "tcp", 2121);
    let url = format!("ftp://{}:2121/file", site.server());
    let out = site.dir.join("got").display().to_string();
    let common = ["-sS", "--max-time", "30", "-o", &out, &url];
    // EPSV, PASV: both connections go to the server. Active: it calls back.
    for (mode, data) in [(&[][..], 1), (&["--disable-epsv"], 1), (&["--ftp-port", "-"], 0)] {
        for through in [false, true] {
            let _ = fs::remove_file(&out);
            let (before, called) = (carried(&site), called_back(&site));
            let args = [&common[..], mode].concat();
            let done = match through {
                false => site.direct("curl", &args),
                true => finish(site.through_command(&["--json"], "curl", &args)),
            };
            assert_eq!(done.code, Some(0), "{mode:?}: {done:?}");
            assert!(fs::read(&out).expect("the file") == content, "{mode:?}: damaged");
            let expected = if through { 1 + data } else { 0 };
            assert_eq!(carried(&site) - before, expected, "{mode:?} {done:?}");
            if through && data == 0 && in_cgroup() {
                assert_eq!(called_back(&site) - called, 1, "{done:?}");
            } else if through && data == 0 {
                assert!(done.stderr.contains("\"accepted_sctp\":1"), "{done:?}");
            }
        }
    }
    let own = client_address(&site);
    let log = folder.read("log");
    let clients = log.lines().filter(|line| line.contains("Client \""));
    let strangers = clients.filter(|line| !line.contains(&format!("{own}\"")));
    assert_eq!(strangers.collect::<Vec<_>>(), [""; 0], "{log}");
}

#[test]
#[ignore = "slow; make test-full"]
fn postgresql_knows_the_true_address_and_trusts_nobody_for_being_local() {
    let mut site = Site::new();
    let folder = Folder::new("postgresql");
    let data = folder.at("data");
    let user = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"];
    let mut init = Command::new(find("setpriv"));
    init.args(user).args([&postgresql("initdb"), "-D", &data, "-A", "trust", "--no-sync"]);
    let made = finish(init);
    assert_eq!(made.code, Some(0), "{made:?}");
    // Who came from this host would be let in as postgres; the client comes from another.
    let own = client_address(&site);
    let access = format!("host all postgres {own}/32 trust\nhost all all samehost reject\n");
    fs::write(Path::new(&data).join("pg_hba.conf"), access).expect("pg_hba.conf");
    let sockets = folder.text();
    let server = postgresql("postgres");
    let args = [&server, "-D", &data, "-p", "5433", "-k", &sockets, "-c", "listen_addresses=*"];
    serve(&mut site, "setpriv", &[&user[..], &args].concat(), "tcp", 5433);
    let address = site.server();
    let query =
        "select host(inet_client_addr()), host(inet_server_addr()), length(repeat('x', 999999))";
    let args = ["-h", &address, "-p", "5433", "-U", "postgres", "-At", "-c", query, "postgres"];
    for through in [false, true] {
        let done = client(&site, through, "psql", &args);
        assert_eq!(done.stdout.trim(), format!("{own}|{address}|999999"), "{done:?}");
    }
    wait_for("the counts", || accepted(&site, 5433) == (1, 1));
}

#[test]
#[ignore = "slow; make test-full"]
fn icecast_streams_to_both_kinds_of_listeners() {
    let mut site = Site::new();
    let folder = Folder::new("icecast-server");
    let d = folder.text();
    let conf = folder.file(
        "conf",
        format!(
            "<icecast><limits><clients>20</clients><sources>2</sources></limits>\
             <authentication><source-password>hackme</source-password></authentication>\
             <hostname>test</hostname><listen-socket><port>8000</port></listen-socket>\
             <paths><basedir>{d}</basedir><logdir>{d}</logdir><webroot>{d}</webroot>\
             <adminroot>{d}</adminroot></paths>\
             <logging><accesslog>access.log</accesslog><errorlog>error.log</errorlog></logging>\
             <security><chroot>0</chroot><changeowner><user>nobody</user><group>nogroup</group>\
             </changeowner></security></icecast>"
        ),
    );
    serve(&mut site, "icecast2", &["-c", &conf], "tcp", 8000);
    let url = format!("http://{}:8000/stream", site.server());
    let send = format!(
        "while :; do head -c 20000 /dev/urandom; sleep 0.1; done | \
         curl -sS -u source:hackme -H 'Content-Type: audio/mpeg' -T - {url}"
    );
    let mut source = site.command(Host::Left, "setsid");
    source.args(["-w", "sh", "-c", &send]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut source = source.spawn().expect("the source");
    wait_for("the source", || {
        let head = ["-s", "--max-time", "1", "-o", "/dev/null", "-w", "%{http_code}", &url];
        site.direct("curl", &head).stdout == "200"
    });
    let before = accepted(&site, 8000).0;
    for through in [false, true] {
        let args = ["-sS", "--max-time", "3", "-o", "/dev/null", "-w", "%{size_download}", &url];
        let done = if through { site.through("curl", &args) } else { site.direct("curl", &args) };
        let bytes: u64 = done.stdout.trim().parse().unwrap_or(0);
        assert!(bytes > 100_000, "{done:?}");
    }
    assert_eq!(accepted(&site, 8000).0 - before, 1);
    let _ = source.kill();
    let _ = source.wait();
    let own = client_address(&site);
    wait_for("the log", || folder.read("access.log").lines().count() >= 3);
    let log = folder.read("access.log");
    let strangers =
        log.lines().filter(|line| !line.trim_start_matches("::ffff:").starts_with(&own));
    assert_eq!(strangers.collect::<Vec<_>>(), [""; 0]);
}
