/*
 * SCTP in userland: the sockets API of RFC 6458 with the numbers and layouts of Linux.
 *
 * Generated from crates/sockets; `cargo test -p manypath-sctp` tells when it is not up to date.
 * docs/sctp-library.md says what is supported and what is not. It stands instead of <netinet/sctp.h>.
 *
 * The calls of the C library on sockets have the prefix manypath_ here, and take other descriptors too. With
 * MANYPATH_SCTP_REPLACE defined before this header is included, the usual names stand for them.
 */
#ifndef MANYPATH_SCTP_H
#define MANYPATH_SCTP_H

#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef IPPROTO_SCTP
#define IPPROTO_SCTP 132
#endif
#ifndef SOL_SCTP
#define SOL_SCTP 132
#endif

typedef int32_t sctp_assoc_t;

#define SCTP_FUTURE_ASSOC 0
#define SCTP_CURRENT_ASSOC 1
#define SCTP_ALL_ASSOC 2
#define SCTP_RTOINFO 0
#define SCTP_ASSOCINFO 1
#define SCTP_INITMSG 2
#define SCTP_NODELAY 3
#define SCTP_AUTOCLOSE 4
#define SCTP_SET_PEER_PRIMARY_ADDR 5
#define SCTP_PRIMARY_ADDR 6
#define SCTP_ADAPTATION_LAYER 7
#define SCTP_DISABLE_FRAGMENTS 8
#define SCTP_PEER_ADDR_PARAMS 9
#define SCTP_DEFAULT_SEND_PARAM 10
#define SCTP_EVENTS 11
#define SCTP_I_WANT_MAPPED_V4_ADDR 12
#define SCTP_MAXSEG 13
#define SCTP_STATUS 14
#define SCTP_GET_PEER_ADDR_INFO 15
#define SCTP_DELAYED_SACK 16
#define SCTP_CONTEXT 17
#define SCTP_FRAGMENT_INTERLEAVE 18
#define SCTP_PARTIAL_DELIVERY_POINT 19
#define SCTP_MAX_BURST 20
#define SCTP_AUTH_CHUNK 21
#define SCTP_HMAC_IDENT 22
#define SCTP_AUTH_KEY 23
#define SCTP_AUTH_ACTIVE_KEY 24
#define SCTP_AUTH_DELETE_KEY 25
#define SCTP_PEER_AUTH_CHUNKS 26
#define SCTP_LOCAL_AUTH_CHUNKS 27
#define SCTP_GET_ASSOC_NUMBER 28
#define SCTP_GET_ASSOC_ID_LIST 29
#define SCTP_AUTO_ASCONF 30
#define SCTP_PEER_ADDR_THLDS 31
#define SCTP_RECVRCVINFO 32
#define SCTP_RECVNXTINFO 33
#define SCTP_DEFAULT_SNDINFO 34
#define SCTP_AUTH_DEACTIVATE_KEY 35
#define SCTP_REUSE_PORT 36
#define SCTP_SOCKOPT_BINDX_ADD 100
#define SCTP_SOCKOPT_BINDX_REM 101
#define SCTP_SOCKOPT_PEELOFF 102
#define SCTP_SOCKOPT_CONNECTX_OLD 107
#define SCTP_GET_PEER_ADDRS 108
#define SCTP_GET_LOCAL_ADDRS 109
#define SCTP_SOCKOPT_CONNECTX 110
#define SCTP_SOCKOPT_CONNECTX3 111
#define SCTP_GET_ASSOC_STATS 112
#define SCTP_PR_SUPPORTED 113
#define SCTP_DEFAULT_PRINFO 114
#define SCTP_PR_ASSOC_STATUS 115
#define SCTP_PR_STREAM_STATUS 116
#define SCTP_RECONFIG_SUPPORTED 117
#define SCTP_ENABLE_STREAM_RESET 118
#define SCTP_RESET_STREAMS 119
#define SCTP_RESET_ASSOC 120
#define SCTP_ADD_STREAMS 121
#define SCTP_SOCKOPT_PEELOFF_FLAGS 122
#define SCTP_STREAM_SCHEDULER 123
#define SCTP_STREAM_SCHEDULER_VALUE 124
#define SCTP_INTERLEAVING_SUPPORTED 125
#define SCTP_EVENT 127
#define SCTP_ASCONF_SUPPORTED 128
#define SCTP_AUTH_SUPPORTED 129
#define SCTP_ECN_SUPPORTED 130
#define SCTP_REMOTE_UDP_ENCAPS_PORT 132
#define SCTP_EXPLICIT_EOR 1000
#define SCTP_INIT 0
#define SCTP_SNDRCV 1
#define SCTP_SNDINFO 2
#define SCTP_RCVINFO 3
#define SCTP_NXTINFO 4
#define SCTP_PRINFO 5
#define SCTP_AUTHINFO 6
#define SCTP_DSTADDRV4 7
#define SCTP_DSTADDRV6 8
#ifndef MSG_NOTIFICATION
#define MSG_NOTIFICATION 0x8000
#endif
#define SCTP_UNORDERED 1
#define SCTP_ADDR_OVER 2
#define SCTP_ABORT 4
#define SCTP_SACK_IMMEDIATELY 8
#define SCTP_SENDALL 64
#define SCTP_EOF 512
#define SCTP_EOR 8192
#define SCTP_NOTIFICATION 32768
#define SCTP_PR_SCTP_NONE 0
#define SCTP_PR_SCTP_TTL 16
#define SCTP_PR_SCTP_RTX 32
#define SCTP_PR_SCTP_PRIO 48
#define SCTP_PR_SCTP_ALL 128
#define SCTP_SENDV_NOINFO 0
#define SCTP_SENDV_SNDINFO 1
#define SCTP_SENDV_PRINFO 2
#define SCTP_SENDV_AUTHINFO 3
#define SCTP_SENDV_SPA 4
#define SCTP_SEND_SNDINFO_VALID 1
#define SCTP_SEND_PRINFO_VALID 2
#define SCTP_SEND_AUTHINFO_VALID 4
#define SCTP_RECVV_NOINFO 0
#define SCTP_RECVV_RCVINFO 1
#define SCTP_RECVV_NXTINFO 2
#define SCTP_RECVV_RN 3
#define SCTP_DATA_IO_EVENT 32768
#define SCTP_ASSOC_CHANGE 32769
#define SCTP_PEER_ADDR_CHANGE 32770
#define SCTP_SEND_FAILED 32771
#define SCTP_REMOTE_ERROR 32772
#define SCTP_SHUTDOWN_EVENT 32773
#define SCTP_PARTIAL_DELIVERY_EVENT 32774
#define SCTP_ADAPTATION_INDICATION 32775
#define SCTP_AUTHENTICATION_EVENT 32776
#define SCTP_SENDER_DRY_EVENT 32777
#define SCTP_STREAM_RESET_EVENT 32778
#define SCTP_ASSOC_RESET_EVENT 32779
#define SCTP_STREAM_CHANGE_EVENT 32780
#define SCTP_SEND_FAILED_EVENT 32781
#define SCTP_COMM_UP 0
#define SCTP_COMM_LOST 1
#define SCTP_RESTART 2
#define SCTP_SHUTDOWN_COMP 3
#define SCTP_CANT_STR_ASSOC 4
#define SCTP_ADDR_AVAILABLE 0
#define SCTP_ADDR_UNREACHABLE 1
#define SCTP_ADDR_REMOVED 2
#define SCTP_ADDR_ADDED 3
#define SCTP_ADDR_MADE_PRIM 4
#define SCTP_ADDR_CONFIRMED 5
#define SCTP_ADDR_POTENTIALLY_FAILED 6
#define SCTP_DATA_UNSENT 0
#define SCTP_DATA_SENT 1
#define SCTP_PARTIAL_DELIVERY_ABORTED 0
#define SCTP_AUTH_NEW_KEY 0
#define SCTP_AUTH_FREE_KEY 1
#define SCTP_AUTH_NO_AUTH 2
#define SCTP_STREAM_RESET_INCOMING_SSN 1
#define SCTP_STREAM_RESET_OUTGOING_SSN 2
#define SCTP_STREAM_RESET_DENIED 4
#define SCTP_STREAM_RESET_FAILED 8
#define SCTP_ASSOC_RESET_DENIED 4
#define SCTP_ASSOC_RESET_FAILED 8
#define SCTP_STREAM_CHANGE_DENIED 4
#define SCTP_STREAM_CHANGE_FAILED 8
#define SPP_HB_ENABLE 1
#define SPP_HB_DISABLE 2
#define SPP_HB_DEMAND 4
#define SPP_PMTUD_ENABLE 8
#define SPP_PMTUD_DISABLE 16
#define SPP_SACKDELAY_ENABLE 32
#define SPP_SACKDELAY_DISABLE 64
#define SPP_HB_TIME_IS_ZERO 128
#define SPP_IPV6_FLOWLABEL 256
#define SPP_DSCP 512
#define SCTP_INACTIVE 0
#define SCTP_PF 1
#define SCTP_ACTIVE 2
#define SCTP_UNCONFIRMED 3
#define SCTP_EMPTY 0
#define SCTP_CLOSED 1
#define SCTP_COOKIE_WAIT 2
#define SCTP_COOKIE_ECHOED 3
#define SCTP_ESTABLISHED 4
#define SCTP_SHUTDOWN_PENDING 5
#define SCTP_SHUTDOWN_SENT 6
#define SCTP_SHUTDOWN_RECEIVED 7
#define SCTP_SHUTDOWN_ACK_SENT 8
#define SCTP_ENABLE_RESET_STREAM_REQ 1
#define SCTP_ENABLE_RESET_ASSOC_REQ 2
#define SCTP_ENABLE_CHANGE_ASSOC_REQ 4
#define SCTP_STREAM_RESET_INCOMING 1
#define SCTP_STREAM_RESET_OUTGOING 2
#define SCTP_SS_FCFS 0
#define SCTP_SS_DEFAULT 0
#define SCTP_SS_PRIO 1
#define SCTP_SS_RR 2
#define SCTP_AUTH_HMAC_ID_SHA1 1
#define SCTP_AUTH_HMAC_ID_SHA256 3
#define SCTP_BINDX_ADD_ADDR 1
#define SCTP_BINDX_REM_ADDR 2

