//! Stock programs through `manypath run`, each proven to have gone through it by the counters of
//! the server's stack.

use crate::common;

use common::clients::{self, carried, web_site};
use common::{MANYPATH, Site, finish, in_cgroup};
use manypath_lab::Host;
use std::process::Command;

fn run(site: &Site) -> impl Fn(&str, &[&str]) -> Command {
    move |program, args| site.through_command(&[], program, args)
}

#[test]
fn curl_fetches_one_file_and_many_in_parallel_over_both_families() {
    let site = web_site();
    clients::curl(&site, &run(&site));
}

#[test]
fn both_paths_carry_a_large_file() {
    let site = web_site();
    let content = site.random_file("file", 8_000_000);
    let url = format!("http://{}:8080/file", site.server());
    let out = site.dir.join("got").display().to_string();
    let done = carried(&site, 1, || site.through("curl", &["-sS", "-f", "-o", &out, &url]));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(std::fs::read(&out).expect("file") == content, "the file arrived damaged");
    let samples = site.lab.samples(0).expect("samples");
    for path in samples.paths {
        let bytes: u64 = path.towards_left.iter().sum();
        assert!(bytes > 1_000_000, "path {} carried only {bytes} bytes", path.name);
    }
}

/// The second program finds the stack of the first one without an option, and the association with it.
#[test]
fn programs_one_after_the_other_share_a_stack_and_its_association() {
    if in_cgroup() {
        return;
    }
    let site = web_site();
    let url = format!("http://{}:8080/small", site.server());
    for number in 1..=3 {
        let mut command =
            site.through_command(&[], "curl", &["-sS", "-f", "-o", "/dev/null", &url]);
        command.env_remove("MANYPATH_OWN_STACK");
        let done = carried(&site, 1, || finish(command));
        assert_eq!(done.code, Some(0), "{done:?}");
        let associations = site.server_status()["associations"].as_array().map(Vec::len);
        assert_eq!(associations, Some(1), "after program {number}");
    }
    let mut own =
        site.through_command(&["--own-stack"], "curl", &["-sS", "-f", "-o", "/dev/null", &url]);
    own.env_remove("MANYPATH_OWN_STACK");
    let done = carried(&site, 1, || finish(own));
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// How many stacks there are on the left host.
fn stacks(site: &Site) -> usize {
    let mut command = site.command(Host::Left, MANYPATH);
    command.args(["status", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&finish(command).stdout).expect("status");
    all["stacks"].as_array().map_or(0, Vec::len)
}

/// Those with options start a stack of their own, and so do all when the server has gone.
#[test]
fn programs_without_options_use_the_stack_of_a_server_that_carries_programs() {
    if in_cgroup() {
        return;
    }
    let mut site = web_site();
    let serve = ["serve", "--programs", "--allow", "9", "--port", "9898", "-v"];
    site.service_on(Host::Left, MANYPATH, &serve, "udp", 9898);
    let url = format!("http://{}:8080/small", site.server());
    let fetch = |site: &Site, options: &[&str]| {
        let mut command =
            site.through_command(options, "curl", &["-sS", "-f", "-o", "/dev/null", &url]);
        command.env_remove("MANYPATH_OWN_STACK");
        let done = carried(site, 1, || finish(command));
        assert_eq!(done.code, Some(0), "{done:?}");
        stacks(site)
    };
    assert_eq!((fetch(&site, &[]), fetch(&site, &[])), (1, 1));
    assert_eq!(fetch(&site, &["--mode", "redundant"]), 2);
    let server = site.services.last_mut().expect("it was started last");
    server.kill().expect("it runs");
    server.wait().expect("it was killed");
    assert_eq!(fetch(&site, &[]), 2, "in the place of the server's");
}

#[test]
fn openssh_programs_work() {
    let mut site = Site::new();
    site.ssh();
    site.serve("2222");
    clients::openssh(&site, &run(&site));
}

#[test]
fn netcat_half_closes() {
    let mut site = Site::new();
    site.serve("7000");
    clients::netcat(&site, &run(&site));
}

#[test]
fn event_loop_clients_work() {
    let site = web_site();
    clients::event_loops(&site, &run(&site));
}

#[test]
fn a_static_go_program_works() {
    let site = web_site();
    clients::static_go(&site, &run(&site));
}
