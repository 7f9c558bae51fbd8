//! Real programs by a relay over two uplinks, to servers that know nothing of manypath.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;
use crate::relays::{OPEN, RELAY, authorize, list, relay_status, site, site_before_relay};

use common::gateways::{SERVER, sh};
use common::{Finished, MANYPATH, Site, find, finish};
use manypath_lab::Host;
use serde_json::Value;

/// Ports of the servers: SSH, Git, the web, and HTTP/3.
const PORTS: [&str; 2] = ["--relay-to", "198.51.100.2:2222-9000"];
/// Files that a package manager would fetch, one after the other and at once.
const FILES: usize = 40;

/// A shell script under `manypath run --via RELAY`.
fn through(site: &Site, options: &[&str], script: &str) -> Finished {
    let options = [&["--via", RELAY][..], options].concat();
    let done = finish(site.through_command(&options, "sh", &["-ec", script]));
    assert_eq!(done.code, Some(0), "{script}: {done:?}");
    done
}

/// What the relay has done for the client: nothing may have failed.
fn relayed(site: &mut Site) -> Value {
    let peer = relay_status(site)["relayed_peers"][0].clone();
    assert_eq!((&peer["failed"], &peer["denied"]), (&0.into(), &0.into()), "{peer}");
    peer
}

#[test]
fn git_ssh_and_the_many_files_of_a_package_manager_go_by_the_relay() {
    let mut site = site(&PORTS);
    site.ssh();
    let content = site.random_file("file", 1 << 20);
    let parts: Vec<Vec<u8>> = (0..FILES)
        .map(|number| site.random_file(&format!("part{number}"), 2_000 + 1_500 * number as u64))
        .collect();
    let d = site.dir.display().to_string();
    sh(
        &site,
        Host::Left,
        &format!(
            "cd {d}; git init -q work; cp www/file work/; cd work; git add file
             git -c user.name=n -c user.email=e commit -q -m one
             git clone -q --bare . ../www/served.git; cd ../www/served.git; git update-server-info"
        ),
    );
    let ssh = format!("ssh {} -p 2222", site.ssh_options().join(" "));
    let urls = format!("http://{SERVER}:8080/part[0-{}]", FILES - 1);
    let done = through(
        &site,
        &[],
        &format!(
            "curl -sS -f -o serial#1 {urls}
             curl -sS -f -Z -o parallel#1 {urls}
             git clone -q http://{SERVER}:8080/served.git by-http
             GIT_SSH_COMMAND='{ssh}' git clone -q root@{SERVER}:{d}/www/served.git by-ssh
             {ssh} root@{SERVER} cat {d}/www/file > by-cat
             {ssh} root@{SERVER} echo hello"
        ),
    );
    assert_eq!(done.stdout, "hello\n", "{done:?}");
    let got = |name: &str| std::fs::read(site.dir.join(name)).unwrap();
    for (number, part) in parts.iter().enumerate() {
        for how in ["serial", "parallel"] {
            assert!(got(&format!("{how}{number}")) == *part, "{how} {number}");
        }
    }
    for name in ["by-http/file", "by-ssh/file", "by-cat"] {
        assert!(got(name) == content, "{name}");
    }
    let peer = relayed(&mut site);
    // curl uses a connection again, and several of them at once.
    assert!(peer["opened"].as_u64() >= Some(6), "{peer}");
    assert!(peer["from_destinations_bytes"].as_u64() > Some(5 << 20), "{peer}");
}