/* Set-up of associations (section 5.3.1; `SCTP_INIT`, `SCTP_INITMSG`). */
struct sctp_initmsg {
    uint16_t sinit_num_ostreams;
    uint16_t sinit_max_instreams;
    uint16_t sinit_max_attempts;
    uint16_t sinit_max_init_timeo;
};

/* What is told with a message, or says how to send one (section 5.3.2; `SCTP_SNDRCV`). */
struct sctp_sndrcvinfo {
    uint16_t sinfo_stream;
    uint16_t sinfo_ssn;
    uint16_t sinfo_flags;
    uint32_t sinfo_ppid;
    uint32_t sinfo_context;
    uint32_t sinfo_timetolive;
    uint32_t sinfo_tsn;
    uint32_t sinfo_cumtsn;
    sctp_assoc_t sinfo_assoc_id;
};

/* How to send a message (section 5.3.4; `SCTP_SNDINFO`). */
struct sctp_sndinfo {
    uint16_t snd_sid;
    uint16_t snd_flags;
    uint32_t snd_ppid;
    uint32_t snd_context;
    sctp_assoc_t snd_assoc_id;
};

/* What is told with a message (section 5.3.5; `SCTP_RCVINFO`). */
struct sctp_rcvinfo {
    uint16_t rcv_sid;
    uint16_t rcv_ssn;
    uint16_t rcv_flags;
    uint32_t rcv_ppid;
    uint32_t rcv_tsn;
    uint32_t rcv_cumtsn;
    uint32_t rcv_context;
    sctp_assoc_t rcv_assoc_id;
};

