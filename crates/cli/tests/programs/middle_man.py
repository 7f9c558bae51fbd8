"""Somebody on the way: passes UDP datagrams on, without the parameter by which SCTP endpoints offer to encrypt.

middle_man.py PORT SERVER SERVER_PORT COUNT_FILE WORD

Listens at PORT and sends what comes to the server, and back. INIT and INIT ACK lose their DTLS Key Management
parameter (type 0x8006) and get right lengths and checksums. COUNT_FILE tells how many were changed, and how many
datagrams contained WORD.
"""

import os
import select
import socket
import struct
import sys

KEY_MANAGEMENT = 0x8006
FIXED = 16


def table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def stripped(packet):
    """The packet without the offer, or none if it makes none."""
    if len(packet) < 16 + FIXED or packet[12] not in (1, 2):
        return None
    length = struct.unpack_from("!H", packet, 14)[0]
    rest, kept, found = packet[16 + FIXED : 12 + length], b"", False
    while len(rest) >= 4:
        kind, size = struct.unpack_from("!HH", rest)
        whole = size + 3 & ~3
        if size < 4:
            return None
        if kind == KEY_MANAGEMENT:
            found = True
        else:
            kept += rest[:whole].ljust(whole, b"\0")
        rest = rest[whole:]
    if not found:
        return None
    chunk = packet[12:14] + struct.pack("!H", 4 + FIXED + len(kept)) + packet[16 : 16 + FIXED] + kept
    packet = packet[:8] + bytes(4) + chunk
    return packet[:8] + struct.pack("<I", crc32c(packet)) + packet[12:]


def main():
    port, server, server_port, counts, word = sys.argv[1:]
    server, word = (server, int(server_port)), word.encode()
    front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    front.bind(("0.0.0.0", int(port)))
    ways, clients, changed, read = {}, {}, 0, 0
    while True:
        for one in select.select([front, *clients], [], [])[0]:
            try:
                packet, source = one.recvfrom(65536)
            except ConnectionRefusedError:
                continue
            read += word in packet
            other = stripped(packet)
            changed += other is not None
            with open(counts + "~", "w", encoding="ascii") as file:
                file.write(f"{changed} {read}\n")
            # Whoever reads it finds all of it.
            os.replace(counts + "~", counts)
            packet = other or packet
            if one is not front:
                front.sendto(packet, clients[one])
                continue
            if source not in ways:
                ways[source] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                ways[source].connect(server)
                clients[ways[source]] = source
            ways[source].send(packet)


main()
