//! Small Python clients.

/// What every client starts with.
const PRELUDE: &str = r#"
import ctypes, errno, os, select, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
FAR, SILENT = "10.99.0.2", "10.98.0.1"
COUNT, WHO, ECHO, SOURCE, HTTP, CLOSED = 7001, 7002, 7003, 7004, 7005, 7006
def tcp(blocking=True):
    s = socket.socket()
    s.setblocking(blocking)
    return s
def name(number):
    return errno.errorcode.get(number, number) if number else 0
def begin(s, port, host=FAR):
    return name(s.connect_ex((host, port)))
def raw(s, port, host=FAR):
    "connect without Python's repetition after signals"
    address = struct.pack("=H", 2) + struct.pack("!H4s8x", port, socket.inet_aton(host))
    result = libc.connect(s.fileno(), address, 16)
    return name(ctypes.get_errno()) if result else 0
def wait(s, seconds=10):
    e = select.epoll()
    e.register(s, select.EPOLLOUT)
    return [hex(m) for _, m in e.poll(seconds)]
def error(s):
    return name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
def echo(s):
    s.setblocking(True)
    s.sendall(b"hello")
    s.shutdown(socket.SHUT_WR)
    data = b""
    while piece := s.recv(99):
        data += piece
    return data == b"hello"
def show(*what):
    print(*what, flush=True)
"#;

/// A command that runs this client.
pub(crate) fn client(text: &str) -> Vec<String> {
    ["/usr/bin/python3", "-c", &format!("{PRELUDE}\n{text}")].map(str::to_owned).to_vec()
}