/* What is told of the message that comes next (section 5.3.6; `SCTP_NXTINFO`). */
struct sctp_nxtinfo {
    uint16_t nxt_sid;
    uint16_t nxt_flags;
    uint32_t nxt_ppid;
    uint32_t nxt_length;
    sctp_assoc_t nxt_assoc_id;
};

/* What is to be done for a message (section 5.3.7; `SCTP_PRINFO`). */
struct sctp_prinfo {
    uint16_t pr_policy;
    uint32_t pr_value;
};

/* The key of a message (section 5.3.8; `SCTP_AUTHINFO`). */
struct sctp_authinfo {
    uint16_t auth_keynumber;
};

/* An association has come, gone or begun anew (section 6.1.1). */
struct sctp_assoc_change {
    uint16_t sac_type;
    uint16_t sac_flags;
    uint32_t sac_length;
    uint16_t sac_state;
    uint16_t sac_error;
    uint16_t sac_outbound_streams;
    uint16_t sac_inbound_streams;
    sctp_assoc_t sac_assoc_id;
    uint8_t sac_info[];
};

/* An address of the peer has changed (section 6.1.2). */
struct sctp_paddr_change {
    uint16_t spc_type;
    uint16_t spc_flags;
    uint32_t spc_length;
    struct sockaddr_storage spc_aaddr;
    int32_t spc_state;
    int32_t spc_error;
    sctp_assoc_t spc_assoc_id;
} __attribute__((packed, aligned(4)));

