"""A Diameter-like client over the kernel's SCTP sockets: several associations, requests of growing
size, a few of them under way at a time. Each answer must be one message with identifier 46.

usage: diameter_sctp.py HOST PORT ASSOCIATIONS REQUESTS
"""
import socket
import struct
import sys

SOL_SCTP, IPPROTO_SCTP = 132, 132
SCTP_SNDINFO, SCTP_RCVINFO, SCTP_RECVRCVINFO = 2, 3, 32
WINDOW = 8


def request(number):
    length = 20 + number * 12 % 40_000 // 4 * 4
    head = struct.pack(">IIIII", 1 << 24 | length, 0x80000110, 4, number, number ^ 0xFFFF)
    return head + bytes([number & 255]) * (length - 20)


def answer(stream):
    data, control, flags, _ = stream.recvmsg(65536, 256)
    assert flags & socket.MSG_EOR, "a part of a message"
    for level, kind, info in control:
        if (level, kind) == (SOL_SCTP, SCTP_RCVINFO):
            assert socket.ntohl(struct.unpack("HHHxxI", info[:12])[3]) == 46, info
            return data
    raise AssertionError(f"no information about a message: {control}")


def connect(host, port):
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SCTP)
    stream.settimeout(30)
    stream.setsockopt(SOL_SCTP, SCTP_RECVRCVINFO, 1)
    stream.connect((host, port))
    return stream


def send(stream, number):
    info = struct.pack("HHIII", 0, 0, socket.htonl(46), 0, 0)
    stream.sendmsg([request(number)], [(SOL_SCTP, SCTP_SNDINFO, info)])


def check(stream, number):
    expected = bytearray(request(number))
    expected[4] = 0
    data = answer(stream)
    assert data == bytes(expected), f"answer {number}: {len(data)} bytes"


host, port, associations, requests = sys.argv[1], *map(int, sys.argv[2:])
streams = [connect(host, port) for _ in range(associations)]
for number in range(requests + WINDOW):
    for stream in streams:
        if number < requests:
            send(stream, number)
        if number >= WINDOW:
            check(stream, number - WINDOW)
for stream in streams:
    stream.close()
print("answers", associations * requests)
