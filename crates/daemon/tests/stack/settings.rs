//! Settings in force, and changed while the stack runs.

use crate::common::{Host, Launcher, Network, echo, service, unused_port};
use manypath_control::status::FallbackReason;
use manypath_control::{Reply, Request};
use manypath_daemon::{Knob, SettingsFile, StackConfig};
use manypath_rules::RulesFile;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new(network: Network) -> Self {
        let name = format!("manypath-test-settings-{}", network.server()[0]);
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn client(&self, network: Network) -> (Host, Launcher) {
        let config = StackConfig {
            settings: Some(SettingsFile::named(self.0.join("sysctl.conf"))),
            rules: Some(RulesFile::named(self.0.join("rules"))),
            ..network.client_config()
        };
        Host::with_launcher(config)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The first answer to a connect from an address that the program has bound.
fn open_from(launcher: &Launcher, id: u64, source: IpAddr, destination: SocketAddr) -> Reply {
    let source = Some(SocketAddr::new(source, 0));
    launcher.send(&Request::Open { id, destination, source, blocking: true });
    launcher.receive()
}

fn reload(launcher: &Launcher) -> Reply {
    launcher.send(&Request::Reload);
    launcher.receive()
}

#[test]
fn a_bound_address_is_kept_to_when_the_settings_say_so() {
    let network = Network::new();
    let open = service(network.server()[0], echo);
    let _server = Host::start(network.server_config(&[open]));
    let folder = Folder::new(network);
    folder.write("sysctl.conf", "force_bindall = 0   # as plain TCP does\n");
    let (_client, launcher) = folder.client(network);
    let reason = FallbackReason::BoundAddress;
    let bound = network.client()[1];
    assert_eq!(open_from(&launcher, 901, bound, open), Reply::Direct { id: 901, reason });
    folder.write("sysctl.conf", "");
    assert_eq!(reload(&launcher), Reply::Reloaded { rules: 0 });
    assert_eq!(open_from(&launcher, 902, bound, open), Reply::Pending { id: 902 });
}

#[test]
fn rules_and_settings_change_together_or_not_at_all() {
    let network = Network::new();
    let folder = Folder::new(network);
    folder.write("rules", "remote disable port 1\n");
    let (_client, mut launcher) = folder.client(network);
    folder.write("rules", "default remote disable\n");
    folder.write("sysctl.conf", "\ninit_rtx_max = many\n");
    let Reply::Refused { why } = reload(&launcher) else { panic!("wrong settings were read") };
    assert!(why.contains("line 2: init_rtx_max = many: a number from 0 to 5"), "{why}");
    let destination = unused_port(network.server()[0]);
    assert_ne!(launcher.direct(destination).0, FallbackReason::Rule);
    folder.write("sysctl.conf", "init_rtx_max = 2\n");
    assert_eq!(reload(&launcher), Reply::Reloaded { rules: 0 });
    assert_eq!(launcher.direct(destination).0, FallbackReason::Rule);
}

#[test]
fn what_the_user_gave_is_not_changed_by_the_file() {
    let network = Network::new();
    let folder = Folder::new(network);
    folder.write("sysctl.conf", "force_bindall = 0\n");
    let config = StackConfig {
        settings: Some(SettingsFile::named(folder.0.join("sysctl.conf"))),
        fixed: vec!["force_bindall"],
        ..network.client_config()
    };
    let (_client, launcher) = Host::with_launcher(config);
    let destination = unused_port(network.server()[0]);
    let first = open_from(&launcher, 901, network.client()[1], destination);
    assert_eq!(first, Reply::Pending { id: 901 });
}

#[test]
fn a_shortest_timeout_above_the_longest_is_refused_and_what_holds_stays() {
    let network = Network::new();
    let folder = Folder::new(network);
    folder.write("sysctl.conf", "rto_max_ms = 1000\n");
    let (_client, launcher) = folder.client(network);
    let says = |why: &str, values: &str| {
        assert!(why.contains(values) && why.contains("lower the one or raise the other"), "{why}");
    };
    for (text, values) in [
        (
            "rto_min_ms = 2000\nrto_max_ms = 1000\n",
            "rto_min_ms = 2000 is more than rto_max_ms = 1000",
        ),
        // Against the defaults, too.
        ("rto_max_ms = 100\n", "rto_min_ms = 200 is more than rto_max_ms = 100"),
    ] {
        folder.write("sysctl.conf", text);
        let Reply::Refused { why } = reload(&launcher) else { panic!("{text} was read") };
        says(&why, values);
    }
    let file = SettingsFile::named(folder.0.join("sysctl.conf"));
    folder.write("sysctl.conf", "rto_max_ms = 1000\n");
    let knob = |name| Knob::by_name(name).unwrap();
    let (least, most) = (knob("rto_min_ms"), knob("rto_max_ms"));
    let refused = file.set(&[(least, Some(1001))]).unwrap_err().to_string();
    says(&refused, "rto_min_ms = 1001 is more than rto_max_ms = 1000");
    let refused = file.set(&[(most, Some(199))]).unwrap_err().to_string();
    says(&refused, "rto_min_ms = 200 is more than rto_max_ms = 199");
    let said = file.read().unwrap();
    let said: Vec<_> = said.iter().map(|it| (it.name, it.value, it.origin.1)).collect();
    assert_eq!(said, [("rto_max_ms", 1000, 1)]);
    // Equal is in order; both at once may pass each other, and a wrong file can be mended.
    file.set(&[(least, Some(1000))]).unwrap();
    file.set(&[(least, Some(50_000)), (most, Some(60_000))]).unwrap();
    folder.write("sysctl.conf", "rto_min_ms = 2000\nrto_max_ms = 1000\n");
    file.set(&[(least, None)]).unwrap();
    assert_eq!(reload(&launcher), Reply::Reloaded { rules: 0 });
}