/* The peer has reported an error (section 6.1.3). */
struct sctp_remote_error {
    uint16_t sre_type;
    uint16_t sre_flags;
    uint32_t sre_length;
    uint16_t sre_error;
    sctp_assoc_t sre_assoc_id;
    uint8_t sre_data[];
};

/* A message was not delivered (section 6.1.4, deprecated). */
struct sctp_send_failed {
    uint16_t ssf_type;
    uint16_t ssf_flags;
    uint32_t ssf_length;
    uint32_t ssf_error;
    struct sctp_sndrcvinfo ssf_info;
    sctp_assoc_t ssf_assoc_id;
    uint8_t ssf_data[];
};

/* The peer sends no more (section 6.1.5). */
struct sctp_shutdown_event {
    uint16_t sse_type;
    uint16_t sse_flags;
    uint32_t sse_length;
    sctp_assoc_t sse_assoc_id;
};

/* What the peer speaks (section 6.1.6). */
struct sctp_adaptation_event {
    uint16_t sai_type;
    uint16_t sai_flags;
    uint32_t sai_length;
    uint32_t sai_adaptation_ind;
    sctp_assoc_t sai_assoc_id;
};

/* The rest of a message will not come (section 6.1.7). */
struct sctp_pdapi_event {
    uint16_t pdapi_type;
    uint16_t pdapi_flags;
    uint32_t pdapi_length;
    uint32_t pdapi_indication;
    sctp_assoc_t pdapi_assoc_id;
    uint32_t pdapi_stream;
    uint32_t pdapi_seq;
};

/* A key is used differently (section 6.1.8). */
struct sctp_authkey_event {
    uint16_t auth_type;
    uint16_t auth_flags;
    uint32_t auth_length;
    uint16_t auth_keynumber;
    uint16_t auth_altkeynumber;
    uint32_t auth_indication;
    sctp_assoc_t auth_assoc_id;
};

/* Everything has been delivered (section 6.1.9). */
struct sctp_sender_dry_event {
    uint16_t sender_dry_type;
    uint16_t sender_dry_flags;
    uint32_t sender_dry_length;
    sctp_assoc_t sender_dry_assoc_id;
};

/* A message was not delivered (section 6.1.11). */
struct sctp_send_failed_event {
    uint16_t ssfe_type;
    uint16_t ssfe_flags;
    uint32_t ssfe_length;
    uint32_t ssfe_error;
    struct sctp_sndinfo ssfe_info;
    sctp_assoc_t ssfe_assoc_id;
    uint8_t ssfe_data[];
};

/* Streams were reset (RFC 6525 section 6.1.1). */
struct sctp_stream_reset_event {
    uint16_t strreset_type;
    uint16_t strreset_flags;
    uint32_t strreset_length;
    sctp_assoc_t strreset_assoc_id;
    uint16_t strreset_stream_list[];
};

/* All streams and TSNs were reset (RFC 6525 section 6.1.2). */
struct sctp_assoc_reset_event {
    uint16_t assocreset_type;
    uint16_t assocreset_flags;
    uint32_t assocreset_length;
    sctp_assoc_t assocreset_assoc_id;
    uint32_t assocreset_local_tsn;
    uint32_t assocreset_remote_tsn;
};

/* Streams were added (RFC 6525 section 6.1.3). */
struct sctp_stream_change_event {
    uint16_t strchange_type;
    uint16_t strchange_flags;
    uint32_t strchange_length;
    sctp_assoc_t strchange_assoc_id;
    uint16_t strchange_instrms;
    uint16_t strchange_outstrms;
};

