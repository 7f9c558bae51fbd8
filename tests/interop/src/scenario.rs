//! What is tried with each peer.

use crate::tshark;

const MB: u64 = 1_000_000;
const SMALL: u64 = MB;
/// Streams of the scenario with many.
const MANY: u64 = 300;
/// Streams that are reset, and those that are added then; a message goes over each afterwards.
const RESET: u64 = 4;
const AFTER_RESET: u64 = 1000;

/// Who sends the INIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Initiator {
    Ours,
    Theirs,
}

/// One of both sides, as an index: 0 is ours.
pub(crate) type Side = usize;
pub(crate) const OURS: Side = 0;
pub(crate) const THEIRS: Side = 1;

/// What a peer must have for a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    Nothing,
    /// Messages that this side gives up.
    PartialReliability(Side),
    /// Requests to reset streams from this side.
    Reset(Side),
    Interleaving,
    AddedStreams,
    /// I-DATA of messages that do not fit one packet.
    InterleavedFragments,
    SeveralAddresses,
    /// It begins an association again from the same addresses and port (this side).
    Restart,
    /// An ABORT of this side.
    Abort(Side),
    /// A SHUTDOWN of this side.
    Shutdown(Side),
}

/// What happens besides the transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Nothing.
    Transfer,
    /// The first path is cut when a quarter has arrived here.
    Cut,
    /// Whoever began is killed and begins again.
    Restart,
}

/// What must come of it beside undamaged data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// Everything sent has arrived; both ends saw a graceful end.
    Complete,
    /// So, and there were at least as many chunks of this type from each side.
    Chunks(u8, u64),
    /// This side gave some up.
    GivenUp(Side),
    /// This side's streams were reset, and it got more if the second is true.
    Reset(Side, bool),
    /// So many Mbit/s from us at least.
    Rate(u32),
    /// This side ended the association by an ABORT, which the other was told of.
    Aborted(Side),
    /// The side that listens was told of the restart.
    Restarted,
}

/// One row of the matrix.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// The paths between the hosts, as `manypath-lab` takes them.
    pub(crate) path: &'static str,
    pub(crate) paths: usize,
    /// What each side sends.
    pub(crate) bytes: [u64; 2],
    /// What each side waits for.
    pub(crate) receive: [u64; 2],
    /// Options of both, and of one.
    pub(crate) both: Vec<&'static str>,
    pub(crate) each: [Vec<&'static str>; 2],
    /// Seconds after which both ends give up.
    pub(crate) seconds: u64,
    pub(crate) needs: Needs,
    pub(crate) plan: Plan,
    pub(crate) expect: Expect,
}

const CLEAN: &str = "rate=100mbit,delay=1ms,queue=60";
const LOSSY: &str = "rate=100mbit,delay=1ms,queue=60,loss=1%";
/// So slow that hardly another buffer than the queue runs over: a sender that gives up what is lost does not slow down.
const SLOW_LOSSY: &str = "rate=20mbit,delay=5ms,queue=60,loss=1%";
const GAIN: &str = "rate=20mbit,delay=10ms,queue=100";
const SLOW: &str = "rate=20mbit,delay=5ms,queue=60";

/// Buffers of less than 100 packets: tshark warns of SACKs that acknowledge more than 100 TSNs beyond a
/// gap, which is a matter of the size of windows alone.
const BUFFER: &str = "buffer=120000";

impl Scenario {
    /// More than 100 packets may come beyond a gap: small ones even with small buffers, and unordered ones, which leave
    /// the buffer before the gap is filled.
    pub(crate) fn has_large_window(&self) -> bool {
        let many = |option: &&str| option.starts_with("message=") || *option == "unordered=1";
        !self.both.contains(&BUFFER) || self.both.iter().any(many)
    }
}

fn transfer(id: &'static str, title: &str, path: &'static str, bytes: u64) -> Scenario {
    // The peer waits for SHUTDOWN COMPLETE, which may be lost as well.
    let linger = if path.contains("loss=") { vec!["linger=2500"] } else { vec![] };
    Scenario {
        id,
        title: title.to_owned(),
        path,
        paths: 1,
        bytes: [bytes, bytes],
        receive: [bytes, bytes],
        both: vec![BUFFER],
        each: [linger, vec![]],
        seconds: 60,
        needs: Needs::Nothing,
        plan: Plan::Transfer,
        expect: Expect::Complete,
    }
}

/// All rows; `bulk` is what the large transfers move each way.
pub(crate) fn all(bulk: u64) -> Vec<Scenario> {
    let mut rows = basic(bulk);
    rows.extend(extensions());
    rows.extend(multi_homed());
    rows.extend(endings());
    rows
}

fn basic(bulk: u64) -> Vec<Scenario> {
    let mut many = transfer("streams", &format!("{MANY} streams, 1 % loss"), LOSSY, 3 * MB);
    many.both.extend(["streams=300", "message=2800"]);
    let mut unordered = transfer("unordered", "unordered messages, 1 % loss", LOSSY, 3 * MB);
    unordered.both.push("unordered=1");
    let megabytes = bulk / MB;
    let title = format!("{megabytes} MB each way");
    let mut rows = vec![
        transfer("set-up", "set-up, 1 MB each way, SHUTDOWN of both", CLEAN, SMALL),
        Scenario { seconds: 600, ..transfer("bulk", &title, CLEAN, bulk) },
        Scenario { seconds: 600, ..transfer("loss", &format!("{title}, 1 % loss"), LOSSY, bulk) },
    ];
    rows.extend([many, unordered]);
    rows
}

