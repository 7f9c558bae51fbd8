"""A second implementation of the handshake that docs/key-management.md describes, written from the texts alone:
TLS 1.3 (RFC 8446) with X25519, and raw public keys (RFC 7250) of Ed25519 (RFC 8410) at both ends.

Sans-IO: `receive` takes records of the peer's, `transmit` gives those that are to be sent, and `export` is the exporter of
RFC 8446 section 7.5. Whatever is wrong raises `Refused`.
"""

import hmac
import os
import struct

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

# hash of the cipher suite, key length, AEAD
SUITES = {
    0x1301: (hashes.SHA256, 16, AESGCM),
    0x1302: (hashes.SHA384, 32, AESGCM),
    0x1303: (hashes.SHA256, 32, ChaCha20Poly1305),
}
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23
CLIENT_HELLO, SERVER_HELLO, ENCRYPTED_EXTENSIONS = 1, 2, 8
CERTIFICATE, CERTIFICATE_REQUEST, CERTIFICATE_VERIFY, FINISHED = 11, 13, 15, 20
GROUPS, SIGNATURES, CLIENT_TYPE, SERVER_TYPE, VERSIONS, KEY_SHARE = 10, 13, 19, 20, 43, 51
X25519, ED25519, RAW_PUBLIC_KEY, TLS13 = b"\x00\x1d", b"\x08\x07", b"\x02", b"\x03\x04"
# What stands before the 32 bytes of a key in its SubjectPublicKeyInfo (RFC 8410 section 4).
SPKI = bytes.fromhex("302a300506032b6570032100")


class Refused(Exception):
    """Why the handshake has failed."""


class Reader:
    """Takes apart what a peer has sent."""

    def __init__(self, data):
        self.data = data

    def take(self, length):
        if length > len(self.data):
            raise Refused("cut short")
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def vector(self, size):
        return self.take(int.from_bytes(self.take(size), "big"))

    def number(self, size):
        return int.from_bytes(self.take(size), "big")


def vector(size, data):
    return len(data).to_bytes(size, "big") + data


def extensions(*entries):
    return vector(2, b"".join(struct.pack("!H", kind) + vector(2, data) for kind, data in entries))


def read_extensions(reader):
    found, inside = {}, Reader(reader.vector(2))
    while inside.data:
        kind = inside.number(2)
        found[kind] = inside.vector(2)
    return found


def pairs(data):
    return [data[at:at + 2] for at in range(0, len(data), 2)]


def public_bytes(key):
    return key.public_key().public_bytes_raw()


class Schedule:
    """The key schedule of a cipher suite (RFC 8446 section 7.1)."""

    def __init__(self, suite):
        self.suite = suite
        self.hash, self.key_len, self.aead = SUITES[suite]
        self.size = self.hash.digest_size

    def digest(self, data):
        digest = hashes.Hash(self.hash())
        digest.update(data)
        return digest.finalize()

    def hmac(self, key, data):
        return hmac.digest(key, data, self.hash.name)

    def expand(self, secret, label, context, length):
        info = struct.pack("!H", length) + vector(1, b"tls13 " + label) + vector(1, context)
        return HKDFExpand(self.hash(), length, info).derive(secret)

    def derive(self, secret, label, transcript):
        return self.expand(secret, label, self.digest(transcript), self.size)

    def next(self, secret, material):
        """The secret of the next stage, into which `material` goes."""
        return self.hmac(self.derive(secret, b"derived", b""), material)

    def first(self):
        return self.hmac(bytes(self.size), bytes(self.size))


class Direction:
    """Protects the records of one end (RFC 8446 sections 5.2 and 5.3)."""

    def __init__(self, schedule, secret):
        self.aead = schedule.aead(schedule.expand(secret, b"key", b"", schedule.key_len))
        self.iv = schedule.expand(secret, b"iv", b"", 12)
        self.finished = schedule.expand(secret, b"finished", b"", schedule.size)
        self.sequence = 0

    def nonce(self):
        padded = self.sequence.to_bytes(12, "big")
        self.sequence += 1
        return bytes(a ^ b for a, b in zip(self.iv, padded))

    def seal(self, kind, data):
        header = struct.pack("!BHH", APPLICATION_DATA, 0x0303, len(data) + 17)
        return header + self.aead.encrypt(self.nonce(), data + bytes([kind]), header)

    def open(self, header, data):
        try:
            inner = self.aead.decrypt(self.nonce(), data, header).rstrip(b"\0")
        except InvalidTag:
            raise Refused("a record is not authentic") from None
        if not inner:
            raise Refused("a record without a type")
        return inner[-1], inner[:-1]


