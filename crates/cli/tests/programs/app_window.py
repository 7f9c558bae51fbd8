#!/usr/bin/env python3
"""A program with a window of its own, sized by its socket: the rule of HPN-SSH.

    app_window.py send PORT              accepts one connection that is over at once, and another one on which it writes as much as it is granted
    app_window.py read HOST PORT SECONDS reads for that time, grants what it has consumed, and prints what it got

The reader begins with 64 KiB. Whenever it grants, at 96 KiB or half of the window, it asks getsockopt(SO_RCVBUF): if that is larger than its
window, the window becomes that and the difference is granted too. `--fixed` leaves the question out.
"""

import json
import socket
import sys
import threading
import time

CHUNK = 256 << 10
FIRST = 64 << 10
LARGEST = 128 << 20


class Credit:
    def __init__(self):
        self.left = 0
        self.over = False
        self.changed = threading.Condition()

    def add(self, peer):
        """Takes grants of 8 bytes from the peer until it ends."""
        rest = b""
        while part := peer.recv(4096):
            rest += part
            whole = len(rest) // 8 * 8
            with self.changed:
                self.left += sum(int.from_bytes(rest[at : at + 8], "big") for at in range(0, whole, 8))
                self.changed.notify()
            rest = rest[whole:]
        with self.changed:
            self.over = True
            self.changed.notify()

    def take(self, most):
        with self.changed:
            self.changed.wait_for(lambda: self.left > 0 or self.over)
            taken = min(self.left, most)
            self.left -= taken
            return taken


def send(port):
    with socket.create_server(("0.0.0.0", port)) as server:
        print("ready", flush=True)
        server.accept()[0].close()
        peer, _ = server.accept()
    credit = Credit()
    threading.Thread(target=credit.add, args=[peer], daemon=True).start()
    data = memoryview(bytes(CHUNK))
    try:
        while count := credit.take(CHUNK):
            peer.sendall(data[:count])
    except OSError:
        pass  # The reader has all that it wants.


def read(host, port, seconds, follows):
    socket.create_connection((host, port)).close()
    time.sleep(1)
    peer = socket.create_connection((host, port))
    window = FIRST
    granted = consumed = total = half = 0
    room = bytearray(CHUNK)

    def grant(more):
        nonlocal granted
        granted += more
        peer.sendall(more.to_bytes(8, "big"))

    grant(window)
    begun = time.monotonic()
    while (now := time.monotonic() - begun) < seconds:
        count = peer.recv_into(room)
        total += count
        half += count if now >= seconds / 2 else 0
        consumed += count
        if consumed > min(96 << 10, window // 2):
            buffer = min(peer.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), LARGEST) if follows else 0
            grant(consumed + max(buffer - window, 0))
            window, consumed = max(window, buffer), 0
    rates = {"steady": half * 8e-6 / (seconds / 2), "whole": total * 8e-6 / seconds}
    print(json.dumps({**rates, "window": window}), flush=True)


if __name__ == "__main__":
    role, *rest = [word for word in sys.argv[1:] if word != "--fixed"]
    if role == "send":
        send(int(rest[0]))
    else:
        read(rest[0], int(rest[1]), float(rest[2]), "--fixed" not in sys.argv)
