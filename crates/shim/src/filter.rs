//! The seccomp filter: which system calls of the program reach the launcher.
//!
//! Only calls that name or ask for an address do. Reading, writing, polling, closing stay in the
//! kernel: the program really holds a TCP socket. The filter looks at numbers and plain arguments,
//! never at memory, so it cannot see what kind of socket a call is about.
//!
//! A call of another architecture than the filter's (32-bit binaries, x32) is let through: such a
//! program uses plain TCP. Only its connects reach the launcher, to be counted.

use libc::{sock_filter, sock_fprog};
use manypath_control::SEND_FLAGS;
use std::mem;

/// System call numbers and audit identity of one machine architecture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Architecture {
    audit: u32,
    /// Numbers from here on belong to another calling convention (x32).
    foreign_from: Option<u32>,
    foreign: Foreign,
    pub(crate) connect: u32,
    pub(crate) getsockname: u32,
    pub(crate) getpeername: u32,
    pub(crate) sendto: u32,
    pub(crate) sendmsg: u32,
    pub(crate) sendmmsg: u32,
    pub(crate) recvfrom: u32,
    pub(crate) recvmsg: u32,
    pub(crate) recvmmsg: u32,
    pub(crate) setsockopt: u32,
    pub(crate) getsockopt: u32,
    pub(crate) listen: u32,
    pub(crate) accept: u32,
    pub(crate) accept4: u32,
    pub(crate) io_uring_setup: u32,
}

/// How 32-bit programs connect on a machine.
#[derive(Debug, Clone, Copy)]
struct Foreign {
    audit: u32,
    connect: u32,
    /// The call of all calls of sockets, where there is one.
    socketcall: Option<u32>,
}

/// `socketcall` of 32-bit programs on x86: its arguments are the number of a call and where that call's
/// arguments are.
pub(crate) const I386_SOCKETCALL: u32 = 102;
/// `SYS_CONNECT` of `socketcall`.
const SOCKETCALL_CONNECT: u32 = 3;

pub(crate) const X86_64: Architecture = Architecture {
    audit: 0xC000_003E,
    foreign_from: Some(0x4000_0000),
    foreign: Foreign { audit: 0x4000_0003, connect: 362, socketcall: Some(I386_SOCKETCALL) },
    connect: 42,
    getsockname: 51,
    getpeername: 52,
    sendto: 44,
    sendmsg: 46,
    sendmmsg: 307,
    recvfrom: 45,
    recvmsg: 47,
    recvmmsg: 299,
    setsockopt: 54,
    getsockopt: 55,
    listen: 50,
    accept: 43,
    accept4: 288,
    io_uring_setup: 425,
};

pub(crate) const AARCH64: Architecture = Architecture {
    audit: 0xC000_00B7,
    foreign_from: None,
    foreign: Foreign { audit: 0x4000_0028, connect: 283, socketcall: None },
    connect: 203,
    getsockname: 204,
    getpeername: 205,
    sendto: 206,
    sendmsg: 211,
    sendmmsg: 269,
    recvfrom: 207,
    recvmsg: 212,
    recvmmsg: 243,
    setsockopt: 208,
    getsockopt: 209,
    listen: 201,
    accept: 202,
    accept4: 242,
    io_uring_setup: 425,
};

/// The architecture this program was built for, if the filter knows it.
pub(crate) const NATIVE: Option<Architecture> = if cfg!(target_arch = "x86_64") {
    Some(X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(AARCH64)
} else {
    None
};

impl Architecture {
    /// Whether a call is of this architecture, and of its usual calling convention.
    pub(crate) fn is_native(&self, audit: u32, call: u32) -> bool {
        audit == self.audit && self.foreign_from.is_none_or(|first| call < first)
    }

    /// Whether the call receives datagrams.
    pub(crate) fn receives(&self, call: u32) -> bool {
        [self.recvfrom, self.recvmsg, self.recvmmsg].contains(&call)
    }
}

/// What is trapped besides the calls of clients of TCP.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trapped {
    /// Calls of servers.
    pub(crate) servers: bool,
    /// And those that take connections; otherwise `listen` is only counted.
    pub(crate) accepts: bool,
    /// Calls that send or receive datagrams with an address.
    pub(crate) datagrams: bool,
}

/// A filter program, ready for the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Filter(Vec<sock_filter>);

