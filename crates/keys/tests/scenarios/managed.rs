//! Two endpoints whose associations are protected, as a user of both engine and key management has them.

use crate::messages::{identity, offering};
use crate::pair::{Pair, Side, message};
use bytes::Bytes;
use manypath_engine::{AssociationId, CloseReason, Config, Duration, Event, Instant};
use manypath_keys::{Failure, Identity, KeyManagement, PublicKey, Step};

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

    pub(crate) fn connect(&mut self) {
        self.a.id = Some(self.pair.connect());
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
                let (identity, known) = (self.end(side).identity.clone(), self.end(side).known);
                let endpoint = &mut self.pair.node(side).endpoint;
                let mut keys = KeyManagement::begin(now, endpoint, id, &identity, known).unwrap();
                keys.log_keys();
                let end = self.end(side);
                (end.id, end.keys) = (Some(id), Some(keys));
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
        while let Some(line) = keys.poll_key_log() {
            self.end(side).key_log.push(line.to_string());
        }
        let id = self.end(side).id.unwrap();
        match outcome {
            Ok(step) => {
                self.end(side).keys = Some(keys);
                if let Step::Protected(peer) = step {
                    let end = self.end(side);
                    end.protected = Some((peer, now));
                    let early = std::mem::take(&mut end.early);
                    end.received.extend(early.into_iter().map(|payload| (payload, now)));
                    if side == Side::A {
                        let waiting = std::mem::take(&mut self.waiting);
                        waiting.into_iter().for_each(|payload| self.send(Side::A, payload));
                    }
                }
            }
            Err(failure) => {
                self.pair.node(side).endpoint.abort(now, id, failure.to_string().as_bytes());
                self.end(side).failure = Some(failure);
            }
        }
    }
}
