"""Programs that send datagrams, each with its own way of calling.

server ADDRESS PORT...    answers each datagram with the same one, and what begins with "from?" with its source
dns ADDRESS [PORT]        answers DNS queries for A records with 192.0.2.53
echo HOST PORT            unconnected: sendto and recvfrom
connected HOST PORT       connect, send, recv, names
messages HOST PORT        sendmsg and recvmsg with control messages, from a thread that waits before anything is sent
refused HOST PORT         connect to a port where nobody listens
query HOST PORT           one question, one answer; prints how long that took
send HOST PORT N MS       N numbered datagrams, one each MS milliseconds, and what came back, as JSON
sendto HOST PORT N MS     the same from a socket that is not connected
batches HOST PORT         sendmmsg and recvmmsg, unconnected and connected
note HOST PORT            sends one datagram and ends at once
slow HOST PORT N          N questions with a pause of three seconds between them, all from one socket
older HOST PORT           makes a socket, waits for a line, and asks with it; then with a new one
hearing HOST PORT         one question from a socket that asks for errors (IP_RECVERR)
asking HOST PORT          the same from one that is connected: sizes, names, and to something else afterwards
orphan HOST PORT          the same, and once more after a line, when it is refused; then from a new one
deaf HOST PORT            the same where nobody listens
device HOST PORT NAME     one question from a socket that is bound to a device
group HOST PORT           one datagram to a multicast group
segments HOST PORT        UDP_SEGMENT (GSO): as an option and as a control message, unconnected and connected
"""

import ctypes
import errno
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


def dns(host, port=5353):
    program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    program.bind((host, int(port)))
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
        program.sendto(bytes(65508 if len(to) == 2 else 65528), to)
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


def ask(program, to):
    program.sendto(b"question", to)
    assert program.recvfrom(100)[0] == b"question"


def note(host, port):
    program, to = open_to(host, port)
    program.sendto(b"note", to)


def slow(host, port, count):
    program, to = open_to(host, port)
    for number in range(int(count)):
        time.sleep(3 if number else 0)
        ask(program, to)


def older(host, port):
    program, to = open_to(host, port)
    print("ready", flush=True)
    sys.stdin.readline()
    ask(program, to)
    print("asked", flush=True)
    sys.stdin.readline()
    ask(open_to(host, port)[0], to)


def hearing(host, port):
    program, to = open_to(host, port)
    level, name = (socket.IPPROTO_IP, 11) if len(to) == 2 else (socket.IPPROTO_IPV6, 25)
    program.setsockopt(level, name, 1)
    ask(program, to)


def hearing_to(host, port):
    program, to = open_to(host, port)
    level, name = (socket.IPPROTO_IP, 11) if len(to) == 2 else (socket.IPPROTO_IPV6, 25)
    program.setsockopt(level, name, 1)
    program.connect(to)
    return program, to


def asking(host, port):
    program, to = hearing_to(host, port)
    for size in [0, 1, 1400, 60000]:
        assert program.send(bytes(size)) == size
        got, source = program.recvfrom(65535)
        assert (len(got), source[:2]) == (size, to[:2]), (len(got), source)
    assert program.getpeername()[:2] == to[:2], program.getpeername()
    own = program.getsockname()
    assert own[0] not in ("127.0.0.1", "::1", "0.0.0.0", "::"), own
    program.connect(to)
    program.send(b"plain now")
    assert program.recv(100) == b"plain now"
    assert program.getsockname()[:2] == own[:2], program.getsockname()
    print("asking ok")


def orphan(host, port):
    program, to = hearing_to(host, port)
    program.send(b"question")
    assert program.recv(100) == b"question"
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    while time.monotonic() < begun + 1:
        try:
            program.send(b"lost")
        except ConnectionRefusedError:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the end was not heard of")
    again, to = hearing_to(host, port)
    again.send(b"question")
    assert again.recv(100) == b"question"


def deaf(host, port):
    program, _ = hearing_to(host, port)
    try:
        program.send(b"anybody?")
        program.recv(10)
    except ConnectionRefusedError:
        return print("refused")
    raise AssertionError("somebody answered")


def device(host, port, name):
    program, to = open_to(host, port)
    program.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
    ask(program, to)


def group(host, port):
    program, to = open_to(host, port)
    program.connect(to)
    own = program.getsockname()[0]
    program = open_to(host, port)[0]
    program.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    program.sendto(b"all", ("224.0.0.251", int(port)))


def send(host, port, count, interval):
    program, to = open_to(host, port)
    program.connect(to)
    stream(program, program.send, count, interval)


def sendto(host, port, count, interval):
    program, to = open_to(host, port)
    stream(program, lambda data: program.sendto(data, to), count, interval)


