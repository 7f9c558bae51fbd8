"""Lets a cgroup send IPv4 packets to loopback alone, or to all but loopback, as systemd's IPAddressDeny= does."""

import ctypes
import os
import struct
import sys

BPF_PROG_LOAD, BPF_PROG_ATTACH, CGROUP_SKB, EGRESS, ALLOW_MULTI = 5, 8, 8, 1, 2


def instruction(code, registers=0, jump=0, value=0):
    return struct.pack("<BBhi", code, registers, jump, value)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(321 if os.uname().machine == "x86_64" else 280, command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return result


folder, which = sys.argv[1:]
at_loopback, elsewhere = {"only-loopback": (1, 0), "no-loopback": (0, 1)}[which]
code = b"".join([
    instruction(0xB7, 2, value=16),  # r2 = the offset of the destination's first byte
    instruction(0xBF, 0xA3),  # r3 = the stack
    instruction(0x07, 3, value=-8),
    instruction(0x7A, 10, jump=-8),  # which is zero at first
    instruction(0xB7, 4, value=1),
    instruction(0x85, value=26),  # bpf_skb_load_bytes(packet, r2, r3, r4)
    instruction(0x71, 0xA0, jump=-8),  # r0 = the byte
    instruction(0x15, jump=2, value=127),  # if r0 == 127
    instruction(0xB7, value=elsewhere),
    instruction(0x95),
    instruction(0xB7, value=at_loopback),
    instruction(0x95),
])
text, license = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
load = struct.pack("<IIQQ", CGROUP_SKB, len(code) // 8, ctypes.addressof(text), ctypes.addressof(license))
# The attach type is expected at byte 68.
load = load.ljust(68, b"\0") + struct.pack("<I", EGRESS)
program = bpf(BPF_PROG_LOAD, load)
cgroup = os.open(folder, os.O_RDONLY)
bpf(BPF_PROG_ATTACH, struct.pack("<IIII", cgroup, program, EGRESS, ALLOW_MULTI))
