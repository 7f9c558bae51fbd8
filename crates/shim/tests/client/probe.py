"""What a program can see of a TCP connection, one line per check.

Run directly and through the shim: both must print the same. Arguments: the server's host address,
the port base, a silent address of the same family, a source address that may be bound, an
unroutable address; and "far" if the server is told of the far host's own address as its client's,
so that what it sees is left out."""
import array, ctypes, errno, fcntl, os, select, signal, socket, struct, sys, tempfile, threading, time

HOST, BASE, SILENT, SOURCE, UNROUTABLE = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
COUNT, WHO, ECHO, CLOSED, UDP, ENDING = (BASE + i for i in (1, 2, 3, 6, 7, 8))
FAR = sys.argv[6:] == ["far"]
# Below the ports that the kernel hands out: one of those may still be held by an earlier
# connection in TIME_WAIT, which then refuses the bind.
OWN_PORT = 20678
FAMILY = socket.AF_INET6 if ":" in SOURCE or ":" in HOST else socket.AF_INET
libc = ctypes.CDLL(None, use_errno=True)


def tcp(blocking=True):
    s = socket.socket(FAMILY, socket.SOCK_STREAM)
    s.setblocking(blocking)
    return s


def name(number):
    return errno.errorcode.get(number, number) if number else 0


def begin(s, port, host=HOST):
    """connect() of a non-blocking socket: its error's name."""
    return name(s.connect_ex((host, port)))


def wait(s, events=select.EPOLLOUT, seconds=10):
    e = select.epoll()
    e.register(s, events)
    got = e.poll(seconds)
    e.close()
    return got


def readall(s):
    data = b""
    while True:
        piece = s.recv(65536)
        if not piece:
            return data
        data += piece


def echo(s, text=b"hello"):
    s.sendall(text)
    s.shutdown(socket.SHUT_WR)
    return readall(s) == text


def raw(call, s, room):
    """getsockname or getpeername with so much room: result, length told, bytes written."""
    buffer = ctypes.create_string_buffer(b"\xee" * 64, 64)
    length = ctypes.c_int(room)
    result = getattr(libc, call)(s.fileno(), buffer, ctypes.byref(length))
    written = len(buffer.raw.rstrip(b"\xee"))
    return result, length.value, min(written, room)


def libc_connect(s, host, port):
    """connect without Python's repetition after signals."""
    if FAMILY == socket.AF_INET:
        address = struct.pack("=H", FAMILY) + struct.pack("!H4s8x", port, socket.inet_aton(host))
    else:
        address = struct.pack("=H", FAMILY) + struct.pack("!HI16sI", port, 0, socket.inet_pton(FAMILY, host), 0)
    result = libc.connect(s.fileno(), address, len(address))
    return result if result == 0 else name(ctypes.get_errno())


def check(label):
    def run(f):
        try:
            print(label, "=", f())
        except Exception as e:
            print(label, "! ", type(e).__name__, name(getattr(e, "errno", 0)))
        sys.stdout.flush()
    return run


@check("epoll registered before connect, edge-triggered")
def _():
    s = tcp(False)
    e = select.epoll()
    e.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    before = e.poll(0)
    result = begin(s, ECHO)
    events = [hex(m) for _, m in e.poll(10)]
    return [hex(m) for _, m in before], result, events, name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), \
        e.poll(0.05), name(s.connect_ex((HOST, ECHO))), name(s.connect_ex((HOST, ECHO)))


@check("non-blocking, poll and select")
def _():
    s = tcp(False)
    result = begin(s, ECHO)
    p = select.poll()
    p.register(s, select.POLLIN | select.POLLOUT)
    events = [hex(m) for _, m in p.poll(10000)]
    r, w, x = select.select([s], [s], [s], 5)
    s.setblocking(True)
    return result, events, len(r), len(w), len(x), echo(s)


@check("refused, non-blocking: every event")
def _():
    s = tcp(False)
    e = select.epoll()
    e.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)
    result = begin(s, CLOSED)
    events, end = [], time.time() + 10
    while not events or time.time() < end:
        got = e.poll(max(0, end - time.time()))
        if got and not events:
            end = time.time() + 0.1
        # The kernel wakes sleepers twice for one reset: for the state, then for the error. Who runs on another
        # processor than what received it may see the same edge twice, over any network.
        events += [hex(m) for _, m in got if hex(m) not in events[-1:]]
    return result, events, name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), \
        name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), begin(s, CLOSED), begin(s, ECHO), wait(s) != []


