//! What holds of all bytes with which a connection begins, for the tests and the fuzz target `client_hello`.

use super::hello::{Client, MAX_HELLO, judge};

const PROTOCOL: &[u8] = b"manypath/1";
const HEADER: usize = 5;

/// Judges the bytes as they come, and the same message in other records.
pub(super) fn check(bytes: &[u8]) -> Client {
    let verdict = judge(bytes, PROTOCOL);
    let step = bytes.len() / 64 + 1;
    let verdicts: Vec<_> =
        (0..bytes.len()).step_by(step).map(|len| judge(&bytes[..len], PROTOCOL)).collect();
    let known = verdicts.into_iter().chain([verdict]).skip_while(|it| *it == Client::Unknown);
    assert!(known.clone().all(|it| it == verdict), "more bytes change nothing: {verdict:?}");
    assert!(bytes.len() < MAX_HELLO || verdict != Client::Unknown, "nobody waits for ever");
    if verdict == Client::Ours {
        let message = message(bytes);
        assert!(message.windows(PROTOCOL.len()).any(|part| part == PROTOCOL), "it is named");
        for size in [40, 1000] {
            let cut = records(&message, size);
            assert!(cut.len() > MAX_HELLO || judge(&cut, PROTOCOL) == Client::Ours, "{size}");
        }
    }
    verdict
}

/// What the handshake records at the front hold.
fn message(mut bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    while let [22, 3, _, high, low, rest @ ..] = bytes {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        message.extend(&rest[..len]);
        bytes = &bytes[HEADER + len..];
    }
    message
}

fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat();
    message.chunks(size).flat_map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The name of an input begins with the verdict, but for those that a fuzzer found.
    #[test]
    fn inputs_of_the_corpus_are_judged_as_their_names_say() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/client_hello");
        let mut seen = [0; 3];
        for entry in std::fs::read_dir(corpus).expect("the corpora are in the repository") {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let verdict = check(&std::fs::read(&path).unwrap());
            let names =
                [("ours", Client::Ours), ("other", Client::Other), ("unknown", Client::Unknown)];
            for (count, (prefix, wanted)) in seen.iter_mut().zip(names) {
                if name.starts_with(prefix) {
                    assert_eq!(verdict, wanted, "{name}");
                    *count += 1;
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 1), "{seen:?}");
    }
}
