"""Process 1 of a guest of User Mode Linux: sets up its network, runs one program over the kernel's SCTP, and
powers off. The argument is a file:

    path DEVICE OWN/PREFIX FAR GATEWAY    a wire, and whom it leads to
    udp PORT                              UDP port for SCTP; 0: directly over IP
    run PROGRAM [ARGUMENT...]             "try" as first argument: only say READY
"""
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
import traceback

SIOCETHTOOL, ETHTOOL_SGSO = 0x8946, 0x24
FINIT_MODULE = 313  # x86-64, the only machine with this kernel beside i386

# Extensions that are off by default.
SYSCTLS = {"intl_enable": 1, "prsctp_enable": 1, "reconf_enable": 1}


def mount(kind, where):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {where}")


def load(name):
    """Loads a module and what it needs: the guest has no insmod."""
    folder = f"/usr/lib/uml/modules/{os.uname().release}/"
    libc = ctypes.CDLL(None, use_errno=True)
    with open(folder + "modules.dep") as file:
        lines = dict(line.rstrip().split(":", 1) for line in file)
    path = next(path for path in lines if path.endswith(f"/{name}.ko"))
    for module in [*reversed(lines[path].split()), path]:
        descriptor = os.open(folder + module, os.O_RDONLY)
        loaded = libc.syscall(FINIT_MODULE, descriptor, b"", 0)
        if loaded != 0 and ctypes.get_errno() != 17:  # EEXIST: already there
            raise OSError(ctypes.get_errno(), f"finit_module {module}")
        os.close(descriptor)


def ip(command):
    subprocess.run(["ip", *command.split()], check=True)


def sysctl(name, value):
    with open(f"/proc/sys/net/{name}", "w") as file:
        file.write(str(value))


def segment_at_once(device):
    """Generic segmentation offload off: with it, only the last packet of each burst of SCTP in UDP comes out of Linux 6.1,
    and a megabyte takes 40 s. Directly over IP there is no difference."""
    value = (ctypes.c_uint32 * 2)(ETHTOOL_SGSO, 0)
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCETHTOOL, request)


def begin():
    mount("proc", "/proc")
    load("hmac")  # signs the cookies
    load("sctp")
    ip("link set lo up")
    sysctl("ipv4/conf/all/rp_filter", 0)
    sysctl("ipv4/conf/default/rp_filter", 0)
    for name, value in SYSCTLS.items():
        sysctl(f"sctp/{name}", value)


def main(job):
    begin()
    for line in open(job):
        match line.split():
            case ["path", device, own, far, gateway]:
                ip(f"addr add {own} dev {device}")
                ip(f"link set {device} up")
                segment_at_once(device)
                sysctl(f"ipv4/conf/{device}/rp_filter", 0)
                ip(f"route add {far} via {gateway} dev {device}")
            case ["udp", port]:
                sysctl("sctp/udp_port", port)
                sysctl("sctp/encap_port", port)
            case ["run", _, "try"]:
                print("READY", flush=True)
            case ["run", *command]:
                subprocess.run(command)
    time.sleep(0.2)  # the end of the association


try:
    main(next(word for word in sys.argv[1:] if "=" not in word))  # the kernel adds console=tty0
except BaseException:
    print("FAILED", traceback.format_exc(), flush=True)
with open("/proc/sysrq-trigger", "w") as trigger:
    trigger.write("o")
time.sleep(10)
