//! Control messages: what is told with a message, and how it is to be sent (RFC 6458 section 5.3).

use crate::address;
use crate::association::SendDefaults;
use crate::constants::*;
use crate::errno::Errno;
use crate::layout::Structure;
use crate::receive::About;
use crate::structures::*;
use manypath_engine::{Duration, Reliability};
use std::net::IpAddr;

/// A control message of the level IPPROTO_SCTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    /// Its type.
    pub kind: i32,
    /// What it holds.
    pub data: Vec<u8>,
}

/// How a message is to be sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SendInfo {
    /// Stream, flags, payload protocol identifier and association.
    pub info: sctp_sndinfo,
    /// How much is to be done for it, if that was said.
    pub reliability: Option<Reliability>,
    /// What the association is to be like that the message begins.
    pub init: Option<sctp_initmsg>,
    /// More addresses of the peer.
    pub addresses: Vec<IpAddr>,
    /// The shared key that is to authenticate it, if one was named.
    pub key: Option<u16>,
}

impl SendInfo {
    /// What the defaults say.
    pub(crate) fn of(defaults: &SendDefaults) -> Self {
        let sctp_prinfo { pr_policy, pr_value } = defaults.reliability;
        let reliability = reliability(pr_policy.into(), pr_value).filter(|_| pr_policy != 0);
        Self { info: defaults.info, reliability, ..Self::default() }
    }

    /// Takes over what a control message says.
    ///
    /// # Errors
    /// `EINVAL` if it is too short or of another type.
    pub fn apply(&mut self, control: &Control) -> Result<(), Errno> {
        let data = control.data.as_slice();
        match control.kind {
            SCTP_INIT => self.init = Some(decode(data)?),
            SCTP_SNDRCV => self.apply_old(&decode(data)?),
            SCTP_SNDINFO => self.info = decode(data)?,
            SCTP_PRINFO => self.apply_terms(&decode(data)?)?,
            SCTP_AUTHINFO => self.apply_key(&decode(data)?),
            SCTP_DSTADDRV4 => self.addresses.push(ipv4(data)?),
            SCTP_DSTADDRV6 => self.addresses.push(ipv6(data)?),
            _ => return Err(Errno::INVALID),
        }
        Ok(())
    }

    fn apply_old(&mut self, old: &sctp_sndrcvinfo) {
        self.info = sctp_sndinfo {
            snd_sid: old.sinfo_stream,
            snd_flags: old.sinfo_flags,
            snd_ppid: old.sinfo_ppid,
            snd_context: old.sinfo_context,
            snd_assoc_id: old.sinfo_assoc_id,
        };
        let policy = i32::from(old.sinfo_flags) & SCTP_PR_SCTP_PRIO;
        let lives = policy == SCTP_PR_SCTP_NONE && old.sinfo_timetolive > 0;
        let policy = if lives { SCTP_PR_SCTP_TTL } else { policy };
        if policy != SCTP_PR_SCTP_NONE {
            self.reliability = reliability(policy, old.sinfo_timetolive);
        }
    }

    fn apply_terms(&mut self, terms: &sctp_prinfo) -> Result<(), Errno> {
        let found = reliability(terms.pr_policy.into(), terms.pr_value);
        self.reliability = Some(found.ok_or(Errno::INVALID)?);
        Ok(())
    }

    fn apply_key(&mut self, key: &sctp_authinfo) {
        self.key = Some(key.auth_keynumber);
    }

    /// Takes over what `sctp_sendv` is told with (RFC 6458 section 9.12).
    ///
    /// # Errors
    /// `EINVAL` if the type is not known or does not fit the length.
    pub fn apply_vector(&mut self, kind: i32, info: &[u8]) -> Result<(), Errno> {
        match kind {
            SCTP_SENDV_NOINFO => {}
            SCTP_SENDV_SNDINFO => self.info = decode(info)?,
            SCTP_SENDV_PRINFO => self.apply_terms(&decode(info)?)?,
            SCTP_SENDV_AUTHINFO => self.apply_key(&decode(info)?),
            SCTP_SENDV_SPA => {
                let all: sctp_sendv_spa = decode(info)?;
                let valid = |flag: i32| all.sendv_flags & flag.unsigned_abs() != 0;
                if valid(SCTP_SEND_AUTHINFO_VALID) {
                    self.apply_key(&all.sendv_authinfo);
                }
                if valid(SCTP_SEND_SNDINFO_VALID) {
                    self.info = all.sendv_sndinfo;
                }
                if valid(SCTP_SEND_PRINFO_VALID) {
                    self.apply_terms(&all.sendv_prinfo)?;
                }
            }
            _ => return Err(Errno::INVALID),
        }
        Ok(())
    }
}

fn decode<S: Structure>(data: &[u8]) -> Result<S, Errno> {
    S::decode(data).ok_or(Errno::INVALID)
}

fn ipv4(data: &[u8]) -> Result<IpAddr, Errno> {
    let octets: [u8; 4] = data.get(..4).and_then(|it| it.try_into().ok()).ok_or(Errno::INVALID)?;
    Ok(octets.into())
}

fn ipv6(data: &[u8]) -> Result<IpAddr, Errno> {
    let octets: [u8; 16] =
        data.get(..16).and_then(|it| it.try_into().ok()).ok_or(Errno::INVALID)?;
    Ok(octets.into())
}

/// The policy of a number; none if there is no such one.
pub(crate) fn reliability(policy: i32, value: u32) -> Option<Reliability> {
    match policy {
        SCTP_PR_SCTP_NONE => Some(Reliability::Reliable),
        SCTP_PR_SCTP_TTL => Some(Reliability::Lifetime(Duration::from_millis(value.into()))),
        SCTP_PR_SCTP_RTX => Some(Reliability::Retransmissions(value)),
        SCTP_PR_SCTP_PRIO => Some(Reliability::Priority(value)),
        _ => None,
    }
}

/// The control messages that a program gets with a message, as they stand in memory. Those for which
/// there is no room are left out, and that is told.
pub fn lay_out(about: &About, room: usize) -> (Vec<u8>, bool) {
    let controls = [
        about.old.map(|old| (SCTP_SNDRCV, old.encode())),
        about.info.map(|info| (SCTP_RCVINFO, info.encode())),
        about.next.map(|next| (SCTP_NXTINFO, next.encode())),
    ];
    let mut bytes = Vec::new();
    for (kind, data) in controls.into_iter().flatten() {
        let entry = control_message(kind, &data);
        if bytes.len() + entry.len() > room {
            return (bytes, true);
        }
        bytes.extend(entry);
    }
    (bytes, false)
}

/// A `struct cmsghdr` with what follows it.
fn control_message(kind: i32, data: &[u8]) -> Vec<u8> {
    const HEADER: usize = size_of::<usize>() + 8;
    let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
    bytes.extend(libc::IPPROTO_SCTP.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(size_of::<usize>()), 0);
    bytes
}

/// The address at the beginning of `bytes`, if there is one.
pub(crate) fn given_address(bytes: &[u8]) -> Option<std::net::SocketAddr> {
    address::decode(bytes).filter(|address| !address.ip().is_unspecified())
}
