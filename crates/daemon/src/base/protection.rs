//! Associations that are encrypted, or may be: what their keys mean for them.

use super::proven::{client_of, key_of_peer};
use super::{Association, Base, Setup};
use crate::keys::{Arrival, Rejection, Standing, Trust};
use crate::log;
use crate::parameters;
use crate::peers::Peers;
use manypath_control::counted;
use manypath_control::status::{FallbackReason, Withheld};
use manypath_engine::{AssociationId, Message, NrSack};
use manypath_flow::RelayAnswer;
use manypath_keys::PublicKey;
use manypath_rules::Encrypt;
use manypath_trust::Fingerprint;
use std::io;
use std::net::IpAddr;
use tracing::{info, warn};

/// The association was aborted: whatever else has come on it counts for nothing.
pub(crate) struct Ended;

/// Reads the keys of this host as soon as something is to be encrypted. [`offer_keys`] puts them to use.
///
/// # Errors
/// Everything is to be encrypted, and nothing can be. Nothing has changed then.
pub(crate) fn load_keys(base: &mut Base) -> io::Result<()> {
    if base.core.config.gateway.is_some() {
        return Ok(());
    }
    let (keys, core) = (&mut base.keys, &mut base.core);
    let relayed = core.config.via.or(core.config.carrying.register).is_some()
        || !core.rules.relays().is_empty();
    let of_peers = core.encrypt_of_peers();
    let is_wanted = relayed || of_peers.max(core.rules.encrypt()) != Encrypt::Off;
    if is_wanted && (keys.trust_mut().is_none() || keys.is_unkept()) {
        let files = core.config.keys.clone();
        let listed = files.as_ref().is_some_and(|files| files.authorized_peers.is_some());
        let lasting = core.config.encrypt != Encrypt::Require && !listed;
        match Trust::load(files, lasting) {
            Ok(trust) => {
                let dropped = keys.adopt(trust);
                (0..dropped).for_each(|_| core.count("tickets_of_former_key"));
                recall_tickets(base);
            }
            Err(error) if !lasting => return Err(error),
            Err(_) if keys.is_unkept() => {}
            Err(error) => {
                warn!(target: log::STACK, "the keys of this host are not used, and peers may not connect encrypted: {error}");
                // There is no key before this one.
                let _none = keys.adopt(Trust::generate(Some(error.to_string()))?);
            }
        }
    }
    Ok(())
}

/// Takes the tickets that earlier stacks have left. Several loops would share them: the first one makes connections.
fn recall_tickets(base: &mut Base) {
    if base.core.config.loop_index() > 0 {
        return;
    }
    match base.keys.recall_tickets(base.core.now) {
        Ok((recalled, damaged)) => {
            (0..recalled).for_each(|_| base.core.count("tickets_recalled"));
            (0..damaged).for_each(|_| base.core.count("tickets_damaged"));
            if damaged > 0 {
                let lines = counted(damaged, "line", "lines");
                warn!(target: log::PEERS, "tickets: {lines} could not be read and went: as many associations begin with a whole key exchange");
            }
        }
        Err(error) => {
            base.core.count("ticket_file_failures");
            warn!(target: log::PEERS, "{error}; associations with known peers begin with a whole key exchange: remove the file if this happens again");
        }
    }
}

/// Ends associations whose peers are not trusted any more, and offers peers what they may encrypt by.
pub(crate) fn offer_keys(base: &mut Base) {
    if base.core.config.gateway.is_some() {
        return;
    }
    for (id, rejection) in base.keys.distrusted() {
        reject(base, id, &rejection);
    }
    warn_of_unknown_names(base);
    let is_offered = !base.keys.is_unkept() || base.core.config.encrypt == Encrypt::Require;
    let of_peers = base.core.encrypt_of_peers();
    let offered = parameters::key_management(if is_offered { of_peers } else { Encrypt::Off });
    let issuer = base.keys.issuer().clone();
    let endpoint = base.core.driver.endpoint_mut();
    endpoint.configure(|it| it.key_management = offered);
    endpoint.set_resumption(issuer);
    base.ids().into_iter().for_each(|id| follow_profile(base, id));
}

