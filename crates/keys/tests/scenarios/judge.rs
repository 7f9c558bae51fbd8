//! Key management beside a second implementation, in Python and written from the texts alone, that has TLS, DTLS chunks
//! and a small SCTP of its own (`tests/judge/peer.py`).

use crate::hostile::alter;
use crate::managed::Managed;
use crate::messages::identity;
use crate::pair::{PORT_A, PORT_Z, Side, address, millis};
use manypath_engine::{CloseReason, Duration, PathAddr};
use manypath_keys::{Failure, PublicKey};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) const SUITES: [&str; 3] = ["1301", "1302", "1303"];

/// The other implementation, which answers each line by some.
struct Judge {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Judge {
    fn new(arguments: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judge/peer.py");
        let mut command = Command::new("python3");
        command.arg("-B").arg(script).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn ask(&mut self, question: &str) -> Vec<String> {
        writeln!(self.input.as_ref().unwrap(), "{question}").unwrap();
        let mut answers = Vec::new();
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).unwrap();
            assert!(!line.is_empty(), "python3-cryptography is there: scripts/setup test");
            match line.trim_end() {
                "." => return answers,
                answer => answers.push(answer.to_owned()),
            }
        }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input.take();
        let _gone = self.child.wait();
    }
}

/// One end of ours, and the judge as the other.
pub(crate) struct Trial {
    ours: Side,
    pub(crate) it: Managed,
    /// All packets of both ends.
    pub(crate) packets: Vec<(Side, PathAddr, Vec<u8>)>,
    judge: Judge,
    /// What the judge has told.
    told: Vec<String>,
    /// What is done to each packet on its way.
    mangle: fn(&mut Vec<u8>),
}

impl Trial {
    /// `ours` is A, which connects, or Z.
    pub(crate) fn new(ours: Side, arguments: &[&str]) -> Self {
        let mut it = Managed::new(1);
        // Nothing reaches the end in whose place the judge is.
        it.pair.cut(1);
        let port = if ours == Side::A { PORT_Z } else { PORT_A }.to_string();
        let judge = Judge::new(&[arguments, &["--port", &port]].concat());
        Self { ours, it, packets: Vec::new(), judge, told: Vec::new(), mangle: |_| {} }
    }

    pub(crate) fn connect(&mut self) {
        match self.ours {
            Side::A => self.it.connect(),
            Side::Z => self.ask(&format!("connect {PORT_Z}")),
        }
        self.run(millis(500));
    }

    fn ask(&mut self, question: &str) {
        for answer in self.judge.ask(question) {
            match answer.strip_prefix("packet ") {
                Some(packet) => self.deliver(unhex(packet)),
                None => self.told.push(answer),
            }
        }
    }

    /// The judge's packet arrives.
    fn deliver(&mut self, mut packet: Vec<u8>) {
        (self.mangle)(&mut packet);
        let (now, ours) = (self.it.pair.now, self.ours);
        let path = PathAddr { local: address(ours, 1), remote: address(ours.other(), 1) };
        let back = PathAddr { local: path.remote, remote: path.local };
        self.packets.push((ours.other(), back, packet.clone()));
        self.it.pair.node(ours).endpoint.handle_packet(now, path, &packet);
    }

    fn run(&mut self, time: Duration) {
        let end = self.it.pair.now + time;
        while self.it.pair.now < end {
            self.it.run(millis(10));
            for (side, path, mut packet) in std::mem::take(&mut self.it.pair.recorded) {
                (self.mangle)(&mut packet);
                self.packets.push((side, path, packet.clone()));
                self.ask(&format!("packet {}", hex(&packet)));
            }
        }
    }

    fn identity(&mut self) -> PublicKey {
        let answer = self.judge.ask("identity").concat();
        let key = unhex(answer.strip_prefix("identity ").unwrap());
        PublicKey::from(<[u8; 32]>::try_from(key).unwrap())
    }

    pub(crate) fn send(&mut self, payload: &[u8]) {
        self.it.send(self.ours, payload);
        self.run(millis(500));
    }

    fn failure(&mut self) -> Option<Failure> {
        self.it.end(self.ours).failure.clone()
    }

