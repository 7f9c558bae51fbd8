//! Whatever a peer sends to key management. What the fuzz target `key_messages` checks.

use crate::pair::{Pair, Side, config, millis};
use manypath_engine::{AssociationId, Config, KeyManagement as Offer, KeyRoles};
use manypath_keys::{Identity, KeyManagement, METHOD, PublicKey, Step};

/// Most that is done in one run.
const MAX_STEPS: usize = 64;

/// One end. Its key management is gone after a failure.
struct End {
    id: AssociationId,
    keys: Option<KeyManagement>,
    public: PublicKey,
    /// Whom it has said that it talks to.
    peer: Option<PublicKey>,
}

impl End {
    fn new(pair: &mut Pair, side: Side, id: AssociationId) -> Self {
        let identity = identity();
        let (now, public) = (pair.now, identity.public_key());
        let endpoint = &mut pair.node(side).endpoint;
        let keys = KeyManagement::begin(now, endpoint, id, &identity, None).unwrap();
        Self { id, keys: Some(keys), public, peer: None }
    }
}

pub(crate) fn identity() -> Identity {
    Identity::from_private(&Identity::generate().unwrap()).unwrap()
}

/// Offers protection, and does without where the peer has none.
pub(crate) fn offering(side: Side) -> Config {
    let offer = Offer { methods: vec![METHOD], roles: KeyRoles::Either, required: false };
    Config { key_management: Some(offer), ..config(side) }
}

/// Takes bytes for decisions; zeros when there are no more.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    /// A message in place of `message`.
    fn change(&mut self, message: Vec<u8>) -> Vec<u8> {
        let mut message = message;
        match self.next() % 8 {
            0 => {
                let len = self.next();
                message = self.take(len);
            }
            1 => message.truncate(1 + self.next() * message.len() / 256),
            2 => {
                let len = self.next();
                message.extend(self.take(len));
            }
            3 => {
                let at = (self.next() << 8 | self.next()) % message.len();
                message[at] ^= 1 << (self.next() % 8);
            }
            _ => {}
        }
        message
    }
}

/// Two ends exchange keys, and somebody changes, cuts and replaces their messages as `bytes` say. Neither end takes
/// anybody else for its peer, and neither panics.
pub(crate) fn check(bytes: &[u8]) {
    let (mut pair, a, z) = Pair::established_with(1, offering(Side::A), offering(Side::Z));
    pair.quiet = true;
    let mut choices = Choices(bytes);
    let mut ends = [End::new(&mut pair, Side::A, a), End::new(&mut pair, Side::Z, z)];
    for _ in 0..MAX_STEPS {
        pair.drive(millis(50));
        for side in [Side::A, Side::Z] {
            for (_, message) in std::mem::take(&mut pair.node(side).received) {
                let message = choices.change(message.to_vec());
                handle(&mut pair, side, &mut ends, &message);
            }
        }
        let side = if choices.next() % 2 == 0 { Side::A } else { Side::Z };
        let wait = choices.next();
        if wait % 16 == 1 {
            let now = pair.now;
            let (endpoint, end) = (&mut pair.node(side).endpoint, &mut ends[side as usize]);
            let outcome = end.keys.as_mut().map(|keys| keys.handle_rekey_due(now, endpoint));
            assert!(outcome.is_none_or(|outcome| outcome.is_ok()));
        }
        if choices.0.is_empty() {
            break;
        }
    }
}

fn handle(pair: &mut Pair, side: Side, ends: &mut [End; 2], message: &[u8]) {
    let (now, expected) = (pair.now, ends[side.other() as usize].public);
    let (endpoint, end) = (&mut pair.node(side).endpoint, &mut ends[side as usize]);
    let Some(keys) = &mut end.keys else { return };
    match keys.handle_message(now, endpoint, message) {
        Ok(Step::Continue) => {}
        Ok(Step::Protected(peer)) => {
            assert_eq!((peer, end.peer.replace(peer)), (expected, None));
        }
        Err(failure) => {
            endpoint.abort(now, end.id, failure.to_string().as_bytes());
            end.keys = None;
        }
    }
    assert!(end.keys.as_ref().is_none_or(|keys| keys.peer() == end.peer));
}
