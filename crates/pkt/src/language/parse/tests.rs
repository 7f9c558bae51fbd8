use super::parse;
use crate::language::Why;
use crate::language::ast::{Action, Arg, Body, Direction, Value, When};
use std::collections::BTreeMap;
use std::time::Duration;

const SCRIPT: &str = r#"
--tolerance_usecs=75000
--ip_version=ipv4
 0.0 `sysctl -w net.inet.sctp.ecn_enable=0`
+0.0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0.0 fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)
+0.1 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
+0.0~+0.2 > sctp: INIT[flgs=0, tag=1, a_rwnd=..., os=..., is=..., tsn=0, ...]
+0.0 < sctp(bad_crc32c, tag=7)/udp(9899>1234): SACK[flgs=0, cum_tsn=0, a_rwnd=1500, gaps=[2:3, 5:5], dups=[1]];
       DATA[flgs=BE, len=16, tsn=1, sid=0, ssn=0, ppid=0]
*    > sctp: FORWARD_TSN[cum_tsn=1, ids=[{0,1}]]
+0.5 < icmp unreachable frag_needed mtu 1500 [sctp(2)]
+0...1.5 recvmsg(3, {msg_name(...)=..., msg_iov(1)=[{iov_base=..., iov_len=1000}], msg_flags=MSG_EOR}, 0) = 1000
"#;

fn script(text: &str) -> Result<crate::language::ast::Script, crate::language::Stop> {
    parse(text, &BTreeMap::new())
}

#[test]
fn everything_that_scripts_use_is_understood() {
    let script = script(SCRIPT).unwrap();
    assert_eq!(script.options.len(), 2);
    assert_eq!(script.options[0], ("tolerance_usecs".into(), Some("75000".into())));
    let lines: Vec<_> = script.events.iter().map(|event| event.line).collect();
    assert_eq!(lines, [4, 5, 6, 7, 8, 9, 11, 12, 13]);
    let Action::Call(connect) = &script.events[3].action else { panic!("no call") };
    assert_eq!((&connect.result, connect.errno.as_deref()), (&Value::Int(-1), Some("EINPROGRESS")));
    let within = When::AfterBetween(Duration::ZERO, Duration::from_millis(200));
    assert_eq!(script.events[4].when, within);
    let Action::Packet(packet) = &script.events[5].action else { panic!("no packet") };
    assert_eq!((packet.direction, packet.udp), (Direction::Inbound, Some((9899, 1234))));
    let Body::Chunks(header, chunks) = &packet.body else { panic!("no chunks") };
    assert_eq!((header.bad_checksum, header.tag, chunks.len()), (true, Some(7), 2));
    let gaps = Value::List(vec![Value::Pair(2, 3), Value::Pair(5, 5)]);
    assert_eq!(chunks[0].get("gaps"), Some(&gaps));
    let Action::Call(receive) = &script.events[8].action else { panic!("no call") };
    assert_eq!(receive.end, Some(Duration::from_millis(1500)));
    let Value::Struct(message) = &receive.args[1] else { panic!("no structure") };
    assert_eq!(message[0], Arg::Named("msg_name".into(), Value::Any));
}

#[test]
fn errors_tell_line_and_reason() {
    let cases = [
        ("\n+0.0 socket(", 2, "ends too early"),
        ("+0.0 > sctp: DATA[flgs=BE\n+0.0 close(3) = 0", 2, "expected ']'"),
        ("+0.0 close(3)", 1, "expected '='"),
        ("+0.0", 1, "after a time stamp"),
        ("* < sctp: COOKIE_ACK[flgs=0]", 1, "outbound packets only"),
        ("0.3~0.1 > sctp: COOKIE_ACK[flgs=0]", 1, "backwards"),
        ("-1.0 close(3) = 0", 1, "no time"),
        ("+0.0 < sctp: [0x100]", 1, "expected bytes"),
        ("+0.0 < sctp(tag=-1): COOKIE_ACK[flgs=0]", 1, "out of range"),
        ("close(3) = 0", 1, "expected a time"),
    ];
    for (text, line, reason) in cases {
        let stop = script(text).unwrap_err();
        assert_eq!(stop.line, line, "{text}");
        let Why::Syntax(found) = &stop.why else { panic!("{text}: {stop:?}") };
        assert!(found.contains(reason), "{text}: {found}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let text = format!("+0.0 f({}) = 0", "[".repeat(100_000));
    assert!(matches!(script(&text).unwrap_err().why, Why::Syntax(_)));
    let text = format!("+0.0 f({}) = 0", "1|[".repeat(100_000));
    assert!(matches!(script(&text).unwrap_err().why, Why::Syntax(_)));
}

#[test]
fn other_protocols_are_gaps() {
    assert!(matches!(script("+0 < tcp: x").unwrap_err().why, Why::Gap(_)));
    assert!(matches!(script("+0 < S 0:0(0) win 100").unwrap_err().why, Why::Gap(_)));
    assert!(matches!(
        script("+0 > [flowlabel] sctp: COOKIE_ACK[flgs=0]").unwrap_err().why,
        Why::Gap(_)
    ));
}
