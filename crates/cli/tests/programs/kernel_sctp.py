"""Everything that runs in a guest of User Mode Linux: process 1, and HTTP over the kernel's own SCTP.

The root file system is the host's, read-only. Nothing here knows of manypath; nothing listens with TCP.

    init DEVICE OWN/PREFIX GATEWAY try                     says READY, if there is SCTP
    init DEVICE OWN/PREFIX GATEWAY serve PORT              a web server: GET /BYTES, PUT answers with the SHA-256
    init DEVICE OWN/PREFIX GATEWAY get PORT PATH           a client of the gateway; JSON of the result
    init DEVICE OWN/PREFIX GATEWAY put PORT PATH BYTES
"""
import ctypes
import errno
import hashlib
import http.client
import http.server
import json
import os
import random
import socket
import socketserver
import subprocess
import sys
import time
import traceback

SCTP = 132
FINIT_MODULE = 313  # x86-64, the only machine with this kernel beside i386


def mount(kind, where):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {where}")


def load(name):
    """Loads a module and what it needs: the guest has no insmod."""
    folder = f"/usr/lib/uml/modules/{os.uname().release}/"
    libc = ctypes.CDLL(None, use_errno=True)
    with open(folder + "modules.dep") as file:
        lines = dict(line.rstrip().split(":", 1) for line in file)
    path = next(path for path in lines if path.endswith(f"/{name}.ko"))
    for module in [*reversed(lines[path].split()), path]:
        descriptor = os.open(folder + module, os.O_RDONLY)
        loaded = libc.syscall(FINIT_MODULE, descriptor, b"", 0)
        if loaded != 0 and ctypes.get_errno() != 17:  # EEXIST: already there
            raise OSError(ctypes.get_errno(), f"finit_module {module}")
        os.close(descriptor)


def begin(device, own, gateway):
    mount("proc", "/proc")
    mount("tmpfs", "/tmp")
    load("hmac")  # signs the cookies
    load("sctp")
    for command in ("link set lo up", f"addr add {own} dev {device}", f"link set {device} up",
                    f"route add default via {gateway}"):
        subprocess.run(["ip", *command.split()], check=True)


def pieces(content):
    """What one send() may hold: it is one message, and must fit into the socket's buffer."""
    return (content[at:at + 32768] for at in range(0, len(content), 32768))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        content = random.randbytes(int(self.path[1:]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-SHA256", hashlib.sha256(content).hexdigest())
        self.end_headers()
        for piece in pieces(content):
            self.wfile.write(piece)

    def do_PUT(self):
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left > 0:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                return
            digest.update(piece)
            left -= len(piece)
        self.send_response(200)
        self.send_header("Content-Length", "64")
        self.end_headers()
        self.wfile.write(digest.hexdigest().encode())

    def log_message(self, *unused):
        pass


class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 64  # whom it does not hold, the kernel refuses

    def __init__(self, port):
        super().__init__(("0.0.0.0", port), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
        self.server_bind()
        self.server_activate()


def connect(host, port):
    """The host's end of the wire has come up only now, with ours: for a second or two nobody uses its
    address, and its kernel answers that there is no SCTP."""
    for _ in range(50):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
        connection.settimeout(30)
        try:
            connection.connect((host, port))
            return connection
        except OSError as error:
            connection.close()
            if error.errno != errno.ENOPROTOOPT:
                raise
        time.sleep(0.2)
    raise TimeoutError("the host has no SCTP")


def ask(method, host, port, path, size=0):
    connection = http.client.HTTPConnection(host, port)
    connection.sock = connect(host, port)
    content = random.randbytes(size)
    headers = {"Content-Length": str(size)} if method == "PUT" else {}
    connection.request(method, path, pieces(content) if method == "PUT" else None, headers)
    answer = connection.getresponse()
    got = answer.read()
    result = {"status": answer.status, "bytes": len(got), "sha256": hashlib.sha256(got).hexdigest()}
    if method == "PUT":
        result |= {"text": got.decode(), "sent_sha256": hashlib.sha256(content).hexdigest()}
    connection.close()
    return result


def main(device, own, gateway, role, *more):
    begin(device, own, gateway)
    if role == "try":
        print("READY", flush=True)
    elif role == "serve":
        server = Server(int(more[0]))
        print("READY", flush=True)
        server.serve_forever()
    else:
        port, path, *size = more
        result = ask(role.upper(), gateway, int(port), path, *map(int, size))
        print("RESULT", json.dumps(result), flush=True)
        time.sleep(1)  # the end of the association


try:
    main(*(word for word in sys.argv[1:] if "=" not in word))  # the kernel adds console=tty0
except BaseException:
    print("FAILED", traceback.format_exc(), flush=True)
with open("/proc/sysrq-trigger", "w") as trigger:
    trigger.write("o")
time.sleep(10)
