//! Two endpoints whose associations are protected, as a user of both engine and key management has them.

use crate::messages::{identity, offering};
use crate::pair::{Pair, Side, message};
use bytes::Bytes;
use manypath_engine::protection::KeyRole;
use manypath_engine::{AssociationId, CloseReason, Config, Duration, Event, Instant};
use manypath_keys::{Failure, Identity, KeyManagement, PublicKey, Step, Ticket, TicketIssuer};
use std::sync::Arc;

/// What is known of one end.
pub(crate) struct End {
    pub(crate) identity: Identity,
    /// The key that it knows its peer by.
    pub(crate) known: Option<PublicKey>,
    pub(crate) id: Option<AssociationId>,
    pub(crate) keys: Option<KeyManagement>,
    /// Whom it talks to, and since when.
    pub(crate) protected: Option<(PublicKey, Instant)>,
    pub(crate) failure: Option<Failure>,
    /// User messages and when they came.
    pub(crate) received: Vec<(Bytes, Instant)>,
    /// Those that came before it was known from whom.
    early: Vec<Bytes>,
    pub(crate) closed: Option<CloseReason>,
    /// What it seals tickets with; without it there is no resumption.
    pub(crate) issuer: Option<Arc<TicketIssuer>>,
    /// For the next association.
    pub(crate) ticket: Option<Ticket>,
    /// It has a ticket whose secret it does not know.
    pub(crate) is_thief: bool,
    /// Lines of its log of keys.
    pub(crate) key_log: Vec<String>,
    seen: usize,
}

impl End {
    fn new() -> Self {
        Self {
            identity: identity(),
            known: None,
            id: None,
            keys: None,
            protected: None,
            failure: None,
            received: Vec::new(),
            early: Vec::new(),
            closed: None,
            issuer: None,
            ticket: None,
            is_thief: false,
            key_log: Vec::new(),
            seen: 0,
        }
    }
}

/// The stream of user messages; that of key management is 0.
const STREAM: u16 = 1;

pub(crate) struct Managed {
    pub(crate) pair: Pair,
    pub(crate) a: End,
    pub(crate) z: End,
    /// What A sends as soon as it may.
    pub(crate) waiting: Vec<&'static [u8]>,
}

impl Managed {
    pub(crate) fn new(paths: u8) -> Self {
        Self::with(paths, offering(Side::A), offering(Side::Z))
    }

    pub(crate) fn with(paths: u8, a: Config, z: Config) -> Self {
        let mut pair = Pair::with(paths, a, z);
        pair.record = true;
        pair.handled = Some([0; 2]);
        Self { pair, a: End::new(), z: End::new(), waiting: Vec::new() }
    }

    /// Two ends that know each other and have exchanged keys.
    pub(crate) fn protected(paths: u8) -> Self {
        let mut it = Self::new(paths);
        it.connect();
        it.run(Duration::from_secs(2));
        assert_eq!(it.peers(), it.identities());
        it
    }

    pub(crate) fn end(&mut self, side: Side) -> &mut End {
        if side == Side::A { &mut self.a } else { &mut self.z }
    }

    /// The same with tickets, of which A has got one.
    pub(crate) fn acquainted(paths: u8) -> Self {
        let mut it = Self::new(paths);
        it.issue_tickets();
        it.connect();
        it.run(Duration::from_secs(2));
        assert_eq!(it.peers(), it.identities());
        it.disconnect();
        assert!(it.a.ticket.is_some() && it.z.ticket.is_none());
        it
    }

    /// From now on both ends resume if they can.
    pub(crate) fn issue_tickets(&mut self) {
        for side in [Side::A, Side::Z] {
            let issuer = Arc::new(TicketIssuer::default());
            self.pair.node(side).endpoint.set_resumption(issuer.clone());
            self.end(side).issuer = Some(issuer);
        }
    }

    pub(crate) fn connect(&mut self) {
        let id = self.pair.connect();
        self.a.id = Some(id);
        self.offer(Side::A, id);
    }