@check("refused, non-blocking: error fetched by connect, then retried on the same socket")
def _():
    s = tcp(False)
    result = begin(s, CLOSED)
    wait(s)
    fetched = begin(s, CLOSED)
    again = begin(s, ECHO)
    wait(s)
    s.setblocking(True)
    return result, fetched, again, name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), echo(s)


@check("refused, blocking; retry on the same socket")
def _():
    s = tcp()
    first, second = begin(s, CLOSED), begin(s, CLOSED)
    return first, second, begin(s, ECHO), echo(s)


@check("second connect after success, blocking")
def _():
    s = tcp()
    return begin(s, ECHO), begin(s, ECHO), begin(s, CLOSED), echo(s)


@check("connect while connecting")
def _():
    s = tcp(False)
    return begin(s, ECHO, SILENT), begin(s, ECHO, SILENT), begin(s, ECHO), wait(s, seconds=0.2)


@check("options set before connect are kept")
def _():
    s = tcp()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 60000)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    result = begin(s, ECHO)
    kept = [s.getsockopt(socket.SOL_SOCKET, o) for o in (socket.SO_RCVBUF, socket.SO_SNDBUF, socket.SO_KEEPALIVE)]
    return result, kept, s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), echo(s)


@check("options of a connected socket")
def _():
    s = tcp()
    result = begin(s, ECHO)
    out = []
    for level, option, value in ((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77), (socket.IPPROTO_TCP, socket.TCP_CORK, 0),
                                 (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000), (socket.IPPROTO_IP, socket.IP_TOS, 16)):
        s.setsockopt(level, option, value)
        out.append(s.getsockopt(level, option))
    return result, out, s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16), \
        len(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)), echo(s)


@check("family, type, protocol")
def _():
    s = tcp()
    begin(s, ECHO)
    return [s.getsockopt(socket.SOL_SOCKET, o) for o in (socket.SO_DOMAIN, socket.SO_TYPE, socket.SO_PROTOCOL)]


@check("half-close: the count comes after our end")
def _():
    s = tcp()
    begin(s, COUNT)
    for i in range(40):
        s.sendall(bytes([i]) * 10007)
    s.shutdown(socket.SHUT_WR)
    return readall(s)


@check("sendfile and splice")
def _():
    s = tcp()
    begin(s, COUNT)
    with tempfile.TemporaryFile() as f:
        f.write(b"sendfile" * 50000)
        f.seek(0)
        sent = s.sendfile(f)
    r, w = os.pipe()
    os.write(w, b"splice" * 100)
    os.close(w)
    spliced = os.splice(r, s.fileno(), 600) if hasattr(os, "splice") else s.send(os.read(r, 600))
    s.shutdown(socket.SHUT_WR)
    return sent, spliced, readall(s)


@check("reset by linger is a reset at the server")
def _():
    s = tcp()
    begin(s, ENDING)
    s.sendall(b"x" * 10)
    time.sleep(0.3)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    s = tcp()
    begin(s, ENDING)
    return readall(s)


@check("close is no reset at the server")
def _():
    s = tcp()
    begin(s, ENDING)
    s.sendall(b"x" * 10)
    s.close()
    s = tcp()
    begin(s, ENDING)
    return readall(s)


@check("fork before use, child speaks")
def _():
    s = tcp()
    begin(s, ECHO)
    pid = os.fork()
    if pid == 0:
        s.sendall(b"from the child")
        os._exit(0)
    os.waitpid(pid, 0)
    s.shutdown(socket.SHUT_WR)
    return readall(s)


@check("connect in a child, socket passed back")
def _():
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        s = tcp()
        begin(s, ECHO)
        socket.send_fds(theirs, [b"x"], [s.fileno()])
        os._exit(0)
    _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    os.waitpid(pid, 0)
    s = socket.socket(fileno=fds[0])
    return s.getpeername()[:2], echo(s)


