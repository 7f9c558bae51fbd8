//! Stock programs through `manypath run`, each proven to have gone through it by the counters of
//! the server's stack.

mod common;

use common::Site;
use common::clients::{self, carried, web_site};
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
