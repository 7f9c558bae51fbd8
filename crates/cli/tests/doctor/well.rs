//! What the doctor says where all is well, and how it says it.

use crate::common::gateways::sh;
use crate::common::{Site, wait_for};
use crate::doctor::patient::{cause, connect, doctor, healthy, said, wrong};
use manypath_lab::Host;
use serde_json::Value;

#[test]
fn two_working_paths_are_told_with_all_that_is_known() {
    let mut site = healthy();
    site.web();
    let server = site.server();
    let (report, code) = doctor(&site, &[&format!("{server}:8080")]);
    assert!(wrong(&report).is_empty() && code == Some(0), "{report:#}");
    assert_eq!(report["trial"]["state"], "carried", "{report:#}");
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{report:#}");
    for (path, number) in paths.iter().zip(0..) {
        assert_eq!(path["local"], site.lab.address(Host::Left, number).to_string());
        assert_eq!(path["udp"]["state"], "answered", "{path:#}");
        assert_eq!(path["udp"]["manypath"], true);
        // 5 and 10 ms each way; a busy machine only adds to it.
        let least = [10.0, 20.0][number];
        assert!(path["udp"]["rtt_ms"].as_f64().unwrap() >= least, "{path:#}");
        assert_eq!((&path["nat"], &path["mtu"]), (&false.into(), &path["interface_mtu"]));
        assert_eq!((&path["ecn"]["passes"], &path["gso"]["passes"]), (&true.into(), &true.into()));
    }
    assert_eq!(report["peer"]["mptcp"], false, "{report:#}");
    let text = said(&site, &[&server]);
    assert_eq!(text.code, Some(0), "{text:?}");
    for words in ["manypath, after", "on the link of pathA", "all is well", "no path is in use"] {
        assert!(text.stdout.contains(words), "{words}: {}", text.stdout);
    }
}

#[test]
fn a_host_without_ipv4_is_well() {
    let site = healthy();
    sh(&site, Host::Left, "for path in A B; do ip -4 address flush dev path$path; done");
    let (report, code) = doctor(&site, &[&site.lab.address_v6(Host::Right, 0).to_string()]);
    assert!(wrong(&report).is_empty() && code == Some(0), "{report:#}");
    let paths = report["paths"].as_array().unwrap();
    let answered = paths.iter().filter(|path| path["udp"]["manypath"] == true);
    assert_eq!(answered.count(), 2, "{report:#}");
}

/// Containers make no path, and the doctor says so and how they would.
#[test]
fn a_bridge_without_a_gateway_is_told_and_not_tried() {
    let site = healthy();
    let pod = "ip link add pod type bridge; ip link add tap0 type veth peer name tap1
               ip link set tap0 master pod; ip link set tap0 up; ip link set tap1 up
               ip link set pod up; ip address add 172.17.0.1/16 dev pod";
    sh(&site, Host::Left, pod);
    let server = site.server();
    let (report, code) = doctor(&site, &[&server]);
    assert!(wrong(&report).is_empty() && code == Some(0), "{report:#}");
    assert_eq!(report["paths"].as_array().unwrap().len(), 2, "{report:#}");
    let note = cause(&report, "isolated").unwrap();
    assert_eq!(note["command"], "manypath path add dev pod normal", "{note:#}");
    let text = said(&site, &[&server]).stdout;
    for words in ["172.17.0.1 (pod): isolated, not used: bridge", "(pathB): private, used"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_service_that_speaks_mptcp_is_known() {
    let mut site = healthy();
    let server = "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_STREAM,262)\n\
                  s.bind(('',8080))\ns.listen()\ntime.sleep(60)";
    site.service("python3", &["-c", server], "tcp", 8080);
    let (report, _) = doctor(&site, &[&format!("{}:8080", site.server())]);
    assert_eq!(
        (&report["kernel"]["mptcp"], &report["peer"]["mptcp"]),
        (&true.into(), &true.into())
    );
}

#[test]
fn the_words_of_a_running_stack_say_why_a_path_is_idle() {
    let mut site = healthy();
    let address = site.server();
    connect(&mut site);
    let stacks = || -> Vec<Value> {
        let paths = doctor(&site, &[&address]).0["paths"].as_array().unwrap().clone();
        paths.iter().flat_map(|path| path["stacks"].as_array().unwrap().clone()).collect()
    };
    wait_for("both paths to be idle", || {
        let stacks = stacks();
        stacks.len() == 2 && stacks.iter().all(|it| it["idle_reason"] == "no-data")
    });
    assert!(stacks().iter().any(|it| it["since_data_received_ms"].is_u64()), "{:#?}", stacks());
    let text = said(&site, &[&address]);
    assert!(text.stdout.contains("no data to send; data sent "), "{}", text.stdout);
}

#[test]
fn what_cannot_be_a_peer_is_refused_with_words_that_help() {
    let site = Site::new();
    let own = site.lab.address(Host::Left, 0).to_string();
    for (host, words) in [
        ("127.0.0.1", "this host"),
        (own.as_str(), "an address of this host"),
        ("192.0.2.1:http", "HOST:PORT"),
    ] {
        let done = said(&site, &[host]);
        assert!(done.code == Some(2) && done.stderr.contains(words), "{host}: {done:?}");
    }
    let done = said(&site, &["no.such.host.invalid"]);
    assert!(done.code == Some(1) && done.stderr.contains("getent ahosts"), "{done:?}");
}

#[test]
fn a_host_that_is_not_there_is_told_from_one_that_filters() {
    let mut site = healthy();
    for service in &mut site.services {
        service.kill().unwrap();
        service.wait().unwrap();
    }
    sh(&site, Host::Right, "ip link set pathA down; ip link set pathB down");
    let (report, code) = doctor(&site, &[&site.server()]);
    assert_eq!(wrong(&report), ["peer-silent"], "{report:#}");
    assert_eq!(code, Some(1));
    let found = cause(&report, "peer-silent").unwrap();
    assert!(found["command"].as_str().unwrap().starts_with("ping "), "{found:#}");
}
