"""Process 1 of a guest of User Mode Linux: sets up its network, runs one program over the kernel's SCTP, and
powers off. The argument is a file:

    path DEVICE OWN/PREFIX FAR GATEWAY    a wire, and whom it leads to
    udp PORT                              UDP port for SCTP; 0: directly over IP
    run PROGRAM [ARGUMENT...]             "try" as first argument: only say READY
"""
import ctypes
import fcntl
import socket
import struct
import subprocess
import sys
import time

import machine
from machine import ip

SIOCETHTOOL, ETHTOOL_SGSO = 0x8946, 0x24

# Extensions that are off by default.
SYSCTLS = {"intl_enable": 1, "prsctp_enable": 1, "reconf_enable": 1}


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
    machine.begin("/run")
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


machine.run(main, sys.argv[1:])
