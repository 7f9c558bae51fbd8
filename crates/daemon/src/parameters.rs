//! What the engine is told: by the stack's settings, and by a rule for one association or stream.

use crate::config::{Encapsulation, MAX_FLOWS, StackConfig};
use manypath_engine::{Announce, Config, Duration, KeyManagement, KeyRoles, Profile};
use manypath_rules::{Encrypt, Options, PathLimits};

/// As many connections can be open towards one peer before streams are added.
const FLOW_STREAMS: u16 = 1024;
/// Streams asked for in each direction.
pub(crate) const STREAMS: u16 = FLOW_STREAMS + manypath_flow::DATAGRAM_STREAMS;
/// The most connections of one side, in streams.
pub(crate) const MAX_STREAMS: u16 = MAX_FLOWS + manypath_flow::DATAGRAM_STREAMS;
/// What the buffers of an association may grow to, with the paths: twice what 850 Mbit/s over 300 ms has in flight.
const LARGEST_BUFFER: u32 = 64 << 20;
/// Streams that a native program may use towards us.
const NATIVE_STREAMS: u16 = 64;
/// Three times an INIT of so many bytes is room for the INIT ACK of a server with 16 IPv6 addresses: 660 bytes, and
/// 28 of headers.
const INIT_SIZE: u16 = 228;
/// The initial window of a path in packets, that of TCP (RFC 6928): an answer of 10 KB takes no round trip more.
const INITIAL_PACKETS: u32 = 10;
/// How long Linux repeats the data of a TCP connection (tcp_retries2, tcp(7)).
const DATA_PATIENCE: Duration = Duration::from_secs(924);
/// When a TCP connection with keepalive and nothing to send is given up (tcp_keepalive_time, with nine probes).
const IDLE_PATIENCE: Duration = Duration::from_secs(7200 + 9 * 75);
/// With the short RTO of a client this goes on for 15 s after the fallback, in case that a peer is
/// only slow: what it answers late counts for the next connection.
const CLIENT_INIT_RETRANSMITS: u32 = 6;

/// The parameters of the stack, which hold unless a rule says otherwise.
pub(crate) fn of_stack(config: &StackConfig) -> Config {
    of_profile(config, config.profile)
}

/// The parameters of the endpoint itself: those of a gateway, if it is one.
pub(crate) fn of_endpoint(config: &StackConfig) -> Config {
    match config.gateway {
        Some(_) => of_direct(config, config.profile),
        None => of_stack(config),
    }
}

/// The same with another profile.
pub(crate) fn of_profile(config: &StackConfig, profile: Profile) -> Config {
    let base = profile.config();
    let loops = u32::try_from(config.loops()).unwrap_or(u32::MAX);
    Config {
        // What strangers may cause is limited for the host, whatever the number of loops.
        unverified_reply_rate: base.unverified_reply_rate / loops,
        max_associations: base.max_associations.div_ceil(config.loops()),
        max_associations_per_address: base.max_associations_per_address.div_ceil(config.loops()),
        // Those that we begin have ports of their own.
        port: if config.accept { manypath_flow::SCTP_PORT } else { 0 },
        accept: config.accept,
        // Raw sockets get what is for other stacks of the host, too.
        respond_to_ootb: config.encapsulation == Encapsulation::Udp,
        adaptation: Some(manypath_flow::ADAPTATION),
        init_size: INIT_SIZE,
        require_adaptation: true,
        // Hosts of today are moved: addresses come and go with links, leases and prefixes.
        address_reconfiguration: true,
        streams: STREAMS,
        reconfiguration: true,
        accept_added_streams: true,
        max_streams: MAX_STREAMS,
        initial_packets: Some(INITIAL_PACKETS),
        // Says to peers that datagrams are carried, too.
        partial_reliability: true,
        receive_buffer_max: LARGEST_BUFFER,
        send_buffer_max: LARGEST_BUFFER,
        rto_initial: initial_rto(config),
        rto_min: config.limits.rto_min,
        rto_max: config.limits.rto_max,
        path_max_retransmits: config.limits.path_rtx_max,
        // Connections last as long as TCP's would: a host that was suspended may come back.
        data_patience: DATA_PATIENCE,
        idle_patience: IDLE_PATIENCE,
        key_management: key_management(config.encrypt),
        announce: config.carrying.announce,
        redundancy: config.carrying.redundancy,
        shared_bottleneck: config.carrying.shared_bottleneck,
        max_init_retransmits: if config.accept { 8 } else { CLIENT_INIT_RETRANSMITS },
        ..base
    }
}

