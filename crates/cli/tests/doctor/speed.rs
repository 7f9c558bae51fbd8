//! `manypath doctor --speed`: each uplink and all together, measured to a server that lets this host do so.

use crate::common::gateways::{BACK, LEASES, SERVER, behind_gateways, sh};
use crate::common::{Finished, MANYPATH, Site, finish};
use manypath_lab::Host;
use serde_json::Value;

const PATHS: [&str; 2] = ["20mbit,10ms,queue=100", "10mbit,20ms,queue=100"];
const RATES: [f64; 2] = [20e6, 10e6];

/// A client with two uplinks, and a server with manypath behind routers, with these options.
fn site(options: &[&str]) -> Site {
    let mut site = behind_gateways(&PATHS, "", LEASES);
    sh(&site, Host::Right, BACK);
    site.service(MANYPATH, &[&["serve", "-v"], options].concat(), "udp", 9899);
    site
}

fn speed(site: &Site, args: &[&str]) -> Finished {
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["doctor", "--speed", SERVER]).args(args);
    finish(command)
}

fn report(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// The client's key, as a line of a file of authorized peers.
fn key(site: &Site) -> String {
    let mut show = site.command(Host::Left, MANYPATH);
    show.args(["key", "show", "--json"]);
    let shown: Value = serde_json::from_str(&finish(show).stdout).expect("JSON");
    format!("{} client\n", shown["keys"][0]["key"].as_str().expect("a key"))
}

#[test]
fn each_uplink_and_all_together_are_measured_for_an_authorized_host() {
    let mut site = behind_gateways(&PATHS, "", LEASES);
    sh(&site, Host::Right, BACK);
    let list = site.dir.join("authorized").display().to_string();
    std::fs::write(&list, key(&site)).unwrap();
    site.service(MANYPATH, &["serve", "-v", "--allow", "8080", "--authorized", &list], "udp", 9899);
    let done = speed(&site, &["--seconds", "4", "--json", "--svg", "speed.svg"]);
    let report = report(&done);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!((&report["encrypted"], &report["address"]), (&true.into(), &SERVER.into()));
    let rate = |row: &Value, way: &str| row[way]["bits_per_s"].as_f64().unwrap_or(0.0);
    let uplinks = report["uplinks"].as_array().unwrap();
    assert_eq!(uplinks.len(), 2, "{report:#}");
    for ((row, name), most) in uplinks.iter().zip(["pathA", "pathB"]).zip(RATES) {
        assert_eq!(row["name"], name, "{row:#}");
        for way in ["download", "upload"] {
            let part = rate(row, way) / most;
            assert!((0.4..1.1).contains(&part), "{name} {way}: {part}: {row:#}");
            // On a busy machine the test's own threads may come late.
            let limits = ["path-rate", "loss", "sender"];
            assert!(limits.contains(&row[way]["limit"].as_str().unwrap()), "{row:#}");
        }
        assert!(row["round_trip_ms"].as_f64().unwrap() > 15.0, "{row:#}");
    }
    for way in ["download", "upload"] {
        let (all, sum) = (rate(&report["together"], way), RATES.iter().sum::<f64>());
        assert!((0.4..1.1).contains(&(all / sum)), "together {way}: {all}: {report:#}");
        assert!(all > rate(&uplinks[1], way), "more than the slower uplink: {report:#}");
    }
    let picture = std::fs::read_to_string(site.dir.join("speed.svg")).unwrap();
    assert!(picture.contains(">pathB</text>") && picture.contains(">together</text>"));
    assert!(site.server_counter("stack_speed_tests") >= 6);
    let done = speed(&site, &["--seconds", "1"]);
    for words in ["limited by", "pathA", "together", "Together the download is", "encrypted"] {
        assert!(done.stdout.contains(words), "{words}: {done:?}");
    }
}

#[test]
fn strangers_are_refused_unless_a_rule_opens_the_port() {
    let site = site(&["--allow", "8080"]);
    let tried = |site: &Site| {
        let done = speed(site, &["--seconds", "1", "--json"]);
        (report(&done), done.code)
    };
    let (refused, code) = tried(&site);
    assert_eq!(code, Some(1), "{refused:#}");
    for row in refused["uplinks"].as_array().unwrap() {
        let why = row["error"].as_str().unwrap();
        assert!(why.contains("authorized") && why.contains("rules add local"), "{row:#}");
    }
    assert_eq!(site.server_counter("stack_speed_tests"), 0);
    std::fs::write(site.dir.join("rules"), "local enable port 9899 from=10.77.2.0/24\n").unwrap();
    let mut reload = site.command(Host::Right, MANYPATH);
    reload.args(["config", "reload"]);
    assert_eq!(finish(reload).code, Some(0));
    let (some, code) = tried(&site);
    assert_eq!(code, Some(1), "{some:#}");
    assert!(some["uplinks"][0]["error"].is_string(), "{some:#}");
    assert!(some["uplinks"][1]["download"]["bits_per_s"].as_u64().unwrap() > 1_000_000, "{some:#}");
}