def stream(program, say, count, interval):
    """Numbers and times go out, and come back; of each the first and how often. Errors, the longest call and when what
    did not come back was sent are told."""
    count, interval = int(count), int(interval) / 1000
    delays, sent_at, again, errors, longest = {}, [], 0, 0, 0
    begun = time.monotonic()
    sent = 0
    end = begun + count * interval + 2
    while time.monotonic() < end and len(delays) < count:
        next_time = begun + sent * interval if sent < count else end
        wait = max(0, next_time - time.monotonic())
        ready = select.select([program], [], [], wait)[0]
        called = time.monotonic()
        try:
            if ready:
                number, stamp = struct.unpack_from("!Id", program.recv(2000))
                again += number in delays
                delays.setdefault(number, (time.monotonic() - stamp) * 1000)
            elif sent < count:
                sent_at.append(time.time())
                say(struct.pack("!Id", sent, called) + bytes(148))
                longest = max(longest, (time.monotonic() - called) * 1000)
                sent += 1
        except OSError as error:
            # The second: while the socket is connected anew.
            if error.errno not in (errno.ECONNREFUSED, errno.EDESTADDRREQ):
                raise
            errors += 1
            sent += not ready
    lost_at = [at for number, at in enumerate(sent_at) if number not in delays]
    told = {"sent": sent, "received": len(delays), "again": again, "delays": delays, "lost_at": lost_at}
    print(json.dumps(told | {"errors": errors, "longest_call_ms": longest}))


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("pieces", ctypes.POINTER(Piece)),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class Message(ctypes.Structure):
    _fields_ = [("header", Header), ("length", ctypes.c_uint32)]


LIBC = ctypes.CDLL(None, use_errno=True)


def native(to):
    """The address as the kernel has it."""
    if len(to) == 2:
        return struct.pack("=H", socket.AF_INET) + struct.pack("!H", to[1]) + socket.inet_aton(to[0]) + bytes(8)
    ip = socket.inet_pton(socket.AF_INET6, to[0])
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", to[1], 0) + ip + bytes(4)


def messages_with(buffers, name):
    """Headers for as many buffers; `name` is what they say of an address, or its room."""
    all, kept = (Message * len(buffers))(), []
    for message, buffer in zip(all, buffers):
        piece = Piece(ctypes.addressof(buffer), len(buffer))
        place = ctypes.create_string_buffer(name, len(name)) if name else None
        kept += [piece, place]
        message.header.pieces = ctypes.pointer(piece)
        message.header.count = 1
        message.header.name = ctypes.addressof(place) if place else None
        message.header.name_length = len(name) if name else 0
    return all, kept


def send_all(program, payloads, name):
    buffers = [ctypes.create_string_buffer(data, len(data)) for data in payloads]
    all, _kept = messages_with(buffers, name)
    done = 0
    while done < len(payloads):
        rest = ctypes.byref(all, done * ctypes.sizeof(Message))
        sent = LIBC.sendmmsg(program.fileno(), rest, len(payloads) - done, 0)
        assert sent > 0, ctypes.get_errno()
        assert all[done].length == len(payloads[done]), (done, all[done].length)
        done += sent


def receive_all(program, count, name):
    """What comes, and from where it says that it does."""
    got = []
    while len(got) < count:
        assert select.select([program], [], [], 10)[0], f"{len(got)} of {count} have come"
        buffers = [ctypes.create_string_buffer(2000) for _ in range(8)]
        all, kept = messages_with(buffers, bytes(len(name)))
        received = LIBC.recvmmsg(program.fileno(), all, len(all), 0x40, None)
        assert received > 0, ctypes.get_errno()
        for number in range(received):
            source = kept[2 * number + 1].raw if name else b""
            got.append((buffers[number].raw[: all[number].length], source[:4]))
    return got


def batches(host, port):
    payloads = [bytes([number]) * (100 + number) for number in range(100)]
    for is_connected in [False, True]:
        program, to = open_to(host, port)
        program.setblocking(True)
        name = b"" if is_connected else native(to)
        if is_connected:
            program.connect(to)
        for begin in range(0, len(payloads), 20):
            some = payloads[begin : begin + 20]
            send_all(program, some, name)
            got = receive_all(program, len(some), native(to))
            assert sorted(data for data, _ in got) == sorted(some), (begin, is_connected)
            assert all(source == native(to)[:4] for _, source in got), (begin, is_connected)
    print("batches ok")


SEGMENT = 103


def segments(host, port):
    size, pieces = 1000, 10
    for is_connected in [False, True]:
        for is_option in [False, True]:
            program, to = open_to(host, port)
            if is_connected:
                program.connect(to)
            if is_option:
                program.setsockopt(socket.IPPROTO_UDP, SEGMENT, size)
            data = b"".join(bytes([number]) * size for number in range(pieces)) + b"the rest"
            control = [] if is_option else [(socket.IPPROTO_UDP, SEGMENT, struct.pack("=H", size))]
            where = [] if is_connected else [to]
            assert program.sendmsg([data], control, 0, *where) == len(data)
            got = sorted(program.recv(65535) for _ in range(pieces + 1))
            assert got == sorted(data[at : at + size] for at in range(0, len(data), size)), [len(one) for one in got]
    print("segments ok")


COMMANDS = {
    "server": serve,
    "dns": dns,
    "echo": echo,
    "connected": connected,
    "messages": messages,
    "refused": refused,
    "query": query,
    "send": send,
    "sendto": sendto,
    "batches": batches,
    "segments": segments,
    "note": note,
    "slow": slow,
    "older": older,
    "hearing": hearing,
    "asking": asking,
    "orphan": orphan,
    "deaf": deaf,
    "device": device,
    "group": group,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
