//! C programs over the shared library.

use crate::support;

use support::{COMPILERS, Scratch, example, in_own_network};

/// A script that begins a server, waits until it is ready, and runs a client to the end of both.
fn session(server: &str, client: &str) -> String {
    format!(
        "coproc server {{ {server}; }}; pid=$server_PID; exec 3<&${{server[0]}}; \
         read -r ready <&3; [ \"$ready\" = ready ]; {client}; cat <&3; wait $pid"
    )
}

#[test]
fn messages_of_many_sizes_come_back_over_a_one_to_one_socket() {
    let scratch = Scratch::new("echo");
    for compiler in COMPILERS {
        let echo = example(&scratch, "echo", compiler);
        let said = in_own_network(&session(
            &format!("{echo} server 127.0.0.1 7"),
            &format!("{echo} client 127.0.0.1 7 100"),
        ));
        assert!(said.contains("100 messages came back, 10 streams"), "{said}");
    }
}

#[test]
fn poll_tells_of_what_came_before_accept() {
    let scratch = Scratch::new("waiting");
    let waiting = example(&scratch, "waiting", "gcc");
    assert_eq!(in_own_network(&format!("{waiting} 127.0.0.1 7")), "ready at once\n");
}

#[test]
fn bad_arguments_end_in_errors_and_all_of_loopback_can_be_bound_to() {
    let scratch = Scratch::new("errors");
    let errors = example(&scratch, "errors", "gcc");
    // The file is no socket, whatever the standard output of tests is.
    let said = in_own_network(&format!("{errors} 7 >{0} || :; cat {0}", scratch.path("said")));
    assert_eq!(said, "all as expected\n");
}

#[test]
fn a_one_to_many_socket_serves_several_clients_and_is_told_of_them() {
    let scratch = Scratch::new("chat");
    for compiler in COMPILERS {
        let chat = example(&scratch, "chat", compiler);
        let client = format!("{chat} client 127.0.0.1 9 20");
        let said = in_own_network(&session(
            &format!("{chat} server 127.0.0.1 9 3"),
            &format!("{client} & a=$!; {client} & b=$!; {client}; wait $a $b"),
        ));
        assert!(said.contains("3 clients came, 3 went"), "{said}");
        assert_eq!(said.matches("20 answers").count(), 3, "{said}");
    }
}

/// Two hosts with two wires between them, in the script of a network of its own.
const TWO_WIRES: &str = "unshare --net sleep 50 >/dev/null 2>&1 & far=$!; \
    for i in $(seq 100); do \
        [ $(readlink /proc/$far/ns/net) != $(readlink /proc/$$/ns/net) ] && break; sleep 0.01; done; \
    there=\"nsenter --target $far --net\"; \
    for n in 1 2; do \
        ip link add near$n type veth peer name far$n netns $far; \
        ip address add 10.9.$n.1/24 dev near$n; $there ip address add 10.9.$n.2/24 dev far$n; \
        ip link set near$n up; $there ip link set far$n up; done";

#[test]
fn several_addresses_at_both_ends_are_several_paths() {
    let scratch = Scratch::new("multihomed");
    for compiler in COMPILERS {
        let program = example(&scratch, "multihomed", compiler);
        let said = in_own_network(&format!(
            "{TWO_WIRES}; {}; kill $far",
            session(
                &format!("$there {program} server 99 10.9.1.2 10.9.2.2"),
                &format!("{program} client 99 20000000 10.9.1.2 10.9.2.2"),
            )
        ));
        assert!(said.contains("received 20000000 bytes"), "{said}");
        for address in ["10.9.1.2", "10.9.2.2"] {
            assert!(
                said.contains(&format!("{address} state 2 mtu")),
                "{address} is not active: {said}"
            );
        }
    }
}