    pub(crate) fn offer(&mut self, side: Side, id: AssociationId) {
        if self.end(side).issuer.is_some() {
            let ticket = self.end(side).ticket.as_ref();
            let ticket = ticket.map_or(Vec::new(), |ticket| ticket.as_bytes().to_vec());
            let now = self.pair.now;
            self.pair.node(side).endpoint.offer_ticket(now, id, &ticket);
        }
    }

    /// Ends the association, and forgets all about it.
    pub(crate) fn disconnect(&mut self) {
        let (now, id) = (self.pair.now, self.a.id.unwrap());
        self.pair.a.endpoint.shutdown(now, id);
        self.run(Duration::from_secs(2));
        assert_eq!(self.a.closed, Some(CloseReason::Graceful));
        for side in [Side::A, Side::Z] {
            let end = self.end(side);
            (end.id, end.keys, end.protected, end.closed) = (None, None, None, None);
            end.received.clear();
        }
        self.pair.ladder.clear();
        self.pair.recorded.clear();
    }

    /// Whom each end says that it talks to.
    pub(crate) fn peers(&self) -> [Option<PublicKey>; 2] {
        [&self.a, &self.z].map(|end| end.protected.map(|(peer, _)| peer))
    }

    /// What [`Self::peers`] is to be.
    pub(crate) fn identities(&self) -> [Option<PublicKey>; 2] {
        [&self.z, &self.a].map(|end| Some(end.identity.public_key()))
    }

    /// The epochs in which A seals and opens.
    pub(crate) fn epochs(&self) -> (u64, Vec<u64>) {
        let usage = self.pair.a.endpoint.key_use(self.a.id.unwrap()).unwrap();
        (usage.sealing.unwrap().0, usage.opening.iter().map(|it| it.epoch).collect())
    }

    pub(crate) fn send(&mut self, side: Side, payload: &[u8]) {
        let (now, id) = (self.pair.now, self.end(side).id.unwrap());
        self.pair.node(side).endpoint.send(now, id, message(STREAM, payload)).unwrap();
    }

