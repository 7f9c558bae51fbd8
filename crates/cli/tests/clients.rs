//! Stock clients under `manypath run` that take long or have to be installed first (`scripts/setup
//! full`): `make test-full` runs them. Each is proven to have gone through by the counters of the
//! server's stack; `programs.rs` has those that every run of the tests has.
#![allow(clippy::panic, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::folder::Folder;
use common::{Finished, Site, find, finish, postgresql, wait_for};
use manypath_lab::Host;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

/// Connections that the server's stack has carried.
fn carried(site: &Site) -> u64 {
    site.server_counter("stack_relays_started")
}

fn success(done: Finished) -> Finished {
    assert_eq!(done.code, Some(0), "{done:?}");
    done
}

fn helper(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).display().to_string()
}

#[test]
#[ignore = "slow; make test-full"]
fn telnet_reaches_telnetd() {
    let mut site = Site::new();
    let folder = Folder::new("telnet");
    let greeter =
        folder.file("greeter", "#!/bin/sh\nread word\necho \"heard $word over telnet\"\n");
    fs::set_permissions(&greeter, fs::Permissions::from_mode(0o755)).expect("a program");
    site.service("python3", &[&helper("telnet_server.py"), "2323", &greeter], "tcp", 2323);
    site.serve("2323");
    let server = site.server();
    let mut command = site.through_command(&[], "telnet", &[&server, "2323"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("telnet");
    let mut input = child.stdin.take().expect("input");
    input.write_all(b"hello\n").expect("to write");
    let output = output_until_end(child);
    drop(input);
    assert!(output.contains("heard hello over telnet"), "{output}");
    assert_eq!(carried(&site), 1);
}

/// What a program prints; its input stays open meanwhile.
fn output_until_end(mut child: Child) -> String {
    let mut text = String::new();
    let mut out = child.stdout.take().expect("output");
    std::io::Read::read_to_string(&mut out, &mut text).expect("text");
    child.wait().expect("its end");
    text
}

#[test]
#[ignore = "slow; make test-full"]
fn chromium_loads_a_page_with_images_from_apache() {
    const IMAGES: usize = 24;
    let mut site = Site::new();
    let folder = Folder::new("apache-page");
    // The smallest picture that browsers know, and a name of its own each time: nothing is cached.
    const GIF: &[u8] =
        b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    let images: String = (0..IMAGES)
        .map(|n| {
            folder.file(&format!("image{n}.gif"), GIF);
            format!("<img src=image{n}.gif onload='count()'>")
        })
        .collect();
    let page = "<!doctype html><title>-</title><script>let n = 0; function count() { document.title = `loaded ${++n}`; }</script>";
    folder.file("index.html", format!("{page}{images}"));
    let d = folder.text();
    let modules: String = ["mpm_event", "authz_core", "dir"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let conf = folder.file(
        "conf",
        format!(
            "{modules}ServerRoot {d}\nServerName test\nListen 0.0.0.0:8080\nUser www-data\nGroup www-data\n\
             PidFile {d}/pid\nDefaultRuntimeDir {d}\nMutex file:{d}\nDocumentRoot {d}\nErrorLog {d}/error.log\n\
             DirectoryIndex index.html\n<Directory {d}>\nRequire all granted\n</Directory>\n"
        ),
    );
    site.service("apache2", &["-f", &conf, "-DFOREGROUND"], "tcp", 8080);
    site.serve("8080");
    let profile = folder.at("profile");
    let url = format!("http://{}:8080/", site.server());
    let data = format!("--user-data-dir={profile}");
    let args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &data];
    let args = [&args[..], &["--virtual-time-budget=10000", "--dump-dom", &url]].concat();
    let done = success(site.through("chromium", &args));
    assert!(done.stdout.contains(&format!("<title>loaded {IMAGES}</title>")), "{done:?}");
    assert!(carried(&site) >= 2, "a browser uses several connections");
}

#[test]
#[ignore = "slow; make test-full"]
fn a_source_and_a_player_use_icecast() {
    let mut site = Site::new();
    let folder = Folder::new("icecast");
    let d = folder.text();
    let conf = folder.file(
        "conf",
        format!(
            "<icecast><limits><clients>10</clients><sources>2</sources></limits>\
             <authentication><source-password>secret</source-password><admin-user>a</admin-user>\
             <admin-password>b</admin-password></authentication><hostname>test</hostname>\
             <listen-socket><port>8000</port></listen-socket><paths><logdir>{d}</logdir>\
             <webroot>/usr/share/icecast2/web</webroot><adminroot>/usr/share/icecast2/admin</adminroot></paths>\
             <security><chroot>0</chroot><changeowner><user>nobody</user><group>nogroup</group></changeowner>\
             </security></icecast>"
        ),
    );
    site.service("icecast2", &["-c", &conf], "tcp", 8000);
    site.serve("8000");
    // 40 s of noise, sent at a speed near that of its playing.
    let noise = folder.at("noise.raw");
    fs::write(&noise, random(40 * 8000 * 2)).expect("noise");
    let song = folder.at("song.ogg");
    let args = ["-Q", "-r", "-R", "8000", "-C", "1", "-B", "16", &noise, "-o", &song];
    success(site.direct("oggenc", &args));
    let url = format!("http://source:secret@{}:8000/song.ogg", site.server());
    let rate = (fs::metadata(&song).expect("song").len() / 30).to_string();
    let header = ["-H", "Content-Type: application/ogg", "-H", "Expect:"];
    let args = [&["-sS", "--limit-rate", &rate, "-T", &song][..], &header, &[&url]].concat();
    let mut source = site.through_command(&[], "curl", &args).spawn().expect("source");
    wait_for("the source", || carried(&site) >= 1);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let copy = folder.at("played.raw");
    let listen = format!("http://{}:8000/song.ogg", site.server());
    let args =
        ["8", &find("ogg123").display().to_string(), "-q", "-d", "raw", "-f", &copy, &listen];
    let done = site.through("timeout", &args);
    source.kill().expect("to end the source");
    source.wait().expect("its end");
    let played = fs::metadata(&copy).map_or(0, |copy| copy.len());
    assert!(played > 3 * 8000 * 2, "{played} bytes of music: {done:?}");
    assert_eq!(carried(&site), 2, "source and player");
}

fn random(bytes: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let source = fs::File::open("/dev/urandom").expect("urandom");
    std::io::Read::read_to_end(&mut std::io::Read::take(source, bytes as u64), &mut content)
        .expect("random bytes");
    content
}

/// vsftpd on the right host; returns the folder that it offers. Behind `serve` it sees clients at its
/// own address, and must not want the data of active mode to go to the same one.
fn ftp_server(site: &mut Site) -> Folder {
    let folder = Folder::new("ftp");
    let root = folder.at("root");
    fs::create_dir_all(format!("{root}/in")).expect("folders");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o555)).expect("vsftpd wants it so");
    fs::set_permissions(format!("{root}/in"), fs::Permissions::from_mode(0o777))
        .expect("for uploads");
    let conf = folder.file(
        "conf",
        format!(
            "listen=YES\nlisten_port=2121\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\n\
             anon_upload_enable=YES\nanon_root={root}\nno_anon_password=YES\nseccomp_sandbox=NO\nanon_umask=022\n\
             ftp_data_port=2020\nsecure_chroot_dir={root}\nport_enable=YES\nconnect_from_port_20=NO\nport_promiscuous=YES\n"
        ),
    );
    site.service("vsftpd", &[&conf], "tcp", 2121);
    folder
}

