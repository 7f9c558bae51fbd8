"""What runs on the hosts of the lab: the clock of a transfer, and the programs of ping-pong beside bulk."""

import glob
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

ECHO_PORT, BULK_PORT = 5001, 5002
PING, CHUNK = 64, 64 << 10
PINGS_PER_SECOND = 50


def work(name, *arguments):
    return {"transfer": transfer, "answer": answer, "ask": ask}[name](*map(json.loads, arguments))


# Runs a program and says when it has ended: who has started it may go on, as `manypath run` does for its report.
TELL_END = ["sh", "-c", '"$@"; status=$?; echo >/dev/fd/"$0"; exit $status']


def transfer(before, program, limit, received):
    """Runs a program, which the command `before` may start, and tells its time: from the fork of `before` to the exit
    of the program. After `limit` seconds it is ended, and the bytes count that have arrived in the files of the pattern
    `received`."""
    reading, writing = os.pipe()
    begun = time.monotonic()
    command = [*before, *TELL_END, str(writing), *program]
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=[writing], process_group=0
    )
    os.close(writing)
    errors = []
    # Read beside, or a program that says much would wait for us.
    reader = threading.Thread(target=lambda: errors.append(child.stderr.read()), daemon=True)
    reader.start()
    ended = has_ended(reading, limit)
    seconds = time.monotonic() - begun
    count = 0 if ended else sum(os.path.getsize(file) for file in glob.glob(received))
    if not ended:
        end(child)
    # A stack that drains may hold the stream beyond the program's end.
    reader.join(3)
    said = "".join(errors)[-2000:]
    print(json.dumps({"seconds": seconds, "status": child.wait(), "cut": not ended, "received": count, "said": said}))


def has_ended(reading, limit):
    """Whether something is said there, or nobody is left who could, within so many seconds."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    return bool(poll.poll(limit * 1000))


def end(child):
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(3)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def answer(protocol, control):
    """Sends back what comes at one port, and as much as goes at another."""
    for port, serve in [(ECHO_PORT, echo), (BULK_PORT, fill)]:
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if control:
            # Once an option was set, MPTCP gives later subflows its own congestion control instead of the route's.
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        server.bind(("0.0.0.0", port))
        server.listen()
        # Each has a process of its own: threads would wait for each other.
        if os.fork() == 0:
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            serve(peer)
            os._exit(0)
    print("ready", flush=True)
    for _ in range(2):
        os.wait()


def echo(peer):
    while data := peer.recv(PING):
        peer.sendall(data)


def fill(peer):
    data = bytes(CHUNK)
    try:
        while True:
            peer.sendall(data)
    except OSError:
        pass


def ask(host, ports, protocol, seconds):
    """Prints percentiles of the answers' times in ms while another connection receives, and its Mbit/s."""
    peer = connect(host, ports[0], protocol)
    ping(peer, 1)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(receive(connect(host, ports[1], protocol), seconds)).encode())
        os._exit(0)
    times = sorted(ping(peer, seconds))
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    os.close(writing)
    bulk = json.loads(os.read(reading, 100))
    os.wait()
    print(json.dumps({"p50": cuts[49], "p90": cuts[89], "p99": cuts[98], "answers": len(times), "mbps": bulk}))


def connect(host, port, protocol):
    peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.connect((host, port))
    return peer


def receive(peer, seconds):
    room, total, begun = bytearray(CHUNK), 0, time.monotonic()
    peer.settimeout(seconds)
    try:
        while time.monotonic() - begun < seconds and (count := peer.recv_into(room)):
            total += count
    except TimeoutError:
        pass
    return total * 8e-6 / (time.monotonic() - begun)


def ping(peer, seconds):
    """One question at a time. Those that would have been due while an answer was late are left out."""
    times, data, begun = [], bytes(PING), time.monotonic()
    while (sent := time.monotonic()) < begun + seconds:
        peer.sendall(data)
        left = PING
        while left:
            got = len(peer.recv(left))
            if not got:
                sys.exit("the connection is gone")
            left -= got
        times.append((time.monotonic() - sent) * 1e3)
        time.sleep(max(sent + 1 / PINGS_PER_SECOND - time.monotonic(), 0))
    return times
