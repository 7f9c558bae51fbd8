//! The structures of RFC 6458 as Linux lays them out.

use crate::layout::{AlignedStorage, structures};

/// Names an association of a socket.
#[allow(non_camel_case_types, reason = "the name is that of RFC 6458")]
pub type sctp_assoc_t = i32;

/// Any socket address, as it stands in structures that Linux packs.
#[allow(non_camel_case_types, reason = "the name is that of the C library")]
pub type sockaddr_storage = [u8; 128];

structures! {
    /// Set-up of associations (section 5.3.1; `SCTP_INIT`, `SCTP_INITMSG`).
    struct sctp_initmsg {
        sinit_num_ostreams: u16, sinit_max_instreams: u16, sinit_max_attempts: u16, sinit_max_init_timeo: u16,
    }
    /// What is told with a message, or says how to send one (section 5.3.2; `SCTP_SNDRCV`).
    struct sctp_sndrcvinfo {
        sinfo_stream: u16, sinfo_ssn: u16, sinfo_flags: u16, sinfo_ppid: u32, sinfo_context: u32,
        sinfo_timetolive: u32, sinfo_tsn: u32, sinfo_cumtsn: u32, sinfo_assoc_id: sctp_assoc_t,
    }
    /// How to send a message (section 5.3.4; `SCTP_SNDINFO`).
    struct sctp_sndinfo {
        snd_sid: u16, snd_flags: u16, snd_ppid: u32, snd_context: u32, snd_assoc_id: sctp_assoc_t,
    }
    /// What is told with a message (section 5.3.5; `SCTP_RCVINFO`).
    struct sctp_rcvinfo {
        rcv_sid: u16, rcv_ssn: u16, rcv_flags: u16, rcv_ppid: u32, rcv_tsn: u32, rcv_cumtsn: u32,
        rcv_context: u32, rcv_assoc_id: sctp_assoc_t,
    }
    /// What is told of the message that comes next (section 5.3.6; `SCTP_NXTINFO`).
    struct sctp_nxtinfo {
        nxt_sid: u16, nxt_flags: u16, nxt_ppid: u32, nxt_length: u32, nxt_assoc_id: sctp_assoc_t,
    }
    /// What is to be done for a message (section 5.3.7; `SCTP_PRINFO`).
    struct sctp_prinfo { pr_policy: u16, pr_value: u32 }
    /// The key of a message (section 5.3.8; `SCTP_AUTHINFO`).
    struct sctp_authinfo { auth_keynumber: u16 }

    /// An association has come, gone or begun anew (section 6.1.1).
    struct sctp_assoc_change {
        sac_type: u16, sac_flags: u16, sac_length: u32, sac_state: u16, sac_error: u16,
        sac_outbound_streams: u16, sac_inbound_streams: u16, sac_assoc_id: sctp_assoc_t, [u8] sac_info
    }
    /// An address of the peer has changed (section 6.1.2).
    struct sctp_paddr_change {
        spc_type: u16, spc_flags: u16, spc_length: u32, spc_aaddr: sockaddr_storage, spc_state: i32,
        spc_error: i32, spc_assoc_id: sctp_assoc_t,
    }
    /// The peer has reported an error (section 6.1.3).
    struct sctp_remote_error {
        sre_type: u16, sre_flags: u16, sre_length: u32, sre_error: u16, sre_assoc_id: sctp_assoc_t, [u8] sre_data
    }
    /// A message was not delivered (section 6.1.4, deprecated).
    struct sctp_send_failed {
        ssf_type: u16, ssf_flags: u16, ssf_length: u32, ssf_error: u32, ssf_info: sctp_sndrcvinfo,
        ssf_assoc_id: sctp_assoc_t, [u8] ssf_data
    }
    /// The peer sends no more (section 6.1.5).
    struct sctp_shutdown_event { sse_type: u16, sse_flags: u16, sse_length: u32, sse_assoc_id: sctp_assoc_t }
    /// What the peer speaks (section 6.1.6).
    struct sctp_adaptation_event {
        sai_type: u16, sai_flags: u16, sai_length: u32, sai_adaptation_ind: u32, sai_assoc_id: sctp_assoc_t,
    }
    /// The rest of a message will not come (section 6.1.7).
    struct sctp_pdapi_event {
        pdapi_type: u16, pdapi_flags: u16, pdapi_length: u32, pdapi_indication: u32,
        pdapi_assoc_id: sctp_assoc_t, pdapi_stream: u32, pdapi_seq: u32,
    }
    /// A key is used differently (section 6.1.8).
    struct sctp_authkey_event {
        auth_type: u16, auth_flags: u16, auth_length: u32, auth_keynumber: u16, auth_altkeynumber: u16,
        auth_indication: u32, auth_assoc_id: sctp_assoc_t,
    }
    /// Everything has been delivered (section 6.1.9).
    struct sctp_sender_dry_event {
        sender_dry_type: u16, sender_dry_flags: u16, sender_dry_length: u32, sender_dry_assoc_id: sctp_assoc_t,
    }
    /// A message was not delivered (section 6.1.11).
    struct sctp_send_failed_event {
        ssfe_type: u16, ssfe_flags: u16, ssfe_length: u32, ssfe_error: u32, ssfe_info: sctp_sndinfo,
        ssfe_assoc_id: sctp_assoc_t, [u8] ssfe_data
    }
    /// Streams were reset (RFC 6525 section 6.1.1).
    struct sctp_stream_reset_event {
        strreset_type: u16, strreset_flags: u16, strreset_length: u32, strreset_assoc_id: sctp_assoc_t,
        [u16] strreset_stream_list
    }
    /// All streams and TSNs were reset (RFC 6525 section 6.1.2).
    struct sctp_assoc_reset_event {
        assocreset_type: u16, assocreset_flags: u16, assocreset_length: u32, assocreset_assoc_id: sctp_assoc_t,
        assocreset_local_tsn: u32, assocreset_remote_tsn: u32,
    }
    /// Streams were added (RFC 6525 section 6.1.3).
    struct sctp_stream_change_event {
        strchange_type: u16, strchange_flags: u16, strchange_length: u32, strchange_assoc_id: sctp_assoc_t,
        strchange_instrms: u16, strchange_outstrms: u16,
    }

    /// `SCTP_EVENTS`: a flag for each notification (section 6.2.1, deprecated).
    struct sctp_event_subscribe {
        sctp_data_io_event: u8, sctp_association_event: u8, sctp_address_event: u8, sctp_send_failure_event: u8,
        sctp_peer_error_event: u8, sctp_shutdown_event: u8, sctp_partial_delivery_event: u8,
        sctp_adaptation_layer_event: u8, sctp_authentication_event: u8, sctp_sender_dry_event: u8,
        sctp_stream_reset_event: u8, sctp_assoc_reset_event: u8, sctp_stream_change_event: u8,
        sctp_send_failure_event_event: u8,
    }
    /// `SCTP_EVENT`: one notification (section 6.2.2).
    struct sctp_event { se_assoc_id: sctp_assoc_t, se_type: u16, se_on: u8 }
    /// `SCTP_RTOINFO` (section 8.1.1), in milliseconds.
    struct sctp_rtoinfo { srto_assoc_id: sctp_assoc_t, srto_initial: u32, srto_max: u32, srto_min: u32 }
    /// `SCTP_ASSOCINFO` (section 8.1.2).
    struct sctp_assocparams {
        sasoc_assoc_id: sctp_assoc_t, sasoc_asocmaxrxt: u16, sasoc_number_peer_destinations: u16,
        sasoc_peer_rwnd: u32, sasoc_local_rwnd: u32, sasoc_cookie_life: u32,
    }
    /// `SCTP_PRIMARY_ADDR` (section 8.1.9).
    struct sctp_setprim { ssp_assoc_id: sctp_assoc_t, ssp_addr: sockaddr_storage }
    /// `SCTP_SET_PEER_PRIMARY_ADDR` (section 8.3.1).
    struct sctp_setpeerprim { sspp_assoc_id: sctp_assoc_t, sspp_addr: sockaddr_storage }
    /// `SCTP_ADAPTATION_LAYER` (section 8.1.10).
    struct sctp_setadaptation { ssb_adaptation_ind: u32 }
    /// `SCTP_PEER_ADDR_PARAMS` (section 8.1.12).
    struct sctp_paddrparams {
        spp_assoc_id: sctp_assoc_t, spp_address: sockaddr_storage, spp_hbinterval: u32, spp_pathmaxrxt: u16,
        spp_pathmtu: packed_u32, spp_sackdelay: packed_u32, spp_flags: packed_u32,
        spp_ipv6_flowlabel: packed_u32, spp_dscp: u8,
    }
    /// `SCTP_PEER_ADDR_THLDS` (RFC 7829 section 7.2).
    struct sctp_paddrthlds {
        spt_assoc_id: sctp_assoc_t, spt_address: AlignedStorage, spt_pathmaxrxt: u16, spt_pathpfthld: u16,
    }
    /// `SCTP_AUTH_CHUNK` (section 8.3.2).
    struct sctp_authchunk { sauth_chunk: u8 }
    /// `SCTP_HMAC_IDENT` (section 8.1.17).
    struct sctp_hmacalgo { shmac_number_of_idents: u32, [u16] shmac_idents }
    /// `SCTP_AUTH_KEY` (section 8.3.3).
    struct sctp_authkey { sca_assoc_id: sctp_assoc_t, sca_keynumber: u16, sca_keylength: u16, [u8] sca_key }
    /// `SCTP_AUTH_ACTIVE_KEY` and others that name a key (section 8.1.18).
    struct sctp_authkeyid { scact_assoc_id: sctp_assoc_t, scact_keynumber: u16 }
    /// `SCTP_PEER_AUTH_CHUNKS` (section 8.2.3).
    struct sctp_authchunks { gauth_assoc_id: sctp_assoc_t, gauth_number_of_chunks: u32, [u8] gauth_chunks }
    /// `SCTP_DELAYED_SACK` (section 8.1.19).
    struct sctp_sack_info { sack_assoc_id: sctp_assoc_t, sack_delay: u32, sack_freq: u32 }
    /// A value of an association (section 8.1.4 and others).
    struct sctp_assoc_value { assoc_id: sctp_assoc_t, assoc_value: u32 }
    /// A value of a stream (RFC 8260 section 4.3.3).
    struct sctp_stream_value { assoc_id: sctp_assoc_t, stream_id: u16, stream_value: u16 }
    /// `SCTP_GET_PEER_ADDR_INFO` (section 8.2.2).
    struct sctp_paddrinfo {
        spinfo_assoc_id: sctp_assoc_t, spinfo_address: sockaddr_storage, spinfo_state: i32, spinfo_cwnd: u32,
        spinfo_srtt: u32, spinfo_rto: u32, spinfo_mtu: u32,
    }
    /// `SCTP_STATUS` (section 8.2.1).
    struct sctp_status {
        sstat_assoc_id: sctp_assoc_t, sstat_state: i32, sstat_rwnd: u32, sstat_unackdata: u16,
        sstat_penddata: u16, sstat_instrms: u16, sstat_outstrms: u16, sstat_fragmentation_point: u32,
        sstat_primary: sctp_paddrinfo,
    }
    /// `SCTP_GET_ASSOC_STATS` of Linux. Times are in milliseconds.
    struct sctp_assoc_stats {
        sas_assoc_id: sctp_assoc_t, sas_obs_rto_ipaddr: AlignedStorage, sas_maxrto: u64, sas_isacks: u64,
        sas_osacks: u64, sas_opackets: u64, sas_ipackets: u64, sas_rtxchunks: u64, sas_outofseqtsns: u64,
        sas_idupchunks: u64, sas_gapcnt: u64, sas_ouodchunks: u64, sas_iuodchunks: u64, sas_oodchunks: u64,
        sas_iodchunks: u64, sas_octrlchunks: u64, sas_ictrlchunks: u64,
    }
    /// `SCTP_GET_ASSOC_ID_LIST` (section 8.2.6).
    struct sctp_assoc_ids { gaids_number_of_ids: u32, [sctp_assoc_t] gaids_assoc_id }
    /// `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951 section 6.1).
    struct sctp_udpencaps { sue_assoc_id: sctp_assoc_t, sue_address: AlignedStorage, sue_port: u16 }
    /// `SCTP_DEFAULT_PRINFO` (RFC 7496 section 4.2).
    struct sctp_default_prinfo { pr_assoc_id: sctp_assoc_t, pr_value: u32, pr_policy: u16 }
    /// `SCTP_PR_STREAM_STATUS` and `SCTP_PR_ASSOC_STATUS` (RFC 7496 section 4.3).
    struct sctp_prstatus {
        sprstat_assoc_id: sctp_assoc_t, sprstat_sid: u16, sprstat_policy: u16, sprstat_abandoned_unsent: u64,
        sprstat_abandoned_sent: u64,
    }
    /// `SCTP_RESET_STREAMS` (RFC 6525 section 6.3.2).
    struct sctp_reset_streams {
        srs_assoc_id: sctp_assoc_t, srs_flags: u16, srs_number_streams: u16, [u16] srs_stream_list
    }
    /// `SCTP_ADD_STREAMS` (RFC 6525 section 6.3.4).
    struct sctp_add_streams { sas_assoc_id: sctp_assoc_t, sas_instrms: u16, sas_outstrms: u16 }

    /// Information of `sctp_sendv` (section 9.12; `SCTP_SENDV_SPA`).
    struct sctp_sendv_spa {
        sendv_flags: u32, sendv_sndinfo: sctp_sndinfo, sendv_prinfo: sctp_prinfo, sendv_authinfo: sctp_authinfo,
    }
    /// Information of `sctp_recvv` (section 9.13; `SCTP_RECVV_RN`).
    struct sctp_recvv_rn { recvv_rcvinfo: sctp_rcvinfo, recvv_nxtinfo: sctp_nxtinfo }

    /// How the private option `SCTP_SOCKOPT_PEELOFF` of libsctp asks.
    struct sctp_peeloff_arg { associd: sctp_assoc_t, sd: i32 }
    /// How the private options `SCTP_GET_PEER_ADDRS` and `SCTP_GET_LOCAL_ADDRS` of libsctp answer.
    struct sctp_getaddrs { assoc_id: sctp_assoc_t, addr_num: u32, [u8] addrs }
    /// How the private option `SCTP_SOCKOPT_CONNECTX3` of libsctp asks.
    struct sctp_getaddrs_old { assoc_id: sctp_assoc_t, addr_num: i32, addrs: u64 }
}

/// A number that Linux packs: it follows what is before it without a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
#[allow(non_camel_case_types, reason = "it stands among those of RFC 6458")]
pub struct packed_u32([u8; 4]);

impl packed_u32 {
    /// The number.
    pub fn get(self) -> u32 {
        u32::from_ne_bytes(self.0)
    }
}

impl From<u32> for packed_u32 {
    fn from(number: u32) -> Self {
        Self(number.to_ne_bytes())
    }
}

impl crate::layout::Field for packed_u32 {
    const ALIGNMENT: usize = 1;
    fn read(bytes: &[u8]) -> Self {
        Self(crate::layout::Field::read(bytes))
    }
    fn write(&self, bytes: &mut [u8]) {
        self.0.write(bytes);
    }
}
