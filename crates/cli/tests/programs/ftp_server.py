"""An FTP server for one active-mode transfer, which asks its tester before it says anything of it.

    ftp_server.py PORT FILE

It ends its direction of the data connection and waits for the client to end the other one, as
ProFTPD does: only then the client has everything (226), unless that comes too soon (426).
"""
import socket
import sys

port, name = int(sys.argv[1]), sys.argv[2]


def say(text):
    print(text, flush=True)


def serve(control):
    lines = control.makefile("r", newline="\r\n")
    target = None
    control.sendall(b"220 ready\r\n")
    for line in lines:
        command, _, argument = line.strip().partition(" ")
        if command == "PORT":
            numbers = [int(number) for number in argument.split(",")]
            target = (".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5])
            control.sendall(b"200 PORT\r\n")
        elif command == "RETR":
            say("asked")
            sys.stdin.readline()
            control.sendall(b"150 Opening data connection\r\n")
            data = socket.create_connection(target)
            with open(name, "rb") as file:
                data.sendall(file.read())
            data.shutdown(socket.SHUT_WR)
            say("sent")
            ended = data.recv(1) == b""
            say("ended" if ended else "broken")
            data.close()
            sys.stdin.readline()
            control.sendall(b"226 Transfer complete\r\n")
        elif command == "QUIT":
            control.sendall(b"221 bye\r\n")
            return
        else:
            control.sendall(b"230 ok\r\n")


listener = socket.create_server(("0.0.0.0", port))
say("ready")
serve(listener.accept()[0])
