"""Starts telnetd for each connection, as inetd does: telnet_server.py PORT PROGRAM."""
import os, signal, socket, sys

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", int(sys.argv[1])))
listener.listen()
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in range(3):
            os.dup2(connection.fileno(), descriptor)
        os.execv("/usr/sbin/telnetd", ["telnetd", "-n", "-E", sys.argv[2]])
    connection.close()
