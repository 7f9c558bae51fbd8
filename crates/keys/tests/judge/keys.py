"""A second implementation of docs/key-management.md: which messages are exchanged, and which keys come of them.

Sans-IO, above an association that offers

    send(PPID 4242 message)         in order and reliable; sealed once there is a key for it
    install(sends, epoch, suite, key, iv, sn_key)
    require()                       drops what comes without protection
"""

from tls13 import Handshake, Refused, SUITES

PARAMETER, METHOD = 0x8006, 240
CLIENT, SERVER = 1, 2
FIRST_EPOCH = 3
PVALID = b"OK"


def agree(own, peer):
    """Whether this end is the client (draft-ietf-tsvwg-sctp-dtls-chunk section 5.1), from both DTLS Key Management
    parameters, headers included and padding excluded. None if nothing can be agreed on."""
    if own is None or peer is None or METHOD not in peer[9:]:
        return None
    can_be_client = own[8] & CLIENT and peer[8] & SERVER
    can_be_server = own[8] & SERVER and peer[8] & CLIENT
    if can_be_client and can_be_server:
        return own[4:8] < peer[4:8] if own[4:8] != peer[4:8] else None
    return bool(can_be_client) if can_be_client or can_be_server else None


class KeyManagement:
    """Key management of an association. `known` is the key that the peer must have."""

    def __init__(self, association, is_client, parameters, private, suites, known, bad_signature):
        self.association, self.is_client = association, is_client
        self.context = b"".join(parameters)
        self.options = (is_client, private, suites, bad_signature)
        self.known, self.peer = known, None
        self.epoch = FIRST_EPOCH - 1
        self.handshake = None
        self.awaits_pvalid = False
        if is_client:
            self.begin()

    def begin(self):
        """The handshake of the next epoch."""
        self.epoch += 1
        self.handshake, self.has_key = Handshake(*self.options), False
        self.transmit()

    def transmit(self):
        records = self.handshake.transmit()
        if records:
            self.association.send(bytes([self.epoch & 3]) + records)

    def install(self, by_client):
        """Installs the key of what the client sends, or the server."""
        handshake = self.handshake
        key_len = SUITES[handshake.schedule.suite][1]
        who = b"CLIENT" if by_client else b"SERVER"
        label = b"EXPORTER_DTLS_IN_SCTP_PRIMARY_" + who
        parts = ((b"_KEY", key_len), (b"_IV", 12), (b"_SN", key_len))
        keys = [handshake.export(label + part, self.context, length) for part, length in parts]
        sends = by_client == self.is_client
        self.association.install(sends, self.epoch, handshake.schedule.suite, *keys)

    def handle(self, message, was_sealed):
        if message == PVALID:
            return self.handle_pvalid(was_sealed)
        if not self.is_client and (self.handshake is None or self.handshake.complete):
            self.begin()
        handshake = self.handshake
        if handshake is None or handshake.complete or message[:1] != bytes([self.epoch & 3]):
            raise Refused("a message at the wrong time")
        handshake.receive(message[1:])
        if handshake.complete and handshake.peer != (self.known or handshake.peer):
            raise Refused("the peer has another key")
        if handshake.exporter and not self.has_key:
            self.has_key = True
            self.install(by_client=not self.is_client)
        if handshake.complete:
            self.complete()
        self.transmit()

    def complete(self):
        """The peer has proved to have its key: what is sent from now on is sealed."""
        self.install(by_client=self.is_client)
        self.peer = self.known = self.handshake.peer
        self.awaits_pvalid = True
        if not self.is_client:
            self.association.require()
            self.association.send(PVALID)

    def handle_pvalid(self, was_sealed):
        if not self.awaits_pvalid or not was_sealed:
            raise Refused("PVALID at the wrong time")
        self.awaits_pvalid = False
        if self.is_client:
            self.association.require()
            self.association.send(PVALID)