#[test]
fn an_association_follows_the_addresses_of_the_host() {
    let scratch = Scratch::new("moving");
    for compiler in COMPILERS {
        let moving = example(&scratch, "moving", compiler);
        let log = scratch.path(&format!("log-{compiler}"));
        let said = in_own_network(&format!(
            "{TWO_WIRES}; ip address del 10.9.2.1/24 dev near2; \
             $there {moving} server 7 >{log}.server & until grep -qs ready {log}.server; do sleep 0.02; done; \
             {moving} client 10.9.1.2 7 10.9.1.1 10.9.2.1 >{log} & client=$!; \
             until grep -qs connected {log}; do sleep 0.02; done; \
             ip address add 10.9.2.1/24 dev near2; until grep -qs both {log}; do sleep 0.02; done; \
             ip address del 10.9.1.1/24 dev near1; wait $client; cat {log}; kill $far"
        ));
        assert!(said.ends_with("connected\nboth\nmoved\n"), "{said}");
    }
}

#[test]
fn one_message_in_many_calls_is_larger_than_the_send_buffer() {
    let scratch = Scratch::new("record");
    for compiler in COMPILERS {
        let record = example(&scratch, "record", compiler);
        let said = in_own_network(&session(
            &format!("{record} server 127.0.0.1 7"),
            &format!("{record} client 127.0.0.1 7 10000000"),
        ));
        assert!(said.contains("one message of 10000000 bytes, 0 of them wrong"), "{said}");
        assert_eq!(said.matches(", 0 of them wrong").count(), 2, "{said}");
    }
}

#[test]
fn no_request_is_lost_when_one_of_two_paths_is_cut() {
    let scratch = Scratch::new("diameter");
    let program = example(&scratch, "diameter", "gcc");
    // Data may keep to one of the paths: each is cut once.
    for path in [1, 2] {
        let log = scratch.path(&format!("log{path}"));
        // Frames to a neighbour that does not exist are lost without a word.
        let nobody = format!("lladdr 02:00:00:00:00:99 dev near{path} nud permanent");
        let nobody_there = nobody.replace("near", "far");
        let said = in_own_network(&format!(
            "{TWO_WIRES}; $there {program} server 3868 10.9.1.2 10.9.2.2 >{log}.server & server=$!; \
             until grep -qs ready {log}.server; do sleep 0.02; done; \
             {program} client 3868 1000 500 10.9.1.2 10.9.2.2 >{log} & client=$!; \
             until grep -qs connected {log}; do sleep 0.02; done; sleep 0.7; \
             ip neigh replace 10.9.{path}.2 {nobody}; \
             $there ip neigh replace 10.9.{path}.1 {nobody_there}; \
             wait $client; cat {log}; kill $server $far"
        ));
        assert!(said.contains("1000 requests, 1000 answers, 0 lost"), "path {path}: {said}");
    }
}

#[test]
fn many_associations_come_and_go_in_one_process() {
    let scratch = Scratch::new("many");
    for compiler in COMPILERS {
        let many = example(&scratch, "many", compiler);
        let said = in_own_network(&session(
            &format!("{many} server 127.0.0.1 7 200 30000"),
            &format!("{many} client 127.0.0.1 7 200 30000 20 1000 </dev/null"),
        ));
        assert!(said.contains("up 200") && said.contains("gone 200"), "{said}");
    }
}

#[test]
fn what_a_call_brings_about_at_another_socket_is_done_when_it_returns() {
    let scratch = Scratch::new("loopback");
    let loopback = example(&scratch, "loopback", "gcc");
    for way in ["udp", "native"] {
        let environment = format!("export MANYPATH_SCTP_ENCAPSULATION={way} MANYPATH_SCTP_ALONE=1");
        assert_eq!(in_own_network(&format!("{environment}; {loopback} 7")), "nothing waited\n");
    }
}

#[test]
fn the_static_library_serves_as_the_shared_one_does() {
    let scratch = Scratch::new("static");
    let echo = support::static_example(&scratch, "echo");
    let said = in_own_network(&session(
        &format!("{echo} server 127.0.0.1 7"),
        &format!("{echo} client 127.0.0.1 7 10"),
    ));
    assert!(said.contains("10 messages came back"), "{said}");
}