/* `SCTP_EVENTS`: a flag for each notification (section 6.2.1, deprecated). */
struct sctp_event_subscribe {
    uint8_t sctp_data_io_event;
    uint8_t sctp_association_event;
    uint8_t sctp_address_event;
    uint8_t sctp_send_failure_event;
    uint8_t sctp_peer_error_event;
    uint8_t sctp_shutdown_event;
    uint8_t sctp_partial_delivery_event;
    uint8_t sctp_adaptation_layer_event;
    uint8_t sctp_authentication_event;
    uint8_t sctp_sender_dry_event;
    uint8_t sctp_stream_reset_event;
    uint8_t sctp_assoc_reset_event;
    uint8_t sctp_stream_change_event;
    uint8_t sctp_send_failure_event_event;
};

/* `SCTP_EVENT`: one notification (section 6.2.2). */
struct sctp_event {
    sctp_assoc_t se_assoc_id;
    uint16_t se_type;
    uint8_t se_on;
};

/* `SCTP_RTOINFO` (section 8.1.1), in milliseconds. */
struct sctp_rtoinfo {
    sctp_assoc_t srto_assoc_id;
    uint32_t srto_initial;
    uint32_t srto_max;
    uint32_t srto_min;
};

/* `SCTP_ASSOCINFO` (section 8.1.2). */
struct sctp_assocparams {
    sctp_assoc_t sasoc_assoc_id;
    uint16_t sasoc_asocmaxrxt;
    uint16_t sasoc_number_peer_destinations;
    uint32_t sasoc_peer_rwnd;
    uint32_t sasoc_local_rwnd;
    uint32_t sasoc_cookie_life;
};

/* `SCTP_PRIMARY_ADDR` (section 8.1.9). */
struct sctp_setprim {
    sctp_assoc_t ssp_assoc_id;
    struct sockaddr_storage ssp_addr;
} __attribute__((packed, aligned(4)));

/* `SCTP_SET_PEER_PRIMARY_ADDR` (section 8.3.1). */
struct sctp_setpeerprim {
    sctp_assoc_t sspp_assoc_id;
    struct sockaddr_storage sspp_addr;
} __attribute__((packed, aligned(4)));

/* `SCTP_ADAPTATION_LAYER` (section 8.1.10). */
struct sctp_setadaptation {
    uint32_t ssb_adaptation_ind;
};

/* `SCTP_PEER_ADDR_PARAMS` (section 8.1.12). */
struct sctp_paddrparams {
    sctp_assoc_t spp_assoc_id;
    struct sockaddr_storage spp_address;
    uint32_t spp_hbinterval;
    uint16_t spp_pathmaxrxt;
    uint32_t spp_pathmtu;
    uint32_t spp_sackdelay;
    uint32_t spp_flags;
    uint32_t spp_ipv6_flowlabel;
    uint8_t spp_dscp;
} __attribute__((packed, aligned(4)));

/* `SCTP_PEER_ADDR_THLDS` (RFC 7829 section 7.2). */
struct sctp_paddrthlds {
    sctp_assoc_t spt_assoc_id;
    struct sockaddr_storage spt_address;
    uint16_t spt_pathmaxrxt;
    uint16_t spt_pathpfthld;
};

/* `SCTP_AUTH_CHUNK` (section 8.3.2). */
struct sctp_authchunk {
    uint8_t sauth_chunk;
};

/* `SCTP_HMAC_IDENT` (section 8.1.17). */
struct sctp_hmacalgo {
    uint32_t shmac_number_of_idents;
    uint16_t shmac_idents[];
};

/* `SCTP_AUTH_KEY` (section 8.3.3). */
struct sctp_authkey {
    sctp_assoc_t sca_assoc_id;
    uint16_t sca_keynumber;
    uint16_t sca_keylength;
    uint8_t sca_key[];
};

/* `SCTP_AUTH_ACTIVE_KEY` and others that name a key (section 8.1.18). */
struct sctp_authkeyid {
    sctp_assoc_t scact_assoc_id;
    uint16_t scact_keynumber;
};

/* `SCTP_PEER_AUTH_CHUNKS` (section 8.2.3). */
struct sctp_authchunks {
    sctp_assoc_t gauth_assoc_id;
    uint32_t gauth_number_of_chunks;
    uint8_t gauth_chunks[];
};

