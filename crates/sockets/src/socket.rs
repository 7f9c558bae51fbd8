//! One socket.

use crate::association::{Association, SendDefaults};
use crate::constants::{SCTP_ALL_ASSOC, SCTP_CURRENT_ASSOC, SCTP_FUTURE_ASSOC};
use crate::errno::Errno;
use crate::notification::Subscriptions;
use crate::structures::sctp_assoc_t;
use manypath_engine::{Config, Duration};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// The two styles of RFC 6458 sections 3 and 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// `SOCK_STREAM`: one association, as TCP has it.
    OneToOne,
    /// `SOCK_SEQPACKET`: many associations, as UDP has peers.
    OneToMany,
}

/// Where a socket is bound to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bound {
    /// The SCTP port.
    pub(crate) port: u16,
    /// The addresses; none stand for all.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Which addresses a socket takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Family {
    /// Whether it is of the family AF_INET6.
    pub(crate) ipv6: bool,
    /// Whether it takes no IPv4 addresses then (IPV6_V6ONLY).
    pub(crate) only_ipv6: bool,
}

impl Family {
    /// Whether it takes this one.
    pub(crate) fn takes(self, address: IpAddr) -> bool {
        if address.is_ipv6() { self.ipv6 } else { !self.only_ipv6 }
    }
}

/// What is passed on with `accept` and `sctp_peeloff`.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) family: Family,
    /// Whether IPv4 addresses are given as IPv6 ones.
    pub(crate) mapped: bool,
    /// See [`crate::Sockets::following_linux`].
    pub(crate) follows_linux: bool,
    /// Options for the associations to come.
    pub(crate) config: Config,
    /// The peers' UDP port (RFC 6951); 0 stands for SCTP over IP.
    pub(crate) encapsulation: u16,
    pub(crate) events: Subscriptions,
    /// Whether messages come with sctp_rcvinfo and sctp_nxtinfo.
    pub(crate) receive_info: bool,
    pub(crate) next_info: bool,
    pub(crate) defaults: SendDefaults,
    /// `SCTP_CONTEXT`.
    pub(crate) context: u32,
    /// Whether messages that need several packets are refused.
    pub(crate) disable_fragments: bool,
    /// Whether a message ends only where the program says so (`SCTP_EXPLICIT_EOR`).
    pub(crate) explicit_end: bool,
    /// Whether associations follow the addresses of the host (`SCTP_AUTO_ASCONF`).
    pub(crate) follows_addresses: bool,
    /// `SCTP_FRAGMENT_INTERLEAVE`, which the engine follows at its highest level anyway.
    pub(crate) fragment_interleave: u32,
    /// `SCTP_ENABLE_STREAM_RESET`, and whether some may be asked for here.
    pub(crate) stream_resets: u32,
    /// How long `close` waits, in seconds (SO_LINGER), if it does; with 0 it aborts.
    pub(crate) linger: Option<u16>,
    /// SO_REUSEADDR.
    pub(crate) reuse: bool,
    /// `SCTP_REUSE_PORT`.
    pub(crate) reuse_port: bool,
    /// After which time an idle association ends (`SCTP_AUTOCLOSE`).
    pub(crate) autoclose: Option<Duration>,
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) style: Style,
    pub(crate) settings: Settings,
    pub(crate) bound: Option<Bound>,
    /// How many associations may wait to be accepted, while it listens.
    pub(crate) backlog: Option<usize>,
    /// Those that wait to be accepted.
    pub(crate) waiting: VecDeque<sctp_assoc_t>,
    pub(crate) associations: BTreeMap<sctp_assoc_t, Association>,
    /// Associations that may have something to be read.
    pub(crate) ready: BTreeSet<sctp_assoc_t>,
    /// The association whose turn it is to be read.
    pub(crate) turn: sctp_assoc_t,
    /// Associations that took no more, until they do again.
    pub(crate) blocked: BTreeSet<sctp_assoc_t>,
    /// What SO_ERROR and the next call tell.
    pub(crate) error: Option<Errno>,
    /// Whether it is shut down for reading and for writing.
    pub(crate) shut: (bool, bool),
    /// Whether it was made by `sctp_peeloff`.
    pub(crate) peeled: bool,
}

impl Socket {
    pub(crate) fn new(style: Style, settings: Settings) -> Self {
        Self {
            style,
            settings,
            bound: None,
            backlog: None,
            waiting: VecDeque::new(),
            associations: BTreeMap::new(),
            ready: BTreeSet::new(),
            turn: 0,
            blocked: BTreeSet::new(),
            error: None,
            shut: (false, false),
            peeled: false,
        }
    }

    pub(crate) fn is_one_to_one(&self) -> bool {
        self.style == Style::OneToOne
    }

    /// The association of a one-to-one socket.
    pub(crate) fn only(&self) -> Option<sctp_assoc_t> {
        let one = self.is_one_to_one() && self.backlog.is_none();
        self.associations.keys().next().copied().filter(|_| one)
    }

    /// Whether an association has come about and is not over.
    pub(crate) fn is_established(&self, number: sctp_assoc_t) -> bool {
        let found = self.associations.get(&number);
        found.is_some_and(|one| one.streams.is_some() && one.closed.is_none())
    }

    /// What holds for messages to the association that is named, or for those that begin one.
    ///
    /// # Errors
    /// `EINVAL` if there is no such association.
    pub(crate) fn defaults(&self, named: sctp_assoc_t) -> Result<&SendDefaults, Errno> {
        match self.chosen(named).and_then(|chosen| self.associations.get(&chosen)) {
            Some(association) => Ok(&association.defaults),
            None if self.is_one_to_one() || named == SCTP_FUTURE_ASSOC => {
                Ok(&self.settings.defaults)
            }
            None => Err(Errno::INVALID),
        }
    }

    /// The same to be set: of one association, of those that there are (`SCTP_CURRENT_ASSOC`), of those to come
    /// (`SCTP_FUTURE_ASSOC`), or of all (RFC 6458 section 7.2).
    ///
    /// # Errors
    /// `EINVAL` if there is no such association.
    pub(crate) fn defaults_mut(
        &mut self,
        named: sctp_assoc_t,
    ) -> Result<Vec<&mut SendDefaults>, Errno> {
        let (one_to_one, chosen) = (self.is_one_to_one(), self.chosen(named));
        let (current, future) = match named {
            _ if chosen.is_some() => (true, false),
            _ if one_to_one => (false, true),
            SCTP_FUTURE_ASSOC => (false, true),
            SCTP_CURRENT_ASSOC => (true, false),
            SCTP_ALL_ASSOC => (true, true),
            _ => return Err(Errno::INVALID),
        };
        let meant =
            |number: &sctp_assoc_t| current && chosen.is_none_or(|chosen| chosen == *number);
        let associations = self.associations.iter_mut().filter(|(number, _)| meant(number));
        let own = future.then_some(&mut self.settings.defaults);
        Ok(associations.map(|(_, one)| &mut one.defaults).chain(own).collect())
    }

    /// The association that a call means: the only one, or the one that it names.
    pub(crate) fn chosen(&self, id: sctp_assoc_t) -> Option<sctp_assoc_t> {
        if self.is_one_to_one() {
            return self.only();
        }
        self.associations.contains_key(&id).then_some(id)
    }
}
