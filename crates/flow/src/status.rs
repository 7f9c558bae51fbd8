//! Snapshots for people and tools.

use crate::share::Share;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// Where a flow stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// Opened here, not answered yet.
    Opening,
    /// Opened by the peer, not answered yet.
    Incoming,
    /// Both directions are open.
    Open,
    /// We have finished, the peer has not.
    HalfClosedLocal,
    /// The peer has finished, we have not.
    HalfClosedRemote,
    /// Ended in both directions, with something left to be read or reported.
    Closing,
}

/// One flow as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowStatus {
    /// Its state.
    pub state: FlowState,
    /// The stream that carries it, in both directions.
    pub stream: u16,
    /// How many flows that side has opened on the stream, this one included.
    pub generation: u32,
    /// Whether it was opened here.
    pub opened_here: bool,
    /// The address that the opener's program connected to.
    pub destination: SocketAddr,
    /// The address of the opener's program.
    pub source: SocketAddr,
    /// The acceptor's own address of its connection to the destination, once accepted.
    pub local: Option<SocketAddr>,
    /// Bytes handed to the association.
    pub bytes_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes written and not yet handed to the association.
    pub queued: usize,
    /// Bytes received and not yet consumed.
    pub buffered: u64,
    /// Bytes that may be sent before the peer grants more.
    pub send_credit: u64,
    /// Bytes that the peer may send before we grant more.
    pub receive_credit: u64,
    /// Window that we grant at present.
    pub receive_window: u32,
    /// Round trip between the two muxes, behind the data sent before, as far as it was measured.
    pub round_trip: Option<Duration>,
    /// Bytes that waited at the peer for credit or for the association when it reported last.
    pub waiting_there: u64,
    /// Times that data waited for credit.
    pub credit_stalls: u64,
    /// Its part of what the association can send.
    pub share: Share,
}

macro_rules! counters {
    ($(#[$outer:meta])* $type:ident { $($(#[$doc:meta])* $name:ident),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $type { $($(#[$doc])* pub $name: u64),* }
        impl $type {
            /// Every counter with its name, for printing.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                alloc::vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}
pub(crate) use counters;

counters! {
    /// Counts of what happened, above all of what was refused, dropped or ignored.
    FlowCounters {
        /// Flows opened here.
        opened,
        /// Flows opened by the peer, refused ones included.
        incoming,
        /// Flows of ours that the peer accepted.
        accepted_by_peer,
        /// Flows of ours that the peer refused.
        refused_by_peer,
        /// Flows of ours on streams that the association turned out not to have.
        without_stream,
        /// Flows of the peer that the user accepted.
        accepted,
        /// Flows of the peer that the user refused.
        refused,
        /// Flows of the peer refused because of `FlowConfig::max_flows`.
        refused_too_many,
        /// Flows of the peer refused because the receive budget was used up.
        refused_no_memory,
        /// Flows that were not opened here (no stream, too many, no memory).
        open_failures,
        /// Flows reset by the user.
        resets,
        /// Flows reset by the peer.
        resets_by_peer,
        /// Bytes dropped because they came for a flow that was reset or refused here.
        discarded_bytes,
        /// Bytes written that were dropped by a reset or refusal before they were sent.
        unsent_bytes,
        /// Messages for a flow that had ended, ignored.
        late_messages,
        /// Unordered messages that overtook the OPEN of their flow, ignored.
        early_messages,
        /// Messages of a type that a later version added and that may be ignored.
        ignored_messages,
        /// Windows enlarged because the reader took most of them in a round trip.
        window_growths,
        /// Windows that should have begun or become larger than memory allowed.
        growths_no_memory,
        /// Windows lowered because the reader takes less than it did.
        windows_lowered,
        /// Windows lowered as their reader consumed because other flows need the memory.
        window_shrinks,
        /// Reports of the peer: round trips measured.
        round_trips_measured,
        /// Windows of idle flows reset to the first size because the receive budget was short.
        windows_reclaimed,
        /// Bytes of credit that the peer returned because it was asked to.
        reclaimed_credit,
        /// Times that a flow waited for credit with data to send.
        credit_stalls,
        /// Breaches of the protocol by the peer.
        protocol_errors,
    }
}