/// RFC 9260 section 16 says 1 s, which a fallback timeout of 300 ms never reaches: one lost INIT
/// would mean plain TCP. A client sends INITs again, over its next addresses, in time: `n` of them,
/// each after twice the wait of the one before, fit into `2^(n + 1) - 1` times the first wait. The
/// last one's answer gets nearly as long as it needs: a little less than its share is enough.
pub(crate) fn initial_rto(config: &StackConfig) -> Duration {
    if config.accept {
        return config.profile.config().rto_initial;
    }
    let waits = (2_u32 << config.limits.init_rtx_max.min(8)) - 1;
    (config.limits.fallback_timeout * 6 / (5 * waits)).max(Duration::from_millis(20))
}

/// How the association of a connection sends: connections that differ in it use different associations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Manner {
    pub(crate) profile: Profile,
    /// Which uplinks it may use.
    pub(crate) limits: PathLimits,
    /// Whether its peer is told the addresses of this host before its key is known.
    pub(crate) announce: Announce,
}

/// The engine's profile of this name.
pub(crate) const fn profile(named: manypath_rules::Profile) -> Profile {
    match named {
        manypath_rules::Profile::Production => Profile::Production,
        manypath_rules::Profile::Dynamic => Profile::Dynamic,
    }
}

/// What a rule asks for, or the stack's.
pub(crate) fn manner(config: &StackConfig, options: &Options) -> Manner {
    let profile = options.profile.map_or(config.profile, profile);
    let announce = match options.announce {
        Some(manypath_rules::Announce::All) => Announce::All,
        Some(manypath_rules::Announce::Authenticated) => Announce::Authenticated,
        None => config.carrying.announce,
    };
    Manner { profile, limits: options.path_limits(), announce }
}

/// The parameters of an association that is not as the stack has them.
pub(crate) fn with(config: &StackConfig, manner: Manner, encrypt: Encrypt) -> Config {
    let (key_management, Manner { profile, announce, .. }) = (key_management(encrypt), manner);
    Config { port: 0, key_management, announce, ..of_profile(config, profile) }
}

/// What is offered to peers about the keys of an association.
pub(crate) fn key_management(encrypt: Encrypt) -> Option<KeyManagement> {
    let required = encrypt == Encrypt::Require;
    let (methods, roles) = (vec![manypath_keys::METHOD], KeyRoles::Either);
    (encrypt != Encrypt::Off).then_some(KeyManagement { methods, roles, required })
}

/// The parameters of associations in the direct form. A service has one stream; native programs may
/// use more of theirs.
pub(crate) fn of_direct(config: &StackConfig, profile: Profile) -> Config {
    let native = Config {
        port: 0,
        adaptation: Some(manypath_flow::DIRECT_ADAPTATION),
        init_size: 0,
        require_adaptation: false,
        // Peers that know ASCONF without AUTH would have to be refused (RFC 5061 section 6).
        address_reconfiguration: false,
        // A native peer does not remember cookies: it makes a second association of the original, with the data in it,
        // where that of a copy is over.
        handshake_race: false,
        streams: 1,
        reconfiguration: false,
        initial_packets: None,
        inbound_streams: Some(NATIVE_STREAMS),
        partial_reliability: false,
        // Native programs have no keys.
        key_management: None,
        ..of_profile(config, profile)
    };
    match &config.gateway {
        Some(gateway) => gateway.parameters(native),
        None => native,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_fills_a_loop() {
        for loops in [1, 4, 16] {
            let seat = manypath_net::Loops::seats(loops).pop();
            let mut config = StackConfig::server(Vec::new());
            config.process.seat = seat;
            let config = of_stack(&config);
            let (all, one) = (config.max_associations, config.max_associations_per_address);
            assert!(one * 4 <= all, "{one} of {all} with {loops} loops");
        }
    }

    #[test]
    fn rules_know_the_profiles_for_real_use() {
        let config = StackConfig::default();
        let known = manypath_rules::Profile::ALL.map(|profile| {
            let options = Options { profile: Some(profile), ..Options::default() };
            assert_eq!(manner(&config, &options).profile.name(), profile.name());
            profile.name()
        });
        assert_eq!(known, Profile::LIVE.map(Profile::name));
    }
}
