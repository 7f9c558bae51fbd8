"""A second implementation of the record layer of the DTLS chunk, written from the texts alone:
draft-ietf-tsvwg-sctp-dtls-chunk, RFC 9147 sections 4, 4.2.2 and 4.2.3, RFC 8446 sections 5.2, 5.3 and 7.3.

Reads lines from standard input, all bytes in hexadecimal, and answers each by one line:

    derive SUITE SECRET                              -> KEY IV SN
    seal SUITE KEY IV SN EPOCH SEQUENCE CHUNKS       -> RECORD
    open SUITE KEY IV SN EPOCH EXPECTED RECORD       -> SEQUENCE CHUNKS, or "bad"
    unpack PACKET                                    -> FLAGS RECORD of the only chunk, or "bad"
"""

import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

APPLICATION_DATA = 23
DTLS_CHUNK = 0x41

# hash of the cipher suite, key length, AEAD
SUITES = {
    0x1301: (hashes.SHA256, 16, AESGCM),
    0x1302: (hashes.SHA384, 32, AESGCM),
    0x1303: (hashes.SHA256, 32, ChaCha20Poly1305),
}


def expand_label(hash_, secret, label, length):
    """HKDF-Expand-Label with the prefix of DTLS 1.3 (RFC 9147 section 5.9) and no context."""
    name = b"dtls13" + label
    info = struct.pack("!HB", length, len(name)) + name + b"\0"
    return HKDFExpand(hash_(), length, info).derive(secret)


def derive(suite, secret):
    hash_, key_len, _ = SUITES[suite]
    key = expand_label(hash_, secret, b"key", key_len)
    iv = expand_label(hash_, secret, b"iv", 12)
    return key, iv, expand_label(hash_, secret, b"sn", key_len)


def mask(suite, sn_key, ciphertext):
    """RFC 9147 section 4.2.3: AES-ECB of the first 16 bytes, or a block of ChaCha20."""
    sample = ciphertext[:16]
    if suite == 0x1303:
        # Counter and nonce, as they stand in the sample.
        stream = Cipher(algorithms.ChaCha20(sn_key, sample), None).encryptor()
        return stream.update(bytes(2))
    block = Cipher(algorithms.AES(sn_key), modes.ECB()).encryptor()
    return block.update(sample)[:2]


def nonce(iv, sequence):
    padded = sequence.to_bytes(12, "big")
    return bytes(a ^ b for a, b in zip(iv, padded))


def seal(suite, key, iv, sn_key, epoch, sequence, chunks):
    # 001, no connection ID, 16-bit sequence number, no length, two bits of the epoch
    header = bytes([0b00101000 | epoch & 3]) + (sequence & 0xFFFF).to_bytes(2, "big")
    inner = chunks + bytes([APPLICATION_DATA])
    ciphertext = SUITES[suite][2](key).encrypt(nonce(iv, sequence), inner, header)
    hidden = bytes(a ^ b for a, b in zip(header[1:], mask(suite, sn_key, ciphertext)))
    return header[:1] + hidden + ciphertext


def reconstruct(low, expected):
    """The sequence number with these low 16 bits that is closest to the one expected (section 4.2.2)."""
    around = [(expected >> 16) + turn << 16 | low for turn in (-1, 0, 1)]
    return min((n for n in around if n >= 0), key=lambda n: abs(n - expected))


def open_(suite, key, iv, sn_key, epoch, expected, record):
    first, hidden, ciphertext = record[0], record[1:3], record[3:]
    if first != 0b00101000 | epoch & 3 or len(ciphertext) < 17:
        return None
    low = bytes(a ^ b for a, b in zip(hidden, mask(suite, sn_key, ciphertext)))
    sequence = reconstruct(int.from_bytes(low, "big"), expected)
    try:
        aead = SUITES[suite][2](key)
        inner = aead.decrypt(nonce(iv, sequence), ciphertext, bytes([first]) + low)
    except InvalidTag:
        return None
    inner = inner.rstrip(b"\0")
    return (sequence, inner[:-1]) if inner.endswith(bytes([APPLICATION_DATA])) else None


def unpack(packet):
    kind, flags, length = struct.unpack_from("!BBH", packet, 12)
    padded = length + -length % 4
    if kind != DTLS_CHUNK or len(packet) != 12 + padded or any(packet[12 + length:]):
        return None
    return flags, packet[12 + 5:12 + length]


def answer(words):
    command, rest = words[0], words[1:]
    if command == "unpack":
        unpacked = unpack(bytes.fromhex(rest[0]))
        return "bad" if unpacked is None else f"{unpacked[0]} {unpacked[1].hex()}"
    suite = int(rest[0], 16)
    if command == "derive":
        return " ".join(part.hex() for part in derive(suite, bytes.fromhex(rest[1])))
    keys = [bytes.fromhex(word) for word in rest[1:4]]
    epoch, number = int(rest[4]), int(rest[5])
    content = bytes.fromhex(rest[6]) if len(rest) > 6 else b""
    if command == "seal":
        return seal(suite, *keys, epoch, number, content).hex()
    opened = open_(suite, *keys, epoch, number, content)
    return "bad" if opened is None else f"{opened[0]} {opened[1].hex()}"


if __name__ == "__main__":
    for line in sys.stdin:
        print(answer(line.split()), flush=True)
