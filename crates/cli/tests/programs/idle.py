"""A connection on which nothing is said for long, and how long the first words after that take.

server PORT                   serves clients
client HOST PORT WHO SECONDS  after SECONDS of silence WHO (server or client) speaks first; prints JSON in milliseconds:
                              "first", how long those words took, and "next", a round trip after them
"""

import json
import socket
import sys
import threading
import time


def now():
    """Both ends are on one machine: the clock is the same."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def serve(port):
    listener = socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        program, _ = listener.accept()
        threading.Thread(target=attend, args=[program.makefile("rw")], daemon=True).start()


def attend(words):
    who, seconds = words.readline().split()
    if who == "server":
        time.sleep(float(seconds))
        print(now(), file=words, flush=True)
    for line in words:
        print(now() - float(line), file=words, flush=True)


def ask(words):
    print(now(), file=words, flush=True)
    return float(words.readline())


def client(host, port, who, seconds):
    words = socket.create_connection((host, int(port))).makefile("rw")
    print(who, seconds, file=words, flush=True)
    if who == "server":
        first = -float(words.readline()) + now()
    else:
        time.sleep(float(seconds))
        first = ask(words)
    begun = now()
    ask(words)
    print(json.dumps({"first": first * 1000, "next": (now() - begun) * 1000}))


COMMANDS = {"server": serve, "client": client}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
