"""An FTP client for one active-mode transfer: it takes the data connection when it has read 150.

    ftp_client.py SERVER PORT OWN-ADDRESS DATA-PORT FILE
"""
import socket
import sys

server, port, own, data_port, name = sys.argv[1:]
data_port = int(data_port)

listener = socket.create_server((own, data_port))
control = socket.create_connection((server, int(port)))
replies = control.makefile("r", newline="\r\n")


def expect(code):
    reply = replies.readline()
    if not reply.startswith(code):
        sys.exit(f"{reply!r} instead of {code}")


def ask(command, code):
    control.sendall(command.encode() + b"\r\n")
    expect(code)


expect("220")
ask("USER anonymous", "230")
ask("PORT " + own.replace(".", ",") + f",{data_port // 256},{data_port % 256}", "200")
ask("RETR file", "150")
data, _ = listener.accept()
with open(name, "wb") as file:
    while piece := data.recv(65536):
        file.write(piece)
data.close()
expect("226")
ask("QUIT", "221")