/// Rules know peers by names that nobody has.
fn warn_of_unknown_names(base: &Base) {
    let named = base.core.rules.sources().filter(|source| source.identity.is_some());
    for source in named.filter(|source| !base.keys.may_take(source)) {
        warn!(target: log::STACK,
            "nobody in the file of --authorized is the peer of the rule with{source}");
    }
}

/// How an association can be encrypted that is to be so: a host without keys encrypts nothing.
pub(crate) fn feasible(base: &Base, encrypt: Encrypt) -> Result<Encrypt, FallbackReason> {
    match encrypt {
        Encrypt::Off => Ok(encrypt),
        Encrypt::Opportunistic | Encrypt::Require if base.keys.can_encrypt() => Ok(encrypt),
        Encrypt::Opportunistic => Ok(Encrypt::Off),
        Encrypt::Require => Err(FallbackReason::NotEncrypted),
    }
}

/// Both ends can encrypt it.
pub(crate) fn on_keys_wanted(base: &mut Base, id: AssociationId) {
    let (timers, endpoint) = (&mut base.core.timers, base.core.driver.endpoint_mut());
    let begun = base.keys.begin(base.core.now, endpoint, id, timers);
    // That the association is protected at once opens it for its connections. There is nothing early.
    let _news = take_arrival(base, id, begun);
}

pub(crate) fn on_rekey_due(base: &mut Base, id: AssociationId) {
    let endpoint = base.core.driver.endpoint_mut();
    let begun = base.keys.on_rekey_due(base.core.now, endpoint, id);
    reject_unless(base, id, begun);
}

pub(crate) fn on_keys_timer(base: &mut Base, id: AssociationId) {
    let (now, endpoint) = (base.core.now, base.core.driver.endpoint_mut());
    let done = base.keys.on_timer(now, endpoint, id, &mut base.core.timers);
    reject_unless(base, id, done);
}

pub(crate) fn on_writable(base: &mut Base, id: AssociationId) {
    base.keys.on_writable(base.core.now, base.core.driver.endpoint_mut(), id);
    base.touch(id);
}

/// Lets go of the messages of associations whose peers turn out not to encrypt, unless they did before.
pub(crate) fn follow_offers(base: &mut Base) {
    let core = &base.core;
    let settled = base.keys.settle_offers(|id| core.awaits_init_ack(id));
    for (id, outcome) in settled {
        reject_unless(base, id, outcome);
        base.touch(id);
    }
}

/// The peer has begun anew: without encryption only if it was not encrypted before.
pub(crate) fn follow_restart(base: &mut Base, id: AssociationId) {
    let plain = base.core.driver.endpoint().key_agreement(id).is_none();
    if plain && base.keys.holds(id) {
        reject(base, id, &Rejection::RestartedPlain);
    }
}

/// Whether messages of flows leave: it is established and, if it is encrypted, the peer has shown its key.
pub(crate) fn is_open(base: &Base, id: AssociationId) -> bool {
    base.is_established(id) && !base.unanswered().contains(&id) && !base.keys.holds(id)
}

/// Whether the peer of an encrypted association may have lost its keys, as by a restart, which only its silence can prove:
/// connections to come begin another association beside it.
pub(crate) fn is_in_doubt(base: &Base, id: AssociationId) -> bool {
    let host_says_so = || base.all.get(&id).is_some_and(Association::is_doubted);
    base.keys.peer_of(id).is_some()
        && (base.core.driver.endpoint().key_use(id).is_some_and(|usage| usage.doubted)
            || host_says_so()
            || base.core.is_silent(id))
}

