//! What commands say to arguments that they cannot follow. Nothing here reaches a network.

use crate::common;

use common::{Finished, MANYPATH, finish};
use std::process::Command;

/// Where no stack runs, and none stays after a program.
fn nobody(command: &mut Command) -> &mut Command {
    let dir = concat!(env!("CARGO_TARGET_TMPDIR"), "/nobody");
    command.env("MANYPATH_RUNTIME_DIR", dir).env("MANYPATH_OWN_STACK", "1")
}

/// `manypath ARGS`, with no files of the caller.
fn manypath(args: &[&str]) -> Finished {
    let mut command = Command::new(MANYPATH);
    nobody(&mut command).args(args);
    for name in ["MANYPATH_CONFIG", "MANYPATH_PEERS"] {
        command.env(name, "/dev/null");
    }
    finish(command)
}

/// What a command prints that works.
fn finish_ok(command: &mut Command) -> String {
    let output = command.output().expect("manypath");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// It does not work, and tells why.
fn refused(args: &[&str], code: i32, why: &str) {
    let done = manypath(args);
    assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
    assert!(done.stderr.contains(why), "{args:?}: {done:?}");
}

/// The stack of `manypath run` is another process, which nobody listens to: what it would refuse is told
/// before the program begins, instead of leaving all its connections to plain TCP in silence.
#[test]
fn a_program_does_not_begin_with_options_that_its_stack_would_refuse() {
    let elsewhere = ["run", "--local", "203.0.113.77", "--", "true"];
    refused(&elsewhere, 125, "--local: 203.0.113.77 is not an address of this host");
    refused(&["run", "--local", "127.0.0.1", "--", "true"], 125, "loopback");
    let slow = ["run", "--fallback-timeout", "999999999", "--", "true"];
    refused(
        &slow,
        125,
        "--fallback-timeout: fallback_timeout_ms = 999999999: a number from 10 to 60000",
    );
    refused(&["run", "--negative-cache", "99999999", "--", "true"], 125, "--negative-cache");
}

/// As of env, timeout and the like: 1 and 2 are the program's own.
#[test]
fn failures_of_run_itself_are_not_those_of_the_program() {
    refused(&["run", "--rules", "/nope", "--", "true"], 125, "--rules /nope: no such file");
    refused(&["run", "--no-such-option", "--", "true"], 125, "--no-such-option");
    refused(&["run", "--daemon", "/nope", "--", "true"], 125, "no stack answers at /nope");
    refused(&["run", "--client-only", "/nope"], 127, "/nope: command not found");
    for code in [0, 1, 2, 125] {
        let script = format!("exit {code}");
        assert_eq!(manypath(&["run", "--client-only", "sh", "-c", &script]).code, Some(code));
    }
    assert_eq!(manypath(&["run", "--help"]).code, Some(0));
    refused(&["serve", "--no-such-option"], 2, "--no-such-option");
}

#[test]
fn a_table_that_is_not_there_is_not_shown_as_an_empty_one() {
    for action in
        [&["list"] as &[&str], &["default"], &["flush"], &["explain", "connect", "192.0.2.1:1"]]
    {
        refused(
            &[&["rules", "--rules", "/nope"], action].concat(),
            2,
            "--rules /nope: no such file",
        );
    }
    assert_eq!(manypath(&["rules", "list"]).code, Some(0), "none need be there unless named");
}

#[test]
fn addresses_are_asked_for_as_they_are_written() {
    let name = ["rules", "explain", "connect", "server.example:22"];
    refused(&name, 2, "write 192.0.2.7:22 or [2001:db8::1]:22");
    refused(&["metrics", "--listen", "203.0.113.77:0"], 1, "shows the addresses of this host");
}

/// The next stack would not begin with it.
#[test]
fn a_wrong_file_is_told_where_no_stack_runs_that_could_tell() {
    let file = std::env::temp_dir().join(format!("manypath-wrong-{}", std::process::id()));
    std::fs::write(&file, "remote enable\nremote perhaps\n").expect("a file");
    let mut command = Command::new(MANYPATH);
    command.arg("reload").env("MANYPATH_RULES", &file);
    nobody(&mut command);
    let done = finish(command);
    std::fs::remove_file(&file).expect("the file");
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("line 2: unknown policy \"perhaps\""), "{done:?}");
}

/// Whoever has said something of an address and then changes what is said of its interface would wait for it
/// to take effect.
#[test]
fn a_line_about_paths_that_another_one_hides_says_so() {
    let dir = std::env::temp_dir().join(format!("manypath-hidden-{}", std::process::id()));
    let file = dir.join("paths");
    let path = |args: &[&str]| {
        let mut command = Command::new(MANYPATH);
        nobody(&mut command);
        finish_ok(command.env("MANYPATH_PATHS", &file).arg("path").args(args))
    };
    let first = path(&["add", "10.0.0.2", "dev", "wwan0", "backup"]);
    assert!(!first.contains("precedes it"), "{first}");
    let told = path(&["change", "dev", "wwan0", "enable"]);
    assert!(told.contains("\"10.0.0.2 dev wwan0 backup\" precedes it"), "{told}");
    let told: serde_json::Value =
        serde_json::from_str(&path(&["change", "--json", "dev", "wwan0", "enable"])).expect("JSON");
    assert_eq!(told["before"], serde_json::json!(["10.0.0.2 dev wwan0 backup"]));
    std::fs::remove_dir_all(&dir).expect("the folder");
}

