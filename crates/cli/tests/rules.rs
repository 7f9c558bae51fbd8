//! `manypath rules` and `shimrules`: the table from the command line, and in force at once.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

use crate::common;

use common::clients::{carried, web_site};
use common::{Finished, MANYPATH, Site, find, finish};
use manypath_lab::Host;
use std::process::Command;

/// `manypath ARGS` on the right host.
fn say(site: &Site, args: &[&str]) -> Finished {
    let mut command = site.command(Host::Right, MANYPATH);
    command.args(args);
    finish(command)
}

fn ok(site: &Site, args: &[&str]) -> String {
    let done = say(site, args);
    assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    done.stdout
}

#[test]
fn rules_are_added_listed_explained_and_deleted() {
    let site = Site::new();
    let added = ok(&site, &["rules", "add", "remote", "disable", "ports", "1-1024"]);
    assert!(added.contains("remote-disable rule 1: remote disable ports 1-1024"), "{added}");
    let again = ok(&site, &["rules", "add", "remote", "disable", "ports", "1-1024"]);
    assert!(again.contains("rule 1: remote disable ports 1-1024 (as before)"), "{again}");
    ok(&site, &["rules", "add", "--at", "1", "remote", "disable", "host", "192.0.2.7"]);
    let list = ok(&site, &["rules", "list"]);
    let expected = "default local disable\ndefault remote enable\n\
                    \x20 1  remote disable host 192.0.2.7\n  2  remote disable ports 1-1024\n";
    assert_eq!(list, expected);
    let why = ok(&site, &["rules", "explain", "connect", "192.0.2.8:22"]);
    assert!(why.contains("left to the kernel\n  decided by remote-disable rule 2"), "{why}");
    let json = ok(&site, &["rules", "--json", "explain", "connect", "192.0.2.8:2222"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (json["policy"].as_str(), json["decider"].as_str()),
        (Some("enable"), Some("default"))
    );
    ok(&site, &["rules", "delete", "remote", "disable", "1"]);
    ok(&site, &["rules", "delete", "remote", "disable", "ports", "1-1024"]);
    let gone = say(&site, &["rules", "delete", "remote", "disable", "ports", "1-1024"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
}

#[test]
fn a_rule_that_can_never_match_is_told_and_fails_the_check() {
    let site = Site::new();
    ok(&site, &["rules", "add", "remote", "disable", "ports", "1-1024"]);
    let useless = ["rules", "add", "remote", "disable", "net", "10.1.2.0/24", "port", "1000"];
    let done = say(&site, &useless);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("not added: the rule never matches: rules before it"), "{done:?}");
    assert!(done.stderr.contains("use --force to override"), "{done:?}");
    assert_eq!(ok(&site, &["rules", "list"]).lines().count(), 3, "nothing was written");
    ok(&site, &[&useless[..2], &["--force"], &useless[2..]].concat());
    let nothing = say(&site, &["rules", "add", "remote", "enable"]);
    let told = "not added: the rule changes nothing: the default";
    assert!(nothing.code == Some(1) && nothing.stderr.contains(told), "{nothing:?}");
    let check = say(&site, &["rules", "test"]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(check.stdout.contains("2 rules, 1 without effect"), "{check:?}");
}

#[test]
fn shimrules_speaks_the_flags_of_the_thesis() {
    let site = Site::new();
    // By its own name, as the thesis has it.
    let link = site.dir.join("shimrules");
    std::os::unix::fs::symlink(MANYPATH, &link).unwrap();
    let shimrules = |args: &str| {
        let mut command = site.command(Host::Right, &link);
        command.args(args.split_whitespace());
        finish(command)
    };
    let flags = "-A -c remote -p disable -n 10.1.2.0/255.255.255.0 -r 1:1024";
    assert_eq!(shimrules(flags).code, Some(0));
    assert_eq!(shimrules("-S -c local -p enable").code, Some(0));
    assert_eq!(shimrules("-G -c local").stdout, "local enable\n");
    let list = shimrules("-L -c remote -p disable").stdout;
    assert_eq!(list, "default remote enable\n  1  remote disable net 10.1.2.0/24 ports 1-1024\n");
    assert!(shimrules("-H").stdout.contains("Usage: shimrules -[AD] -c <chain> -p <policy>"));
    assert_eq!(shimrules("--help").stdout, shimrules("-H").stdout);
    assert_eq!(shimrules("-D -c remote -p disable -n 10.1.2.0/24 -r 1:1024").code, Some(0));
    let wrong = shimrules("-A -c remote -p disable");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("needs a rule specification"), "{wrong:?}");
}

#[test]
fn a_server_goes_by_a_changed_table_at_once() {
    let mut site = Site::new();
    site.web();
    site.random_file("small", 10_000);
    ok(&site, &["rules", "add", "local", "enable", "port", "1234"]);
    site.service(MANYPATH, &["serve", "-v"], "udp", 9899);
    let url = format!("http://{}:8080/small", site.server());
    let carried = |site: &Site| {
        let before = site.server_counter("stack_relays_started");
        let done = site.through("curl", &["-sS", "-f", "-o", "/dev/null", &url]);
        assert_eq!(done.code, Some(0), "{done:?}");
        site.server_counter("stack_relays_started") - before
    };
    assert_eq!(carried(&site), 0);
    let opened = ok(&site, &["rules", "add", "local", "enable", "port", "8080", "half-close=on"]);
    assert!(opened.contains(" it now"), "{opened}");
    // What was not allowed is remembered for a while.
    ok(&site, &["cache", "flush"]);
    assert_eq!(carried(&site), 1);
    ok(&site, &["rules", "flush"]);
    assert_eq!(carried(&site), 0);
}

#[test]
fn wrong_tables_and_words_are_told_before_anything_runs() {
    let site = Site::new();
    let wrong = say(&site, &["rules", "add", "remote", "disable", "prt", "25"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("port N, ports N-M"), "{wrong:?}");
    std::fs::write(site.dir.join("rules"), "remote disable\nlocl enable\n").unwrap();
    for args in [&["run", "--", "true"][..], &["serve", "--allow", "22"], &["rules", "list"]] {
        let done = say(&site, args);
        assert!(!matches!(done.code, Some(0) | None), "{args:?}: {done:?}");
        assert!(done.stderr.contains("line 2: unknown chain \"locl\""), "{done:?}");
    }
    let missing = say(&site, &["run", "--rules", "/nonexistent", "--", "true"]);
    assert!(missing.stderr.contains("--rules /nonexistent: no such file"), "{missing:?}");
    std::fs::write(site.dir.join("rules"), "").unwrap();
    let closed = say(&site, &["serve"]);
    assert!(closed.stderr.contains("no service is open to peers"), "{closed:?}");
}

#[test]
fn settings_are_shown_changed_and_reset() {
    let site = Site::new();
    let sysctl = |args: &[&str]| {
        let mut command = site.command(Host::Right, MANYPATH);
        command.arg("sysctl").args(args);
        finish(command)
    };
    assert_eq!(sysctl(&["init_rtx_max"]).stdout, "init_rtx_max = 2\n");
    let changed = sysctl(&["init_rtx_max=3", "default_local_enable=1"]).stdout;
    assert!(changed.contains("init_rtx_max = 3\n"), "{changed}");
    assert!(ok(&site, &["rules", "default", "local"]).contains("local enable"));
    let wrong = sysctl(&["log_level=loud", "init_rtx_max=4"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("one of silent, error, warn, info, verbose"), "{wrong:?}");
    assert_eq!(sysctl(&["init_rtx_max"]).stdout, "init_rtx_max = 3\n", "changed in part");
    assert_eq!(sysctl(&["no_such"]).code, Some(2));
    let crossed = sysctl(&["rto_min_ms=3000", "rto_max_ms=2000", "init_rtx_max=4"]);
    assert_eq!((crossed.code, crossed.stdout.as_str()), (Some(1), ""), "{crossed:?}");
    let says = "rto_min_ms = 3000 is more than rto_max_ms = 2000: lower the one or raise the other";
    assert!(crossed.stderr.contains(says), "{crossed:?}");
    assert_eq!(
        sysctl(&["init_rtx_max", "rto_max_ms"]).stdout,
        "init_rtx_max = 3\nrto_max_ms = 60000\n"
    );
    sysctl(&["--reset", "init_rtx_max"]);
    assert_eq!(sysctl(&["init_rtx_max"]).stdout, "init_rtx_max = 2\n");
}

#[test]
fn the_manual_of_settings_names_each_with_its_default() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let output = Command::new(MANYPATH).args(["sysctl", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let settings = report["settings"].as_object().unwrap();
    assert!(settings.len() >= 11);
    for (name, setting) in settings {
        let default = match name.as_str() {
            "receive_memory_mib" => "an eighth of the machine's memory, 256 to 1280",
            _ => setting["default"].as_str().unwrap(),
        };
        let row = format!("| `{name}` | {default} |");
        assert!(manual.contains(&row), "docs/configuration.md lacks: {row}");
    }
}

/// Neither what is no TOML nor what no stack knows keeps a program from running, and the other settings hold.
#[test]
fn a_typo_in_the_settings_is_told_and_the_program_runs() {
    let site = web_site();
    let config = site.dir.join("config.toml");
    let url = format!("http://{}:8080/small", site.server());
    let run = |text: &str| {
        let good = "step_aside = \"never\"\ntcp_race = \"off\"\n";
        std::fs::write(&config, format!("paths = ''\n[settings]\n{text}\n{good}")).unwrap();
        let mut command = site.command(Host::Left, MANYPATH);
        for name in ["MANYPATH_SYSCTL", "MANYPATH_RULES", "MANYPATH_PATHS"] {
            command.env_remove(name);
        }
        command.env("MANYPATH_CONFIG", &config).args(["run", "--"]).arg(find("curl"));
        command.args(["-sS", "-f", "-o", "/dev/null", &url]);
        carried(&site, 1, || finish(command))
    };
    let at = config.display();
    for (text, why) in [
        ("log_levle = \"info\"", "unknown setting \"log_levle\""),
        ("log_level = info", "write NAME = NUMBER or NAME = \"TEXT\", not log_level = info"),
        ("init_rtx_max = \"many\"", "init_rtx_max = many: a number from 0 to 5"),
        ("init_rtx_max = [1]", "init_rtx_max: a number or a string"),
        ("rto_min_ms = 2000\nrto_max_ms = 1000", "rto_min_ms = 2000 is more than"),
    ] {
        let done = run(text);
        assert_eq!(done.code, Some(0), "{text}: {done:?}");
        let line = if text.contains('\n') { String::new() } else { "line 3: ".to_owned() };
        assert!(done.stderr.contains(&format!("manypath: {at}: {line}{why}")), "{text}: {done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{text}: {done:?}");
        assert!(done.stderr.contains("ignored"), "{text}: {done:?}");
    }
    // What rules forbid must not become allowed by a typo.
    std::fs::write(&config, "rules = 'remote perhaps'\n").unwrap();
    let mut command = site.command(Host::Left, MANYPATH);
    command.env_remove("MANYPATH_RULES").env("MANYPATH_CONFIG", &config).args(["run", "true"]);
    let done = finish(command);
    assert!(done.code == Some(125) && done.stderr.contains("unknown policy"), "{done:?}");
}