class Handshake:
    """One end of a handshake. `bad_signature` spoils the proof that it has its key."""

    def __init__(self, is_client, private, suites, bad_signature=False):
        self.is_client, self.private, self.suites = is_client, private, suites
        self.bad_signature = bad_signature
        self.share = X25519PrivateKey.generate()
        self.schedule = self.sending = self.receiving = self.exporter = None
        self.transcript, self.records, self.messages, self.out = b"", b"", b"", b""
        self.presented = self.peer = None
        self.complete = False
        self.expected = SERVER_HELLO if is_client else CLIENT_HELLO
        if is_client:
            self.send_client_hello()

    def transmit(self):
        out, self.out = self.out, b""
        return out

    def receive(self, data):
        self.records += data
        while len(self.records) >= 5:
            header = self.records[:5]
            kind, _, length = struct.unpack("!BHH", header)
            if len(self.records) < 5 + length:
                return
            body, self.records = self.records[5:5 + length], self.records[5 + length:]
            self.handle_record(kind, header, body)

    def handle_record(self, kind, header, body):
        if kind == CHANGE_CIPHER_SPEC and body == b"\x01":
            return  # for boxes in the middle (appendix D.4)
        if kind == APPLICATION_DATA and self.receiving:
            kind, body = self.receiving.open(header, body)
        elif self.receiving:
            raise Refused("a record without protection")
        if kind != HANDSHAKE:
            raise Refused(f"a record of type {kind}")
        self.messages += body
        while len(self.messages) >= 4:
            length = 4 + int.from_bytes(self.messages[1:4], "big")
            if len(self.messages) < length:
                return
            message, self.messages = self.messages[:length], self.messages[length:]
            self.handle_message(message)

    def handle_message(self, message):
        if message[0] != self.expected:
            raise Refused(f"message {message[0]} in place of {self.expected}")
        handler = {
            CLIENT_HELLO: self.on_client_hello,
            SERVER_HELLO: self.on_server_hello,
            ENCRYPTED_EXTENSIONS: self.on_encrypted_extensions,
            CERTIFICATE_REQUEST: self.on_certificate_request,
            CERTIFICATE: self.on_certificate,
            CERTIFICATE_VERIFY: self.on_certificate_verify,
            FINISHED: self.on_finished,
        }[message[0]]
        handler(Reader(message[4:]), message)

    def add(self, kind, body):
        """Appends a message of ours to the transcript."""
        message = bytes([kind]) + vector(3, body)
        self.transcript += message
        return message

    def send_client_hello(self):
        body = b"\x03\x03" + os.urandom(32) + vector(1, b"")
        body += vector(2, b"".join(struct.pack("!H", suite) for suite in self.suites))
        body += vector(1, b"\0") + extensions(
            (VERSIONS, vector(1, TLS13)),
            (GROUPS, vector(2, X25519)),
            (SIGNATURES, vector(2, ED25519)),
            (KEY_SHARE, vector(2, X25519 + vector(2, public_bytes(self.share)))),
            (CLIENT_TYPE, vector(1, RAW_PUBLIC_KEY)),
            (SERVER_TYPE, vector(1, RAW_PUBLIC_KEY)),
        )
        message = self.add(CLIENT_HELLO, body)
        self.out += struct.pack("!BH", HANDSHAKE, 0x0301) + vector(2, message)

    def on_client_hello(self, reader, message):
        self.transcript += message
        reader.take(2 + 32)
        session = reader.vector(1)
        offered = [struct.unpack("!H", suite)[0] for suite in pairs(reader.vector(2))]
        reader.vector(1)
        found = read_extensions(reader)
        suite = next((suite for suite in self.suites if suite in offered), None)
        wanted = [(VERSIONS, 1, TLS13), (GROUPS, 2, X25519), (SIGNATURES, 2, ED25519)]
        for kind, size, value in wanted:
            if value not in pairs(Reader(found.get(kind, bytes(size))).vector(size)):
                raise Refused(f"extension {kind} does not offer {value.hex()}")
        for kind in (CLIENT_TYPE, SERVER_TYPE):
            if RAW_PUBLIC_KEY not in found.get(kind, b"")[1:]:
                raise Refused("raw public keys are not offered")
        if suite is None:
            raise Refused("no common cipher suite")
        shares = Reader(Reader(found.get(KEY_SHARE, bytes(2))).vector(2))
        public = None
        while shares.data:
            group, share = shares.take(2), shares.vector(2)
            public = share if group == X25519 else public
        self.send_server_flight(session, suite, public)

    def send_server_flight(self, session, suite, public):
        self.schedule = Schedule(suite)
        body = b"\x03\x03" + os.urandom(32) + vector(1, session) + struct.pack("!HB", suite, 0)
        share = X25519 + vector(2, public_bytes(self.share))
        hello = self.add(SERVER_HELLO, body + extensions((VERSIONS, TLS13), (KEY_SHARE, share)))
        self.out += struct.pack("!BH", HANDSHAKE, 0x0303) + vector(2, hello)
        self.agree(public)
        types = extensions((CLIENT_TYPE, RAW_PUBLIC_KEY), (SERVER_TYPE, RAW_PUBLIC_KEY))
        request = b"\0" + extensions((SIGNATURES, vector(2, ED25519)))
        flight = self.add(ENCRYPTED_EXTENSIONS, types) + self.add(CERTIFICATE_REQUEST, request)
        self.out += self.sending.seal(HANDSHAKE, flight + self.authenticate())
        self.find_exporter()
        self.expected = CERTIFICATE

    def on_server_hello(self, reader, message):
        self.transcript += message
        reader.take(2 + 32)
        if reader.vector(1):
            raise Refused("another session than ours")
        suite, _ = reader.number(2), reader.number(1)
        found = read_extensions(reader)
        share = Reader(found.get(KEY_SHARE, b""))
        if suite not in self.suites or found.get(VERSIONS) != TLS13 or share.take(2) != X25519:
            raise Refused("the server has chosen what was not offered")
        self.schedule = Schedule(suite)
        self.agree(share.vector(2))
        self.expected = ENCRYPTED_EXTENSIONS

    def agree(self, public):
        """Both ends have spoken: from here on records are protected."""
        if public is None or len(public) != 32:
            raise Refused("no key share of X25519")
        shared = self.share.exchange(X25519PublicKey.from_public_bytes(public))
        schedule = self.schedule
        secret = schedule.next(schedule.first(), shared)
        client = Direction(schedule, schedule.derive(secret, b"c hs traffic", self.transcript))
        server = Direction(schedule, schedule.derive(secret, b"s hs traffic", self.transcript))
        self.sending, self.receiving = (client, server) if self.is_client else (server, client)
        self.master = schedule.next(secret, bytes(schedule.size))

    def find_exporter(self):
        """The server's Finished is the last message that the transcript has."""
        self.exporter = self.schedule.derive(self.master, b"exp master", self.transcript)

    def on_encrypted_extensions(self, reader, message):
        self.transcript += message
        found = read_extensions(reader)
        if [found.get(CLIENT_TYPE), found.get(SERVER_TYPE)] != [RAW_PUBLIC_KEY] * 2:
            raise Refused("the server does not agree to raw public keys")
        self.expected = CERTIFICATE_REQUEST

    def on_certificate_request(self, reader, message):
        self.transcript += message
        if reader.vector(1) or ED25519 not in pairs(read_extensions(reader).get(SIGNATURES, b"")[2:]):
            raise Refused("the server does not want a signature of Ed25519")
        self.expected = CERTIFICATE

    def on_certificate(self, reader, message):
        self.transcript += message
        reader.vector(1)
        entries = Reader(reader.vector(3))
        spki = entries.vector(3)
        if spki[:12] != SPKI or len(spki) != 44:
            raise Refused("no key of Ed25519")
        self.presented = spki[12:]
        self.expected = CERTIFICATE_VERIFY

    def signed(self, by_client):
        who = b"client" if by_client else b"server"
        context = b"TLS 1.3, " + who + b" CertificateVerify"
        return b" " * 64 + context + b"\0" + self.schedule.digest(self.transcript)

    def on_certificate_verify(self, reader, message):
        scheme, signature = reader.take(2), reader.vector(2)
        key = Ed25519PublicKey.from_public_bytes(self.presented)
        try:
            key.verify(signature, self.signed(not self.is_client))
        except InvalidSignature:
            raise Refused("the signature is bad") from None
        if scheme != ED25519:
            raise Refused("another signature than Ed25519")
        self.transcript += message
        self.expected = FINISHED

    def verify_data(self, direction):
        return self.schedule.hmac(direction.finished, self.schedule.digest(self.transcript))

    def on_finished(self, reader, message):
        if not hmac.compare_digest(reader.data, self.verify_data(self.receiving)):
            raise Refused("Finished is wrong")
        self.transcript += message
        if self.is_client:
            self.find_exporter()
            self.out += self.sending.seal(HANDSHAKE, self.authenticate())
        self.peer, self.complete, self.expected = self.presented, True, None

    def authenticate(self):
        """Certificate, CertificateVerify and Finished."""
        entry = vector(3, SPKI + public_bytes(self.private)) + vector(2, b"")
        flight = self.add(CERTIFICATE, b"\0" + vector(3, entry))
        signature = bytearray(self.private.sign(self.signed(self.is_client)))
        signature[0] ^= self.bad_signature
        flight += self.add(CERTIFICATE_VERIFY, ED25519 + vector(2, bytes(signature)))
        return flight + self.add(FINISHED, self.verify_data(self.sending))

    def export(self, label, context, length):
        secret = self.schedule.derive(self.exporter, label, b"")
        return self.schedule.expand(secret, b"exporter", self.schedule.digest(context), length)