/// Whether the failure of an association says something of the peer. One that was begun in doubt about another one may
/// have met a peer that is about to come back.
pub(crate) fn speaks_for_peer(base: &Base, id: AssociationId) -> bool {
    let beside = base.all.get(&id).and_then(|one| one.beside);
    beside.is_none_or(|doubted| !base.all.contains_key(&doubted))
}

/// An association that was begun because another one was in doubt is not used: the other one is, if it is there.
pub(crate) fn return_from(base: &mut Base, peers: &mut Peers, id: AssociationId) {
    let Some(doubted) = base.all.get(&id).and_then(|one| one.beside) else { return };
    base.retire(id);
    if base.is_established(doubted) {
        base.adopt_peer_addresses(peers, doubted);
    }
}

/// Takes a message of an association; whether the association is protected from now on.
pub(crate) fn take_message(
    base: &mut Base,
    id: AssociationId,
    message: Message,
) -> Result<bool, Ended> {
    let (now, endpoint) = (base.core.now, base.core.driver.endpoint_mut());
    let arrival = base.keys.take(now, endpoint, id, &mut base.core.timers, message);
    take_arrival(base, id, arrival)
}

fn take_arrival(
    base: &mut Base,
    id: AssociationId,
    arrival: Result<Arrival, Rejection>,
) -> Result<bool, Ended> {
    match arrival {
        Ok(Arrival::Nothing) => Ok(false),
        Ok(Arrival::Message(message)) => give_to_flows(base, id, message).map(|()| false),
        Ok(Arrival::Protected { key, kept, early }) => {
            note_kept(base, kept);
            if let Some(addr) = key_of_peer(&base.core, id)
                && addr != IpAddr::from(Fingerprint::of(&key).address())
            {
                reject(base, id, &Rejection::OtherKey { addr, presented: key });
                return Err(Ended);
            }
            on_protected(base, id, key);
            early.into_iter().try_for_each(|message| give_to_flows(base, id, message))?;
            Ok(true)
        }
        Err(rejection) => {
            reject(base, id, &rejection);
            Err(Ended)
        }
    }
}

/// A key that is not kept is a new one for the next stack.
pub(crate) fn note_kept(base: &mut Base, kept: bool) {
    if !kept {
        base.core.count("peer_keys_not_kept");
    }
}

fn give_to_flows(base: &mut Base, id: AssociationId, message: Message) -> Result<(), Ended> {
    let taken = base.all.get_mut(&id).map(|association| association.mux.handle_message(message));
    let Some(Err(error)) = taken else { return Ok(()) };
    base.core.abort_for(id, error);
    Err(Ended)
}

fn on_protected(base: &mut Base, id: AssociationId, key: PublicKey) {
    base.core.count("associations_encrypted");
    let (peer, status) =
        (base.core.peer_name(id), base.keys.status(base.core.driver.endpoint(), id));
    let suite = status.as_ref().and_then(|it| it.cipher_suite.clone()).unwrap_or_default();
    let standing = status.as_ref().and_then(|it| it.standing.clone()).unwrap_or_default();
    let resumed = status.as_ref().is_some_and(|it| it.resumed);
    if resumed {
        base.core.count("associations_resumed");
    }
    let how = if resumed { "resumed" } else { "encrypted" };
    let name = status.and_then(|it| it.name).map_or_else(String::new, |name| format!(" ({name})"));
    info!(target: log::ASSOCIATION,
        "association {} with {peer}: {how} by {suite}, {standing} key {}{name}", id.0, Fingerprint::of(&key));
    reveal_addresses(base, id);
    tell_whether_relayed(base, id);
    follow_profile(base, id);
}

