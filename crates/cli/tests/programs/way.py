"""What a program hears of the way of its connection: way.py connect HOST PORT, way.py listen PORT, way.py visit HOST PORT,
way.py force HOST PORT.

connect fetches a file over a connection, prints as JSON what its socket says at once and later, and what one
says whose program has chosen its receive buffer, and then leaves it to the kernel again.
listen sends three megabytes to each client and what the accepted socket says, one port further on from a socket whose
receive buffer the program has chosen before. visit is its client, which prints that.
force prints, for root and then for nobody, whether SO_RCVBUFFORCE is taken, a size and a tiny one, and what is told of the buffer.
"""
import json, os, selectors, socket, struct, sys, time

SO_RCVBUFFORCE = 33
SO_BUF_LOCK = 72
FIELDS = {"rtt_us": 68, "mss": 16, "cwnd": 80, "least_rtt_us": 148}


def receive_buffer(s):
    return s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def told(s):
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    said = {name: struct.unpack_from("I", info, at)[0] for name, at in FIELDS.items()}
    said["state"] = info[0]
    said["size"] = len(info)
    said["maxseg"] = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    said["receive_buffer"] = receive_buffer(s)
    return said


def short(s):
    """How the same options answer who has little room."""
    mss = struct.pack("I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 19)
    two = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 2)
    return {"info": len(info), "mss_begins": info[16:] == mss[:3], "maxseg": two == mss[:2]}


def fetch(s):
    s.sendall(b"GET /big HTTP/1.1\r\nHost: there\r\n\r\n")
    left = 1 << 20
    while left > 0:
        left -= len(s.recv(65536))


def connect(host, port):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    before = receive_buffer(s)
    s.settimeout(20)
    s.connect((host, port))
    first = told(s)
    fetch(s)
    told(s)
    time.sleep(0.4)
    said = {"before": before, "first": first, "later": told(s), "short": short(s)}
    own = socket.socket(s.family)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
    own.connect((host, port))
    said["chosen"] = receive_buffer(own)
    own.setsockopt(socket.SOL_SOCKET, SO_BUF_LOCK, 0)
    said["left_again"] = receive_buffer(own)
    print(json.dumps(said))


def force(s, size):
    try:
        s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
        return True
    except PermissionError:
        return False


def forced(host, port):
    told = []
    for user in 0, 65534:
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        os.seteuid(user)
        for size in 60000, 100:
            taken = force(s, size)
            s.connect((host, port))
            told.append([taken, receive_buffer(s)])
            s = socket.socket(s.family)
    print(json.dumps(told))


def serve(s):
    first = told(s)
    s.sendall(bytes(3 << 20))
    s.recv(1)
    told(s)
    time.sleep(0.4)
    said = {"first": first, "later": told(s), "short": short(s)}
    s.sendall(json.dumps(said).encode())
    s.close()


def listen(port):
    waiting = selectors.DefaultSelector()
    for number, chosen in enumerate((0, 50000)):
        s = socket.socket(socket.AF_INET6)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if chosen:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, chosen)
        s.bind(("::", port + number))
        s.listen()
        waiting.register(s, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            try:
                serve(key.fileobj.accept()[0])
            except OSError as error:
                print(error, flush=True)


def visit(host, port):
    s = socket.create_connection((host, port), 20)
    left = 3 << 20
    while left > 0:
        left -= len(s.recv(min(left, 65536)))
    s.sendall(b"x")
    print(s.makefile().read())


if sys.argv[1] == "connect":
    connect(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "force":
    forced(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "visit":
    visit(sys.argv[2], int(sys.argv[3]))
else:
    listen(int(sys.argv[2]))
