"""A Diameter-like service over TCP: answers each request with its own bytes and the R bit cleared.

usage: diameter_tcp.py PORT
"""
import socket
import struct
import sys
import threading


def read(stream, size):
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def serve(stream):
    try:
        while True:
            head = read(stream, 20)
            length = struct.unpack(">I", head[:4])[0] & 0xFFFFFF
            body = read(stream, length - 20)
            stream.sendall(head[:4] + bytes([head[4] & 0x7F]) + head[5:] + body)
    except (EOFError, ConnectionError):
        stream.close()


listener = socket.create_server(("0.0.0.0", int(sys.argv[1])), backlog=100)
while True:
    client, _ = listener.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