#[test]
fn the_examples_run_clean_under_valgrind() {
    let scratch = Scratch::new("valgrind");
    let leaks = " --leak-check=full --errors-for-leak-kinds=definite";
    for (name, server, client) in [
        ("echo", "server 127.0.0.1 7", "client 127.0.0.1 7 5"),
        ("chat", "server 127.0.0.1 9 1", "client 127.0.0.1 9 5"),
        ("record", "server 127.0.0.1 7", "client 127.0.0.1 7 500000"),
        ("serve", "server 127.0.0.1 7 1", "client 127.0.0.1 7 20"),
    ] {
        let program = example(&scratch, name, "gcc");
        // In the child of a fork nobody has the stacks of the other threads any more.
        let leaks = if name == "serve" { "" } else { leaks };
        let check = format!("valgrind --quiet --error-exitcode=99{leaks}");
        in_own_network(&session(
            &format!("{check} {program} {server}"),
            &format!("{check} {program} {client}"),
        ));
    }
}

#[test]
fn threads_share_sockets() {
    let scratch = Scratch::new("threads");
    for compiler in COMPILERS {
        let threads = example(&scratch, "threads", compiler);
        let said = in_own_network(&format!("{threads} 127.0.0.1 7 8 100"));
        assert!(said.contains("8 threads, 100 messages each"), "{said}");
    }
}

#[test]
fn children_of_a_fork_serve_clients_whose_descriptors_the_parent_has_closed() {
    let scratch = Scratch::new("serve");
    for compiler in COMPILERS {
        let serve = example(&scratch, "serve", compiler);
        let client = format!("{serve} client 127.0.0.1 7 150");
        for server in ["server", "before"] {
            let said = in_own_network(&session(
                &format!("{serve} {server} 127.0.0.1 7 3"),
                &format!("{client} & a=$!; {client} & b=$!; {client}; wait $a $b"),
            ));
            assert_eq!(said.matches("150 messages came back").count(), 3, "{said}");
            assert!(said.contains("3 children, 0 failed"), "{said}");
        }
    }
}

#[test]
fn after_a_fork_the_child_cannot_listen_for_its_parent_and_may_open_its_own() {
    let scratch = Scratch::new("fork");
    for compiler in COMPILERS {
        let fork = example(&scratch, "fork", compiler);
        let said = in_own_network(&format!("{fork} 127.0.0.1 7 2>&1"));
        assert!(said.contains("the child had a socket of its own"), "{said}");
        assert!(said.contains("can use SCTP sockets of its parent"), "{said}");
    }
}

#[test]
fn no_tool_sees_a_race_between_threads() {
    let scratch = Scratch::new("races");
    let threads = example(&scratch, "threads", "gcc");
    for tool in ["helgrind", "drd"] {
        let check = format!("valgrind --quiet --tool={tool} --error-exitcode=99");
        let said = in_own_network(&format!("{check} {threads} 127.0.0.1 7 3 5"));
        assert!(said.contains("3 threads, 5 messages each"), "{said}");
        // The tool would tell.
        let race = race(&scratch);
        in_own_network(&format!("{check} {race} 2>/dev/null && exit 1; [ $? = 99 ]"));
    }
}

/// A program whose threads do not ask each other.
fn race(scratch: &Scratch) -> String {
    let text = "#include <pthread.h>\nstatic volatile int n;\n\
        static void *add(void *none) { n++; return none; }\n\
        int main(void) { pthread_t one; pthread_create(&one, 0, add, 0); n++; \
        return pthread_join(one, 0); }\n";
    let (source, program) = (scratch.file("race.c", text), scratch.path("race"));
    support::run("gcc", &["-g", &source, "-o", &program, "-lpthread"]);
    program
}