/// Runs an FTP client with these commands as its input.
fn ftp(site: &Site, folder: &Folder, option: &str, commands: &str) -> Finished {
    let (server, commands) = (site.server(), folder.file("commands", commands));
    let line = format!("exec tnftp {option} -n -v {server} 2121 < {commands}");
    site.through("sh", &["-c", &line])
}

#[test]
#[ignore = "slow; make test-full"]
fn ftp_moves_files_in_passive_and_in_active_mode() {
    let mut site = Site::new();
    let folder = ftp_server(&mut site);
    let content = site.random_file("up", 300_000);
    let up = site.dir.join("www/up").display().to_string();
    // Passive mode has a port of its own for each file.
    let mut rules = site.command(Host::Right, common::MANYPATH);
    rules.args(["rules", "add", "local", "enable", "ports", "1024-65535"]);
    success(finish(rules));
    site.serve("2121");
    for (mode, option, flows) in [("passive", "-p", 3), ("active", "-A", 1)] {
        let before = carried(&site);
        let copy = folder.at(mode);
        let commands = format!(
            "user anonymous none\nbinary\nput {up} in/{mode}\nget in/{mode} {copy}\nquit\n"
        );
        let done = ftp(&site, &folder, option, &commands);
        assert_eq!(done.stdout.matches("226 ").count(), 2, "{mode}: {done:?}");
        assert!(fs::read(&copy).expect("copy") == content, "{mode} damaged the file");
        assert_eq!(carried(&site) - before, flows, "{mode}: {done:?}");
    }
}

