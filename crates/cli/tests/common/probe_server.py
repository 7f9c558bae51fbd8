"""The servers that probe.py talks to, on all addresses. Argument: the port base."""
import socket, struct, sys, threading

BASE = int(sys.argv[1])
COUNT, WHO, ECHO, UDP, ENDING = (BASE + i for i in (1, 2, 3, 7, 8))


def count(c):
    size, total = 0, 0
    while data := c.recv(65536):
        size += len(data)
        total = (total + sum(data)) & 0xFFFFFFFF
    c.sendall(b"%d %08x\n" % (size, total))


def who(c):
    text = lambda a: "%s %d" % (a[0].replace("::ffff:", ""), a[1])
    c.sendall(("%s %s\n" % (text(c.getpeername()), text(c.getsockname()))).encode())


def echo(c):
    while data := c.recv(65536):
        c.sendall(data)
    c.shutdown(socket.SHUT_WR)


def listen(port):
    s = socket.socket(socket.AF_INET6)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(("::", port))
    s.listen(512)
    return s


def quiet(handler, c):
    try:
        with c:
            handler(c)
    except OSError:
        pass


def serve(port, handler):
    s = listen(port)
    while True:
        c, _ = s.accept()
        threading.Thread(target=quiet, args=(handler, c), daemon=True).start()


def ending():
    """Odd connections are watched, even ones hear how the one before ended."""
    s = listen(ENDING)
    while True:
        watched, _ = s.accept()
        size, how = 0, b"closed after %d\n"
        try:
            while data := watched.recv(65536):
                size += len(data)
            how = how % size
        except ConnectionResetError:
            how = b"connection reset\n"
        watched.close()
        asker, _ = s.accept()
        asker.sendall(how)
        asker.close()


def datagrams(address):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, UDP))
    while True:
        data, peer = s.recvfrom(2048)
        s.sendto(data, peer)


for address in sys.argv[2:]:
    threading.Thread(target=datagrams, args=(address,), daemon=True).start()
for port, handler in ((COUNT, count), (WHO, who)):
    threading.Thread(target=serve, args=(port, handler), daemon=True).start()
threading.Thread(target=ending, daemon=True).start()
serve(ECHO, echo)
