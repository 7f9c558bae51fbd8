"""Everything that can be asked of accept(), one line each: accept_probe.py PORT

Clients connect six times to PORT and once to PORT + 1. Ports of clients are not told.
"""

import ctypes
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
NONBLOCK, CLOEXEC = socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC


def accept(listener, room=None, flags=None):
    """The descriptor or the error's name, the address and its length."""
    name = ctypes.create_string_buffer(b"\xee" * 64, 64)
    length = ctypes.c_uint32(room if room is not None else 0)
    where = (None, None) if room is None else (name, ctypes.byref(length))
    if flags is None:
        fd = libc.accept(listener.fileno(), *where)
    else:
        fd = libc.accept4(listener.fileno(), *where, flags)
    error = errno_name(ctypes.get_errno()) if fd < 0 else None
    return fd, error, name.raw, length.value


def errno_name(number):
    import errno

    return errno.errorcode[number]


def mode(fd):
    nonblocking = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK != 0
    close_on_exec = fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC != 0
    return nonblocking, close_on_exec


def done(fd):
    os.write(fd, b"k")
    os.close(fd)


def say(*words):
    print(*words, flush=True)


PEER = "import socket,sys; print(socket.socket(fileno=int(sys.argv[1])).getpeername()[0])"


def without_clients(listener):
    other = socket.socket()
    say("not listening", accept(other)[1], "udp", accept(socket.socket(type=socket.SOCK_DGRAM))[1])
    other.close()
    say("closed", accept(type("Gone", (), {"fileno": lambda self: 999})())[1])
    listener.setblocking(False)
    say("empty", accept(listener)[1])
    listener.setblocking(True)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 8 + (300000).to_bytes(8, "little"))
    begun = time.monotonic()
    say("limit", accept(listener)[1], 0.25 < time.monotonic() - begun < 5)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 16)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    begun = time.monotonic()
    say("signal", accept(listener)[1], 0.25 < time.monotonic() - begun < 5)
    waiting = socket.create_server(("0.0.0.0", 0))
    woken = []
    thread = threading.Thread(target=lambda: woken.append(accept(waiting)[1]))
    thread.start()
    time.sleep(0.3)
    waiting.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    say("shut down", woken)


def with_clients(listener, six):
    fd, error, name, _ = accept(listener)
    say("no address", error, mode(fd), name[:4])
    done(fd)
    fd, error, name, length = accept(listener, 6)
    say("cut", error, name[:2], name[4:6], name[6:8], length)
    done(fd)
    fd, error, name, length = accept(listener, 64, NONBLOCK | CLOEXEC)
    say("flags", error, mode(fd), socket.inet_ntoa(name[4:8]), length)
    done(fd)
    say("wrong flags", accept(listener, 64, 0x10)[1])
    fd, error, *_ = accept(listener, 64, 0)
    say("after them", error, mode(fd))
    again = os.dup(fd)
    os.close(fd)
    os.set_inheritable(again, True)
    told = subprocess.run([sys.executable, "-c", PEER, str(again)], close_fds=False, capture_output=True)
    say("peer of a copy", socket.socket(fileno=os.dup(again)).getpeername()[0])
    say("peer after exec", told.stdout.decode().strip())
    done(again)
    # No descriptor is left: the connection must wait.
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    select_ready(listener)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    say("no descriptor", accept(listener, 64)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    fd, error, name, _ = accept(listener, 64)
    say("then", error, socket.inet_ntoa(name[4:8]))
    done(fd)
    fd, error, name, length = accept(listener, 64)
    say("last", error, length)
    done(fd)
    fd, error, name, length = accept(six, 64)
    say("mapped", error, socket.inet_ntop(socket.AF_INET6, name[8:24]), length)
    done(fd)


def select_ready(listener):
    import select

    select.select([listener], [], [])


port = int(sys.argv[1])
four = socket.create_server(("0.0.0.0", port))
six = socket.create_server(("::", port + 1), family=socket.AF_INET6, dualstack_ipv6=True)
without_clients(four)
say("up")
with_clients(four, six)