#[test]
fn a_rule_sends_names_to_the_relay_which_resolves_them() {
    // The relay's host knows a name that nobody else does. The lab has a file of its own in that place.
    let mut site = site_before_relay();
    authorize(&site);
    let hosts = site.dir.join("hosts");
    std::fs::write(&hosts, format!("127.0.0.1 localhost\n{SERVER} far.example\n")).unwrap();
    let (manypath, list) = (MANYPATH, list(&site));
    let script = format!(
        "umount /etc/hosts
         mount --bind {} /etc/hosts
         exec {manypath} serve -v --relay --authorized {list} {} {}",
        hosts.display(),
        OPEN[0],
        OPEN[1]
    );
    let inner = site.inner.take();
    site.service("unshare", &["-m", "sh", "-ec", &script], "udp", 9899);
    site.inner = inner;
    let file = site.random_file("file", 100_000);
    // No option says so: a rule does, for this port alone.
    let rules = format!("remote enable port 8080 via={RELAY}\n");
    std::fs::write(site.dir.join("rules"), rules).unwrap();
    let args = ["gateway", "--socks", "127.0.0.1", "-v"];
    site.service_on(Host::Left, MANYPATH, &args, "tcp", 1080);
    let curl = |url: &str| {
        let socks = ["--socks5-hostname", "127.0.0.1:1080"];
        site.direct("curl", &[&["-sS", "-f", "-m", "20", "-o", "got"], &socks[..], &[url]].concat())
    };
    let done = curl("http://far.example:8080/file");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(site.dir.join("got")).unwrap() == file);
    // Other ports have no such rule: the name means nothing here.
    let elsewhere = curl("http://far.example:8081/file");
    assert_ne!(elsewhere.code, Some(0), "{elsewhere:?}");
    assert_eq!(relayed(&mut site)["opened"], 1);
}

#[test]
#[ignore = "slow; make test-full"]
fn http3_goes_by_the_relay_as_datagrams() {
    let mut site = site(&PORTS);
    std::fs::write(site.dir.join("rules"), "remote enable udp any lifetime=2s\n").unwrap();
    let file = site.random_file("file", 1 << 20);
    let d = site.dir.display().to_string();
    sh(
        &site,
        Host::Left,
        &format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
             -keyout {d}/quic-key -out {d}/quic-chain -subj /CN=far.example -days 2 2>/dev/null"
        ),
    );
    let (key, chain, root) =
        (format!("{d}/quic-key"), format!("{d}/quic-chain"), format!("{d}/www"));
    let args = ["-q", "-d", &root, "0.0.0.0", "8443", &key, &chain];
    site.service("gtlsserver", &args, "udp", 8443);
    let client = find("gtlsclient").display().to_string();
    through(
        &site,
        &["-v"],
        &format!(
            "mkdir quic; timeout 50 {client} -q --exit-on-all-streams-close --download=quic \
             {SERVER} 8443 https://far.example/file"
        ),
    );
    assert!(std::fs::read(site.dir.join("quic/file")).unwrap() == file);
    let peer = relayed(&mut site);
    assert!(peer["from_destinations_bytes"].as_u64() > Some(1 << 20), "{peer}");
}

#[test]
#[ignore = "slow; make test-full"]
fn a_headless_browser_loads_a_page_by_the_relay() {
    const IMAGES: usize = 24;
    let mut site = site(&OPEN);
    // The smallest picture that browsers know, and a name of its own each time: nothing is cached.
    const GIF: &[u8] =
        b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    let www = site.dir.join("www");
    let images: String = (0..IMAGES)
        .map(|number| {
            std::fs::write(www.join(format!("image{number}.gif")), GIF).unwrap();
            format!("<img src=image{number}.gif onload='count()'>")
        })
        .collect();
    let page = "<!doctype html><title>-</title><script>let n = 0; function count() { document.title = `loaded ${++n}`; }</script>";
    std::fs::write(www.join("index.html"), format!("{page}{images}")).unwrap();
    let data = format!("--user-data-dir={}", site.dir.join("profile").display());
    let url = format!("http://{SERVER}:8080/");
    let args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &data];
    let args = [&args[..], &["--virtual-time-budget=10000", "--dump-dom", &url]].concat();
    let done = finish(site.through_command(&["--via", RELAY], "chromium", &args));
    assert!(done.stdout.contains(&format!("<title>loaded {IMAGES}</title>")), "{done:?}");
    assert!(relayed(&mut site)["opened"].as_u64() >= Some(2), "a browser uses several connections");
}
