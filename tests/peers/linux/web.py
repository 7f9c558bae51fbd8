"""Process 1 of a guest of User Mode Linux: HTTP over the kernel's own SCTP.

Nothing here knows of manypath; nothing listens with TCP.

    init DEVICE OWN/PREFIX GATEWAY try                     says READY, if there is SCTP
    init DEVICE OWN/PREFIX GATEWAY serve PORT              a web server: GET /BYTES, PUT answers with the SHA-256
    init DEVICE OWN/PREFIX GATEWAY get PORT PATH           a client of the gateway; JSON of the result
    init DEVICE OWN/PREFIX GATEWAY put PORT PATH BYTES
"""
import errno
import hashlib
import http.client
import http.server
import json
import random
import socket
import socketserver
import sys
import time

import machine
from machine import ip

SCTP = 132


def begin(device, own, gateway):
    machine.begin("/tmp")
    ip(f"addr add {own} dev {device}")
    ip(f"link set {device} up")
    ip(f"route add default via {gateway}")


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


machine.run(main, sys.argv[1:])
