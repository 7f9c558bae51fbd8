//! One engine endpoint and what its associations have told.

use super::{Network, Sent};
use crate::api::notification::Notification;
use bytes::Bytes;
use manypath_engine::{
    AssociationId, CloseReason, Config, Endpoint, Event, Instant, Message, PacketBatch, PathId,
};
use std::collections::{BTreeMap, VecDeque};

/// An association as its user sees it.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// Streams to and from the peer, once it is established.
    pub streams: Option<(u16, u16)>,
    /// Whether this side began it.
    pub initiated: bool,
    /// Whether a socket has it.
    pub taken: bool,
    /// Whether the peer has shut down.
    pub peer_shutdown: bool,
    /// How it ended.
    pub closed: Option<CloseReason>,
    /// Paths that have changed before.
    pub lost: Vec<PathId>,
    /// What its user is to be told besides messages.
    pub notifications: VecDeque<Notification>,
    /// Bytes of a notification that was read in part.
    pub rest: Option<usize>,
    /// Whether its user knows that nothing is left to be sent.
    pub is_dry: bool,
    /// The rest of a message that was read in part, with its information.
    pub partial: Option<(Message, Bytes)>,
    /// The message after it, when somebody has asked what comes next.
    pub next: Option<Message>,
}

/// One engine endpoint.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The engine.
    pub endpoint: Endpoint,
    /// Its associations, also those that are over.
    pub links: BTreeMap<AssociationId, Link>,
    batch: PacketBatch,
}

impl Stack {
    pub(crate) fn new(config: Config, network: &Network, number: u8) -> Self {
        let mut endpoint = Endpoint::new(config, [number.wrapping_add(1); 32]);
        network.locals().into_iter().for_each(|local| endpoint.add_local_address(local));
        Self { endpoint, links: BTreeMap::new(), batch: PacketBatch::new(1) }
    }

    /// Collects packets and events.
    pub(crate) fn drain(&mut self, now: Instant, sent: &mut VecDeque<Sent>) {
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.batch) {
            for packet in self.batch.bytes().chunks(transmit.segment_size.max(1)) {
                let (path, ecn) = (transmit.path, transmit.ecn);
                sent.push_back(Sent { at: now, path, ecn, bytes: packet.to_vec() });
            }
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.links.entry(id).or_default().on_event(event);
        }
    }

    /// An association that nobody has accepted yet.
    pub(crate) fn waiting(&self) -> Option<AssociationId> {
        let mut waiting = self.links.iter().filter(|(_, link)| !link.taken && !link.initiated);
        waiting.find(|(_, link)| link.streams.is_some()).map(|(id, _)| *id)
    }
}

impl Link {
    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected { initiated, adaptation, outbound_streams, inbound_streams } => {
                self.initiated = initiated;
                self.streams = Some((outbound_streams, inbound_streams));
                self.notify(Notification::Up { outbound_streams, inbound_streams });
                if let Some(indication) = adaptation {
                    self.notify(Notification::Adaptation(indication));
                }
            }
            Event::PathChanged { path, state } => {
                let again = self.lost.contains(&path);
                self.lost.push(path);
                self.notify(Notification::Path { state, again });
            }
            Event::Restarted => self.notify(Notification::Restart),
            Event::PeerShutdown => {
                self.peer_shutdown = true;
                self.notify(Notification::PeerShutdown);
            }
            Event::Closed(reason) => {
                let streams = self.streams;
                self.notify(Notification::Closed { reason: reason.clone(), streams });
                self.closed = Some(reason);
            }
            Event::SendFailed { message, sent, .. } => {
                self.notify(Notification::SendFailed { message, sent });
            }
            Event::PartialDeliveryAborted(message) => {
                self.notify(Notification::PartialDelivery(message));
            }
            Event::StreamsReset { direction, streams, outcome } => {
                self.notify(Notification::StreamsReset { direction, streams, outcome });
            }
            Event::AssociationReset { outcome, local_tsn, peer_tsn } => {
                self.notify(Notification::Reset { outcome, local_tsn, peer_tsn });
            }
            Event::StreamsAdded { outcome, outbound_streams, inbound_streams } => {
                self.streams = Some((outbound_streams, inbound_streams));
                self.notify(Notification::Added { outcome, outbound_streams, inbound_streams });
            }
            Event::Undelivered { message, sent, .. } => {
                self.notify(Notification::SendFailed { message, sent });
            }
            Event::Authentication { change, key } => {
                self.notify(Notification::Authentication { change, key });
            }
            Event::PeerError { causes } => self.notify(Notification::PeerError(causes)),
            Event::Readable
            | Event::Writable
            | Event::SenderDry
            | Event::KeysWanted
            | Event::RekeyDue
            | Event::PeerDoubted
            | Event::LocalAddress { .. }
            | Event::PathPolicy { .. }
            | Event::PeerAddress { .. } => {}
        }
    }

    fn notify(&mut self, notification: Notification) {
        self.notifications.push_back(notification);
    }
}
