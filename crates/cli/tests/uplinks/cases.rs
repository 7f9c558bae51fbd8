//! What happens to the uplinks, as data for the tests and for the table.

use crate::common::Site;
use crate::common::gateways::sh;
use crate::uplinks::course::{Course, FILE, Happening, download, plain};
use manypath_lab::{Change, Host};
use std::time::Duration;

/// A and B.
pub(crate) const TWO: &[&str] = &["20mbit,10ms,queue=100", "10mbit,20ms,queue=100"];

/// One of them.
pub(crate) struct Case {
    /// What it is called in the table.
    pub(crate) name: &'static str,
    /// The hosts, and the address of the server.
    pub(crate) site: fn() -> (Site, String),
    /// What happens.
    pub(crate) happenings: fn() -> Vec<Happening<'static>>,
    /// For how long that is watched.
    pub(crate) watch: Duration,
    /// For how long there is no path at all.
    pub(crate) dark: Duration,
}

impl Case {
    pub(crate) fn run(&self) -> (Site, Course) {
        let (site, server) = (self.site)();
        let course = download(&site, &server, (self.happenings)(), self.watch);
        println!("{}: {course:?}", self.name);
        (site, course)
    }

    /// What plain TCP gets over path A, to which nothing happens.
    pub(crate) fn reference(&self) -> f64 {
        let (site, server) = (self.site)();
        plain(&site, &server, self.watch)
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A client and a server with an address of each on both paths.
pub(crate) fn two() -> (Site, String) {
    let mut site = Site::with_paths(TWO);
    site.web();
    site.random_file("file", FILE);
    site.serve("8080");
    let server = site.server();
    (site, server)
}

/// The same, and B has no address at the client.
pub(crate) fn one_of_two() -> (Site, String) {
    let (site, server) = two();
    sh(&site, Host::Left, "ip address flush dev pathB");
    (site, server)
}

/// Commands on the client, each so many milliseconds after the first.
fn on_client(commands: &[(u64, &'static str)]) -> Vec<Happening<'static>> {
    let one = |(after, line): &(u64, &'static str)| -> Happening<'static> {
        let line = *line;
        (ms(*after), Box::new(move |site: &Site| drop(sh(site, Host::Left, line))))
    };
    commands.iter().map(one).collect()
}

/// Changes of the link of a path of the lab, in one direction or both.
fn on_link(path: &'static str, towards: Option<Host>, change: Change) -> Vec<Happening<'static>> {
    let happening = move |site: &Site| {
        let path = site.lab.path(path).expect("a path");
        let changes = std::slice::from_ref(&change);
        match towards {
            Some(host) => path.set_towards(host, changes).expect("a change"),
            None => path.set(changes).expect("a change"),
        }
    };
    vec![(ms(0), Box::new(happening))]
}

/// A has no link for two seconds.
fn unplugged() -> Vec<Happening<'static>> {
    let unplug = |site: &Site| {
        site.lab.path("A").expect("a path").down().expect("down");
        sh(site, Host::Left, "ip link set pathA carrier off");
    };
    let plug = |site: &Site| {
        site.lab.path("A").expect("a path").up().expect("up");
        sh(site, Host::Left, "ip link set pathA carrier on");
    };
    vec![(ms(0), Box::new(unplug)), (ms(2000), Box::new(plug))]
}

pub(crate) const UNPLUGGED: Case = Case {
    name: "A unplugged for 2 s",
    site: two,
    happenings: unplugged,
    watch: ms(6000),
    dark: ms(0),
};

pub(crate) const CHANGED: Case = Case {
    name: "address of A changes",
    site: two,
    happenings: || {
        // With the mask of the first one it would be a secondary address, which goes with that.
        let change =
            "ip address add 10.77.1.77/25 dev pathA; ip address del 10.77.1.1/24 dev pathA";
        on_client(&[(0, change)])
    },
    watch: ms(4000),
    dark: ms(0),
};

pub(crate) const ADDED: Case = Case {
    name: "B comes",
    site: one_of_two,
    happenings: || on_client(&[(0, "ip address add 10.77.2.1/24 dev pathB")]),
    watch: ms(4000),
    dark: ms(0),
};

pub(crate) const ROAMING: Case = Case {
    name: "no address for 2 s, then another",
    site: two,
    happenings: || {
        let go = "ip address flush dev pathA; ip address flush dev pathB";
        on_client(&[(0, go), (2000, "ip address add 10.77.1.77/24 dev pathA")])
    },
    watch: ms(8000),
    dark: ms(2000),
};

pub(crate) const LOSSY: Case = Case {
    name: "B loses 30 %",
    site: two,
    happenings: || on_link("B", None, Change::Loss(300_000)),
    watch: ms(6000),
    dark: ms(0),
};

pub(crate) const DEAF: Case = Case {
    name: "B works only towards the server",
    site: two,
    happenings: || on_link("B", Some(Host::Left), Change::Down),
    watch: ms(6000),
    dark: ms(0),
};

pub(crate) const MUTE: Case = Case {
    name: "B works only towards the client",
    site: two,
    happenings: || on_link("B", Some(Host::Right), Change::Down),
    watch: ms(6000),
    dark: ms(0),
};

pub(crate) const NARROW: Case = Case {
    name: "MTU of B drops to 1300, without ICMP",
    site: two,
    happenings: || {
        // What is longer gets lost in the link, on the way to either host.
        let drop = |site: &Site| {
            let rule = "nft -f - <<.\ntable ip narrow {\n chain in {\n  type filter hook prerouting priority -300;\n  \
                        iifname pathB meta length > 1300 drop\n }\n}\n.\n";
            Host::ALL.into_iter().for_each(|host| drop(sh(site, host, rule)));
        };
        vec![(ms(0), Box::new(drop))]
    },
    watch: ms(6000),
    dark: ms(0),
};
