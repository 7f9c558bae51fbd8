//! Commands of scripts: only sysctl, whose names become options of the engine.

use super::World;
use crate::language::Why;
use manypath_engine::{Duration, EcnUse, NrSack, PathMtu, ProbeOrder};

/// What FreeBSD begins with, 1200 bytes, without the IP header.
const BASE_PLPMTU: u16 = 1180;

impl World {
    /// A command in back quotes.
    pub(crate) fn command(&mut self, command: &str) -> Result<(), Why> {
        let mut words = command.split_whitespace();
        if words.next() != Some("sysctl") {
            return Err(Why::gap(format!("command '{command}' is not run")));
        }
        for setting in words.filter(|word| !word.starts_with('-')) {
            self.set(setting)?;
        }
        Ok(())
    }

    fn set(&mut self, setting: &str) -> Result<(), Why> {
        let (name, value) = setting.split_once('=').unwrap_or((setting, "0"));
        let Some(name) = own_name(name) else { return Ok(()) };
        let bad = |_| Why::syntax(format!("bad value in '{setting}'"));
        let value: u32 = value.parse().map_err(bad)?;
        let millis = Duration::from_millis(value.into());
        let config = &mut self.config;
        match name {
            "nrsack_enable" | "nrsack_on_off" | "nr_sack_on_off" => {
                config.nr_sack = if value == 0 { NrSack::Off } else { NrSack::Case2 };
            }
            // Whether what was received may be thrown away again.
            "do_sctp_drain" if config.nr_sack != NrSack::Off => {
                config.nr_sack = if value == 0 { NrSack::Case3 } else { NrSack::Case2 };
            }
            "plpmtud_enable" => {
                let search = value != 0;
                self.pmtud = Some(search);
                config.path_mtu = if search { PathMtu::Search } else { PathMtu::Interface };
                // FreeBSD's BASE_PLPMTU counts the IP header and that of UDP.
                let is_udp = self.network.udp != (0, 0);
                config.plpmtu_base = BASE_PLPMTU - if is_udp { 8 } else { 0 };
                config.plpmtu_order = ProbeOrder::Binary;
            }
            "plpmtud_search_algorithm" => {
                config.plpmtu_order =
                    if value == 1 { ProbeOrder::Step } else { ProbeOrder::Binary };
            }
            "plpmtud_ipv4_min_mtu" if self.network.local.is_ipv4() => {
                config.plpmtu_min = size(value)
            }
            "plpmtud_ipv6_min_mtu" if self.network.local.is_ipv6() => {
                config.plpmtu_min = size(value)
            }
            "plpmtud_use_ptb" => config.plpmtu_reports = value != 0,
            "plpmtud_max_probes" => config.plpmtu_max_probes = value,
            "plpmtud_min_probe_rtx_time" => config.plpmtu_probe_timer = millis,
            "plpmtud_raise_time" => config.plpmtu_raise_timer = millis,
            "ecn_enable" => config.ecn = if value == 0 { EcnUse::Off } else { EcnUse::On },
            "auth_enable" => config.authentication = value != 0,
            "auth_disable" => config.authentication = value == 0,
            "asconf_enable" => config.address_reconfiguration = value != 0,
            "pr_enable" => config.partial_reliability = value != 0,
            "reconfig_enable" => config.reconfiguration = value != 0,
            "initial_cwnd" => config.initial_packets = (value > 0).then_some(value),
            "maxburst" => config.max_burst = if value == 0 { u32::MAX } else { value },
            "rto_min" => config.rto_min = millis,
            "rto_max" => config.rto_max = millis,
            "rto_initial" => config.rto_initial = millis,
            "heartbeat_interval" => config.heartbeat_interval = millis,
            "delayed_sack_time" => config.sack_delay = millis,
            "sack_freq" => config.sack_frequency = value,
            "valid_cookie_life" => config.cookie_life = millis,
            "init_rtx_max" => config.max_init_retransmits = value,
            "assoc_rtx_max" => config.association_max_retransmits = value,
            "path_rtx_max" => config.path_max_retransmits = value,
            "path_pf_threshold" => config.potentially_failed_retransmits = value,
            "recvspace" => config.receive_buffer = value,
            "sendspace" => config.send_buffer = value,
            "outgoing_streams" => config.streams = u16::try_from(value).unwrap_or(u16::MAX),
            "incoming_streams" => {
                config.inbound_streams = Some(u16::try_from(value).unwrap_or(u16::MAX));
            }
            "udp_tunneling_port" => {
                let port = u16::try_from(value).map_err(|_| Why::syntax("bad UDP port"))?;
                self.network.udp = (port, if port == 0 { 0 } else { self.network.udp.1 });
            }
            // Extensions that the engine does not have stay off, whatever a script wants: where it
            // matters the packets will show it.
            _ => {}
        }
        Ok(())
    }
}

fn size(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// The name of a setting without what FreeBSD or Linux put before it, as FreeBSD has it.
fn own_name(name: &str) -> Option<&str> {
    if let Some(name) = name.strip_prefix("net.inet.sctp.") {
        return Some(name);
    }
    match name.strip_prefix("net.sctp.")? {
        "prsctp_enable" => Some("pr_enable"),
        "hb_interval" => Some("heartbeat_interval"),
        "sack_timeout" => Some("delayed_sack_time"),
        "max_init_retransmits" => Some("init_rtx_max"),
        "association_max_retrans" => Some("assoc_rtx_max"),
        "path_max_retrans" => Some("path_rtx_max"),
        "pf_retrans" => Some("path_pf_threshold"),
        "max_burst" => Some("maxburst"),
        "valid_cookie_life" => Some("valid_cookie_life"),
        "encap_port" => Some("udp_tunneling_port"),
        name => Some(name).filter(|name| name.starts_with("rto_") || name.ends_with("_enable")),
    }
}