@check("non-blocking connect begun here, finished in another process")
def _():
    s = tcp(False)
    result = begin(s, ECHO)
    pid = os.fork()
    if pid == 0:
        wait(s)
        os._exit(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    s.close()
    return result, os.waitpid(pid, 0)[1]


@check("dup before connect, the dup used, the original closed")
def _():
    s = tcp()
    d = s.dup()
    begin(s, ECHO)
    s.close()
    return d.getpeername()[:2], echo(d)


@check("connect through the dup")
def _():
    s = tcp(False)
    d = s.dup()
    e = select.epoll()
    e.register(s, select.EPOLLOUT)
    result = begin(d, ECHO)
    return result, [hex(m) for _, m in e.poll(10)]


@check("bind(source) before connect")
def _():
    s = tcp()
    s.bind((SOURCE, 0))
    begin(s, WHO)
    seen = readall(s).split()
    return "" if FAR else seen[0], s.getsockname()[0]


@check("bind(port) before connect, close, connect again from the same port")
def _():
    out = []
    for _ in range(2):
        s = tcp()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", OWN_PORT))
        out.append(begin(s, ECHO))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    return out


@check("connect time-out of 1 s at a silent address")
def _():
    s = tcp()
    s.settimeout(1)
    begun = time.time()
    try:
        s.connect((SILENT, ECHO))
    except TimeoutError:
        return "timed out", round(time.time() - begun)


@check("SO_SNDTIMEO of 0.5 s at a silent address, then poll")
def _():
    s = tcp()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 500000))
    begun = time.time()
    result = libc_connect(s, SILENT, ECHO)
    taken = time.time() - begun
    time.sleep(0.1)
    return result, 0.4 < taken < 0.9, wait(s, seconds=0.2)


@check("interrupted by a signal; the attempt goes on")
def _():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    s = tcp()
    begun = time.time()
    result = libc_connect(s, SILENT, ECHO)
    taken = time.time() - begun
    time.sleep(0.1)
    s.setblocking(False)
    return result, 0.2 < taken < 0.7, wait(s, seconds=0.2), libc_connect(s, SILENT, ECHO)


@check("interrupted by a signal that restarts calls")
def _():
    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    s = [tcp() for _ in range(10)]
    results = {libc_connect(each, HOST, ECHO) for each in s}
    signal.setitimer(signal.ITIMER_REAL, 0)
    return results, all(echo(each) for each in s)


@check("names: peer, self as the server sees it")
def _():
    s = tcp()
    begin(s, WHO)
    peer, own = s.getpeername(), s.getsockname()
    seen = readall(s).decode().split()
    plain = own[0].replace("::ffff:", "")
    return peer, own[2:], plain, own[1] > 0, FAR or seen == [plain, str(own[1]), peer[0].replace("::ffff:", ""), str(peer[1])]


@check("names: truncation, no room, negative room")
def _():
    s = tcp()
    begin(s, ECHO)
    return [raw(call, s, room) for call in ("getpeername", "getsockname") for room in (64, 5, 0, -1)], \
        libc.getpeername(s.fileno(), None, None), name(ctypes.get_errno())


@check("names: before, during and after")
def _():
    s = tcp(False)
    def peer():
        try:
            return s.getpeername()[:2]
        except OSError as e:
            return name(e.errno)
    out = [s.getsockname()[:2], peer()]
    begin(s, ECHO)
    out += [s.getsockname()[0]]
    wait(s)
    port = s.getsockname()[1]
    out += [peer(), s.getsockname()[0], port > 0]
    s.setblocking(True)
    out += [echo(s), peer(), s.getsockname()[0], s.getsockname()[1] == port]
    return out


@check("nobody's names")
def _():
    out = []
    for call in ("getpeername", "getsockname"):
        for fd in (999, 0):
            out.append((getattr(libc, call)(fd, None, None), name(ctypes.get_errno())))
    return out


@check("bad addresses")
def _():
    s = tcp()
    out = []
    for address, length in ((b"", 0), (b"\x02\x00", 2), (b"\x01\x00x", 3), (None, 16), (b"\x63\x00" + b"x" * 30, 32)):
        out.append((libc.connect(s.fileno(), address, length), name(ctypes.get_errno())))
    return out, libc.connect(999, b"\x02\x00" + b"\0" * 14, 16), name(ctypes.get_errno())


@check("dissolved by AF_UNSPEC, then connected again")
def _():
    s = tcp(False)
    out = [begin(s, ECHO, SILENT), libc.connect(s.fileno(), b"\0" * 16, 16)]
    out.append(begin(s, ECHO))
    wait(s)
    s.setblocking(True)
    return out, echo(s)


@check("unroutable")
def _():
    return [begin(tcp(mode), ECHO, UNROUTABLE) for mode in (True, False)]


