"""A small SCTP (RFC 9260) with DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk) and the key management of keys.py: one
association at one address, without congestion control.

    peer.py [--private SEED] [--known KEY] [--suites 1301,1302,1303] [--bad-signature] [--port PORT]
            [--adaptation CODE] [--udp ADDRESS:PORT]

SEED and KEY are the 32 bytes of a private and of a public key, and all bytes are in hexadecimal. Reads lines from
standard input and does what they say:

    connect PORT [HOST UDP-PORT]    begins an association; otherwise one is accepted
    send STREAM PPID MESSAGE        sends a user message
    packet BYTES                    takes an SCTP packet
    timeout                         sends again what was not acknowledged
    rekey                           begins a handshake for new keys
    identity                        tells the public key

After each it writes what has come of that, line by line, and then "."; with --udp, packets go over a socket in place of
these lines, and lines come at any time.

    packet BYTES                    is to be sent
    identity KEY                    is the public key
    protected KEY                   the peer has proved to have KEY
    epoch EPOCH SUITE               a key for sending is used from now on
    message STREAM PPID MESSAGE     has come
    dropped REASON                  a packet was not taken
    aborted CAUSE                   by the peer
    refused REASON                  the peer, which is sent an ABORT
"""

import argparse
import os
import select
import socket
import struct
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

sys.path.append(str(Path(__file__).resolve().parents[3] / "aead" / "tests"))
import second_record_layer as records
from keys import CLIENT, METHOD, PARAMETER, SERVER, KeyManagement, agree
from tls13 import Refused, SUITES, public_bytes

DATA, INIT, INIT_ACK, SACK, HEARTBEAT, HEARTBEAT_ACK, ABORT, SHUTDOWN, SHUTDOWN_ACK = range(9)
ERROR, COOKIE_ECHO, COOKIE_ACK, SHUTDOWN_COMPLETE, DTLS = 9, 10, 11, 14, 0x41
STATE_COOKIE, ZERO_CHECKSUM_ACCEPTABLE, ADAPTATION = 7, 0x8001, 0xC006
KEY_MANAGEMENT = 4242
LARGEST = 1100
ANSWERS = 1 << 31

CRC = []
for value in range(256):
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    CRC.append(value)


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ CRC[(value ^ byte) & 0xFF]
    return struct.pack("<I", value ^ 0xFFFFFFFF)


def tlv(kind, value):
    """A parameter, or an error cause."""
    return struct.pack("!HH", kind, 4 + len(value)) + value + bytes(-len(value) % 4)


def tlvs(data):
    while len(data) >= 4:
        kind, length = struct.unpack_from("!HH", data)
        yield kind, data[:length]
        data = data[max(4, length + -length % 4):]


def chunk(kind, value=b"", flags=0):
    return struct.pack("!BBH", kind, flags, 4 + len(value)) + value + bytes(-len(value) % 4)


def chunks(data):
    while len(data) >= 4:
        kind, flags, length = struct.unpack_from("!BBH", data)
        yield kind, flags, data[4:length]
        data = data[max(4, length + -length % 4):]


def tell(*words):
    print(*[word.hex() if isinstance(word, bytes) else word for word in words], flush=True)