fn extensions() -> Vec<Scenario> {
    let mut rows = Vec::new();
    let mut idata = transfer("i-data", "I-DATA, 8 streams, 1 % loss", LOSSY, 3 * MB);
    idata.both.extend(["idata=1", "streams=8"]);
    rows.push(Scenario {
        needs: Needs::InterleavedFragments,
        expect: Expect::Chunks(tshark::I_DATA, 300),
        ..idata
    });
    let mut whole = transfer("i-data-whole", "I-DATA, messages of one packet, 1 % loss", LOSSY, MB);
    // Of one packet also before the path's MTU is known.
    whole.both.extend(["idata=1", "streams=8", "message=1000"]);
    rows.push(Scenario {
        needs: Needs::Interleaving,
        expect: Expect::Chunks(tshark::I_DATA, 300),
        ..whole
    });
    for (side, id, title) in [
        (OURS, "pr-ours", "we give up messages (PR-SCTP), 1 % loss"),
        (THEIRS, "pr-theirs", "the peer gives up messages, 1 % loss"),
    ] {
        let mut row = transfer(id, title, SLOW_LOSSY, 0);
        row.bytes[side] = SMALL;
        row.both.extend(["sealed=1", "message=1000"]);
        row.each[side].extend(["pr=rtx", "value=0"]);
        row.each[1 - side].push("wait=1");
        let (needs, expect) = (Needs::PartialReliability(side), Expect::GivenUp(side));
        rows.push(Scenario { needs, expect, ..row });
    }
    for (side, add, id, title) in [
        (OURS, 0, "reset-ours", "we reset streams, then use them"),
        (THEIRS, 0, "reset-theirs", "the peer resets streams, then uses them"),
        (OURS, 2, "add-ours", "we reset and add streams, then use them"),
        (THEIRS, 2, "add-theirs", "the peer resets and adds streams, then uses them"),
    ] {
        let mut row = transfer(id, title, CLEAN, SMALL);
        row.both.push("streams=4");
        row.each[side].extend(["reset=2", if add > 0 { "add=2" } else { "add=0" }]);
        row.each[1 - side].push("wait=1");
        row.receive[1 - side] += (RESET + add) * AFTER_RESET;
        let needs = if add > 0 { Needs::AddedStreams } else { Needs::Reset(side) };
        rows.push(Scenario { needs, expect: Expect::Reset(side, add > 0), ..row });
    }
    rows
}

fn multi_homed() -> Vec<Scenario> {
    let timers = ["rto-min=200", "rto-max=1000", "path-max-retrans=1", "heartbeat=1000"];
    let title = "two addresses each; the first path is cut, the rest goes by the second";
    let mut cut = transfer("failover", title, SLOW, 8 * MB);
    cut.both.extend(timers);
    cut.each[OURS].push("mark=2000000");
    let several = Needs::SeveralAddresses;
    let title = "two addresses each, 8 MB each way";
    let plain = Scenario { paths: 2, needs: several, ..transfer("two-paths", title, SLOW, 8 * MB) };
    let rate = |id, title: &str, paths, least| {
        let mut row = transfer(id, title, GAIN, 0);
        row.bytes[OURS] = 20 * MB;
        row.receive[THEIRS] = 20 * MB;
        row.both = vec!["buffer=1000000"];
        row.each[THEIRS].push("wait=1");
        let needs = if paths > 1 { several } else { Needs::Nothing };
        Scenario { paths, needs, expect: Expect::Rate(least), ..row }
    };
    let one = rate("one-rate", "20 MB from us over 20 Mbit/s", 1, 10);
    // More than one path can carry.
    let two = rate("two-rates", "20 MB from us over 2 x 20 Mbit/s (CMT)", 2, 30);
    vec![one, two, plain, Scenario { paths: 2, needs: several, plan: Plan::Cut, ..cut }]
}

fn endings() -> Vec<Scenario> {
    let mut rows = Vec::new();
    for (side, id, title) in [
        (OURS, "shutdown-ours", "SHUTDOWN by us"),
        (THEIRS, "shutdown-theirs", "SHUTDOWN by the peer"),
    ] {
        let mut row = transfer(id, title, CLEAN, SMALL);
        row.each[1 - side].push("wait=1");
        rows.push(Scenario { needs: Needs::Shutdown(side), ..row });
    }
    for (side, id, title) in
        [(OURS, "abort-ours", "ABORT by us"), (THEIRS, "abort-theirs", "ABORT by the peer")]
    {
        let mut row = transfer(id, title, CLEAN, 0);
        row.bytes[1 - side] = SMALL;
        row.receive[side] = SMALL;
        row.each[side].push("abort=1");
        row.each[1 - side].push("wait=1");
        rows.push(Scenario { needs: Needs::Abort(side), expect: Expect::Aborted(side), ..row });
    }
    let title = "restart: whoever began is killed and begins again";
    let mut row = transfer("restart", title, CLEAN, SMALL);
    row.both.extend(["by-message=1", "own-port=5002"]);
    let (plan, expect) = (Plan::Restart, Expect::Restarted);
    rows.push(Scenario { needs: Needs::Restart, plan, expect, ..row });
    rows
}