/* `SCTP_DELAYED_SACK` (section 8.1.19). */
struct sctp_sack_info {
    sctp_assoc_t sack_assoc_id;
    uint32_t sack_delay;
    uint32_t sack_freq;
};

/* A value of an association (section 8.1.4 and others). */
struct sctp_assoc_value {
    sctp_assoc_t assoc_id;
    uint32_t assoc_value;
};

/* A value of a stream (RFC 8260 section 4.3.3). */
struct sctp_stream_value {
    sctp_assoc_t assoc_id;
    uint16_t stream_id;
    uint16_t stream_value;
};

/* `SCTP_GET_PEER_ADDR_INFO` (section 8.2.2). */
struct sctp_paddrinfo {
    sctp_assoc_t spinfo_assoc_id;
    struct sockaddr_storage spinfo_address;
    int32_t spinfo_state;
    uint32_t spinfo_cwnd;
    uint32_t spinfo_srtt;
    uint32_t spinfo_rto;
    uint32_t spinfo_mtu;
} __attribute__((packed, aligned(4)));

/* `SCTP_STATUS` (section 8.2.1). */
struct sctp_status {
    sctp_assoc_t sstat_assoc_id;
    int32_t sstat_state;
    uint32_t sstat_rwnd;
    uint16_t sstat_unackdata;
    uint16_t sstat_penddata;
    uint16_t sstat_instrms;
    uint16_t sstat_outstrms;
    uint32_t sstat_fragmentation_point;
    struct sctp_paddrinfo sstat_primary;
};

/* `SCTP_GET_ASSOC_STATS` of Linux. Times are in milliseconds. */
struct sctp_assoc_stats {
    sctp_assoc_t sas_assoc_id;
    struct sockaddr_storage sas_obs_rto_ipaddr;
    uint64_t sas_maxrto;
    uint64_t sas_isacks;
    uint64_t sas_osacks;
    uint64_t sas_opackets;
    uint64_t sas_ipackets;
    uint64_t sas_rtxchunks;
    uint64_t sas_outofseqtsns;
    uint64_t sas_idupchunks;
    uint64_t sas_gapcnt;
    uint64_t sas_ouodchunks;
    uint64_t sas_iuodchunks;
    uint64_t sas_oodchunks;
    uint64_t sas_iodchunks;
    uint64_t sas_octrlchunks;
    uint64_t sas_ictrlchunks;
};

/* `SCTP_GET_ASSOC_ID_LIST` (section 8.2.6). */
struct sctp_assoc_ids {
    uint32_t gaids_number_of_ids;
    sctp_assoc_t gaids_assoc_id[];
};

/* `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951 section 6.1). */
struct sctp_udpencaps {
    sctp_assoc_t sue_assoc_id;
    struct sockaddr_storage sue_address;
    uint16_t sue_port;
};

/* `SCTP_DEFAULT_PRINFO` (RFC 7496 section 4.2). */
struct sctp_default_prinfo {
    sctp_assoc_t pr_assoc_id;
    uint32_t pr_value;
    uint16_t pr_policy;
};

/* `SCTP_PR_STREAM_STATUS` and `SCTP_PR_ASSOC_STATUS` (RFC 7496 section 4.3). */
struct sctp_prstatus {
    sctp_assoc_t sprstat_assoc_id;
    uint16_t sprstat_sid;
    uint16_t sprstat_policy;
    uint64_t sprstat_abandoned_unsent;
    uint64_t sprstat_abandoned_sent;
};

/* `SCTP_RESET_STREAMS` (RFC 6525 section 6.3.2). */
struct sctp_reset_streams {
    sctp_assoc_t srs_assoc_id;
    uint16_t srs_flags;
    uint16_t srs_number_streams;
    uint16_t srs_stream_list[];
};

/* `SCTP_ADD_STREAMS` (RFC 6525 section 6.3.4). */
struct sctp_add_streams {
    sctp_assoc_t sas_assoc_id;
    uint16_t sas_instrms;
    uint16_t sas_outstrms;
};

/* Information of `sctp_sendv` (section 9.12; `SCTP_SENDV_SPA`). */
struct sctp_sendv_spa {
    uint32_t sendv_flags;
    struct sctp_sndinfo sendv_sndinfo;
    struct sctp_prinfo sendv_prinfo;
    struct sctp_authinfo sendv_authinfo;
};

