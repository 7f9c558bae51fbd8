//! Which parameters hold: the endpoint's own, or those of one association or of one port.
//!
//! One endpoint may speak to peers of several kinds: what is announced to them, and how data is sent
//! to them, then depends on who begins with whom at which port.

use super::api::context;
use super::index::AddressKey;
use super::{AssociationId, ConnectError, Endpoint};
use crate::association::{Association, Ports};
use crate::config::{Announce, Config};
use crate::path::{PathRole, PathRule, pairing, scope};
use crate::time::Instant;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;

/// First of the ports that IANA leaves for dynamic use, and how many there are.
const DYNAMIC_PORTS: (u16, u16) = (49152, 16384);
/// How often a free dynamic port is looked for.
const PORT_ATTEMPTS: usize = 64;

/// Ports at which associations are accepted, and with which parameters.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    ports: RangeInclusive<u16>,
    config: Arc<Config>,
}

impl Endpoint {
    /// Starts an association as [`Self::connect`] does, with parameters of its own instead of the
    /// endpoint's, and perhaps rules about its paths ([`Self::set_own_path_policies`]): its handshake uses no path
    /// that they disable. Limits of the endpoint as a whole and `hmac_algorithms` remain what they are there.
    pub fn connect_with(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        port: u16,
        config: Config,
        rules: Option<Vec<PathRule>>,
    ) -> Result<AssociationId, ConnectError> {
        let own = config.port;
        let config = self.own_parameters(config);
        self.begin(now, remote, (own, port), Some(config), rules)
    }

    /// Starts an association as [`Self::connect`] does, from a port of the dynamic range also where
    /// `Config::port` is a fixed one. Hosts behind one NAT that begin from the same port are one
    /// endpoint to their peer: the INIT of the second restarts the association of the first (RFC
    /// 9260 section 5.2).
    pub fn connect_from_free_port(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        port: u16,
    ) -> Result<AssociationId, ConnectError> {
        self.begin(now, remote, (0, port), None, None)
    }

    /// Accepts associations at these ports too, with the parameters that stand beside them, and at no
    /// others except `Config::port`. Where ranges overlap the first counts whose `Config::local_addresses`
    /// allow the address. Associations that exist keep theirs.
    pub fn listen(&mut self, listeners: Vec<(RangeInclusive<u16>, Config)>) {
        let mut listener =
            |(ports, config)| Listener { ports, config: self.own_parameters(config) };
        self.listeners = listeners.into_iter().map(&mut listener).collect();
    }

    /// Lets an association send as `like` says from now on: congestion control, pacing, which stream goes next and over
    /// which path. The congestion windows and round-trip times of its paths stay (BBR makes its model anew), and what
    /// waits is sent by the new rules. All else stays, above all what was agreed on with the peer in the handshake, such
    /// as NR-SACK: an association without parameters of its own goes on to follow [`Self::configure`] in it.
    pub fn send_like(&mut self, now: Instant, id: AssociationId, like: &Config) {
        let Some(association) = self.registry.get(id) else { return };
        if association.parameters.is_none() {
            self.registry.followers.insert(id);
        }
        derive_parameters(self, id, like);
        self.with(now, id, |association, cx| {
            association.paths.follow(cx.config);
            association.sender.queue_mut().follow(cx.config);
        });
    }

    /// The SCTP ports of an association: ours, and the peer's.
    pub fn ports(&self, id: AssociationId) -> Option<(u16, u16)> {
        self.registry.get(id).map(|association| (association.ports.local, association.ports.peer))
    }

    /// The association between our port `own` and the peer's `port` at this address, if there is one.
    pub fn association_with(&self, remote: IpAddr, own: u16, port: u16) -> Option<AssociationId> {
        let ports = Ports { local: own, peer: port };
        self.registry.index.by_address(&AddressKey { remote, ports })
    }

    /// RFC 4895 section 6.1 forbids to change the algorithms. Associations that are begun with the same
    /// parameters one after the other share them, whatever their ports.
    fn own_parameters(&mut self, config: Config) -> Arc<Config> {
        let hmac_algorithms = self.config.hmac_algorithms;
        let config = Config { hmac_algorithms, port: 0, ..config.in_bounds() };
        if let Some(last) = self.last_parameters.as_ref().filter(|last| ***last == config) {
            return last.clone();
        }
        let config = Arc::new(config);
        self.last_parameters = Some(config.clone());
        config
    }

