//! Transfers between our native program (`examples/native`) and usrsctp (`tests/peers/usrsctp`) over UDP,
//! on two hosts of a lab. What each row shows, and how it is repeated by hand: `docs/interop.md`.

use crate::interop;

use interop::{Case, Initiator, Outcome, programs, run};

const CLEAN: &str = "rate=100mbit,delay=1ms,queue=60";
const LOSSY: &str = "rate=100mbit,delay=1ms,queue=60,loss=1%";
const MB: u64 = 1_000_000;
const INITIATORS: [Initiator; 2] = [Initiator::Ours, Initiator::Theirs];

const DATA: u8 = 0;
const SACK: u8 = 3;
const NR_SACK: u8 = 16;
const I_DATA: u8 = 64;
const RE_CONFIG: u8 = 130;
const FORWARD_TSN: u8 = 192;
const I_FORWARD_TSN: u8 = 194;

/// Buffers of less than 100 packets: tshark warns of SACKs that acknowledge more than 100 TSNs beyond a
/// gap, which is a matter of the size of windows alone.
const TRANSFER: Case<'_> = Case {
    initiator: Initiator::Ours,
    path: CLEAN,
    ipv6: false,
    bytes: [3 * MB, 3 * MB],
    seconds: 60,
    our_options: &["buffer=120000"],
    their_options: &["buffer=120000"],
};

/// A transfer for an idle machine and an optimised build.
const LARGE: Case<'_> = Case { bytes: [100 * MB, 100 * MB], seconds: 400, ..TRANSFER };

/// What the ends say of themselves, and the chunks from us and from usrsctp.
fn seen(case: &Case<'_>) -> Option<Outcome> {
    let outcome = run(programs()?, case)?;
    println!("{case:?}\n  ours   {}\n  theirs {}", outcome.ours, outcome.theirs);
    println!("  chunks {:?}", outcome.chunks);
    assert_eq!(outcome.ours["closed"], "Graceful");
    assert_eq!(outcome.theirs["aborted"], 0);
    Some(outcome)
}

/// Everything arrived, as it was sent, and the end was a graceful one.
fn complete(case: &Case<'_>) -> Option<Outcome> {
    let outcome = seen(case)?;
    let Outcome { ours, theirs, .. } = &outcome;
    assert_eq!(ours["sent"], case.bytes[0]);
    assert_eq!(theirs["sent"], case.bytes[1]);
    assert_eq!(ours["sent_digest"], theirs["received_digest"], "what we sent");
    assert_eq!(theirs["sent_digest"], ours["received_digest"], "what usrsctp sent");
    Some(outcome)
}

#[test]
fn usrsctp_and_we_exchange_data_whoever_begins() {
    for initiator in INITIATORS {
        complete(&Case { initiator, ..TRANSFER });
    }
}

#[test]
fn usrsctp_and_we_exchange_data_over_ipv6() {
    complete(&Case { ipv6: true, ..TRANSFER });
}

#[test]
fn usrsctp_and_we_exchange_data_when_one_percent_is_lost() {
    for initiator in INITIATORS {
        complete(&Case { initiator, path: LOSSY, bytes: [MB, MB], ..TRANSFER });
    }
}

/// How many chunks of type `kind` we sent, and how many usrsctp sent.
fn count(outcome: &Outcome, kind: u8) -> [u64; 2] {
    [0, 1].map(|side: usize| outcome.chunks[side].get(&kind).copied().unwrap_or(0))
}

#[test]
fn usrsctp_and_we_acknowledge_by_nr_sack() {
    for initiator in INITIATORS {
        let case = Case {
            initiator,
            path: LOSSY,
            bytes: [MB, MB],
            our_options: &["buffer=120000", "nr-sack=case-3"],
            their_options: &["buffer=120000", "sysctl.nrsack_enable=1"],
            ..TRANSFER
        };
        let Some(outcome) = complete(&case) else { return };
        assert!(count(&outcome, NR_SACK).iter().all(|count| *count > 100), "{case:?}");
        assert_eq!(count(&outcome, SACK), [0, 0]);
    }
}

#[test]
fn usrsctp_and_we_interleave_messages() {
    for initiator in INITIATORS {
        let case = Case {
            initiator,
            path: LOSSY,
            bytes: [MB, MB],
            our_options: &["buffer=120000", "streams=8", "interleaving=yes"],
            their_options: &["buffer=120000", "streams=8", "idata=1"],
            ..TRANSFER
        };
        let Some(outcome) = complete(&case) else { return };
        assert!(count(&outcome, I_DATA).iter().all(|count| *count > 500), "{case:?}");
        assert_eq!(count(&outcome, DATA), [0, 0]);
    }
}