/* Information of `sctp_recvv` (section 9.13; `SCTP_RECVV_RN`). */
struct sctp_recvv_rn {
    struct sctp_rcvinfo recvv_rcvinfo;
    struct sctp_nxtinfo recvv_nxtinfo;
};

/* How the private option `SCTP_SOCKOPT_PEELOFF` of libsctp asks. */
struct sctp_peeloff_arg {
    sctp_assoc_t associd;
    int32_t sd;
};

/* How the private options `SCTP_GET_PEER_ADDRS` and `SCTP_GET_LOCAL_ADDRS` of libsctp answer. */
struct sctp_getaddrs {
    sctp_assoc_t assoc_id;
    uint32_t addr_num;
    uint8_t addrs[];
};

/* How the private option `SCTP_SOCKOPT_CONNECTX3` of libsctp asks. */
struct sctp_getaddrs_old {
    sctp_assoc_t assoc_id;
    int32_t addr_num;
    uint64_t addrs;
};

/* Any notification (section 6.1). */
union sctp_notification {
    struct {
        uint16_t sn_type;
        uint16_t sn_flags;
        uint32_t sn_length;
    } sn_header;
    struct sctp_assoc_change sn_assoc_change;
    struct sctp_paddr_change sn_paddr_change;
    struct sctp_remote_error sn_remote_error;
    struct sctp_send_failed sn_send_failed;
    struct sctp_shutdown_event sn_shutdown_event;
    struct sctp_adaptation_event sn_adaptation_event;
    struct sctp_pdapi_event sn_pdapi_event;
    struct sctp_authkey_event sn_auth_event;
    struct sctp_sender_dry_event sn_sender_dry_event;
    struct sctp_send_failed_event sn_send_failed_event;
    struct sctp_stream_reset_event sn_strreset_event;
    struct sctp_assoc_reset_event sn_assocreset_event;
    struct sctp_stream_change_event sn_strchange_event;
};

/* RFC 6458 section 9. */
int sctp_bindx(int sd, struct sockaddr *addrs, int addrcnt, int flags);
int sctp_connectx(int sd, struct sockaddr *addrs, int addrcnt, sctp_assoc_t *id);
int sctp_peeloff(int sd, sctp_assoc_t assoc_id);
int sctp_peeloff_flags(int sd, sctp_assoc_t assoc_id, unsigned flags);
int sctp_getpaddrs(int sd, sctp_assoc_t id, struct sockaddr **addrs);
int sctp_freepaddrs(struct sockaddr *addrs);
int sctp_getladdrs(int sd, sctp_assoc_t id, struct sockaddr **addrs);
int sctp_freeladdrs(struct sockaddr *addrs);
int sctp_opt_info(int sd, sctp_assoc_t id, int opt, void *arg, socklen_t *size);
int sctp_getaddrlen(sa_family_t family);
int sctp_sendmsg(int sd, const void *msg, size_t len, struct sockaddr *to, socklen_t tolen, uint32_t ppid,
                 uint32_t flags, uint16_t stream_no, uint32_t timetolive, uint32_t context);
int sctp_send(int sd, const void *msg, size_t len, const struct sctp_sndrcvinfo *sinfo, int flags);
int sctp_sendx(int sd, const void *msg, size_t len, struct sockaddr *addrs, int addrcnt,
               struct sctp_sndrcvinfo *sinfo, int flags);
int sctp_recvmsg(int sd, void *msg, size_t len, struct sockaddr *from, socklen_t *fromlen,
                 struct sctp_sndrcvinfo *sinfo, int *msg_flags);
int sctp_sendv(int sd, const struct iovec *iov, int iovcnt, struct sockaddr *addrs, int addrcnt, void *info,
               socklen_t infolen, unsigned int infotype, int flags);
int sctp_recvv(int sd, const struct iovec *iov, int iovlen, struct sockaddr *from, socklen_t *fromlen,
               void *info, socklen_t *infolen, unsigned int *infotype, int *flags);

