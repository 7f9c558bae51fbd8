//! The record layer beside a second one, in Python and written from the texts alone: each opens what the other
//! has sealed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong is to stop the test")]

use manypath_aead::CipherSuite;
use manypath_engine::protection::{
    OpenError, OpeningKey, RECORD_HEADER_LEN, RECORD_TRAILER_LEN, RecordKey, SealingKey,
};
use manypath_wire::VerificationTag;
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::{CommonHeader, PacketWriter};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The other implementation, which answers line by line.
struct Judge {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Judge {
    fn new() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/second_record_layer.py");
        let mut command = Command::new("python3");
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 is there: scripts/setup test");
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input.as_ref().unwrap(), "{question}").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "python3-cryptography is there: scripts/setup test");
        line.trim_end().to_owned()
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input.take();
        let _gone = self.child.wait();
    }
}

/// Key material as both implementations have it.
struct Material {
    suite: CipherSuite,
    key: Vec<u8>,
    iv: [u8; 12],
    sn: Vec<u8>,
}

impl Material {
    /// Derived by the judge from a secret.
    fn derived(judge: &mut Judge, suite: CipherSuite) -> Self {
        let secret = hex(&[0x5A; 48]);
        let answer = judge.ask(&format!("derive {:x} {secret}", suite.id()));
        let parts: Vec<_> = answer.split(' ').map(unhex).collect();
        let [key, iv, sn] = &parts[..] else { panic!("{answer}") };
        Self { suite, key: key.clone(), iv: iv[..].try_into().unwrap(), sn: sn.clone() }
    }

    fn key(&self) -> RecordKey {
        self.suite.key(&self.key, self.iv, &self.sn).unwrap()
    }

    /// What the judge is to do with it.
    fn order(&self, command: &str, epoch: u64, number: u64, content: &[u8]) -> String {
        let (key, iv, sn) = (hex(&self.key), hex(&self.iv), hex(&self.sn));
        let (suite, content) = (self.suite.id(), hex(content));
        format!("{command} {suite:x} {key} {iv} {sn} {epoch} {number} {content}")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// Content of so many bytes.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len) as u8).collect()
}

fn sealed(key: &mut SealingKey, content: &[u8]) -> Vec<u8> {
    let mut record = vec![0; RECORD_HEADER_LEN];
    record.extend(content);
    record.resize(record.len() + RECORD_TRAILER_LEN, 0);
    key.seal(&mut record).unwrap();
    record
}

/// A packet whose chunks are a COOKIE ACK and a SHUTDOWN ACK.
fn packet(key: &mut SealingKey) -> Vec<u8> {
    let tag = VerificationTag(7);
    let header = CommonHeader { source_port: 1, destination_port: 2, tag };
    let mut bytes = vec![0xFF; 100];
    let mut writer = PacketWriter::for_record(&mut bytes, header);
    writer.push(&Chunk::CookieAck).unwrap();
    writer.push(&Chunk::ShutdownAck).unwrap();
    let len = writer.finish_record(false, |record| key.seal(record).is_ok());
    bytes.truncate(len);
    bytes
}

const LENGTHS: [usize; 8] = [0, 4, 8, 16, 20, 100, 1432, 16_380];

#[test]
fn the_other_implementation_opens_what_we_seal() {
    let mut judge = Judge::new();
    for suite in CipherSuite::ALL {
        for epoch in [3, 4, 5, 6] {
            let keys = Material::derived(&mut judge, suite);
            let mut sealing = SealingKey::new(epoch, keys.key());
            for (sequence, len) in LENGTHS.into_iter().enumerate() {
                let (content, sequence) = (content(len), sequence as u64);
                let mut record = sealed(&mut sealing, &content);
                let answer = judge.ask(&keys.order("open", epoch, sequence, &record));
                assert_eq!(answer.trim_end(), format!("{sequence} {}", hex(&content)).trim_end());
                *record.last_mut().unwrap() ^= 1;
                assert_eq!(judge.ask(&keys.order("open", epoch, sequence, &record)), "bad");
            }
        }
    }
}

#[test]
fn the_other_implementation_reads_whole_packets() {
    let mut judge = Judge::new();
    for suite in CipherSuite::ALL {
        let keys = Material::derived(&mut judge, suite);
        let mut sealing = SealingKey::new(3, keys.key());
        for sequence in 0..3 {
            let answer = judge.ask(&format!("unpack {}", hex(&packet(&mut sealing))));
            let record = unhex(answer.strip_prefix("0 ").unwrap());
            let chunks = judge.ask(&keys.order("open", 3, sequence, &record));
            assert_eq!(chunks, format!("{sequence} 0b00000408000004"));
        }
    }
}

#[test]
fn we_open_what_the_other_implementation_seals() {
    let mut judge = Judge::new();
    for suite in CipherSuite::ALL {
        let keys = Material::derived(&mut judge, suite);
        let mut opening = OpeningKey::new(7, keys.key());
        // Far beyond 16 bits, with gaps and out of order.
        for sequence in [0, 2, 1, 30_000, 60_000, 65_536, 65_535, 90_000, 120_000, 100_000] {
            let content = content(LENGTHS[sequence as usize % LENGTHS.len()]);
            let record = unhex(&judge.ask(&keys.order("seal", 7, sequence, &content)));
            assert_eq!(opening.open(&mut record.clone()), Ok(&content[..]), "{sequence}");
            assert_eq!(opening.open(&mut record.clone()), Err(OpenError::Replayed));
            let mut forged = record;
            forged[3] ^= 0x80;
            assert!(opening.open(&mut forged).is_err());
        }
    }
}

#[test]
fn both_implementations_seal_the_same_bytes() {
    let mut judge = Judge::new();
    for suite in CipherSuite::ALL {
        let keys = Material::derived(&mut judge, suite);
        let mut sealing = SealingKey::new(3, keys.key());
        for sequence in 0..70_000_u64 {
            let record = sealed(&mut sealing, b"same");
            if sequence % 7_919 == 0 || sequence == 65_536 {
                assert_eq!(hex(&record), judge.ask(&keys.order("seal", 3, sequence, b"same")));
            }
        }
    }
}