#[test]
fn usrsctp_and_we_deliver_many_streams_and_unordered_messages() {
    for options in [["streams=8", "buffer=120000"], ["unordered=1", "buffer=120000"]] {
        let our_options =
            &options.map(|option| if option == "unordered=1" { "unordered=yes" } else { option });
        let case =
            Case { path: LOSSY, bytes: [MB, MB], our_options, their_options: &options, ..TRANSFER };
        complete(&case);
    }
}

/// Messages of one packet that are not repeated: some are given up, none is damaged.
#[test]
fn usrsctp_accepts_that_we_give_up_messages() {
    for (initiator, interleaving) in [(Initiator::Ours, false), (Initiator::Theirs, true)] {
        let (ours, theirs) = if interleaving {
            ("interleaving=yes", "idata=1")
        } else {
            ("interleaving=no", "idata=0")
        };
        let case = Case {
            initiator,
            path: LOSSY,
            bytes: [MB, 0],
            our_options: &["message=1000", "partial-reliability=yes", "pr=retransmissions:0", ours],
            their_options: &["buffer=90000", theirs],
            ..TRANSFER
        };
        let Some(outcome) = seen(&case) else { return };
        let skipped = if interleaving { I_FORWARD_TSN } else { FORWARD_TSN };
        assert!(count(&outcome, skipped)[0] > 0, "{case:?}");
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let (received, given_up) =
            (number(&outcome.theirs["received_messages"]), number(&outcome.ours["given_up"]));
        assert!(received < 1000 && received + given_up >= 1000, "{received} {given_up}");
    }
}

#[test]
fn we_accept_that_usrsctp_gives_up_messages() {
    for (initiator, interleaving) in [(Initiator::Theirs, false), (Initiator::Ours, true)] {
        let (ours, theirs) = if interleaving {
            ("interleaving=yes", "idata=1")
        } else {
            ("interleaving=no", "idata=0")
        };
        let case = Case {
            initiator,
            path: LOSSY,
            bytes: [0, MB],
            our_options: &["buffer=90000", "partial-reliability=yes", ours],
            their_options: &["message=1000", "pr=rtx", "value=0", theirs],
            ..TRANSFER
        };
        let Some(outcome) = seen(&case) else { return };
        let skipped = if interleaving { I_FORWARD_TSN } else { FORWARD_TSN };
        assert!(count(&outcome, skipped)[1] > 0, "{case:?}");
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let (received, given_up) =
            (number(&outcome.ours["received_messages"]), number(&outcome.theirs["send_failed"]));
        assert!(received < 1000 && received + given_up >= 1000, "{received} {given_up}");
    }
}

#[test]
fn usrsctp_resets_and_adds_streams_at_our_request() {
    let case = Case {
        bytes: [MB, MB],
        our_options: &["buffer=120000", "streams=4", "reconfiguration=yes", "reset=yes"],
        their_options: &["buffer=120000", "streams=4", "wait=1"],
        ..TRANSFER
    };
    let Some(outcome) = complete(&case) else { return };
    let both = serde_json::json!(["performed", "performed"]);
    assert_eq!(outcome.ours["reconfigurations"], both);
    assert!(count(&outcome, RE_CONFIG).iter().all(|count| *count >= 2), "{case:?}");
}

#[test]
fn we_reset_and_add_streams_at_the_request_of_usrsctp() {
    let case = Case {
        initiator: Initiator::Theirs,
        bytes: [MB, MB],
        our_options: &["buffer=120000", "streams=4", "reconfiguration=yes", "wait=yes"],
        their_options: &["buffer=120000", "streams=4", "reset=1"],
        ..TRANSFER
    };
    let Some(outcome) = complete(&case) else { return };
    let answers = ["resets", "added", "refused"].map(|name| outcome.theirs[name].as_u64());
    assert_eq!(answers, [Some(4), Some(1), Some(0)]);
    assert!(count(&outcome, RE_CONFIG).iter().all(|count| *count >= 2), "{case:?}");
}

#[test]
#[ignore = "for an idle machine and an optimised build"]
fn a_hundred_megabytes_each_way_whoever_begins() {
    for initiator in INITIATORS {
        complete(&Case { initiator, ..LARGE });
    }
}

#[test]
#[ignore = "for an idle machine and an optimised build"]
fn a_hundred_megabytes_each_way_over_ipv6() {
    complete(&Case { ipv6: true, ..LARGE });
}

#[test]
#[ignore = "for an idle machine and an optimised build"]
fn a_hundred_megabytes_each_way_when_one_percent_is_lost() {
    for initiator in INITIATORS {
        complete(&Case { initiator, path: LOSSY, ..LARGE });
    }
}
