//! Numbers behind the names of RFC 6458, as Linux has them.

macro_rules! constants {
    ($($name:ident = $value:expr;)*) => {
        $(pub const $name: i32 = $value;)*

        /// Every name with its number.
        pub const CONSTANTS: &[(&str, i32)] = &[$((stringify!($name), $name)),*];
    };
}

pub use self::names::*;

#[allow(missing_docs, reason = "the names are those of RFC 6458")]
mod names {
    constants! {
        // Associations that a structure may name instead of one.
        SCTP_FUTURE_ASSOC = 0;
        SCTP_CURRENT_ASSOC = 1;
        SCTP_ALL_ASSOC = 2;
        // Options.
        SCTP_RTOINFO = 0;
        SCTP_ASSOCINFO = 1;
        SCTP_INITMSG = 2;
        SCTP_NODELAY = 3;
        SCTP_AUTOCLOSE = 4;
        SCTP_SET_PEER_PRIMARY_ADDR = 5;
        SCTP_PRIMARY_ADDR = 6;
        SCTP_ADAPTATION_LAYER = 7;
        SCTP_DISABLE_FRAGMENTS = 8;
        SCTP_PEER_ADDR_PARAMS = 9;
        SCTP_DEFAULT_SEND_PARAM = 10;
        SCTP_EVENTS = 11;
        SCTP_I_WANT_MAPPED_V4_ADDR = 12;
        SCTP_MAXSEG = 13;
        SCTP_STATUS = 14;
        SCTP_GET_PEER_ADDR_INFO = 15;
        SCTP_DELAYED_SACK = 16;
        SCTP_CONTEXT = 17;
        SCTP_FRAGMENT_INTERLEAVE = 18;
        SCTP_PARTIAL_DELIVERY_POINT = 19;
        SCTP_MAX_BURST = 20;
        SCTP_AUTH_CHUNK = 21;
        SCTP_HMAC_IDENT = 22;
        SCTP_AUTH_KEY = 23;
        SCTP_AUTH_ACTIVE_KEY = 24;
        SCTP_AUTH_DELETE_KEY = 25;
        SCTP_PEER_AUTH_CHUNKS = 26;
        SCTP_LOCAL_AUTH_CHUNKS = 27;
        SCTP_GET_ASSOC_NUMBER = 28;
        SCTP_GET_ASSOC_ID_LIST = 29;
        SCTP_AUTO_ASCONF = 30;
        SCTP_PEER_ADDR_THLDS = 31;
        SCTP_RECVRCVINFO = 32;
        SCTP_RECVNXTINFO = 33;
        SCTP_DEFAULT_SNDINFO = 34;
        SCTP_AUTH_DEACTIVATE_KEY = 35;
        SCTP_REUSE_PORT = 36;
        SCTP_SOCKOPT_BINDX_ADD = 100;
        SCTP_SOCKOPT_BINDX_REM = 101;
        SCTP_SOCKOPT_PEELOFF = 102;
        SCTP_SOCKOPT_CONNECTX_OLD = 107;
        SCTP_GET_PEER_ADDRS = 108;
        SCTP_GET_LOCAL_ADDRS = 109;
        SCTP_SOCKOPT_CONNECTX = 110;
        SCTP_SOCKOPT_CONNECTX3 = 111;
        SCTP_GET_ASSOC_STATS = 112;
        SCTP_PR_SUPPORTED = 113;
        SCTP_DEFAULT_PRINFO = 114;
        SCTP_PR_ASSOC_STATUS = 115;
        SCTP_PR_STREAM_STATUS = 116;
        SCTP_RECONFIG_SUPPORTED = 117;
        SCTP_ENABLE_STREAM_RESET = 118;
        SCTP_RESET_STREAMS = 119;
        SCTP_RESET_ASSOC = 120;
        SCTP_ADD_STREAMS = 121;
        SCTP_SOCKOPT_PEELOFF_FLAGS = 122;
        SCTP_STREAM_SCHEDULER = 123;
        SCTP_STREAM_SCHEDULER_VALUE = 124;
        SCTP_INTERLEAVING_SUPPORTED = 125;
        SCTP_EVENT = 127;
        SCTP_ASCONF_SUPPORTED = 128;
        SCTP_AUTH_SUPPORTED = 129;
        SCTP_ECN_SUPPORTED = 130;
        SCTP_REMOTE_UDP_ENCAPS_PORT = 132;
        // Linux has no such option: a number that it leaves free.
        SCTP_EXPLICIT_EOR = 1000;
        // Types of control messages.
        SCTP_INIT = 0;
        SCTP_SNDRCV = 1;
        SCTP_SNDINFO = 2;
        SCTP_RCVINFO = 3;
        SCTP_NXTINFO = 4;
        SCTP_PRINFO = 5;
        SCTP_AUTHINFO = 6;
        SCTP_DSTADDRV4 = 7;
        SCTP_DSTADDRV6 = 8;
        // Flags of messages.
        MSG_NOTIFICATION = 0x8000;
        SCTP_UNORDERED = 0x1;
        SCTP_ADDR_OVER = 0x2;
        SCTP_ABORT = 0x4;
        SCTP_SACK_IMMEDIATELY = 0x8;
        SCTP_SENDALL = 0x40;
        SCTP_EOF = 0x200;
        SCTP_EOR = 0x2000;
        SCTP_NOTIFICATION = 0x8000;
        // Partial reliability.
        SCTP_PR_SCTP_NONE = 0;
        SCTP_PR_SCTP_TTL = 0x10;
        SCTP_PR_SCTP_RTX = 0x20;
        SCTP_PR_SCTP_PRIO = 0x30;
        SCTP_PR_SCTP_ALL = 0x80;
        // What sctp_sendv and sctp_recvv are told with.
        SCTP_SENDV_NOINFO = 0;
        SCTP_SENDV_SNDINFO = 1;
        SCTP_SENDV_PRINFO = 2;
        SCTP_SENDV_AUTHINFO = 3;
        SCTP_SENDV_SPA = 4;
        SCTP_SEND_SNDINFO_VALID = 1;
        SCTP_SEND_PRINFO_VALID = 2;
        SCTP_SEND_AUTHINFO_VALID = 4;
        SCTP_RECVV_NOINFO = 0;
        SCTP_RECVV_RCVINFO = 1;
        SCTP_RECVV_NXTINFO = 2;
        SCTP_RECVV_RN = 3;
        // Notifications.
        SCTP_DATA_IO_EVENT = 0x8000;
        SCTP_ASSOC_CHANGE = 0x8001;
        SCTP_PEER_ADDR_CHANGE = 0x8002;
        SCTP_SEND_FAILED = 0x8003;
        SCTP_REMOTE_ERROR = 0x8004;
        SCTP_SHUTDOWN_EVENT = 0x8005;
        SCTP_PARTIAL_DELIVERY_EVENT = 0x8006;
        SCTP_ADAPTATION_INDICATION = 0x8007;
        SCTP_AUTHENTICATION_EVENT = 0x8008;
        SCTP_SENDER_DRY_EVENT = 0x8009;
        SCTP_STREAM_RESET_EVENT = 0x800a;
        SCTP_ASSOC_RESET_EVENT = 0x800b;
        SCTP_STREAM_CHANGE_EVENT = 0x800c;
        SCTP_SEND_FAILED_EVENT = 0x800d;
        // What they tell.
        SCTP_COMM_UP = 0;
        SCTP_COMM_LOST = 1;
        SCTP_RESTART = 2;
        SCTP_SHUTDOWN_COMP = 3;
        SCTP_CANT_STR_ASSOC = 4;
        SCTP_ADDR_AVAILABLE = 0;
        SCTP_ADDR_UNREACHABLE = 1;
        SCTP_ADDR_REMOVED = 2;
        SCTP_ADDR_ADDED = 3;
        SCTP_ADDR_MADE_PRIM = 4;
        SCTP_ADDR_CONFIRMED = 5;
        SCTP_ADDR_POTENTIALLY_FAILED = 6;
        SCTP_DATA_UNSENT = 0;
        SCTP_DATA_SENT = 1;
        SCTP_PARTIAL_DELIVERY_ABORTED = 0;
        SCTP_AUTH_NEW_KEY = 0;
        SCTP_AUTH_FREE_KEY = 1;
        SCTP_AUTH_NO_AUTH = 2;
        SCTP_STREAM_RESET_INCOMING_SSN = 1;
        SCTP_STREAM_RESET_OUTGOING_SSN = 2;
        SCTP_STREAM_RESET_DENIED = 4;
        SCTP_STREAM_RESET_FAILED = 8;
        SCTP_ASSOC_RESET_DENIED = 4;
        SCTP_ASSOC_RESET_FAILED = 8;
        SCTP_STREAM_CHANGE_DENIED = 4;
        SCTP_STREAM_CHANGE_FAILED = 8;
        // Paths and associations.
        SPP_HB_ENABLE = 0x1;
        SPP_HB_DISABLE = 0x2;
        SPP_HB_DEMAND = 0x4;
        SPP_PMTUD_ENABLE = 0x8;
        SPP_PMTUD_DISABLE = 0x10;
        SPP_SACKDELAY_ENABLE = 0x20;
        SPP_SACKDELAY_DISABLE = 0x40;
        SPP_HB_TIME_IS_ZERO = 0x80;
        SPP_IPV6_FLOWLABEL = 0x100;
        SPP_DSCP = 0x200;
        SCTP_INACTIVE = 0;
        SCTP_PF = 1;
        SCTP_ACTIVE = 2;
        SCTP_UNCONFIRMED = 3;
        SCTP_EMPTY = 0;
        SCTP_CLOSED = 1;
        SCTP_COOKIE_WAIT = 2;
        SCTP_COOKIE_ECHOED = 3;
        SCTP_ESTABLISHED = 4;
        SCTP_SHUTDOWN_PENDING = 5;
        SCTP_SHUTDOWN_SENT = 6;
        SCTP_SHUTDOWN_RECEIVED = 7;
        SCTP_SHUTDOWN_ACK_SENT = 8;
        // Requests.
        SCTP_ENABLE_RESET_STREAM_REQ = 1;
        SCTP_ENABLE_RESET_ASSOC_REQ = 2;
        SCTP_ENABLE_CHANGE_ASSOC_REQ = 4;
        SCTP_STREAM_RESET_INCOMING = 1;
        SCTP_STREAM_RESET_OUTGOING = 2;
        SCTP_SS_FCFS = 0;
        SCTP_SS_DEFAULT = 0;
        SCTP_SS_PRIO = 1;
        SCTP_SS_RR = 2;
        SCTP_AUTH_HMAC_ID_SHA1 = 1;
        SCTP_AUTH_HMAC_ID_SHA256 = 3;
        SCTP_BINDX_ADD_ADDR = 1;
        SCTP_BINDX_REM_ADDR = 2;
    }
}