    /// Whether the judge has told something that begins so.
    fn has_told(&self, start: &str) -> bool {
        self.told.iter().any(|line| line.starts_with(start))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

#[test]
fn the_other_implementation_is_understood_in_both_roles_with_each_suite() {
    for (ours, suite) in [Side::A, Side::Z].into_iter().flat_map(|it| SUITES.map(|to| (it, to))) {
        let public = identity();
        let known = hex(public.public_key().as_bytes());
        let mut trial = Trial::new(ours, &["--suites", suite, "--known", &known]);
        let judge = trial.identity();
        trial.it.end(ours).identity = public;
        trial.it.end(ours).known = Some(judge);
        trial.connect();
        assert_eq!(trial.it.end(ours).protected.map(|(peer, _)| peer), Some(judge), "{suite}");
        assert_eq!(trial.told, [format!("epoch 3 {suite}"), format!("protected {known}")]);
        let long = vec![7; 5_000];
        trial.send(&long);
        trial.ask(&format!("send 1 0 {}", hex(&long)));
        trial.run(millis(500));
        assert_eq!(trial.told.pop(), Some(format!("message 1 0 {}", hex(&long))));
        assert_eq!(trial.it.end(ours).received.pop().unwrap().0, long);
    }
}

#[test]
fn both_implementations_change_keys_together() {
    for ours in [Side::A, Side::Z] {
        let mut trial = Trial::new(ours, &[]);
        trial.connect();
        for epoch in 4..9 {
            match ours {
                Side::A => trial.it.rekey(Side::A),
                Side::Z => trial.ask("rekey"),
            }
            trial.run(millis(500));
            assert!(trial.told.pop().unwrap().starts_with(&format!("epoch {epoch} ")));
            trial.send(b"sealed");
            assert_eq!(trial.told.pop().unwrap(), "message 1 0 7365616c6564");
            trial.ask("send 1 0 00");
            trial.run(millis(500));
            assert_eq!(trial.it.end(ours).received.pop().unwrap().0, [0][..]);
        }
        assert_eq!(trial.failure(), None);
    }
}

/// The judge drops what is not sealed when both ends have said that their keys are valid.
#[test]
fn all_that_is_sent_with_keys_is_protected() {
    let mut trial = Trial::new(Side::A, &[]);
    trial.connect();
    trial.run(Duration::from_secs(60));
    assert!(!trial.has_told("dropped"), "{:?}", trial.told);
}

#[test]
fn a_parameter_that_is_altered_on_the_way_gives_the_ends_different_keys() {
    let init = |packet: &mut Vec<u8>| {
        if packet[12] == 1 {
            alter(packet)
        }
    };
    let init_ack = |packet: &mut Vec<u8>| {
        if packet[12] == 2 {
            alter(packet)
        }
    };
    for mangle in [init as fn(&mut Vec<u8>), init_ack] {
        for ours in [Side::A, Side::Z] {
            let mut trial = Trial::new(ours, &[]);
            trial.mangle = mangle;
            trial.it.waiting = vec![b"not for everybody"];
            trial.connect();
            trial.run(Duration::from_secs(40));
            match ours {
                // It has no more to wait for than that its packets are acknowledged.
                Side::A => assert!(trial.has_told("dropped forged")),
                Side::Z => assert_eq!(trial.failure(), Some(Failure::Altered)),
            }
            assert!(!trial.has_told("message"), "{:?}", trial.told);
            assert_eq!(trial.it.end(ours).received.len(), 0);
        }
    }
}

#[test]
fn a_signature_that_does_not_hold_is_refused() {
    for ours in [Side::A, Side::Z] {
        let mut trial = Trial::new(ours, &["--bad-signature"]);
        trial.connect();
        assert!(matches!(trial.failure(), Some(Failure::Tls(_))), "{:?}", trial.failure());
        assert_eq!(trial.it.end(ours).protected, None);
        assert!(trial.has_told("aborted"));
    }
}

#[test]
fn either_implementation_refuses_another_key_than_the_known_one() {
    for ours in [Side::A, Side::Z] {
        let (mut trial, known) = (Trial::new(ours, &[]), identity().public_key());
        let presented = trial.identity();
        trial.it.end(ours).known = Some(known);
        trial.connect();
        assert_eq!(trial.failure(), Some(Failure::OtherKey { known, presented }));
        let mut trial = Trial::new(ours, &["--known", &hex(known.as_bytes())]);
        trial.connect();
        assert!(trial.has_told("refused the-peer-has-another-key"), "{:?}", trial.told);
        assert!(!trial.has_told("protected"));
        let closed = trial.it.end(ours).closed.clone();
        assert!(matches!(closed, Some(CloseReason::PeerAborted(_))), "{closed:?}");
    }
}