#[test]
fn the_examples_in_rust_do_what_they_say() {
    let examples = support::libraries().parent().map(|folder| folder.join("examples"));
    let program = |name| examples.as_ref().map(|all| all.join(name).display().to_string());
    let (echo, telemetry) = (program("echo").unwrap(), program("telemetry").unwrap());
    let echo_session = session(
        &format!("exec {echo} server 127.0.0.1:7"),
        &format!("{echo} client 127.0.0.1:7 100"),
    );
    // This server serves for ever.
    let said = in_own_network(&echo_session.replace("cat <&3; wait $pid", "kill $pid"));
    assert!(said.contains("100 messages came back over 8 streams from 1 addresses"), "{said}");
    let report = format!("{telemetry} report 127.0.0.1:9 50");
    let said = in_own_network(&session(
        &format!("{telemetry} collect 127.0.0.1:9 2"),
        &format!("{report} & one=$!; {report}; wait $one"),
    ));
    assert!(said.contains("2 senders, 100 samples, 2 ends"), "{said}");
}

#[test]
fn ends_of_one_link_talk_by_their_link_local_addresses() {
    let scratch = Scratch::new("links");
    let echo = support::libraries().parent().map(|all| all.join("examples/echo")).unwrap();
    let (echo, log) = (echo.display(), scratch.path("log"));
    for way in ["udp", "native"] {
        let said = in_own_network(&format!(
            "export MANYPATH_SCTP_ENCAPSULATION={way}; {TWO_WIRES}; \
             ip address add fe80::1/64 dev near1 nodad; $there ip address add fe80::2/64 dev far1 nodad; \
             number() {{ $2 ip -o link show $1 | cut -d: -f1; }}; \
             $there {echo} server [fe80::2%$(number far1 \"$there\")]:7 >{log}-{way} & server=$!; \
             until grep -qs ready {log}-{way}; do sleep 0.02; done; \
             {echo} client [fe80::2%$(number near1)]:7 100; kill $server $far"
        ));
        let all = "100 messages came back over 8 streams from 1 addresses";
        assert!(said.contains(all), "{way}: {said}");
    }
}

#[test]
fn messages_come_back_directly_over_ip() {
    let scratch = Scratch::new("native");
    let echo = example(&scratch, "echo", "gcc");
    let said = in_own_network(&format!(
        "export MANYPATH_SCTP_ENCAPSULATION=native; {}",
        session(&format!("{echo} server 127.0.0.1 7"), &format!("{echo} client 127.0.0.1 7 10"),)
    ));
    assert!(said.contains("10 messages came back"), "{said}");
}

#[test]
fn a_port_where_nobody_listens_refuses_at_once() {
    let scratch = Scratch::new("refused");
    let echo = example(&scratch, "echo", "gcc");
    let said = in_own_network(&format!(
        "{echo} server 127.0.0.1 7 >/dev/null & sleep 0.5; \
         {echo} client 127.0.0.1 8 1 2>&1 && exit 9; kill %1"
    ));
    assert!(said.contains("connect: Connection refused"), "{said}");
}

/// Directly over IP nobody answers for ports that may be another stack's, unless there is none.
#[test]
fn a_process_that_has_all_sctp_to_itself_refuses_ports_directly_over_ip() {
    let scratch = Scratch::new("alone");
    let echo = example(&scratch, "echo", "gcc");
    let log = scratch.path("log");
    let wrong = format!("MANYPATH_SCTP_PARAMETERS=mine {echo} client 10.9.1.2 7 1");
    let said = in_own_network(&format!(
        "export MANYPATH_SCTP_ENCAPSULATION=native MANYPATH_SCTP_ALONE=1; \
         export MANYPATH_SCTP_PARAMETERS=rfc9260; {TWO_WIRES}; \
         $there {echo} server 10.9.1.2 7 >{log} & until grep -qs ready {log}; do sleep 0.02; done; \
         {echo} client 10.9.1.2 8 1 2>&1 && exit 9; {echo} client 10.9.1.2 7 10; \
         {wrong} 2>&1 && exit 9; kill $far"
    ));
    assert!(said.contains("connect: Connection refused"), "{said}");
    assert!(said.contains("10 messages came back"), "{said}");
    assert!(said.contains("MANYPATH_SCTP_PARAMETERS is 'mine'"), "{said}");
}