#[test]
#[ignore = "slow; make test-full"]
fn psql_queries_and_copies() {
    let mut site = Site::new();
    let folder = Folder::new("postgres");
    let data = folder.at("data");
    let user = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"];
    let init = [&user[..], &[&postgresql("initdb"), "-D", &data, "-A", "trust", "--no-sync"]];
    success(site.direct("setpriv", &init.concat()));
    fs::write(format!("{data}/pg_hba.conf"), "local all all trust\nhost all all 0.0.0.0/0 trust\n")
        .expect("pg_hba.conf");
    let (server, sockets) = (postgresql("postgres"), folder.text());
    let args = [&server, "-D", &data, "-p", "5433", "-k", &sockets, "-c", "listen_addresses=*"];
    site.service("setpriv", &[&user[..], &args].concat(), "tcp", 5433);
    site.serve("5433");
    let server = site.server();
    let query = "SELECT sum(n) FROM generate_series(1, 200000) n; COPY (SELECT n, md5(n::text) FROM generate_series(1, 50000) n) TO STDOUT";
    let args = ["-h", &server, "-p", "5433", "-U", "postgres", "-At", "-c", query, "postgres"];
    let done = success(site.through("psql", &args));
    assert!(done.stdout.starts_with("20000100000\n"), "{done:?}");
    assert_eq!(done.stdout.lines().count(), 50_001);
    assert_eq!(carried(&site), 1);
}

/// A service whose process is another one than the one that was started.
fn service_by(site: &mut Site, program: &str, args: &[&str], port: u16) {
    let mut command = site.command(Host::Right, find(program));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    site.services.push(command.spawn().expect("service"));
    let server = site.server();
    wait_for("the service", || {
        let probe = format!("exec 3<>/dev/tcp/{server}/{port}");
        site.direct("bash", &["-c", &probe]).code == Some(0)
    });
}

