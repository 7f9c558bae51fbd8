//! C programs over the shared library.

mod support;

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