class Association:
    def __init__(self, options, transmit):
        self.options, self.transmit_packet = options, transmit
        self.port, self.peer_port = options.port, 0
        self.tag, self.peer_tag = int.from_bytes(os.urandom(4), "big") | 1, 0
        self.tsn, self.cumulative, self.ahead = 1, None, {}
        self.ssn, self.parts = {}, b""
        self.outstanding, self.held = {}, []
        self.setup, self.cookie = None, b""
        self.own_parameter = self.keys = None
        self.sealing, self.opening, self.required = None, {}, False
        self.is_established = False

    # What is sent

    def transmit(self, content, sealed=True):
        packet = struct.pack("!HHII", self.port, self.peer_port, self.peer_tag, 0)
        if self.sealing and sealed:
            epoch, keys, sequence = self.sealing
            self.sealing = (epoch, keys, sequence + 1)
            content = chunk(DTLS, b"\0" + records.seal(*keys, epoch, sequence, content))
        packet += content
        self.transmit_packet(packet[:8] + crc32c(packet) + packet[12:])

    def send(self, message, stream=0, ppid=KEY_MANAGEMENT):
        """Sends a user message, in parts that fit into a packet each."""
        ssn = self.ssn.get(stream, 0)
        self.ssn[stream] = ssn + 1 & 0xFFFF
        for at in range(0, len(message), LARGEST):
            part = message[at:at + LARGEST]
            flags = 2 * (at == 0) + (at + LARGEST >= len(message))
            head = struct.pack("!IHHI", self.tsn, stream, ssn, ppid)
            self.outstanding[self.tsn] = chunk(DATA, head + part, flags)
            self.held.append(self.tsn)
            self.tsn += 1
        if self.is_established:
            self.flush()

    def flush(self):
        """Sends what is held back until there is an association."""
        held, self.held = self.held, []
        for tsn in held:
            self.transmit(self.outstanding[tsn])

    def acknowledge(self):
        self.transmit(chunk(SACK, struct.pack("!IIHH", self.cumulative, 1 << 20, 0, 0)))

    def timeout(self):
        if self.setup:
            self.transmit(self.setup)
        for content in list(self.outstanding.values()):
            self.transmit(content)

    def init(self, kind, *parameters):
        """An INIT or INIT ACK, whose DTLS Key Management parameter says that we can be client and server."""
        tie = int.from_bytes(os.urandom(4), "big") & ~ANSWERS | ANSWERS * (kind == INIT_ACK)
        offer = tlv(PARAMETER, struct.pack("!IBB", tie, CLIENT | SERVER, METHOD))
        self.own_parameter = offer[:10]
        head = struct.pack("!IIHHI", self.tag, 1 << 20, 1024, 1024, self.tsn)
        parameters += (tlv(ZERO_CHECKSUM_ACCEPTABLE, b"DTLS"),)
        if self.options.adaptation is not None:
            parameters += (tlv(ADAPTATION, struct.pack("!I", self.options.adaptation)),)
        return chunk(kind, head + offer + b"".join(parameters))

    def connect(self, port):
        self.peer_port = port
        self.setup = self.init(INIT)
        self.transmit(self.setup)

    # What comes

    def handle(self, packet):
        # RFC 9653 section 5.3: the record's tag stands in for a checksum that was left out.
        omitted = packet[8:12] == bytes(4) and packet[12] == DTLS
        if not omitted and packet[8:12] != crc32c(packet[:8] + bytes(4) + packet[12:]):
            return tell("dropped", "checksum")
        source, _, tag = struct.unpack_from("!HHI", packet)
        inside = list(chunks(packet[12:]))
        kind, content = inside[0][0], packet[12:]
        if tag != (0 if kind == INIT else self.tag):
            return tell("dropped", "tag")
        sealed = kind == DTLS
        if sealed:
            content = self.open(packet)
            if content is None:
                return tell("dropped", "forged")
        elif self.required and kind not in (INIT, INIT_ACK):
            return tell("dropped", "unprotected")
        self.peer_port = self.peer_port or source
        self.handle_chunks(content, sealed)

    def handle_chunks(self, content, sealed):
        before = self.cumulative
        handlers = {
            INIT: self.on_init,
            INIT_ACK: self.on_init_ack,
            COOKIE_ECHO: self.on_cookie_echo,
            COOKIE_ACK: self.on_cookie_ack,
            SACK: self.on_sack,
            HEARTBEAT: lambda value: self.transmit(chunk(HEARTBEAT_ACK, value)),
            ABORT: lambda value: tell("aborted", value),
            SHUTDOWN: lambda value: self.transmit(chunk(SHUTDOWN_ACK)),
            SHUTDOWN_ACK: lambda value: self.transmit(chunk(SHUTDOWN_COMPLETE)),
        }
        has_data = False
        try:
            for kind, flags, value in chunks(content):
                if kind == DATA:
                    has_data = True
                    self.on_data(flags, value, sealed)
                elif kind in handlers:
                    handlers[kind](value)
        except Refused as reason:
            tell("refused", str(reason).replace(" ", "-"))
            self.transmit(chunk(ABORT, tlv(12, str(reason).encode())))
        if has_data and before is not None:
            self.acknowledge()

    def open(self, packet):
        unpacked = records.unpack(packet)
        epoch, keys, expected = self.opening.get(unpacked[1][0] & 3, (0, None, 0)) if unpacked else (0, None, 0)
        if keys is None or unpacked[0]:
            return None
        opened = records.open_(*keys, epoch, expected, unpacked[1])
        if opened is None:
            return None
        self.opening[epoch & 3] = (epoch, keys, max(expected, opened[0] + 1))
        return opened[1]

    def learn_peer(self, value):
        """What INIT and INIT ACK say."""
        self.peer_tag, _, _, _, tsn = struct.unpack_from("!IIHHI", value)
        self.cumulative = tsn - 1 & 0xFFFFFFFF
        found = dict(tlvs(value[16:]))
        return found.get(PARAMETER), found.get(STATE_COOKIE, b"")[4:]

    def on_init(self, value):
        self.peer_parameter, _ = self.learn_peer(value)
        self.cookie = os.urandom(16)
        self.transmit(self.init(INIT_ACK, tlv(STATE_COOKIE, self.cookie)))

    def on_init_ack(self, value):
        if self.setup is None or self.is_established:
            return
        self.peer_parameter, cookie = self.learn_peer(value)
        self.begin_keys()
        self.setup = chunk(COOKIE_ECHO, cookie)
        bundled = b"".join(self.outstanding[tsn] for tsn in self.held)
        self.held = []
        self.transmit(self.setup + bundled)

    def on_cookie_echo(self, value):
        if value != self.cookie:
            return tell("dropped", "cookie")
        if not self.is_established:
            self.is_established = True
            self.begin_keys()
        self.transmit(chunk(COOKIE_ACK))
        self.flush()

    def on_cookie_ack(self, value):
        self.setup, self.is_established = None, True
        self.flush()

    def on_sack(self, value):
        cumulative, _, _, _ = struct.unpack_from("!IIHH", value)
        self.outstanding = {tsn: it for tsn, it in self.outstanding.items() if tsn > cumulative}

    def on_data(self, flags, value, sealed):
        tsn, = struct.unpack_from("!I", value)
        if 0 < (tsn - self.cumulative & 0xFFFFFFFF) < 1 << 31:
            self.ahead[tsn] = (flags, value, sealed)
        while (self.cumulative + 1 & 0xFFFFFFFF) in self.ahead:
            self.cumulative = self.cumulative + 1 & 0xFFFFFFFF
            self.take_part(*self.ahead.pop(self.cumulative))

    def take_part(self, flags, value, sealed):
        """Parts come one after the other, and so do messages: in the order of their TSNs."""
        _, stream, _, ppid = struct.unpack_from("!IHHI", value)
        self.parts = (b"" if flags & 2 else self.parts) + value[12:]
        if not flags & 1:
            return
        if ppid != KEY_MANAGEMENT:
            return tell("message", stream, ppid, self.parts)
        if self.keys is None:
            raise Refused("nothing was agreed on")
        before = self.keys.peer
        self.keys.handle(self.parts, sealed)
        if self.keys.peer and not before:
            tell("protected", self.keys.peer)

    # For key management

    def begin_keys(self):
        options, own, peer = self.options, self.own_parameter, self.peer_parameter
        is_client = agree(own, peer)
        if is_client is None:
            return tell("dropped", "agreement")
        parameters = (own, peer) if is_client else (peer, own)
        self.keys = KeyManagement(
            self, is_client, parameters, options.private, options.suites, options.known,
            options.bad_signature)

    def install(self, sends, epoch, suite, *keys):
        if sends:
            self.sealing = (epoch, (suite, *keys), 0)
            tell("epoch", epoch, f"{suite:x}")
        else:
            self.opening[epoch & 3] = (epoch, (suite, *keys), 0)

    def require(self):
        self.required = True


