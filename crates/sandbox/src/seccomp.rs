//! System calls that no process of manypath needs once it is at work. They fail with EPERM.
//!
//! A list of what is refused, not of what is allowed: which calls a C library makes to allocate memory or to
//! start a thread changes with its version. Calls of another architecture than the program's (32-bit code)
//! are refused as a whole.

use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};
use libc::{sock_filter, sock_fprog};
use std::io;
use std::mem::offset_of;

/// The identity of the machine in the audit system; none where the filter does not know it.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};
/// From here on calls on `x86_64` are those of x32.
const X32: u32 = 0x4000_0000;
/// No speculation barriers for the process, which kernels before 5.16 add otherwise.
const SPEC_ALLOW: libc::c_ulong = 1 << 2;

/// Calls that start programs, reach into other processes, change ids, namespaces, mounts, modules or clocks,
/// or that have been ways into the kernel and are of no use here.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_kill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_personality,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Refuses these calls to the calling thread and to those that it starts, and sockets of other families.
/// The process must not be able to gain privileges any more.
pub(crate) fn install(families: &[i32]) -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else {
        return Err(io::Error::other("there is no filter for this processor"));
    };
    let mut filter = build(architecture, families);
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let mode = libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER);
    // SAFETY: `program` points into `filter`, which outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, mode, SPEC_ALLOW, &raw const program) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Each check jumps over the answer that it guards, so that no distances have to be counted.
fn build(architecture: u32, families: &[i32]) -> Vec<sock_filter> {
    let number = |call: libc::c_long| call as u32;
    let mut filter = vec![load(offset_of!(libc::seccomp_data, arch))];
    filter.extend([jump(BPF_JEQ, architecture, 1, 0), refuse(libc::EPERM)]);
    filter.push(load(offset_of!(libc::seccomp_data, nr)));
    if cfg!(target_arch = "x86_64") {
        filter.extend([jump(BPF_JGE, X32, 0, 1), refuse(libc::EPERM)]);
    }
    for call in REFUSED {
        filter.extend([jump(BPF_JEQ, number(*call), 0, 1), refuse(libc::EPERM)]);
    }
    // Its flags lie in memory, where a filter cannot look: C libraries go on with clone.
    filter.extend([jump(BPF_JEQ, number(libc::SYS_clone3), 0, 1), refuse(libc::ENOSYS)]);
    // Threads, but no processes.
    filter.extend([jump(BPF_JEQ, number(libc::SYS_clone), 0, 4), load(FIRST_ARGUMENT)]);
    filter.extend([jump(BPF_JSET, libc::CLONE_THREAD as u32, 1, 0), refuse(libc::EPERM), allow()]);
    filter.extend([jump(BPF_JEQ, number(libc::SYS_socket), 1, 0), allow(), load(FIRST_ARGUMENT)]);
    for family in families {
        filter.extend([jump(BPF_JEQ, *family as u32, 0, 1), allow()]);
    }
    filter.push(refuse(libc::EPERM));
    filter
}

/// The lower half of it: both machines are little-endian.
const FIRST_ARGUMENT: usize = offset_of!(libc::seccomp_data, args);

const fn load(offset: usize) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset as u32)
}

const fn refuse(error: i32) -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | error as u32)
}

const fn allow() -> sock_filter {
    statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW)
}

const fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips `yes` statements if the comparison holds, else `no`.
const fn jump(comparison: u32, k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt: yes, jf: no, k }
}
