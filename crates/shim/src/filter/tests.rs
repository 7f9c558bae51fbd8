//! The filter, run by a small interpreter of the instructions it uses.

use super::{AARCH64, ALLOW, Architecture, Filter, TRAP, Trapped, X86_64};

const CLIENTS: Trapped = Trapped { servers: false, accepts: false, datagrams: false };
const SERVERS: Trapped = Trapped { servers: true, accepts: true, datagrams: false };

fn verdict(filter: &Filter, audit: u32, call: u32, args: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(call.to_le_bytes());
    data.extend(audit.to_le_bytes());
    data.extend(0u64.to_le_bytes());
    data.extend(args.iter().flat_map(|a| a.to_le_bytes()));
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let i = filter.0[at];
        at += 1;
        let jump = |taken: bool| usize::from(if taken { i.jt } else { i.jf });
        match u32::from(i.code) {
            0x20 => {
                let k = i.k as usize;
                accumulator = u32::from_le_bytes(data[k..k + 4].try_into().expect("four bytes"));
            }
            0x05 => at += i.k as usize,
            0x06 => return i.k,
            0x15 => at += jump(accumulator == i.k),
            0x35 => at += jump(accumulator >= i.k),
            0x45 => at += jump(accumulator & i.k != 0),
            code => unreachable!("instruction {code:#x}"),
        }
    }
}

fn each(check: impl Fn(&Architecture, &dyn Fn(u32, [u64; 6]) -> u32)) {
    for arch in [X86_64, AARCH64] {
        let filter = Filter::new(&arch, SERVERS);
        check(&arch, &|call, args| verdict(&filter, arch.audit, call, args));
    }
}

#[test]
fn address_calls_are_trapped() {
    each(|arch, run| {
        for call in [arch.connect, arch.getsockname, arch.getpeername] {
            assert_eq!(run(call, [3, 1, 16, 0, 0, 0]), TRAP);
        }
    });
}

#[test]
fn calls_of_servers_are_trapped_where_servers_are_wanted() {
    each(|arch, run| {
        let client = Filter::new(arch, CLIENTS);
        for call in [arch.listen, arch.accept, arch.accept4] {
            assert_eq!(run(call, [3, 1, 16, 0, 0, 0]), TRAP);
            assert_eq!(verdict(&client, arch.audit, call, [0; 6]), ALLOW);
        }
    });
}

#[test]
fn few_questions_about_options_are_trapped() {
    each(|arch, run| {
        assert_eq!(run(arch.getsockopt, [3, 1, 4, 0, 0, 0]), TRAP);
        assert_eq!(run(arch.getsockopt, [3, 1, 8, 0, 0, 0]), TRAP);
        assert_eq!(run(arch.getsockopt, [3, 6, 11, 0, 0, 0]), TRAP);
        assert_eq!(run(arch.getsockopt, [3, 6, 2, 0, 0, 0]), TRAP);
        assert_eq!(run(arch.getsockopt, [3, 1, 3, 0, 0, 0]), ALLOW);
        assert_eq!(run(arch.getsockopt, [3, 6, 8, 0, 0, 0]), ALLOW);
        assert_eq!(run(arch.getsockopt, [3, 6, 4, 0, 0, 0]), ALLOW);
        // The kernel reads ints: rubbish in the high half changes nothing.
        assert_eq!(run(arch.getsockopt, [3, 0xdead_0000_0001, 4, 0, 0, 0]), TRAP);
    });
}

#[test]
fn sends_are_trapped_only_when_they_connect() {
    each(|arch, run| {
        let flag = 0x2000_0000 | 0x4000;
        for (call, position) in [(arch.sendto, 3), (arch.sendmsg, 2), (arch.sendmmsg, 3)] {
            let mut args = [0; 6];
            assert_eq!(run(call, args), ALLOW);
            args[position] = flag;
            assert_eq!(run(call, args), TRAP);
            args[position] = 0x4000;
            assert_eq!(run(call, args), ALLOW);
        }
    });
}