#[test]
#[ignore = "slow; make test-full"]
fn git_and_rsync_speak_their_own_protocols() {
    let mut site = Site::new();
    let folder = Folder::new("git");
    let d = folder.text();
    let content = site.random_file("file", 2_000_000);
    let script = format!(
        "set -e; export HOME={d}; cd {d}; git init -q work; cp {}/www/file work/; cd work; git add file; \
         git -c user.name=n -c user.email=e commit -q -m one; git clone -q --bare . ../served.git; \
         touch ../served.git/git-daemon-export-ok",
        site.dir.display()
    );
    success(site.direct("bash", &["-c", &script]));
    let base = format!("--base-path={d}");
    service_by(
        &mut site,
        "git",
        &["-c", "safe.directory=*", "daemon", "--reuseaddr", &base, "--port=9418"],
        9418,
    );
    let conf = folder.file(
        "rsyncd.conf",
        format!("use chroot = no\nuid = 0\ngid = 0\n[files]\npath = {}/www\n", site.dir.display()),
    );
    let conf = format!("--config={conf}");
    service_by(&mut site, "rsync", &["--daemon", "--no-detach", "--port=8730", &conf], 8730);
    site.serve("9418,8730");
    let server = site.server();
    let clone = folder.at("clone");
    success(site.through("git", &["clone", "-q", &format!("git://{server}/served.git"), &clone]));
    assert!(fs::read(format!("{clone}/file")).expect("file") == content, "git damaged the file");
    let copy = folder.at("copy");
    let from = format!("rsync://{server}:8730/files/file");
    success(site.through("rsync", &[&from, &copy]));
    assert!(fs::read(copy).expect("copy") == content, "rsync damaged the file");
    assert_eq!(carried(&site), 2);
}

#[test]
#[ignore = "slow; make test-full"]
fn java_clients_work() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    site.serve("8080");
    let url = format!("http://{}:8080/small", site.server());
    let done = success(site.through("java", &[&helper("Clients.java"), &url]));
    let expected = format!(
        "socket 10000 from {}:8080\nblocking 10000\nasynchronous 100000\nrefused\n",
        site.server()
    );
    assert_eq!(done.stdout, expected, "{done:?}");
    assert!(carried(&site) >= 3);
}

/// The interface of the left host on path A.
fn interface(site: &Site) -> String {
    let route = site.direct("ip", &["-o", "route", "get", &site.server()]);
    let mut words = route.stdout.split_whitespace().skip_while(|word| *word != "dev").skip(1);
    words.next().expect("an interface").to_owned()
}

#[test]
#[ignore = "slow; make test-full"]
fn what_else_the_table_of_clients_has() {
    let mut site = Site::new();
    site.web();
    site.ssh();
    site.serve("8080,2222");
    let small = site.random_file("small", 10_000);
    let large = site.random_file("large", 100_000_000);
    let (server, out) = (site.server(), site.dir.join("got").display().to_string());
    let url = |file: &str| format!("http://{server}:8080/{file}");
    let flows = |site: &Site, before: u64| carried(site) - before;

    success(site.through("curl", &["-sS", "-f", "-o", &out, &url("large")]));
    assert!(fs::read(&out).expect("file") == large, "curl: 100 MB arrived damaged");
    assert_eq!(flows(&site, 0), 1);

    // Bound to a device it must be left alone, and work.
    let args = ["-sS", "-f", "--interface", &interface(&site), "-o", &out, &url("small")];
    success(site.through("curl", &args));
    assert!(fs::read(&out).expect("file") == small, "curl --interface damaged the file");
    assert_eq!(flows(&site, 1), 0);

    let args = ["-q", "-n", "300", "-c", "20", &url("small")];
    let done = success(site.through("ab", &args));
    let fine =
        |line: &str| done.stdout.lines().any(|one| one.split_whitespace().eq(line.split(' ')));
    assert!(fine("Complete requests: 300") && fine("Failed requests: 0"), "{done:?}");
    // It lets go of the last ones when it has had its 300.
    assert!(flows(&site, 1) >= 300);

    let before = carried(&site);
    let request = "printf 'GET /small HTTP/1.0\\r\\n\\r\\n' | ";
    let ncat = format!(
        "{request} ncat {server} 8080 | tail -c 10000 | cmp - {}/www/small",
        site.dir.display()
    );
    success(site.through("sh", &["-c", &ncat]));
    assert_eq!(flows(&site, before), 1);

    let options = site.ssh_options().join(" ");
    let ssh = format!(
        "{request} ssh {options} -p 2222 -W 127.0.0.1:8080 {server} | tail -c 10000 | cmp - {}/www/small",
        site.dir.display()
    );
    success(site.through("sh", &["-c", &ssh]));
    assert_eq!(flows(&site, before), 2);
}
