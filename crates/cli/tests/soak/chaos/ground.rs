//! What the course needs besides the hosts: a router on path A, a small disk on each host, a wall clock that can be set.

use crate::common::{Finished, Site, find, finish, gateways};
use crate::soak::hosts::PATHS;
use manypath_lab::Host;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Room on the disk of a host: what manypath logs in a piece fits in.
const DISK: &str = "size=128m,nr_inodes=2000,mode=1777";
/// From the left host to path A, which the router has in its place: packets of the right host that ask for its
/// addresses are answered for it.
const ROUTER: &str = "
    ip link set lo up; ip link set pathA up; ip link set inside up
    for name in ipv4/ip_forward ipv6/conf/all/forwarding ipv4/conf/inside/proxy_arp ipv6/conf/inside/proxy_ndp; do
        echo 1 > /proc/sys/net/$name
    done
    echo 0 > /proc/sys/net/ipv4/neigh/inside/proxy_delay
    echo 0 > /proc/sys/net/ipv6/neigh/inside/proxy_delay
    ip address add 10.77.1.254/32 dev inside; ip address add fd77:1::fe/128 dev inside nodad
    ip -6 neigh add proxy fd77:1::2 dev inside
    ip route add 10.77.1.0/24 dev pathA; ip -6 route add fd77:1::/64 dev pathA";
/// The routes of the router to the left host, which go with its link.
const INWARD: &str = "
    ip route replace 10.77.1.1/32 dev inside; ip route replace 10.77.1.77/32 dev inside
    ip -6 route replace fd77:1::1/128 dev inside";

pub(super) struct Ground {
    /// A process in the network of the router.
    router: u32,
    clock: File,
}

impl Ground {
    /// The hosts, with all this; and where the disk of each is mounted.
    pub(super) fn new() -> (Self, Site, PathBuf) {
        let mut site = Site::with_paths(&PATHS);
        let disk = site.dir.join("disk");
        std::fs::create_dir(&disk).expect("a folder");
        for host in Host::ALL {
            let line = format!("mount -t tmpfs -o {DISK} disk {}", disk.display());
            gateways::sh(&site, host, &line);
        }
        let clock = settable_clock(&mut site);
        site.environment.push(("MANYPATH_RUNTIME_DIR", disk.join("run")));
        site.environment.push(("MANYPATH_PEERS", disk.join("peers")));
        let ground = Self { router: gateways::inner_host(&mut site, Host::Left), clock };
        ground.start_router(&site);
        (ground, site, disk)
    }

    fn start_router(&self, site: &Site) {
        let router = self.router;
        let wire = format!(
            "ip link set pathA netns {router}
             ip link add pathA type veth peer name inside netns {router}"
        );
        gateways::sh(site, Host::Left, &wire);
        gateways::sh(site, Host::Left, &self.on_router(&format!("{ROUTER}\n{INWARD}")));
        let addresses = "ip link set pathA up; ip address add 10.77.1.1/24 dev pathA
                         ip address add fd77:1::1/64 dev pathA nodad";
        gateways::sh(site, Host::Left, addresses);
    }

    /// A line for the left host that runs `lines` on the router.
    pub(super) fn on_router(&self, lines: &str) -> String {
        format!("nsenter --net=/proc/{}/ns/net sh -ec '{lines}'", self.router)
    }

    /// Takes the link of the left host's first path away at its other end, and gives it back.
    pub(super) fn unplug(&self) -> [String; 2] {
        let lines = ["ip link set inside down".into(), format!("ip link set inside up\n{INWARD}")];
        lines.map(|lines| self.on_router(&lines))
    }

    /// Lets the router say of packets over `mtu` bytes that they must be fragmented, and forward all again.
    pub(super) fn narrow(&self, mtu: u16) -> [String; 2] {
        let routes = |suffix: &str| {
            format!(
                "ip route replace 10.77.1.1/32 dev inside{suffix}
                 ip route replace 10.77.1.0/24 dev pathA{suffix}
                 ip -6 route replace fd77:1::1/128 dev inside{suffix}
                 ip -6 route replace fd77:1::/64 dev pathA{suffix}"
            )
        };
        [routes(&format!(" mtu {mtu}")), routes("")].map(|lines| self.on_router(&lines))
    }

    /// Sets the wall clock of all programs of both hosts: `seconds` from the machine's.
    pub(super) fn set_clock(&self, seconds: i64, before: i64) {
        const NANOSECONDS: i64 = 1_000_000_000;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let now = i64::try_from(now.as_nanos()).expect("before 2262");
        let numbers = [seconds * NANOSECONDS, before * NANOSECONDS, now].map(i64::to_ne_bytes);
        self.clock.write_all_at(numbers.as_flattened(), 0).expect("the clock's file");
    }
}

/// Every program of the hosts has it from now on.
fn settable_clock(site: &mut Site) -> File {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/clock.c");
    let (library, file) = (site.dir.join("clock.so"), site.dir.join("clock"));
    let mut compile = Command::new(find("cc"));
    compile.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(source);
    let done = finish(compile);
    assert_eq!(done.code, Some(0), "{done:?}");
    std::fs::write(&file, [0; 24]).expect("the clock's file");
    let clock = File::options().write(true).open(&file).expect("the clock's file");
    site.environment.extend([("LD_PRELOAD", library), ("MANYPATH_SOAK_CLOCK", file)]);
    clock
}

/// Lines that fill the disk of a host with bytes or with files, and that make room again.
pub(super) fn fill(disk: &Path, kind: &str) -> [String; 2] {
    let fill = disk.join("fill").display().to_string();
    let write = match kind {
        "disk full" => format!("cat /dev/zero > {fill}/bytes 2> /dev/null || true"),
        _ => {
            format!(
                "for number in $(seq 3000); do true > {fill}/$number || break; done 2> /dev/null"
            )
        }
    };
    [format!("mkdir {fill}; {write}"), format!("rm -r {fill}")]
}

/// The lines of a shell, on a host.
pub(super) fn shell(site: &Site, host: Host, line: &str) -> Finished {
    let mut command = site.command(host, "sh");
    command.args(["-ec", line]);
    finish(command)
}
