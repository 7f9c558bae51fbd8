"""Servers and clients of the soak test; each client ends with an error if a byte is lost or damaged.

digest PORT                 says the client's address, reads to the end, answers with SHA-256 and length
breaking PORT               is asked for N bytes of the pattern, sends them, and resets the connection
datagrams-server PORT       answers each datagram with the same one
small HOST PORT N SEED      N connections to `digest`, one after the other, a few bytes over each
pausing-sender HOST PORT N SEED     one connection to `digest`, idle for seconds between N pieces
pausing-reader HOST PORT PATH SEED  reads a file of a web server with pauses, and prints its SHA-256
broken HOST PORT N          asks `breaking` for N bytes: a reset must come, not an end in good order
breaks HOST PORT PATH N     reads N bytes of a file of a web server, and resets the connection
datagrams HOST PORT N SEED  N datagrams with answers: none damaged, none twice, some there
witness HOST PORT           connects ten times a second, and prints the error of each connect that fails at once
agent HOST PORT             for each line read from standard input, one connection to `digest`; prints as JSON how
                            long connect took, how long all of it, and the address that the server has seen
"""

import hashlib
import json
import os
import random
import select
import socket
import struct
import sys
import threading
import time

# A transfer that takes longer is killed by who has started it.
LIMIT = float(os.environ.get("MANYPATH_SOAK_LIMIT", 50))


def break_off(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def pattern(length):
    unit = bytes(range(251))
    return (unit * (length // len(unit) + 1))[:length]


def serve(port, one):
    def guarded(connection, peer):
        try:
            one(connection, peer)
        except OSError:
            connection.close()

    listener = socket.create_server(("0.0.0.0", int(port)), backlog=256)
    while True:
        pair = listener.accept()
        threading.Thread(target=guarded, args=pair, daemon=True).start()


def answer_digest(connection, peer):
    connection.sendall(f"{peer[0]}\n".encode())
    digest, length = hashlib.sha256(), 0
    while data := connection.recv(65536):
        digest.update(data)
        length += len(data)
    connection.sendall(f"{digest.hexdigest()} {length}\n".encode())
    connection.close()


def answer_and_break(connection, _):
    asked = b""
    while not asked.endswith(b"\n"):
        asked += connection.recv(64)
    connection.sendall(pattern(int(asked)))
    break_off(connection)


def answer_datagrams(port):
    program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    program.bind(("0.0.0.0", int(port)))
    while True:
        data, source = program.recvfrom(65535)
        program.sendto(data, source)


def exchange(connection, payload):
    """Sends, ends its direction, and returns the address that the server has seen."""
    connection.sendall(payload)
    return finish_exchange(connection, payload)


def finish_exchange(connection, payload):
    connection.shutdown(socket.SHUT_WR)
    answer = b""
    while data := connection.recv(4096):
        answer += data
    seen, rest = answer.decode().split("\n", 1)
    expected = f"{hashlib.sha256(payload).hexdigest()} {len(payload)}\n"
    assert rest == expected, f"damaged: {rest!r} in place of {expected!r}"
    return seen


def small(host, port, count, seed):
    dice = random.Random(int(seed))
    for _ in range(int(count)):
        with socket.create_connection((host, int(port)), timeout=LIMIT) as connection:
            exchange(connection, dice.randbytes(dice.randrange(1, 3000)))


def pause(dice):
    time.sleep(dice.choice([0, 0.3, 2, 5]))


def pausing_sender(host, port, count, seed):
    dice, sent = random.Random(int(seed)), b""
    with socket.create_connection((host, int(port)), timeout=LIMIT) as connection:
        for _ in range(int(count)):
            piece = dice.randbytes(dice.randrange(1, 200_000))
            connection.sendall(piece)
            sent += piece
            pause(dice)
        finish_exchange(connection, sent)


def pausing_reader(host, port, path, seed):
    dice = random.Random(int(seed))
    with socket.create_connection((host, int(port)), timeout=LIMIT) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: soak\r\n\r\n".encode())
        stream = connection.makefile("rb")
        while (line := stream.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                left = int(line.split(b":")[1])
        digest, pauses = hashlib.sha256(), 4
        while left > 0:
            data = stream.read1(min(left, 1 << 20))
            assert data, f"an end in good order, {left} bytes too early"
            digest.update(data)
            left -= len(data)
            if pauses > 0 and dice.random() < 0.1:
                pauses -= 1
                pause(dice)
    print(digest.hexdigest())


def broken(host, port, count):
    count, got = int(count), b""
    connection = socket.create_connection((host, int(port)), timeout=LIMIT)
    connection.sendall(f"{count}\n".encode())
    try:
        while data := connection.recv(65536):
            got += data
        raise AssertionError(f"an end in good order after {len(got)} of {count} bytes")
    except ConnectionResetError:
        assert pattern(count).startswith(got), f"damaged within {len(got)} bytes"


def breaks(host, port, path, count):
    connection = socket.create_connection((host, int(port)), timeout=LIMIT)
    connection.sendall(f"GET {path} HTTP/1.0\r\nHost: soak\r\n\r\n".encode())
    left = int(count)
    while left > 0:
        data = connection.recv(min(left, 65536))
        assert data, "it ended too early"
        left -= len(data)
    break_off(connection)


def datagrams(host, port, count, seed):
    dice, program = random.Random(int(seed)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    program.connect((host, int(port)))
    sent, come, end = set(), 0, time.monotonic() + LIMIT
    asked = 0
    while asked < int(count) or (come == 0 and time.monotonic() < end):
        data = asked.to_bytes(4, "big") + dice.randbytes(dice.randrange(0, 1200))
        try:
            program.send(data)
            sent.add(data)
        except ConnectionRefusedError:
            pass
        asked += 1
        while select.select([program], [], [], 0.02)[0]:
            try:
                data = program.recv(65535)
            except ConnectionRefusedError:
                continue
            assert data in sent, "a datagram was damaged, or came twice"
            sent.remove(data)
            come += 1
    assert come > 0, "no datagram came back"


def connect(host, port, patient):
    if patient:
        return socket.create_connection((host, port), timeout=None)
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex((host, port))
    select.select([], [connection], [], LIMIT)
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, "connect")
    connection.setblocking(True)
    return connection


def witness(host, port):
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=0.1).close()
        except TimeoutError:
            pass
        except OSError as error:
            print(error.strerror, flush=True)
        time.sleep(0.1)


def agent(host, port):
    for number, _ in enumerate(sys.stdin):
        begun = time.monotonic()
        said = {}
        try:
            connection = connect(host, int(port), number % 2 == 0)
            said["connect"] = time.monotonic() - begun
            connection.settimeout(LIMIT)
            said["seen"] = exchange(connection, b"probe")
            connection.close()
            said["total"] = time.monotonic() - begun
        except (OSError, ValueError) as error:
            said["error"] = f"{error!r} after {time.monotonic() - begun:.3f} s"
        print(json.dumps(said), flush=True)


PARTS = {
    "digest": lambda port: serve(port, answer_digest),
    "breaking": lambda port: serve(port, answer_and_break),
    "datagrams-server": answer_datagrams,
    "small": small,
    "pausing-sender": pausing_sender,
    "pausing-reader": pausing_reader,
    "broken": broken,
    "breaks": breaks,
    "datagrams": datagrams,
    "witness": witness,
    "agent": agent,
}

PARTS[sys.argv[1]](*sys.argv[2:])