    /// The parameters for those who come to an address and a port, if these have some of their own.
    pub(super) fn parameters_at(&self, local: IpAddr, port: u16) -> Option<Arc<Config>> {
        let fits = |one: &&Listener| one.ports.contains(&port) && one.config.allows(local);
        let found = self.listeners.iter().find(fits);
        found.filter(|_| port != self.config.port).map(|listener| listener.config.clone())
    }

    /// The parameters of an association, if it has some of its own.
    pub(super) fn parameters_of(&self, id: AssociationId) -> Option<Arc<Config>> {
        self.registry.get(id)?.parameters.clone()
    }

    pub(super) fn begin(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        (own, port): (u16, u16),
        parameters: Option<Arc<Config>>,
        rules: Option<Vec<PathRule>>,
    ) -> Result<AssociationId, ConnectError> {
        if port == 0 {
            return Err(ConnectError::InvalidPort);
        }
        if self.registry.len() >= self.config.max_associations {
            return Err(ConnectError::TooMany);
        }
        let config = parameters.as_deref().unwrap_or(&self.config);
        let mut allowed = config.allowed(&self.locals).into_owned();
        // Isolated addresses have to be named.
        if config.local_addresses.is_empty() {
            allowed.retain(|local| scope::realm_of(&self.scopes, local.addr.ip()).is_none());
        }
        let wanted = rules.as_ref().unwrap_or(&self.policies);
        let mut candidates = pairing::candidates(&allowed, remote, wanted);
        if let Some(own) = &rules {
            candidates.retain(|it| PathRule::policy(own, it).role != PathRole::Disabled);
        }
        if let Some(first) = candidates.first().map(|it| it.local.ip())
            && config.announce == Announce::Authenticated
        {
            candidates.retain(|it| it.local.ip() == first);
        }
        if candidates.is_empty() {
            return Err(ConnectError::NoLocalAddress);
        }
        let races = config.handshake_race && config.multipath;
        let together = if races { pairing::gather(&mut candidates, &allowed, wanted) } else { 1 };
        let ports = self.free_ports(remote, own, port).ok_or(ConnectError::AlreadyConnected)?;
        let (tag, id) = (self.fresh_tag(), self.next_id());
        let mut cx = context!(self, now, parameters);
        let candidates = (candidates, together);
        let mut association = Association::connect(&mut cx, id, ports, tag, candidates)
            .ok_or(ConnectError::NoLocalAddress)?;
        association.parameters = parameters;
        rules.into_iter().for_each(|own| association.paths.set_own_policies(own));
        self.registry.insert(id, association);
        self.settle(id);
        Ok(id)
    }

    /// Ports for an association with the peer's `port` at `remote` that no other has.
    fn free_ports(&mut self, remote: SocketAddr, fixed: u16, port: u16) -> Option<Ports> {
        let (first, count) = DYNAMIC_PORTS;
        for _ in 0..PORT_ATTEMPTS {
            let dynamic = first + u16::try_from(self.rng.below(count.into())).unwrap_or(0);
            let ports = Ports { local: if fixed == 0 { dynamic } else { fixed }, peer: port };
            let key = AddressKey { remote: remote.ip(), ports };
            if self.registry.index.by_address(&key).is_none() {
                return Some(ports);
            }
        }
        None
    }
}

/// Gives an association parameters that are the endpoint's, or its own, except for how it sends.
pub(super) fn derive_parameters(endpoint: &mut Endpoint, id: AssociationId, like: &Config) {
    let own = endpoint.parameters_of(id).filter(|_| !endpoint.registry.followers.contains(&id));
    let others = own.as_deref().unwrap_or(&endpoint.config).clone();
    let parameters = endpoint.own_parameters(others.sending_like(like));
    if let Some(association) = endpoint.registry.get_mut(id) {
        association.parameters = Some(parameters);
    }
}
