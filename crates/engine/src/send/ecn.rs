//! What an ECNE means for the congestion window: as much as a loss on the path that has carried the chunk,
//! once per window (RFC 3168 section 6.1.2).

use super::Sender;
use super::outstanding::Outstanding;
use crate::ecn::Ecn;
use crate::path::{PathId, Paths};
use crate::time::Instant;
use crate::tsn::Tsn64;
use manypath_wire::Tsn;

/// What came of an ECNE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EchoOutcome {
    /// Its path has answered it, now or before.
    Answered,
    /// It is not known which path it is about; a CWR for all of them answers it.
    Unattributed,
    /// It names a TSN that was never sent.
    NeverSent,
}

impl Sender {
    /// The ECN bits of the next packet for `id`. Packets with new data are ECN-capable, all others not, as
    /// in TCP (RFC 3168 sections 6.1.4 to 6.1.6): control chunks alone are not held back by congestion,
    /// and a mark on a retransmission could not be told from one on the first transmission, nor the loss
    /// of one that says the same be seen. Nor is the probe of a closed window: it would be lost for good.
    pub(crate) fn next_ecn(&self, now: Instant, id: PathId, paths: &Paths) -> Ecn {
        if !paths.get(id).is_some_and(|path| path.ecn().is_used()) {
            return Ecn::NotEct;
        }
        // Nothing is under way: if the window is closed, what is sent now is its probe.
        let outstanding = &self.outstanding;
        let is_stopped = outstanding.in_flight() == 0 && outstanding.window().is_closed();
        let may_repeat = outstanding.lost() > 0
            || self.copies.is_on()
            || self.rules.experiment.rescheduling_percent > 0;
        let repeats =
            || may_repeat && self.opportunity(now, id, paths).is_some_and(|it| it.repeats());
        if is_stopped || repeats() { Ecn::NotEct } else { Ecn::Ect0 }
    }

    /// The peer got a packet with CE whose lowest TSN is `tsn`.
    pub(crate) fn handle_ecne(&mut self, now: Instant, tsn: Tsn, paths: &mut Paths) -> EchoOutcome {
        let tsn = Tsn64::near(tsn, self.outstanding.cum());
        if tsn >= self.outstanding.next_tsn() {
            return EchoOutcome::NeverSent;
        }
        let Some((id, number)) = first_carrier(&self.outstanding, tsn, paths) else {
            let primary = paths.primary();
            if let Some(path) = paths.get_mut(primary) {
                path.ecn_mut().want_cwr_for_all(tsn);
            }
            return EchoOutcome::Unattributed;
        };
        let group = self.choice.couple(paths);
        let detection = &mut self.detection;
        if let Some(path) = paths.get_mut(id)
            && path.subflow_mut().on_echo(now, tsn)
            && detection.enter_recovery(detection.is_recovering(), path, &self.outstanding)
        {
            path.subflow_mut().cut_for_mark(now, number, &group);
        }
        EchoOutcome::Answered
    }
}

/// The path on which chunk `tsn` left ECN-capable, which is its first one, and the number of its
/// transmission there if that is known. Once the chunk is acknowledged only the last CWR still tells,
/// or that there is no other path.
fn first_carrier(
    outstanding: &Outstanding,
    tsn: Tsn64,
    paths: &Paths,
) -> Option<(PathId, Option<u64>)> {
    let told = || paths.iter().find(|path| path.ecn().has_told(tsn)).map(|path| path.id());
    let only = || Some(paths.primary()).filter(|_| paths.len() == 1);
    let of_chunk = outstanding.get(tsn).and_then(|chunk| match chunk.record.transmissions {
        1 => Some((chunk.record.path, Some(chunk.record.number))),
        2 => Some((chunk.record.from, None)),
        _ => Some((chunk.record.path, None)).filter(|_| !chunk.record.moved),
    });
    of_chunk.or_else(|| told().or_else(only).map(|id| (id, None)))
}
