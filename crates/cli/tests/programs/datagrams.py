"""Programs that send datagrams, each with its own way of calling.

server ADDRESS PORT...    answers each datagram with the same one, and what begins with "from?" with its source
dns ADDRESS               answers DNS queries for A records with 192.0.2.53
echo HOST PORT            unconnected: sendto and recvfrom
connected HOST PORT       connect, send, recv, names
messages HOST PORT        sendmsg and recvmsg with control messages, from a thread that waits before anything is sent
refused HOST PORT         connect to a port where nobody listens
query HOST PORT           one question, one answer; prints how long that took
send HOST PORT N MS       N numbered datagrams, one each MS milliseconds, and what came back, as JSON
"""

import json
import select
import socket
import struct
import sys
import threading
import time


def address(host, port):
    return socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]


def open_to(host, port):
    family, kind, protocol, _, to = address(host, port)
    program = socket.socket(family, kind, protocol)
    program.settimeout(10)
    return program, to


def serve(host, *ports):
    sockets = []
    for port in ports:
        family, kind, protocol, _, at = address(host, port)
        one = socket.socket(family, kind, protocol)
        one.bind(at)
        sockets.append(one)
    while True:
        for one in select.select(sockets, [], [])[0]:
            data, source = one.recvfrom(65535)
            if data.startswith(b"from?"):
                data = f"{source[0]} {source[1]}".encode()
            one.sendto(data, source)


def dns(host):
    program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    program.bind((host, 5353))
    while True:
        data, source = program.recvfrom(4096)
        end = data.index(b"\0", 12) + 5
        answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + bytes([192, 0, 2, 53])
        head = data[:2] + struct.pack("!HHHHH", 0x8580, 1, 1, 0, 0)
        program.sendto(head + data[12:end] + answer, source)


def echo(host, port):
    program, to = open_to(host, port)
    # The first two bytes are those of the length, so that bounds cannot be confused.
    for size in [0, 1, 100, 1200, 1500, 9000, 40000, 65507]:
        data = bytes((size + i) % 251 for i in range(size))
        assert program.sendto(data, to) == size
        got, source = program.recvfrom(65535)
        assert (got, source[:2]) == (data, to[:2]), (size, len(got), source)
    try:
        program.sendto(bytes(65508), to)
        raise AssertionError("a datagram that is too long was taken")
    except OSError as error:
        assert error.errno == 90, error
    for size in [5, 300]:
        assert program.sendto(bytes(size), to) == size
    assert sorted(len(program.recv(2000)) for _ in range(2)) == [5, 300]
    assert program.sendto(b"cut here", to) == 8
    assert program.recvfrom_into(bytearray(3))[0] == 3
    program.setblocking(False)
    try:
        program.recvfrom(10)
        raise AssertionError("there was something left")
    except BlockingIOError:
        pass
    # A socket that waits in epoll is woken, and can be asked what it is.
    poll = select.epoll()
    poll.register(program, select.EPOLLIN | select.EPOLLET)
    program.sendto(b"wake", to)
    assert poll.poll(10), "epoll"
    assert program.recvfrom(10, socket.MSG_PEEK)[0] == b"wake"
    assert program.recvfrom(10) == (b"wake", to)
    program.settimeout(0.2)
    try:
        program.recvfrom(10)
        raise AssertionError("there was something left")
    except TimeoutError:
        pass
    print("echo ok")


def connected(host, port):
    program, to = open_to(host, port)
    program.connect(to)
    assert program.getpeername()[:2] == to[:2], program.getpeername()
    own = program.getsockname()
    assert own[0] not in ("127.0.0.1", "::1", "0.0.0.0", "::"), own
    program.send(b"from?")
    source = program.recv(100).decode().split()
    for data in [b"", b"x", bytes(50000)]:
        program.send(data)
        assert program.recvfrom(65535) == (data, to)
    # To something else and back again, or to nothing.
    program.connect(("127.0.0.1", 9) if len(to) == 2 else ("::1", 9))
    program.connect(to)
    assert program.getsockname()[1] == own[1], (program.getsockname(), own)
    program.send(b"again")
    assert program.recv(100) == b"again"
    print(json.dumps({"source": source, "own": own[:2]}))


def messages(host, port):
    program, to = open_to(host, port)
    program.settimeout(None)
    level, name = (socket.IPPROTO_IP, 8) if len(to) == 2 else (socket.IPPROTO_IPV6, 49)
    program.setsockopt(level, name, 1)
    program.bind(("", 0))
    heard = []

    def wait():
        heard.append(program.recvmsg(1000, 200))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    assert program.sendmsg([b"two ", b"pieces"], [], 0, to) == 10
    thread.join(10)
    data, control, flags, source = heard[0]
    assert (data, flags, source[:2]) == (b"two pieces", 0, to[:2]), heard
    place = control[0][2][4:8] if level == socket.IPPROTO_IP else control[0][2][:16]
    assert not socket.inet_ntop(program.family, place).startswith(("127.", "::1")), control
    # It may be sent from where the last one came to.
    program.sendmsg([b"back"], control, 0, to)
    assert program.recvmsg(1000)[0] == b"back"
    print("messages ok")


def refused(host, port):
    program, to = open_to(host, port)
    program.connect(to)
    for call in [lambda: program.send(b"anybody?"), lambda: program.recv(10)]:
        try:
            call()
        except ConnectionRefusedError:
            print("refused")
            return
    raise AssertionError("somebody answered")


def query(host, port):
    program, to = open_to(host, port)
    begun = time.monotonic()
    program.sendto(b"question", to)
    assert program.recvfrom(100) == (b"question", to)
    print(round((time.monotonic() - begun) * 1000))


def send(host, port, count, interval):
    """Numbers and times go out, and come back; of each the first and how often."""
    program, to = open_to(host, port)
    program.connect(to)
    count, interval = int(count), int(interval) / 1000
    delays, again = {}, 0
    begun = time.monotonic()
    sent = 0
    end = begun + count * interval + 2
    while time.monotonic() < end and len(delays) < count:
        next_time = begun + sent * interval if sent < count else end
        wait = max(0, next_time - time.monotonic())
        if select.select([program], [], [], wait)[0]:
            number, stamp = struct.unpack_from("!Id", program.recv(2000))
            again += number in delays
            delays.setdefault(number, (time.monotonic() - stamp) * 1000)
        elif sent < count:
            program.send(struct.pack("!Id", sent, time.monotonic()) + bytes(148))
            sent += 1
    print(json.dumps({"sent": sent, "received": len(delays), "again": again, "delays": delays}))


COMMANDS = {
    "server": serve,
    "dns": dns,
    "echo": echo,
    "connected": connected,
    "messages": messages,
    "refused": refused,
    "query": query,
    "send": send,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
