//! What an association has sent and received.

use crate::path::Paths;
use crate::recv::DataOutcome;
use crate::send::Sender;
use crate::status::AssociationStatistics;
use manypath_wire::Tsn;
use manypath_wire::chunk::Chunk;
use manypath_wire::packet::PacketWriter;

/// Counts of an association; what is sent of user data is counted by its sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    counts: AssociationStatistics,
    /// Chunks sent, of any kind.
    chunks_sent: u64,
}

/// What a DATA or I-DATA chunk says that is told apart here.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataTraits {
    pub(super) tsn: Tsn,
    pub(super) unordered: bool,
    /// A SACK is to be sent at once (RFC 7053).
    pub(super) immediate: bool,
}

impl Statistics {
    pub(super) fn on_packet_sent(&mut self, packet: &PacketWriter<'_>) {
        self.counts.packets_sent += 1;
        self.chunks_sent += u64::from(packet.chunks());
    }

    pub(super) fn on_packet(&mut self) {
        self.counts.packets_received += 1;
    }

    pub(super) fn on_sack_sent(&mut self) {
        self.counts.sacks_sent += 1;
    }

    /// A chunk has arrived and is to be processed.
    pub(super) fn on_chunk(&mut self, chunk: &Chunk<'_>) {
        if matches!(chunk, Chunk::Data(_) | Chunk::IData(_)) {
            return;
        }
        self.counts.control_received += 1;
        if let Chunk::Sack(sack) = chunk {
            self.on_sack(sack.gaps.len());
        } else if let Chunk::NrSack(sack) = chunk {
            self.on_sack(sack.gaps.len() + sack.nr_gaps.len());
        }
    }

    fn on_sack(&mut self, gaps: usize) {
        self.counts.sacks_received += 1;
        self.counts.gap_blocks_received += gaps as u64;
    }

    /// A chunk with user data has arrived while `cum` was the last TSN up to which all had.
    pub(super) fn on_data(&mut self, data: DataTraits, cum: Tsn, outcome: &DataOutcome) {
        let counts = &mut self.counts;
        let ahead = data.tsn.0.wrapping_sub(cum.0);
        counts.chunks_ahead += u64::from((2..1 << 31).contains(&ahead));
        match outcome {
            DataOutcome::Accepted if data.unordered => counts.unordered_received += 1,
            DataOutcome::Accepted => counts.ordered_received += 1,
            DataOutcome::Duplicate => counts.duplicates += 1,
            DataOutcome::BufferFull
            | DataOutcome::MemoryFull
            | DataOutcome::BeyondReport
            | DataOutcome::AwaitsRestart
            | DataOutcome::InvalidStream(_)
            | DataOutcome::NoUserData(_) => {}
        }
    }

    /// The counts until now, and the longest RTO since the last call.
    pub(crate) fn take(&self, sender: &Sender, paths: &mut Paths) -> AssociationStatistics {
        let Self { counts, chunks_sent } = *self;
        let data = sender.counts();
        let rtos = paths.iter_mut().map(|path| (path.addr(), path.rtt_mut().take_longest_rto()));
        AssociationStatistics {
            chunks_repeated: data.repeated,
            ordered_sent: data.ordered,
            unordered_sent: data.unordered,
            control_sent: chunks_sent - data.all(),
            longest_rto: rtos.max_by_key(|(_, rto)| *rto),
            ..counts
        }
    }
}