impl Filter {
    /// The filter for `arch`.
    pub(crate) fn new(arch: &Architecture, trapped: Trapped) -> Self {
        let foreign = arch.foreign.lines();
        let mut code =
            vec![load(ARCH), skip_unless_equal(arch.audit, 1), jump(foreign.len() as u32)];
        code.extend(foreign);
        code.push(load(NUMBER));
        if let Some(first) = arch.foreign_from {
            let connects = skip_unless_equal(first + arch.connect, 1);
            code.extend([skip_if_below(first, 3), connects, ret(TRAP), ret(ALLOW)]);
        }
        for rule in rules(arch, trapped) {
            let body = rule.body();
            code.push(skip_unless_equal(rule.call, body.len() as u8));
            code.extend(body);
        }
        code.push(ret(ALLOW));
        Self(code)
    }

    /// One that traps nothing.
    pub(crate) fn allow_all() -> Self {
        Self(vec![ret(ALLOW)])
    }

    /// What the kernel wants to see. The pointer lives as long as the filter.
    pub(crate) fn as_program(&self) -> sock_fprog {
        sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() }
    }
}

impl Foreign {
    /// For calls of another architecture than the filter's, whose identity is loaded. Returns in every case.
    fn lines(&self) -> Vec<sock_filter> {
        let mut body = vec![load(NUMBER), skip_unless_equal(self.connect, 1), ret(TRAP)];
        if let Some(socketcall) = self.socketcall {
            let connect = skip_unless_equal(SOCKETCALL_CONNECT, 1);
            body.extend([skip_unless_equal(socketcall, 3), load(ARGUMENTS), connect, ret(TRAP)]);
        }
        let mut lines = vec![skip_unless_equal(self.audit, body.len() as u8)];
        lines.extend(body);
        lines.push(ret(ALLOW));
        lines
    }
}

/// One system call: what to do in which case. The first that holds counts; otherwise the call is
/// let through.
struct Rule {
    call: u32,
    cases: Vec<Case>,
}

/// Conditions on arguments, all of which must hold, and the action then.
struct Case {
    conditions: Vec<(u32, Condition)>,
    action: u32,
}

#[derive(Clone, Copy)]
enum Condition {
    Equal(u32),
    AnyBit(u32),
    /// Of the high half.
    AnyHighBit(u32),
}

impl Rule {
    fn trap(call: u32, conditions: &[(u32, Condition)]) -> Self {
        Self::trap_any(call, &[conditions])
    }

    fn trap_any(call: u32, cases: &[&[(u32, Condition)]]) -> Self {
        Self { call, cases: Vec::new() }.or_trap(cases)
    }

    fn or_trap(mut self, cases: &[&[(u32, Condition)]]) -> Self {
        let trap = |conditions: &&[_]| Case { conditions: conditions.to_vec(), action: TRAP };
        let cases = cases.iter().map(trap);
        self.cases.extend(cases);
        self
    }

    fn allow(call: u32, conditions: &[(u32, Condition)]) -> Self {
        Self { call, cases: vec![Case { conditions: conditions.to_vec(), action: ALLOW }] }
    }

    fn fail(call: u32, conditions: &[(u32, Condition)], errno: i32) -> Self {
        let action = libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
        Self { call, cases: vec![Case { conditions: conditions.to_vec(), action }] }
    }

    /// Returns in every case, so what it loads harms nobody behind it.
    fn body(&self) -> Vec<sock_filter> {
        let mut body: Vec<_> = self.cases.iter().flat_map(Case::lines).collect();
        body.push(ret(ALLOW));
        body
    }
}

impl Case {
    /// Goes on behind its last line when a condition does not hold.
    fn lines(&self) -> Vec<sock_filter> {
        let mut lines = Vec::new();
        for (i, &(argument, condition)) in self.conditions.iter().enumerate() {
            // Over the remaining conditions and the action.
            let to_next = (2 * (self.conditions.len() - i) - 1) as u8;
            let high = matches!(condition, Condition::AnyHighBit(_));
            lines.push(load(ARGUMENTS + 8 * argument + if high { 4 } else { 0 }));
            lines.push(match condition {
                Condition::Equal(value) => skip_unless_equal(value, to_next),
                Condition::AnyBit(mask) | Condition::AnyHighBit(mask) => {
                    skip_unless_set(mask, to_next)
                }
            });
        }
        lines.push(ret(self.action));
        lines
    }
}

