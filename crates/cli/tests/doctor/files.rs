//! Setups in which a file of the user says something wrong, or something unwanted.

use crate::common::{MANYPATH, Site, find, finish};
use crate::doctor::patient::{cause, doctor, healthy, is_mended, obey};
use manypath_lab::Host;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

fn wrong_line(file: &str, text: &str, name: &str) {
    let mut site = healthy();
    let server = site.server();
    std::fs::write(site.dir.join(file), text).unwrap();
    let cause = is_mended(&mut site, &[&server], name);
    let command = cause["command"].as_str().unwrap();
    assert!(command.starts_with("sed -i '2s/"), "{command}");
}

#[test]
fn a_rule_has_a_wrong_word() {
    wrong_line("rules", "# mine\nremote disable prot 22\n", "bad-rules");
}

#[test]
fn a_setting_has_a_wrong_name() {
    wrong_line("sysctl.conf", "# mine\nrto_min = 3\n", "bad-settings");
}

#[test]
fn a_policy_has_a_wrong_word() {
    wrong_line("paths", "# mine\ndev pathB fast\n", "bad-paths");
}

#[test]
fn a_path_is_disabled() {
    let mut site = healthy();
    let (server, uplink) = (site.server(), site.lab.address(manypath_lab::Host::Left, 1));
    std::fs::write(site.dir.join("paths"), format!("{uplink} disable\n")).unwrap();
    let cause = is_mended(&mut site, &[&server], "path-disabled");
    assert_eq!(cause["command"], format!("manypath path change {uplink} enable"));
}

#[test]
fn others_may_read_the_key() {
    let mut site = healthy();
    let (server, file) = (site.server(), site.keys(Host::Left).join("identity"));
    let (report, _) = doctor(&site, &[&server]);
    assert_eq!(cause(&report, "key-not-kept"), None, "it has been made: {report:#}");
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let (report, code) = doctor(&site, &[&server]);
    assert_eq!(code, Some(0), "{report:#}");
    obey(&mut site, &cause(&report, "key-not-kept").unwrap());
    let (report, _) = doctor(&site, &[&server]);
    assert_eq!(cause(&report, "key-not-kept"), None, "{report:#}");
}

/// An overlay on the folder of root's keys, as the files of a container are one on those of its image.
#[test]
fn a_key_would_go_with_the_container() {
    let site = Site::new();
    let layers = site.dir.join("layers");
    for layer in ["upper", "work"] {
        std::fs::create_dir_all(layers.join(layer)).unwrap();
    }
    let mount = format!(
        "mount -t overlay overlay -o lowerdir=/var/lib,upperdir={0}/upper,workdir={0}/work /var/lib && \
         rm -rf /var/lib/manypath-root && unset MANYPATH_KEYS && exec {MANYPATH} doctor --json",
        layers.display()
    );
    let mut command = site.command(Host::Left, find("unshare"));
    command.args(["-m", "sh", "-c", &mount]);
    let done = finish(command);
    let report = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    let found = cause(&report, "key-not-kept").unwrap();
    assert!(found["text"].as_str().unwrap().contains("MANYPATH_KEYS"), "{found:#}");
    assert!(!layers.join("upper/manypath-root/identity").exists());
}