/// Lets the association of a peer send by the profile that a rule gives its key, or by that of the stack. What the
/// handshake has settled was so before the key was known.
fn follow_profile(base: &mut Base, id: AssociationId) {
    let is_known = base.keys.peer_of(id).is_some();
    let Some(one) = base.all.get(&id).filter(|it| is_known && it.begun_with.is_none()) else {
        return;
    };
    let wanted = base.core.rules.profile_of(&client_of(base, id)).map(parameters::profile);
    if wanted == one.profile_by_key {
        return;
    }
    let profile = wanted.unwrap_or(base.core.config.profile);
    let like = parameters::of_profile(&base.core.config, profile);
    base.core.driver.endpoint_mut().send_like(base.core.now, id, &like);
    if let Some(one) = base.all.get_mut(&id) {
        one.profile_by_key = wanted;
    }
    base.core.count("profiles_by_key");
    let lacks = profile_lacks(base, id).map_or_else(String::new, |it| format!(", without {it}"));
    let peer = base.core.peer_name(id);
    info!(target: log::ASSOCIATION,
        "association {} with {peer}: profile {} by the rules for its key{lacks}", id.0, profile.name());
}

/// What an association lacks of the profile that a rule gives the key of its peer: it would have had to be agreed on in
/// the handshake.
pub(crate) fn profile_lacks(base: &Base, id: AssociationId) -> Option<&'static str> {
    let profile = base.all.get(&id)?.profile_by_key?;
    let has_nr_sack = || base.core.status_of(id).is_some_and(|status| status.nr_sack);
    (profile.config().nr_sack != NrSack::Off && !has_nr_sack()).then_some("NR-SACK")
}

/// Announces the addresses that the setting `announce` keeps from peers, if the key of this one was known before.
fn reveal_addresses(base: &mut Base, id: AssociationId) {
    let now = base.core.now;
    if base.keys.standing_of(id).is_some_and(Standing::is_known) {
        base.core.driver.endpoint_mut().reveal_addresses(now, id);
    } else if base.core.driver.endpoint().withholds_addresses(id) {
        base.core.count("addresses_withheld");
    }
}

/// Why the peer of an association is told no addresses of this host but that of the handshake, if it is not.
pub(crate) fn why_withheld(base: &Base, id: AssociationId) -> Option<Withheld> {
    if !base.core.driver.endpoint().withholds_addresses(id) {
        return None;
    }
    Some(match base.keys.standing_of(id) {
        Some(Standing::New) => Withheld::NewKey,
        Some(Standing::Anyone) => Withheld::NotAuthorized,
        Some(Standing::Known | Standing::Authorized) => Withheld::KeyExchange,
        None if base.keys.holds(id) => Withheld::KeyExchange,
        None => Withheld::NotEncrypted,
    })
}

/// Says whether flows of the peer are relayed, now that its key is known.
fn tell_whether_relayed(base: &mut Base, id: AssociationId) {
    let answer = match (&base.core.config.relay, base.is_ours(id)) {
        (None, _) => RelayAnswer::NotRelay,
        (Some(_), true) => RelayAnswer::NotAllowed,
        (Some(_), false) => RelayAnswer::Relays,
    };
    if let Some(association) = base.all.get_mut(&id) {
        association.mux.set_relay_answer(answer);
    }
    base.touch(id);
}

fn reject_unless(base: &mut Base, id: AssociationId, outcome: Result<(), Rejection>) {
    if let Err(rejection) = outcome {
        reject(base, id, &rejection);
    }
}

/// The association is not used: it ends, and its connections go on elsewhere or fail.
pub(crate) fn reject(base: &mut Base, id: AssociationId, rejection: &Rejection) {
    base.core.count(rejection.counter());
    let peer = base.core.peer_name(id);
    match rejection.is_alarming() {
        true => {
            warn!(target: log::ASSOCIATION, "association {} with {peer}: {rejection}", id.0)
        }
        false => {
            info!(target: log::ASSOCIATION, "association {} with {peer}: {rejection}", id.0)
        }
    }
    base.retire(id);
    if let Some(association) = base.all.get_mut(&id) {
        association.setup = Setup::Ending;
        association.rejected = Some(rejection.reason());
    }
    base.core.abort(id, rejection.abort_reason());
}