fn rules(arch: &Architecture, trapped: Trapped) -> Vec<Rule> {
    use Condition::{AnyBit, Equal};
    let fast_open = libc::MSG_FASTOPEN.cast_unsigned();
    let is = |value: i32| Equal(value.cast_unsigned());
    let mut rules = vec![
        Rule::trap_any(
            arch.getsockopt,
            &[
                &[(1, is(libc::SOL_SOCKET)), (2, is(libc::SO_ERROR))],
                &[(1, is(libc::SOL_SOCKET)), (2, is(libc::SO_RCVBUF))],
                &[(1, is(libc::IPPROTO_TCP)), (2, is(libc::TCP_INFO))],
                &[(1, is(libc::IPPROTO_TCP)), (2, is(libc::TCP_MAXSEG))],
            ],
        ),
        Rule::trap(arch.connect, &[]),
        Rule::trap(arch.getsockname, &[]),
        Rule::trap(arch.getpeername, &[]),
        Rule::trap(arch.io_uring_setup, &[]),
        // With this option the kernel would connect at the first write, where no trap is.
        Rule::fail(
            arch.setsockopt,
            &[(1, is(libc::IPPROTO_TCP)), (2, is(libc::TCP_FASTOPEN_CONNECT))],
            libc::ENOPROTOOPT,
        )
        .or_trap(&[
            &[(1, is(libc::IPPROTO_IP)), (2, is(libc::IP_TOS))],
            &[(1, is(libc::IPPROTO_IPV6)), (2, is(libc::IPV6_TCLASS))],
            &[(1, is(libc::IPPROTO_TCP)), (2, is(libc::TCP_USER_TIMEOUT))],
        ]),
    ];
    let fast_opens = [(arch.sendto, 3), (arch.sendmsg, 2), (arch.sendmmsg, 3)];
    if trapped.datagrams {
        rules.extend(datagram_rules(arch));
    } else {
        let traps = fast_opens.map(|(call, at)| Rule::trap(call, &[(at, AnyBit(fast_open))]));
        rules.extend(traps);
    }
    let listens = [arch.listen].into_iter().filter(|_| trapped.servers);
    let accepts = [arch.accept, arch.accept4].into_iter().filter(|_| trapped.accepts);
    rules.extend(listens.chain(accepts).map(|call| Rule::trap(call, &[])));
    rules
}

/// With an address, or with a header that may name one.
fn datagram_rules(arch: &Architecture) -> Vec<Rule> {
    use Condition::{AnyBit, AnyHighBit};
    let fast_open: &[(u32, Condition)] = &[(3, AnyBit(libc::MSG_FASTOPEN.cast_unsigned()))];
    let low: &[(u32, Condition)] = &[(4, AnyBit(u32::MAX))];
    let high: &[(u32, Condition)] = &[(4, AnyHighBit(u32::MAX))];
    let headers = [arch.sendmmsg, arch.recvmsg, arch.recvmmsg];
    let headers = headers.map(|call| Rule::trap(call, &[]));
    // The filter itself is handed to the launcher by such a call, when nobody answers yet.
    let own = Condition::Equal(SEND_FLAGS.cast_unsigned());
    let sendmsg = Rule::allow(arch.sendmsg, &[(2, own)]).or_trap(&[&[]]);
    let addresses = [
        Rule::trap_any(arch.sendto, &[fast_open, low, high]),
        Rule::trap_any(arch.recvfrom, &[low, high]),
    ];
    headers.into_iter().chain(addresses).chain([sendmsg]).collect()
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const TRAP: u32 = libc::SECCOMP_RET_USER_NOTIF;
const NUMBER: u32 = mem::offset_of!(libc::seccomp_data, nr) as u32;
const ARCH: u32 = mem::offset_of!(libc::seccomp_data, arch) as u32;
/// Both architectures are little-endian: the low half of an argument comes first, and the
/// arguments compared here are C ints, whose high half the kernel ignores.
const ARGUMENTS: u32 = mem::offset_of!(libc::seccomp_data, args) as u32;

const fn load(offset: u32) -> sock_filter {
    line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

const fn ret(action: u32) -> sock_filter {
    line(libc::BPF_RET | libc::BPF_K, 0, 0, action)
}

const fn jump(over: u32) -> sock_filter {
    line(libc::BPF_JMP | libc::BPF_JA, 0, 0, over)
}

const fn skip_unless_equal(value: u32, over: u8) -> sock_filter {
    line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, over, value)
}

const fn skip_unless_set(mask: u32, over: u8) -> sock_filter {
    line(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, over, mask)
}

const fn skip_if_below(value: u32, over: u8) -> sock_filter {
    line(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, over, value)
}

const fn line(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests;
