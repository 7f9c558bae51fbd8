"""A tunnel as a VPN has one: packets of a TUN device go to the peer by UDP, with a firewall mark.

python3 vpn.py DEVICE HERE THERE MARK
"""
import fcntl
import os
import select
import socket
import struct
import sys

PORT = 5555
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
SO_MARK = 36

device, here, there, mark = sys.argv[1:]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, SO_MARK, int(mark))
udp.bind((here, PORT))
while True:
    ready, _, _ = select.select([tun, udp], [], [])
    try:
        if tun in ready:
            udp.sendto(os.read(tun, 2048), (there, PORT))
        if udp in ready:
            os.write(tun, udp.recv(2048))
    except OSError:
        # A device that is down, or a peer that is not there yet.
        continue
