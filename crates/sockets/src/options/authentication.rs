//! Options of authentication (RFC 6458 sections 8.1.17, 8.1.18, 8.2.3, 8.2.4 and 8.3.2 to 8.3.5).

use super::{Asked, Request, decode};
use crate::constants::*;
use crate::errno::Errno;
use crate::layout::Structure;
use crate::notification::number;
use crate::structures::*;
use crate::table::{Host, SocketId, Sockets};
use manypath_engine::{HmacAlgorithms, KeyError};

/// INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH (RFC 4895 section 3.2).
const NEVER: [u8; 4] = [1, 2, 14, 15];
/// ASCONF ACK and ASCONF, which are always authenticated (RFC 5061 section 4.1.1).
const ADDRESS_CHANGES: [u8; 2] = [0x80, 0xc1];

pub(super) fn set(sockets: &mut Sockets, host: &mut Host<'_>, request: Request<'_>) -> Asked<()> {
    let Request { id, name, value } = request;
    Some(match name {
        SCTP_AUTH_CHUNK => demand(sockets, id, value),
        SCTP_HMAC_IDENT => set_algorithms(sockets, id, value),
        SCTP_AUTH_KEY => shared_key(sockets, host, id, value),
        SCTP_AUTH_ACTIVE_KEY | SCTP_AUTH_DEACTIVATE_KEY | SCTP_AUTH_DELETE_KEY => {
            with_key(sockets, host, request)
        }
        _ => return None,
    })
}

pub(super) fn get(sockets: &mut Sockets, host: &Host<'_>, request: Request<'_>) -> Asked<Vec<u8>> {
    let Request { id, name, value: asked } = request;
    let socket = sockets.sockets.get(&id)?;
    let settings = &socket.settings;
    Some(match name {
        SCTP_AUTH_ACTIVE_KEY => decode::<sctp_authkeyid>(asked).and_then(|asked| {
            let scact_keynumber = socket.defaults(asked.scact_assoc_id)?.active_key;
            Ok(sctp_authkeyid { scact_keynumber, ..asked }.encode())
        }),
        SCTP_HMAC_IDENT => {
            let numbers = numbers_of(settings.config.hmac_algorithms);
            let count = u32::try_from(numbers.len()).unwrap_or(0);
            let mut bytes = sctp_hmacalgo { shmac_number_of_idents: count }.encode();
            bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
            Ok(bytes)
        }
        SCTP_LOCAL_AUTH_CHUNKS => {
            let mut list = settings.config.authenticated_chunks.clone();
            if settings.config.address_reconfiguration {
                list.extend(ADDRESS_CHANGES);
            }
            list.sort_unstable();
            list.dedup();
            chunks(asked, &list)
        }
        SCTP_PEER_AUTH_CHUNKS => peer_chunks(sockets, host, id, asked),
        _ => return None,
    })
}

fn peer_chunks(
    sockets: &mut Sockets,
    host: &Host<'_>,
    id: SocketId,
    asked: &[u8],
) -> Result<Vec<u8>, Errno> {
    let named = decode::<sctp_authchunks>(asked)?.gauth_assoc_id;
    let engine = sockets.existing(id, named)?;
    chunks(asked, host.endpoint.chunks_authenticated_for_peer(engine))
}

fn chunks(asked: &[u8], list: &[u8]) -> Result<Vec<u8>, Errno> {
    let asked: sctp_authchunks = decode(asked)?;
    let gauth_number_of_chunks = u32::try_from(list.len()).unwrap_or(0);
    let mut bytes = sctp_authchunks { gauth_number_of_chunks, ..asked }.encode();
    bytes.extend(list);
    Ok(bytes)
}

fn demand(sockets: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let chunk = decode::<sctp_authchunk>(value)?.sauth_chunk;
    let config = &mut sockets.socket(id)?.settings.config;
    if NEVER.contains(&chunk) {
        return Err(Errno::INVALID);
    }
    config.authenticated_chunks.push(chunk);
    Ok(())
}

fn numbers_of(algorithms: HmacAlgorithms) -> Vec<u16> {
    let (sha1, sha256) = (number(SCTP_AUTH_HMAC_ID_SHA1), number(SCTP_AUTH_HMAC_ID_SHA256));
    match algorithms {
        HmacAlgorithms::Sha256Sha1 => vec![sha256, sha1],
        HmacAlgorithms::Sha1Sha256 => vec![sha1, sha256],
        HmacAlgorithms::Sha1 => vec![sha1],
    }
}

/// The algorithms that associations to come offer, the most wanted first. SHA-1 must be among them (RFC 4895
/// section 6.1).
fn set_algorithms(sockets: &mut Sockets, id: SocketId, value: &[u8]) -> Result<(), Errno> {
    let count = decode::<sctp_hmacalgo>(value)?.shmac_number_of_idents;
    let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(2));
    let list = value.get(sctp_hmacalgo::DESCRIPTION.size..).unwrap_or_default();
    let list = len.and_then(|len| list.get(..len)).ok_or(Errno::INVALID)?;
    let mut wanted: Vec<u16> = Vec::new();
    for pair in list.chunks_exact(2) {
        let number = u16::from_ne_bytes([pair[0], pair[1]]);
        if !wanted.contains(&number) {
            wanted.push(number);
        }
    }
    let known = numbers_of(HmacAlgorithms::Sha256Sha1);
    if wanted.iter().any(|number| !known.contains(number)) {
        return Err(Errno::NOT_SUPPORTED);
    }
    let found = HmacAlgorithms::ALL.iter().find(|one| numbers_of(**one) == wanted);
    sockets.socket(id)?.settings.config.hmac_algorithms = *found.ok_or(Errno::INVALID)?;
    Ok(())
}

fn shared_key(
    sockets: &mut Sockets,
    host: &mut Host<'_>,
    id: SocketId,
    value: &[u8],
) -> Result<(), Errno> {
    let asked: sctp_authkey = decode(value)?;
    let secret = value.get(sctp_authkey::DESCRIPTION.size..).unwrap_or_default();
    let secret = secret.get(..asked.sca_keylength.into()).ok_or(Errno::INVALID)?;
    let engine = sockets.engine_of(id, asked.sca_assoc_id)?;
    keyed(host.endpoint.set_shared_key(host.now, engine, asked.sca_keynumber, secret))
}

fn with_key(sockets: &mut Sockets, host: &mut Host<'_>, request: Request<'_>) -> Result<(), Errno> {
    let Request { id, name, value } = request;
    let asked: sctp_authkeyid = decode(value)?;
    let engine = sockets.engine_of(id, asked.scact_assoc_id)?;
    let (endpoint, key) = (&mut *host.endpoint, asked.scact_keynumber);
    match name {
        SCTP_AUTH_ACTIVE_KEY => {
            keyed(endpoint.set_active_key(host.now, engine, key))?;
            let defaults = sockets.socket(id)?.defaults_mut(asked.scact_assoc_id)?;
            defaults.into_iter().for_each(|defaults| defaults.active_key = key);
            Ok(())
        }
        SCTP_AUTH_DEACTIVATE_KEY => keyed(endpoint.deactivate_key(host.now, engine, key)),
        _ => keyed(endpoint.delete_key(host.now, engine, key)),
    }
}

/// Whatever it is, the key is not one that this can be done with.
fn keyed(result: Result<(), KeyError>) -> Result<(), Errno> {
    result.map_err(|_| Errno::INVALID)
}