@check("closed while connecting, number reused")
def _():
    s = tcp(False)
    begin(s, ECHO)
    number = s.fileno()
    s.close()
    s = tcp(False)
    result = begin(s, ECHO)
    wait(s)
    s.setblocking(True)
    return s.fileno() == number, result, echo(s)


@check("closed while connecting leaves the epoll set silent")
def _():
    e = select.epoll()
    s = tcp(False)
    e.register(s, select.EPOLLOUT)
    begin(s, ECHO)
    s.close()
    return e.poll(0.3)


@check("a hundred at once")
def _():
    sockets = [tcp(False) for _ in range(100)]
    e = select.epoll()
    for s in sockets:
        e.register(s, select.EPOLLOUT | select.EPOLLONESHOT)
    results = {begin(s, ECHO) for s in sockets}
    masks, left, end = set(), 100, time.time() + 20
    while left and time.time() < end:
        for _, mask in e.poll(1):
            masks.add(hex(mask))
            left -= 1
    for s in sockets:
        s.setblocking(True)
    return results, masks, left, all(echo(s, b"%d" % i) for i, s in enumerate(sockets))


@check("twenty threads")
def _():
    good = []
    def one(i):
        s = tcp()
        good.append((begin(s, ECHO), echo(s, b"thread %d" % i)))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return len(good), set(good)


@check("UDP is left alone")
def _():
    s = socket.socket(FAMILY, socket.SOCK_DGRAM)
    s.settimeout(5)
    result = begin(s, UDP)
    s.send(b"datagram")
    return result, s.recv(100), s.getpeername()[:2], begin(s, ECHO)


@check("unix sockets are left alone")
def _():
    with tempfile.TemporaryDirectory() as d:
        l = socket.socket(socket.AF_UNIX)
        l.bind(d + "/s")
        l.listen()
        s = socket.socket(socket.AF_UNIX)
        s.connect(d + "/s")
        return s.getpeername().endswith("/s"), s.getsockname()


@check("loopback is left alone")
def _():
    out = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "0.0.0.0")):
        l = socket.socket(family)
        l.bind((host, 0))
        l.listen()
        s = socket.socket(family)
        s.connect((host, l.getsockname()[1]))
        a, peer = l.accept()
        out.append((peer == s.getsockname(), s.getpeername()[0]))
        closed = socket.socket(family)
        closed.bind((host, 0))
        out.append(name(socket.socket(family).connect_ex(closed.getsockname())))
    return out


@check("listening: accept tells the truth")
def _():
    l = socket.socket(FAMILY)
    l.bind((SOURCE, 0))
    l.listen()
    s = tcp()
    s.connect(l.getsockname())
    a, peer = l.accept()
    return peer == s.getsockname(), a.getsockname() == s.getpeername(), peer[0]


@check("MPTCP sockets are left alone")
def _():
    s = socket.socket(FAMILY, socket.SOCK_STREAM, 262)
    return begin(s, ECHO), echo(s)


@check("shutdown while connecting")
def _():
    s = tcp(False)
    begin(s, ECHO, SILENT)
    s.shutdown(socket.SHUT_RDWR)
    return [hex(m) for _, m in wait(s, select.EPOLLIN | select.EPOLLOUT)], name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


@check("send with MSG_FASTOPEN, blocking")
def _():
    s = tcp()
    sent = s.sendto(b"fast hello", socket.MSG_FASTOPEN, (HOST, ECHO))
    again = name(s.connect_ex((HOST, ECHO)))
    s.shutdown(socket.SHUT_WR)
    return sent, again, readall(s)


@check("sendmsg with MSG_FASTOPEN, blocking, and refused")
def _():
    s = tcp()
    sent = s.sendmsg([b"two ", b"", b"pieces"], [], socket.MSG_FASTOPEN, (HOST, ECHO))
    s.shutdown(socket.SHUT_WR)
    out = sent, readall(s)
    try:
        tcp().sendto(b"x", socket.MSG_FASTOPEN, (HOST, CLOSED))
    except OSError as e:
        return out, name(e.errno)


@check("send with MSG_FASTOPEN, non-blocking")
def _():
    s = tcp(False)
    try:
        result = s.sendto(b"fast", socket.MSG_FASTOPEN, (HOST, ECHO))
    except OSError as e:
        result = name(e.errno)
    wait(s)
    s.setblocking(True)
    return result, echo(s)
