//! The header for C: `include/manypath_sctp.h` is what [`text`] gives.

use crate::constants::CONSTANTS;
use crate::layout::{Description, Member};
use crate::structures::STRUCTURES;
use std::fmt::Write;

/// The header.
pub fn text() -> String {
    let mut text = String::from(BEGINNING);
    for (name, value) in CONSTANTS {
        // The C library has this one where it knows of SCTP.
        let _ok = if *value > 9 && name.starts_with("MSG_") {
            writeln!(text, "#ifndef {name}\n#define {name} {value:#x}\n#endif")
        } else {
            writeln!(text, "#define {name} {value}")
        };
    }
    for structure in STRUCTURES {
        text.push_str(&declaration(structure));
    }
    text.push_str(END);
    text
}

/// A program that prints size and offsets of every structure, as [`layouts`] does.
pub fn program() -> String {
    let mut text = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    text.push_str("#include \"manypath_sctp.h\"\n\nint main(void)\n{\n");
    for Description { name, members, .. } in STRUCTURES {
        let _ok = writeln!(text, "    printf(\"{name} %zu\\n\", sizeof(struct {name}));");
        for Member { name: member, .. } in *members {
            let offset = format!("offsetof(struct {name}, {member})");
            let _ok = writeln!(text, "    printf(\"{name}.{member} %zu\\n\", {offset});");
        }
    }
    text.push_str("    return 0;\n}\n");
    text
}

/// Size and offsets of every structure, a line each.
pub fn layouts() -> String {
    let mut text = String::new();
    for Description { name, members, size, .. } in STRUCTURES {
        let _ok = writeln!(text, "{name} {size}");
        for Member { name: member, offset, .. } in *members {
            let _ok = writeln!(text, "{name}.{member} {offset}");
        }
    }
    text
}

fn declaration(structure: &Description) -> String {
    let Description { name, about, members, open_end, .. } = structure;
    let mut text = format!("\n/*{about} */\nstruct {name} {{\n");
    for Member { name, rust_type, .. } in *members {
        let _ok = writeln!(text, "    {} {name};", c_type(rust_type));
    }
    if let Some((rust_type, end)) = open_end {
        let _ok = writeln!(text, "    {} {end}[];", c_type(rust_type));
    }
    let packs = |member: &Member| ["sockaddr_storage", "packed_u32"].contains(&member.rust_type);
    let packed = members.iter().any(packs);
    text.push_str(if packed { "} __attribute__((packed, aligned(4)));\n" } else { "};\n" });
    text
}

fn c_type(rust_type: &str) -> String {
    match rust_type {
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" | "packed_u32" => "uint32_t",
        "i32" => "int32_t",
        "u64" => "uint64_t",
        "sctp_assoc_t" => "sctp_assoc_t",
        "sockaddr_storage" | "AlignedStorage" => "struct sockaddr_storage",
        other => return format!("struct {other}"),
    }
    .to_owned()
}

const BEGINNING: &str = r#"/*
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

"#;

const END: &str = r#"
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
"#;