#[test]
fn attach_asks_for_a_cgroup_or_a_unit() {
    refused(&["attach"], 2, "<--cgroup <DIR>|--unit <UNIT>>");
    refused(&["attach", "--unit", "a.service", "--cgroup", "/b"], 2, "cannot be used with");
}

#[test]
fn a_path_of_a_lab_that_makes_no_sense_is_named() {
    let up = ["lab", "--name", "never", "up", "--path", "fast"];
    refused(&up, 1, "'fast' is nothing that a path has");
}

/// A folder of this test alone, and `manypath config` with its settings there.
fn config(file: &std::path::Path, args: &[&str]) -> Finished {
    let mut command = Command::new(MANYPATH);
    nobody(&mut command);
    command
        .env("MANYPATH_SYSCTL", file)
        .env("MANYPATH_RULES", "/dev/null")
        .arg("config")
        .args(args);
    finish(command)
}

#[test]
fn a_setting_is_set_shown_with_its_file_and_reset() {
    let file = std::env::temp_dir().join(format!("manypath-config-{}", std::process::id()));
    let at = file.to_str().expect("a name").to_owned();
    let line = |args: &[&str], name: &str| {
        let done = config(&file, args);
        assert_eq!(done.code, Some(0), "{done:?}");
        let line = done.stdout.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("no {name}: {done:?}"))
    };
    let first = line(&["show", "--origin"], "init_rtx_max");
    assert!(first.ends_with("  (default)"), "{first}");
    assert_eq!(line(&["set", "init_rtx_max=3"], "init_rtx_max"), "init_rtx_max = 3");
    let origin = line(&["show", "--origin"], "init_rtx_max");
    assert_eq!(origin, format!("init_rtx_max = 3  ({at}:1)"));
    assert_eq!(line(&["get", "init_rtx_max"], "init_rtx_max"), "init_rtx_max = 3");
    assert_eq!(line(&["file"], "settings"), format!("settings       {at}"));
    assert_eq!(line(&["reset", "init_rtx_max"], "init_rtx_max") + "  (default)", first);
    let wrong = config(&file, &["set", "init_rtx_max"]);
    assert!(
        wrong.code == Some(2) && wrong.stderr.contains("write init_rtx_max=VALUE"),
        "{wrong:?}"
    );
    std::fs::remove_file(&file).expect("the file");
}

/// From the files of 0.2 to one file, which commands change and `--origin` names.
#[test]
fn old_files_are_named_and_moved_into_one() {
    let dir = std::env::temp_dir().join(format!("manypath-migrate-{}", std::process::id()));
    let folder = dir.join("manypath");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("rules"), "remote disable port 25 # mail\n").expect("rules");
    std::fs::write(folder.join("sysctl.conf"), "init_rtx_max = 3\n").expect("settings");
    let run = |args: &[&str]| {
        let mut command = Command::new(MANYPATH);
        nobody(&mut command);
        finish({
            command.env("XDG_CONFIG_HOME", &dir).args(args);
            command
        })
    };
    let first = run(&["config", "get", "init_rtx_max"]);
    assert!(first.stderr.contains("sysctl.conf is in the format of manypath 0.2"), "{first:?}");
    assert_eq!(run(&["config", "migrate"]).code, Some(0));
    let added = run(&["rules", "add", "remote", "disable", "port", "26"]);
    assert_eq!((added.code, added.stderr.as_str()), (Some(0), ""), "{added:?}");
    let config = folder.join("config.toml");
    let text = std::fs::read_to_string(&config).expect("config.toml");
    let expected = "rules = '''\nremote disable port 25 # mail\nremote disable port 26\n'''\n\n[settings]\ninit_rtx_max = 3\n";
    assert_eq!(text, expected);
    std::fs::write(&config, format!("services = [22]\n{text}")).expect("written");
    let shown = run(&["config", "show", "--origin"]).stdout;
    let at = config.display();
    for line in [
        format!("init_rtx_max = 3  ({at}:8)"),
        format!("remote disable port 26  ({at}:4)"),
        format!("local enable port 22  ({at}:1)"),
    ] {
        assert!(shown.lines().any(|it| it == line), "no {line}: {shown}");
    }
    let files = run(&["config", "file"]).stdout;
    assert!(files.lines().all(|line| line.contains(&*at.to_string())), "{files}");
    assert_eq!(run(&["config", "migrate"]).stdout, "no files to move\n");
    std::fs::remove_dir_all(&dir).expect("the folder");
}

/// A machine without uplinks is not well; what is told is about this machine either way.
#[test]
fn doctor_without_a_host_is_about_this_machine() {
    let done = manypath(&["doctor"]);
    assert!(done.stdout.starts_with("this machine"), "{done:?}");
    assert!(done.stdout.contains("manypath run"), "{done:?}");
    refused(&["doctor", "--nat"], 2, "<HOST[:PORT]>");
    refused(&["run", "--sctp", "--client-only", "--", "true"], 125, "--sctp");
    refused(&["status", "--count", "1"], 2, "--watch");
}
