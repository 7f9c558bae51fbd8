//! Options of DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk section 8.4).

use super::set::ids;
use crate::api::arguments::{field, fields, int};
use crate::api::constants::constant;
use crate::api::errno::{Called, Outcome};
use crate::api::filled::Filled;
use crate::language::Why;
use crate::language::ast::{Arg, Value, get};
use crate::world::World;
use manypath_aead::CipherSuite;
use manypath_engine::protection::{KeyRole, NONCE_LEN, ProtectionError, RecordKey};
use manypath_engine::{KeyManagement, KeyRoles};

/// Sets an option; none if it is not one of these.
pub(super) fn set(
    world: &mut World,
    fd: i64,
    option: &str,
    value: &Value,
) -> Result<Option<Outcome>, Why> {
    if option == "SCTP_DTLS_LOCAL_CONFIG" {
        world.sockets.get(fd)?.config.key_management = Some(offer(fields(value)?)?);
        return Ok(Some(Outcome::OK));
    }
    if !option.starts_with("SCTP_DTLS_") {
        return Ok(None);
    }
    change(world, fd, option, value).map(Some)
}

/// Reads an option; none if it is not one of these.
pub(super) fn get_option(world: &mut World, fd: i64, option: &str) -> Result<Option<Filled>, Why> {
    match option {
        "SCTP_DTLS_GET_CONFIG" => negotiated(world, fd).map(Some),
        "SCTP_DTLS_GET_STATS" => statistics(world, fd).map(Some),
        _ => Ok(None),
    }
}

/// What keys and their use need of an association.
fn change(world: &mut World, fd: i64, option: &str, value: &Value) -> Called {
    let (stack, Some(id)) = ids(world, fd)? else { return Ok(Outcome::Fails("ENOTCONN")) };
    let (now, endpoint) = (world.now, &mut world.stacks[stack].endpoint);
    let epoch = |args| Ok(number(args, "sdk_epoch")?.or(number(args, "sdki_epoch")?).unwrap_or(0));
    let result = match option {
        "SCTP_DTLS_SET_SEND_KEYS" => {
            let args = fields(value)?;
            endpoint.install_sending_key(now, id, epoch(args)?, key(args)?)
        }
        "SCTP_DTLS_ADD_RECV_KEYS" => {
            let args = fields(value)?;
            endpoint.install_receiving_key(now, id, epoch(args)?, key(args)?)
        }
        "SCTP_DTLS_DEL_RECV_KEYS" => endpoint.retire_receiving_key(now, id, epoch(fields(value)?)?),
        "SCTP_DTLS_ENFORCE_PROTECTION" if number(fields(value)?, "assoc_value")? != Some(0) => {
            endpoint.require_protection(now, id)
        }
        "SCTP_DTLS_ENFORCE_PROTECTION" => return Ok(Outcome::Fails("EINVAL")),
        other => return Err(Why::gap(format!("setsockopt {other} is not known"))),
    };
    Ok(match result {
        Ok(()) => Outcome::OK,
        Err(ProtectionError::NotEstablished) => Outcome::Fails("ENOTCONN"),
        Err(_) => Outcome::Fails("EINVAL"),
    })
}

fn number(args: &[Arg], key: &str) -> Result<Option<u64>, Why> {
    let found = field(args, key)?;
    let bad = |_| Why::syntax(format!("{key} is negative"));
    found.map(|number| u64::try_from(number).map_err(bad)).transpose()
}

fn bytes(args: &[Arg], key: &str) -> Result<Vec<u8>, Why> {
    let bad = || Why::syntax(format!("{key} must be a list of bytes"));
    let Some(Value::List(list)) = get(args, key) else { return Err(bad()) };
    list.iter().map(|byte| u8::try_from(int(byte)?).map_err(|_| bad())).collect()
}

fn has(flags: i64, name: &str) -> bool {
    constant(name).is_some_and(|flag| flags & flag != 0)
}

fn offer(args: &[Arg]) -> Result<KeyManagement, Why> {
    let flags = field(args, "sdc_flags")?.unwrap_or(0);
    let roles = match (has(flags, "SCTP_DTLS_CLIENT"), has(flags, "SCTP_DTLS_SERVER")) {
        (true, false) => KeyRoles::Client,
        (false, true) => KeyRoles::Server,
        (true, true) => KeyRoles::Either,
        (false, false) => return Err(Why::syntax("sdc_flags must have a role")),
    };
    let required = has(flags, "SCTP_DTLS_REQUIRED");
    Ok(KeyManagement { methods: bytes(args, "sdc_kmids")?, roles, required })
}

/// The record key, the initialization vector and the sequence number key, one behind the other.
fn key(args: &[Arg]) -> Result<RecordKey, Why> {
    let suite = bytes(args, "sdk_cipher_suite")?;
    let suite = suite.first_chunk().copied().map(u16::from_be_bytes);
    let suite = suite.and_then(CipherSuite::from_id);
    let suite = suite.ok_or_else(|| Why::syntax("sdk_cipher_suite is not known"))?;
    let keys = bytes(args, "sdk_keys")?;
    let wrong = || Why::syntax("sdk_keys has another length than the cipher suite's");
    let (key, rest) = keys.split_at_checked(suite.key_len()).ok_or_else(wrong)?;
    let (iv, sn) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
    suite.key(key, *iv, sn).map_err(|_| wrong())
}

/// Method and role, or none.
fn negotiated(world: &mut World, fd: i64) -> Result<Filled, Why> {
    let (stack, id) = ids(world, fd)?;
    let agreed = id.and_then(|id| world.stacks[stack].endpoint.key_agreement(id));
    let role = agreed.map(|agreed| match agreed.role {
        KeyRole::Client => "SCTP_DTLS_CLIENT",
        KeyRole::Server => "SCTP_DTLS_SERVER",
    });
    let methods: Vec<_> = agreed.iter().map(|agreed| Filled::Int(agreed.method.into())).collect();
    Ok(Filled::Struct(vec![
        ("sdc_assoc_id", Filled::Asked),
        ("sdc_flags", Filled::Int(role.and_then(constant).unwrap_or(0))),
        ("sdc_nr_kmids", Filled::Int(i64::from(agreed.is_some()))),
        ("sdc_kmids", Filled::List(methods)),
    ]))
}

fn statistics(world: &mut World, fd: i64) -> Result<Filled, Why> {
    let (stack, id) = ids(world, fd)?;
    let endpoint = &world.stacks[stack].endpoint;
    let usage = id.and_then(|id| endpoint.key_use(id)).unwrap_or_default();
    let opened = usage.opening.iter().map(|it| it.opened).sum();
    let sealed = usage.sealing.map_or(0, |(_, sealed, _)| sealed);
    let counters = endpoint.counters();
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Ok(Filled::numbers([
        ("sds_assoc_id", 0),
        ("sds_dropped_unprotected", count(counters.unprotected_packets)),
        ("sds_aead_failures", count(counters.forged_records)),
        ("sds_recv_protected", count(opened)),
        ("sds_sent_protected", count(sealed)),
    ]))
}
