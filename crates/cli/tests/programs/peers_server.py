"""A server that tells each client its address as accept() and getpeername() gave it, then echoes.

peers_server.py KIND PORT: threads (blocking accept in several), epoll (non-blocking), prefork
(several processes that wait at one listening socket), loopback (127.0.0.1 and ::1 only), shared
(the port may be shared with other programs).
"""

import os
import select
import socket
import sys
import threading


def serve(connection, peer):
    asked = connection.getpeername()
    own = connection.getsockname()
    line = " ".join(map(str, (*peer[:2], *asked[:2], own[0], os.getpid())))
    connection.sendall(line.encode() + b"\n")
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()


def accept_for_ever(listener):
    while True:
        connection, peer = listener.accept()
        threading.Thread(target=serve, args=(connection, peer), daemon=True).start()


def accept_ready(listener):
    listener.setblocking(False)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    while True:
        poll.poll()
        try:
            while True:
                connection, peer = listener.accept()
                connection.setblocking(True)
                threading.Thread(target=serve, args=(connection, peer), daemon=True).start()
        except BlockingIOError:
            pass


def main(kind, port):
    if kind == "loopback":
        six = socket.create_server(("::1", port), family=socket.AF_INET6)
        threading.Thread(target=accept_for_ever, args=(six,), daemon=True).start()
        listener = socket.create_server(("127.0.0.1", port))
    else:
        shared = kind == "shared"
        listener = socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, reuse_port=shared
        )
    print("up", flush=True)
    if kind == "epoll":
        return accept_ready(listener)
    if kind == "prefork":
        for _ in range(3):
            if os.fork() == 0:
                return accept_for_ever(listener)
        while True:
            os.wait()
    for _ in range(3):
        threading.Thread(target=accept_for_ever, args=(listener,), daemon=True).start()
    accept_for_ever(listener)


main(sys.argv[1], int(sys.argv[2]))