def obey(association, words):
    if words[0] == "connect":
        association.connect(int(words[1]))
    elif words[0] == "send":
        association.send(bytes.fromhex(words[3]), int(words[1]), int(words[2]))
    elif words[0] == "packet":
        association.handle(bytes.fromhex(words[1]))
    elif words[0] == "timeout":
        association.timeout()
    elif words[0] == "rekey":
        association.keys.begin()
    elif words[0] == "identity":
        tell("identity", public_bytes(association.options.private))
    else:
        sys.exit(f"peer.py: unknown command: {words[0]}")
    print(".", flush=True)


def over_udp(options):
    """Sends and takes packets at a UDP port; what is not acknowledged in a second is sent again."""
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    address, number = options.udp.split(":")
    port.bind((address, int(number)))
    peer, rest = None, b""
    association = Association(options, lambda packet: port.sendto(packet, peer))
    while True:
        # Not through the buffer of sys.stdin, in which lines wait that select does not know of.
        ready, _, _ = select.select([port, 0], [], [], 1)
        if port in ready:
            packet, peer = port.recvfrom(65536)
            association.handle(packet)
        if 0 in ready:
            read = os.read(0, 65536)
            if not read:
                return
            *lines, rest = (rest + read).split(b"\n")
            for words in map(str.split, map(bytes.decode, lines)):
                if words[0] == "connect":
                    peer = (words[2], int(words[3]))
                obey(association, words)
        if not ready:
            association.timeout()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--private", default=os.urandom(32).hex())
    parser.add_argument("--known", type=bytes.fromhex)
    parser.add_argument("--suites", default=",".join(f"{suite:x}" for suite in SUITES))
    parser.add_argument("--bad-signature", action="store_true")
    parser.add_argument("--port", type=int, default=5001)
    parser.add_argument("--adaptation", type=lambda code: int(code, 16))
    parser.add_argument("--udp")
    options = parser.parse_args()
    options.private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(options.private))
    options.suites = [int(suite, 16) for suite in options.suites.split(",")]
    if options.udp is not None:
        return over_udp(options)
    association = Association(options, lambda packet: tell("packet", packet))
    for line in sys.stdin:
        obey(association, line.split())


if __name__ == "__main__":
    main()