#[test]
fn fast_open_is_denied_and_io_uring_trapped() {
    each(|arch, run| {
        let denied = libc::SECCOMP_RET_ERRNO | libc::ENOPROTOOPT.cast_unsigned();
        assert_eq!(run(arch.setsockopt, [3, 6, 30, 0, 0, 0]), denied);
        assert_eq!(run(arch.setsockopt, [3, 6, 1, 0, 0, 0]), ALLOW);
        assert_eq!(run(arch.setsockopt, [3, 1, 30, 0, 0, 0]), ALLOW);
        assert_eq!(run(425, [0; 6]), TRAP);
    });
}

#[test]
fn everything_else_passes() {
    each(|arch, run| {
        let names = [arch.connect, arch.getsockname, arch.getpeername];
        let known = [&names[..], &[arch.listen, arch.accept, arch.accept4, 425]].concat();
        for call in (0..600).filter(|call| !known.contains(call)) {
            assert_eq!(run(call, [0; 6]), ALLOW, "call {call}");
        }
    });
}

#[test]
fn of_other_calling_conventions_connects_alone_are_trapped() {
    let filter = Filter::new(&X86_64, SERVERS);
    assert_eq!(verdict(&filter, 0x4000_0003, X86_64.connect, [0; 6]), ALLOW);
    assert_eq!(verdict(&filter, AARCH64.audit, X86_64.connect, [0; 6]), ALLOW);
    assert_eq!(verdict(&filter, X86_64.audit, 0x4000_0000 | X86_64.getpeername, [0; 6]), ALLOW);
    assert_eq!(verdict(&filter, X86_64.audit, 0x4000_0000 | X86_64.connect, [0; 6]), TRAP);
    let i386 = |call, first| verdict(&filter, 0x4000_0003, call, [first, 0, 0, 0, 0, 0]);
    assert_eq!(
        [i386(362, 7), i386(102, 3), i386(102, 2), i386(363, 3)],
        [TRAP, TRAP, ALLOW, ALLOW]
    );
    let filter = Filter::new(&AARCH64, SERVERS);
    assert_eq!(verdict(&filter, 0x4000_0028, 283, [0; 6]), TRAP);
    assert_eq!(verdict(&filter, 0x4000_0028, AARCH64.connect, [0; 6]), ALLOW);
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn the_native_numbers_are_those_of_the_c_library() {
    let arch = super::NATIVE.expect("known architecture");
    let ours = [
        arch.connect,
        arch.getsockname,
        arch.getpeername,
        arch.sendto,
        arch.sendmsg,
        arch.sendmmsg,
        arch.setsockopt,
        arch.getsockopt,
        arch.listen,
        arch.accept,
        arch.accept4,
        arch.io_uring_setup,
    ];
    let theirs = [
        libc::SYS_connect,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_setsockopt,
        libc::SYS_getsockopt,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_io_uring_setup,
    ];
    assert!(ours.iter().zip(theirs).all(|(&a, b)| i64::from(a) == b));
}

#[test]
fn datagrams_are_trapped_only_where_they_are_wanted_and_named() {
    each(|arch, run| {
        let all = Trapped { datagrams: true, ..CLIENTS };
        let wanted = Filter::new(arch, all);
        let trapped = |call, args| verdict(&wanted, arch.audit, call, args);
        for pointer in [0x7fff_1000, 0x7fff_0000_0000] {
            for call in [arch.sendto, arch.recvfrom] {
                assert_eq!(trapped(call, [3, 1, 16, 0, pointer, 16]), TRAP);
                assert_eq!(run(call, [3, 1, 16, 0, pointer, 16]), ALLOW);
                assert_eq!(trapped(call, [3, 1, 16, 0, 0, 0]), ALLOW);
            }
        }
        for call in [arch.sendmsg, arch.sendmmsg, arch.recvmsg, arch.recvmmsg] {
            assert_eq!(trapped(call, [3, 1, 0, 0, 0, 0]), TRAP);
            assert_eq!(run(call, [3, 1, 0, 0, 0, 0]), ALLOW);
        }
        let fast_open = libc::MSG_FASTOPEN as u64;
        assert_eq!(trapped(arch.sendto, [3, 1, 16, fast_open, 0, 0]), TRAP);
    });
}
