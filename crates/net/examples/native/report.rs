//! What the program says in the end.

use crate::digest::Checksum;
use manypath_engine::{AssociationStatus, CloseReason, ReconfigurationOutcome};
use std::time::Duration;

/// Everything that was seen of one association.
pub(crate) struct Report {
    pub(crate) sent: Checksum,
    pub(crate) received: Checksum,
    pub(crate) took: Duration,
    pub(crate) closed: CloseReason,
    /// As it stood when the last byte had gone or come.
    pub(crate) status: Option<AssociationStatus>,
    /// Counters that are not zero, of the endpoint and of the sockets.
    pub(crate) counters: Vec<(&'static str, u64)>,
    pub(crate) reconfigurations: Vec<ReconfigurationOutcome>,
    pub(crate) given_up: u64,
}

impl Report {
    pub(crate) fn graceful(&self) -> bool {
        self.closed == CloseReason::Graceful
    }

    fn rate(&self) -> f64 {
        (self.sent.bytes + self.received.bytes) as f64 * 8e-6 / self.took.as_secs_f64()
    }

    pub(crate) fn text(&self) -> String {
        let rate = self.rate();
        format!(
            "sent {} bytes, received {}, {:.1} s, {rate:.1} Mbit/s both ways, end: {:?}\n{}",
            self.sent.bytes,
            self.received.bytes,
            self.took.as_secs_f64(),
            self.closed,
            self.json()
        )
    }

    pub(crate) fn json(&self) -> String {
        let paths = self.status.iter().flat_map(|status| &status.paths);
        let sum = paths.fold((0, 0, 0), |sum, path| {
            (sum.0 + path.packets_sent, sum.1 + path.fast_retransmits, sum.2 + path.timeouts)
        });
        let extensions = self.status.iter().flat_map(|status| &status.peer_extensions);
        let extensions: Vec<_> = extensions.map(u8::to_string).collect();
        let counters: Vec<_> =
            self.counters.iter().map(|(name, count)| format!("\"{name}\":{count}")).collect();
        let outcomes: Vec<_> =
            self.reconfigurations.iter().map(|outcome| format!("\"{outcome}\"")).collect();
        let fields = [
            format!("\"sent\":{}", self.sent.bytes),
            format!("\"received\":{}", self.received.bytes),
            format!("\"received_messages\":{}", self.received.messages),
            format!("\"given_up\":{}", self.given_up),
            format!("\"seconds\":{:.3}", self.took.as_secs_f64()),
            format!("\"closed\":\"{:?}\"", self.closed),
            format!("\"data_packets_sent\":{}", sum.0),
            format!("\"fast_retransmits\":{}", sum.1),
            format!("\"timeouts\":{}", sum.2),
            format!("\"peer_extensions\":[{}]", extensions.join(",")),
            format!("\"reconfigurations\":[{}]", outcomes.join(",")),
            format!("\"counters\":{{{}}}", counters.join(",")),
            format!("\"sent_digest\":\"{}\"", self.sent.text()),
            format!("\"received_digest\":\"{}\"", self.received.text()),
        ];
        format!("{{{}}}", fields.join(","))
    }
}
