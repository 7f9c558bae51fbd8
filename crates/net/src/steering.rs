//! Which of several sockets at one address gets a packet: a classic BPF program (`SO_ATTACH_REUSEPORT_CBPF`) looks at it.
//!
//! A packet goes to the socket whose index is its verification tag modulo the number of sockets, from whatever address it
//! comes. An INIT carries no tag of ours (it is 0). Its source address chooses the socket instead, so that a host that begins
//! anew reaches the loop that knows it.

use libc::{
    BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MISC, BPF_MOD,
};
use libc::{BPF_RET, BPF_RSH, BPF_TAX, BPF_W, BPF_X, BPF_XOR, sock_filter, sock_fprog};
use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;

/// Offsets from here on count from the IP header; others count from the payload of UDP.
const IP_HEADER: u32 = libc::SKF_NET_OFF as u32;
const IPV4_SOURCE: u32 = IP_HEADER + 12;
const IPV6_SOURCE: u32 = IP_HEADER + 8;
const VERIFICATION_TAG: u32 = 4;

/// Lets the kernel choose among the `count` sockets that are bound where `socket` is, by their order.
pub(crate) fn attach(socket: &Socket, count: usize) -> io::Result<()> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut filter = program(count);
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program while it is called: `filter` lives on, and has `len` instructions.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn program(count: u32) -> Vec<sock_filter> {
    let fold = |at| [load(at), misc(BPF_TAX)];
    let add = |at| [load(at), xor(), misc(BPF_TAX)];
    let v6 = [add(IPV6_SOURCE + 4), add(IPV6_SOURCE + 8), add(IPV6_SOURCE + 12)].concat();
    let v6 = [&fold(IPV6_SOURCE)[..], &v6].concat();
    // Every byte counts: addresses of two networks may differ in the third alone.
    let half = |bits| [op(BPF_ALU | BPF_RSH | BPF_K, bits), xor(), misc(BPF_TAX)];
    let mix = [half(16), half(8)].concat();
    let v4 = [&fold(IPV4_SOURCE)[..], &[op(BPF_JMP | BPF_JA, v6.len() as u32)]].concat();
    let by_version = [
        op(BPF_LD | BPF_B | BPF_ABS, IP_HEADER),
        op(BPF_ALU | BPF_RSH | BPF_K, 4),
        jump_unless_equal(4, v4.len()),
    ];
    let by_source = [&by_version[..], &v4, &v6, &mix].concat();
    let by_tag = [load(VERIFICATION_TAG), jump_unless_equal(0, by_source.len())];
    let choose = [op(BPF_ALU | BPF_MOD | BPF_K, count), op(BPF_RET | BPF_A, 0)];
    [&by_tag[..], &by_source, &choose].concat()
}

const fn op(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn load(at: u32) -> sock_filter {
    op(BPF_LD | BPF_W | BPF_ABS, at)
}

const fn xor() -> sock_filter {
    op(BPF_ALU | BPF_XOR | BPF_X, 0)
}

const fn misc(what: u32) -> sock_filter {
    op(BPF_MISC | what, 0)
}

const fn jump_unless_equal(value: u32, over: usize) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: over as u8, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open_group;
    use std::net::UdpSocket;
    use std::time::Duration;

    const COUNT: usize = 3;

    /// Which of the sockets gets `packet` from `from`.
    fn taker(group: &[UdpSocket], from: &str, packet: &[u8]) -> usize {
        let sender = UdpSocket::bind((from, 0)).unwrap();
        sender.send_to(packet, group[0].local_addr().unwrap()).unwrap();
        for _ in 0..1000 {
            let taker = (0..COUNT).find(|at| group[*at].recv(&mut [0; 64]).is_ok());
            if let Some(taker) = taker {
                return taker;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("nobody got the packet");
    }

    fn group(addr: &str) -> Vec<UdpSocket> {
        let (group, _) = open_group(addr.parse().unwrap(), None, COUNT).unwrap();
        let group: Vec<UdpSocket> = group.into_iter().map(Into::into).collect();
        group.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
        group
    }

    fn packet(tag: u32) -> Vec<u8> {
        [&[0; 4][..], &tag.to_be_bytes(), &[0; 4]].concat()
    }

    #[test]
    fn a_tag_names_its_socket_from_every_address() {
        let group = group("127.0.34.1:0");
        for tag in [1, 2, 3, 7_000_001, u32::MAX] {
            for from in ["127.0.34.2", "127.0.34.3", "127.0.35.9"] {
                assert_eq!(taker(&group, from, &packet(tag)), tag as usize % COUNT, "{tag} {from}");
            }
        }
    }

    #[test]
    fn inits_go_by_the_address_from_which_they_come() {
        let group = group("127.0.34.4:0");
        let at = |from: String| taker(&group, &from, &packet(0));
        let last = |byte: u8| at(format!("127.0.34.{byte}"));
        let third = |byte: u8| at(format!("127.0.{byte}.9"));
        for takers in [(10..16).map(last).collect(), (40..46).map(third).collect::<Vec<_>>()] {
            assert!((0..COUNT).all(|one| takers.contains(&one)), "{takers:?}");
        }
        assert_eq!(last(10), last(10));
    }

    #[test]
    fn addresses_of_ipv6_are_spread_too() {
        let group = group("[::1]:0");
        let first = taker(&group, "::1", &packet(0));
        assert_eq!(first, 1, "the last bit of ::1 is the only one");
        assert_eq!(taker(&group, "::1", &packet(5)), 2);
    }

    #[test]
    fn a_port_that_another_program_has_is_not_shared() {
        let group = group("127.0.34.5:0");
        let taken = group[0].local_addr().unwrap();
        let error = open_group(taken, None, COUNT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_packet_that_is_too_short_for_a_tag_goes_to_the_first() {
        assert_eq!(taker(&group("127.0.34.6:0"), "127.0.34.7", &[1, 2, 3]), 0);
    }
}