/* The calls of the C library. */
int manypath_socket(int domain, int type, int protocol);
int manypath_bind(int sd, const struct sockaddr *addr, socklen_t len);
int manypath_listen(int sd, int backlog);
int manypath_accept(int sd, struct sockaddr *addr, socklen_t *len);
int manypath_accept4(int sd, struct sockaddr *addr, socklen_t *len, int flags);
int manypath_connect(int sd, const struct sockaddr *addr, socklen_t len);
int manypath_shutdown(int sd, int how);
int manypath_close(int sd);
int manypath_dup(int sd);
int manypath_dup3(int sd, int to, int flags);
int manypath_fcntl(int sd, int command, int argument);
int manypath_ioctl(int sd, unsigned long request, int *argument);
int manypath_getsockname(int sd, struct sockaddr *addr, socklen_t *len);
int manypath_getpeername(int sd, struct sockaddr *addr, socklen_t *len);
int manypath_getsockopt(int sd, int level, int name, void *value, socklen_t *len);
int manypath_setsockopt(int sd, int level, int name, const void *value, socklen_t len);
ssize_t manypath_read(int sd, void *buffer, size_t len);
ssize_t manypath_readv(int sd, const struct iovec *iov, int iovcnt);
ssize_t manypath_recv(int sd, void *buffer, size_t len, int flags);
ssize_t manypath_recvfrom(int sd, void *buffer, size_t len, int flags, struct sockaddr *from, socklen_t *fromlen);
ssize_t manypath_recvmsg(int sd, struct msghdr *msg, int flags);
ssize_t manypath_write(int sd, const void *data, size_t len);
ssize_t manypath_writev(int sd, const struct iovec *iov, int iovcnt);
ssize_t manypath_send(int sd, const void *data, size_t len, int flags);
ssize_t manypath_sendto(int sd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t tolen);
ssize_t manypath_sendmsg(int sd, const struct msghdr *msg, int flags);
/* Structures and calls of the C library that it declares with _GNU_SOURCE alone. */
struct mmsghdr;
struct timespec;
int manypath_sendmmsg(int sd, struct mmsghdr *messages, unsigned count, int flags);
int manypath_recvmmsg(int sd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit);
/* Whether a descriptor stands for an SCTP socket of this library. */
int manypath_is_sctp(int sd);

#ifdef MANYPATH_SCTP_REPLACE
#define socket(domain, type, protocol) manypath_socket(domain, type, protocol)
#define bind(sd, addr, len) manypath_bind(sd, addr, len)
#define listen(sd, backlog) manypath_listen(sd, backlog)
#define accept(sd, addr, len) manypath_accept(sd, addr, len)
#define accept4(sd, addr, len, flags) manypath_accept4(sd, addr, len, flags)
#define connect(sd, addr, len) manypath_connect(sd, addr, len)
#define shutdown(sd, how) manypath_shutdown(sd, how)
#define close(sd) manypath_close(sd)
#define getsockname(sd, addr, len) manypath_getsockname(sd, addr, len)
#define getpeername(sd, addr, len) manypath_getpeername(sd, addr, len)
#define getsockopt(sd, level, name, value, len) manypath_getsockopt(sd, level, name, value, len)
#define setsockopt(sd, level, name, value, len) manypath_setsockopt(sd, level, name, value, len)
#define read(sd, buffer, len) manypath_read(sd, buffer, len)
#define readv(sd, iov, iovcnt) manypath_readv(sd, iov, iovcnt)
#define recv(sd, buffer, len, flags) manypath_recv(sd, buffer, len, flags)
#define recvfrom(sd, buffer, len, flags, from, fromlen) manypath_recvfrom(sd, buffer, len, flags, from, fromlen)
#define recvmsg(sd, msg, flags) manypath_recvmsg(sd, msg, flags)
#define write(sd, data, len) manypath_write(sd, data, len)
#define writev(sd, iov, iovcnt) manypath_writev(sd, iov, iovcnt)
#define send(sd, data, len, flags) manypath_send(sd, data, len, flags)
#define sendto(sd, data, len, flags, to, tolen) manypath_sendto(sd, data, len, flags, to, tolen)
#define sendmsg(sd, msg, flags) manypath_sendmsg(sd, msg, flags)
#define sendmmsg(sd, messages, count, flags) manypath_sendmmsg(sd, messages, count, flags)
#define recvmmsg(sd, messages, count, flags, limit) manypath_recvmmsg(sd, messages, count, flags, limit)
#endif

#ifdef __cplusplus
}
#endif

#endif