    /// Lets `time` pass, and both ends do what they have to.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.pair.now + time;
        loop {
            let keys = [&self.a, &self.z].into_iter().filter_map(|end| end.keys.as_ref());
            let next = keys.filter_map(KeyManagement::poll_timeout).fold(end, Instant::min);
            let next = next.max(self.pair.now);
            let counts = |pair: &Pair| [&pair.a, &pair.z].map(|it| it.events.len());
            let before = counts(&self.pair);
            let news = |pair: &Pair| {
                let read = |it: &crate::pair::Node| !it.received.is_empty();
                counts(pair) != before || read(&pair.a) || read(&pair.z)
            };
            let busy = self.pair.drive_until(next.since(self.pair.now), news);
            if !busy {
                self.pair.now = next;
            }
            self.attend(Side::A);
            self.attend(Side::Z);
            self.pair.handled = Some([self.a.seen, self.z.seen]);
            if !busy && next == end {
                return;
            }
        }
    }

    fn attend(&mut self, side: Side) {
        let seen = self.end(side).seen;
        let events = self.pair.node(side).events[seen..].to_vec();
        self.end(side).seen += events.len();
        for (id, event) in events {
            self.handle_event(side, id, event);
        }
        for (stream, payload) in std::mem::take(&mut self.pair.node(side).received) {
            match stream {
                STREAM => self.handle_user_message(side, payload),
                _ => self
                    .work(side, |keys, now, endpoint| keys.handle_message(now, endpoint, &payload)),
            }
        }
        let now = self.pair.now;
        let due = self.end(side).keys.as_ref().and_then(KeyManagement::poll_timeout);
        if due.is_some_and(|due| due <= now) {
            self.work(side, |keys, now, endpoint| {
                keys.handle_timeout(now, endpoint).map(|()| Step::Continue)
            });
        }
    }

    fn handle_user_message(&mut self, side: Side, payload: Bytes) {
        let now = self.pair.now;
        self.work(side, |keys, _, endpoint| Ok(keys.confirm(endpoint)));
        let end = self.end(side);
        match end.protected {
            Some(_) => end.received.push((payload, now)),
            None => end.early.push(payload),
        }
    }

    fn handle_event(&mut self, side: Side, id: AssociationId, event: Event) {
        let now = self.pair.now;
        match event {
            Event::KeysWanted => {
                self.begin(side, now, id);
            }
            Event::RekeyDue => self.rekey(side),
            Event::Writable => self.work(side, |keys, now, endpoint| {
                keys.handle_writable(now, endpoint);
                Ok(Step::Continue)
            }),
            Event::Closed(reason) => {
                let end = self.end(side);
                (end.closed, end.keys) = (Some(reason), None);
            }
            _ => {}
        }
    }

    fn begin(&mut self, side: Side, now: Instant, id: AssociationId) {
        let (identity, known) = (self.end(side).identity.clone(), self.end(side).known);
        let (issuer, is_thief) = (self.end(side).issuer.clone(), self.end(side).is_thief);
        let ticket = self.end(side).ticket.take();
        let endpoint = &mut self.pair.node(side).endpoint;
        let ticket = ticket.filter(|_| endpoint.resumption(id).is_some() && !is_thief);
        let is_client = endpoint.key_agreement(id).unwrap().role == KeyRole::Client;
        let keys = match (ticket.filter(|_| is_client), issuer) {
            (Some(ticket), _) => KeyManagement::resume(now, endpoint, id, &identity, &ticket, true),
            (None, Some(issuer)) => {
                KeyManagement::begin_with(now, endpoint, id, &identity, &issuer, true)
            }
            (None, None) => {
                let mut keys = KeyManagement::begin(now, endpoint, id, &identity, known).unwrap();
                keys.log_keys();
                Ok(keys)
            }
        };
        let (keys, end) = (keys.unwrap(), self.end(side));
        let peer = keys.peer();
        (end.id, end.keys) = (Some(id), Some(keys));
        if let Some(peer) = peer {
            self.on_protected(side, peer);
        }
    }

    fn on_protected(&mut self, side: Side, peer: PublicKey) {
        let now = self.pair.now;
        let id = self.end(side).id.unwrap();
        self.pair.node(side).endpoint.reveal_addresses(now, id);
        let end = self.end(side);
        end.protected = Some((peer, now));
        let early = std::mem::take(&mut end.early);
        end.received.extend(early.into_iter().map(|payload| (payload, now)));
        if side == Side::A {
            let waiting = std::mem::take(&mut self.waiting);
            waiting.into_iter().for_each(|payload| self.send(Side::A, payload));
        }
    }

    /// The engine says that keys should be replaced.
    pub(crate) fn rekey(&mut self, side: Side) {
        self.work(side, |keys, now, endpoint| {
            keys.handle_rekey_due(now, endpoint).map(|()| Step::Continue)
        });
    }

    fn work(
        &mut self,
        side: Side,
        call: impl FnOnce(
            &mut KeyManagement,
            Instant,
            &mut manypath_engine::Endpoint,
        ) -> Result<Step, Failure>,
    ) {
        let now = self.pair.now;
        let Some(mut keys) = self.end(side).keys.take() else { return };
        let endpoint = &mut self.pair.node(side).endpoint;
        let outcome = call(&mut keys, now, endpoint);
        self.end(side).ticket = keys.poll_ticket().or_else(|| self.end(side).ticket.take());
        while let Some(line) = keys.poll_key_log() {
            self.end(side).key_log.push(line.to_string());
        }
        let id = self.end(side).id.unwrap();
        match outcome {
            Ok(step) => {
                self.end(side).keys = Some(keys);
                if let Step::Protected(peer) = step {
                    self.on_protected(side, peer);
                }
            }
            Err(failure) => {
                self.pair.node(side).endpoint.abort(now, id, failure.to_string().as_bytes());
                self.end(side).failure = Some(failure);
            }
        }
    }
}
