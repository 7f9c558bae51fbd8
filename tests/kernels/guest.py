"""Process 1 of a guest: two hosts with two links between them, and what manypath does there, one line of JSON a check.

scripts/kernels boots it. The left host is the guest's own network, the right one a network namespace. A line has
the name of a check, how it came out ("yes", "plain" with the notice that was printed, or "failed") and a detail.
"""
import ctypes
import errno
import functools
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path

MANYPATH = "/manypath/manypath"
# Without what it would read of its installation, which takes long here.
PYTHON = ["/usr/bin/python3.13", "-I", "-S"]
RIGHT = "10.1.0.2"
USER = 1000
CGROUP = Path("/sys/fs/cgroup/programs")
# Seconds that one command may take before it counts as hung: the guest is emulated.
LIMIT = 60
RTM_NEWLINK, REQUEST_CREATE_ACK = 16, 0x405
IFLA_IFNAME, IFLA_LINKINFO, IFLA_NET_NS_FD, IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 3, 18, 28, 1, 2, 1
libc = ctypes.CDLL(None, use_errno=True)
right_network = None
started = []
CHECKS = []


def check(name):
    def note(function):
        CHECKS.append((name, function))
        return function

    return note


class Failed(Exception):
    """What a check saw instead of what it expects."""


class Plain(Exception):
    """The program ran without manypath, and this was said."""


def mount(kind, where, options=None):
    Path(where).mkdir(parents=True, exist_ok=True)
    if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, options) != 0:
        raise OSError(ctypes.get_errno(), f"mount {where}")


def ip(command):
    subprocess.run(["ip", *command.split()], check=True)


def enter(on_right, user, cgroup):
    """What a child does before it becomes the program."""
    if cgroup:
        (CGROUP / "cgroup.procs").write_text("0")
    if on_right:
        os.setns(right_network, os.CLONE_NEWNET)
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def environment(on_right, user):
    side = f"{'right' if on_right else 'left'}-{user}"
    folder = Path("/tmp") / side
    if not folder.exists():
        folder.mkdir()
        os.chown(folder, user, user)
        # An emulated machine is late with its answers.
        (folder / "sysctl").write_text("tcp_race = off\n")
    own = {"MANYPATH_RUNTIME_DIR": folder / "run", "MANYPATH_PEERS": folder / "peers",
           "MANYPATH_RULES": f"/tmp/rules-{'right' if on_right else 'left'}", "MANYPATH_SYSCTL": folder / "sysctl",
           "MANYPATH_PATHS": folder / "paths", "MANYPATH_OWN_STACK": 1, "HOME": folder, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    return {name: str(value) for name, value in own.items()}


def options(on_right, user, cgroup):
    return {"preexec_fn": lambda: enter(on_right, user, cgroup), "env": environment(on_right, user), "text": True,
            "stdin": subprocess.DEVNULL, "cwd": "/tmp"}


def run(*command, right=False, user=0, cgroup=False):
    """A command until its end; a hung one has failed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                          **options(right, user, cgroup)) as child:
        try:
            child.out, child.err = child.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            raise Failed(f"{command} hangs: {child.communicate()}") from None
    return child


def start(*command, right=False, user=0, cgroup=False, port=None, ready=None):
    """A command in the background, once its port is bound (udp or tcp) or it has said a word."""
    number = len(started)
    log = Path(f"/tmp/log-{number}")
    with log.open("w") as file:
        child = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True,
                                 **options(right, user, cgroup))
    child.log = log
    started.append(child)
    limit = time.monotonic() + LIMIT
    while not (bound(child.pid, *port) if port else ready in log.read_text()):
        if child.poll() is not None or time.monotonic() > limit:
            raise Failed(f"{command} does not start: {log.read_text()}")
        time.sleep(0.05)
    return child


def bound(pid, protocol, port):
    """Whether a socket of the process's network has the port, listening if it is TCP."""
    for family in (protocol, protocol + "6"):
        for line in Path(f"/proc/{pid}/net/{family}").read_text().splitlines()[1:]:
            words = line.split()
            if int(words[1].split(":")[1], 16) == port and (protocol == "udp" or words[3] == "0A"):
                return True
    return False


def end(child):
    """Ends a background command; everything that it has said."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        raise Failed(f"{child.args} does not end: {child.log.read_text()}") from None
    return child.log.read_text()


def succeeded(done):
    if done.returncode != 0:
        raise Failed(f"{done.args}: {done.returncode}: {done.out} {done.err}")
    return done


def notice(text):
    """What manypath says when it leaves a program to plain TCP."""
    found = re.search(r"manypath: (?:all connections are plain TCP|[^\n]*is needed)[^\n]*", text)
    return found[0].removeprefix("manypath: ") if found else None


def counter(text, name):
    found = re.search(rf"\b{name}=(\d+)", text)
    return int(found[1]) if found else 0


PAGE = "0123456789abcde\n" * 20000
FETCH = f"""import socket, sys
def fetch():
    with socket.create_connection(("{RIGHT}", 8080)) as s:
        s.sendall(b"GET /page HTTP/1.0\\r\\n\\r\\n")
        sys.stdout.write(s.makefile().read().split("\\n\\n", 1)[1])
        sys.stdout.flush()
fetch()"""
DYNAMIC = [*PYTHON, "-c", FETCH]
STATIC = ["wget", "-q", "-O", "-", f"http://{RIGHT}:8080/page"]
PROBE = [*PYTHON, "/manypath/probe.py", RIGHT, "7000", "192.0.2.1", "10.1.0.1", "192.0.2.200", "far"]
DATAGRAMS = [*PYTHON, "/manypath/datagrams.py"]
# Says its client's address to so many clients.
GREETER = """import socket, sys
listener = socket.create_server(("0.0.0.0", 7000))
for _ in range(int(sys.argv[1])):
    client, address = listener.accept()
    client.sendall(address[0].encode())
    client.close()"""
GREETED = f"""import socket
with socket.create_connection(("{RIGHT}", 7000), timeout=30) as s:
    print(s.getpeername()[0], s.makefile().read())"""
# As in crates/cli/tests/server.rs.
KNOCK = f"""import socket
for port in [7000] * 6 + [7001]:
    with socket.create_connection(("{RIGHT}", port), timeout=60) as s:
        assert s.recv(1) == b"k"
"""
# Fetches the page, waits for a file, fetches it again.
TWICE = f"""import os, time
{FETCH}
while not os.path.exists("/tmp/again"):
    time.sleep(0.05)
fetch()"""


def expect(seen, wanted, said=""):
    if seen != wanted:
        raise Failed(f"{str(seen)[:300]!r} instead of {str(wanted)[:300]!r}: {said}")


def carried(program, user=0):
    """A program under `manypath run` gets the page whole; where it is not carried, one line says why."""
    serve()
    done = succeeded(run(MANYPATH, "run", "--report", "--", *program, user=user))
    expect(done.out, PAGE, done.err)
    judge(done.err, "sctp")


def judge(text, name):
    """Whether one was carried, or plain TCP with a reason, by what manypath has said."""
    if counter(text, name):
        return
    if notice(text):
        raise Plain(notice(text))
    raise Failed(f"not carried, without a word: {text}")


@check("server-root")
def _():
    serves(0)


@check("server-user")
def _():
    serves(USER)


def serves(user):
    """A server under `manypath run` serves plain clients and those of manypath, by their true addresses."""
    server = start(MANYPATH, "run", "--report", "--", *PYTHON, "-c", GREETER, "2", right=True, user=user,
                   port=("tcp", 7000))
    time.sleep(1)
    plain = run(*PYTHON, "-c", GREETED)
    through = run(MANYPATH, "run", "--", *PYTHON, "-c", GREETED, user=2000 + user)
    if plain.out != f"{RIGHT} 10.1.0.1\n" or through.out != plain.out:
        raise Failed(f"{plain.out} {plain.err} / {through.out} {through.err} / {server.log.read_text()}")
    # It ends after two clients: a signal could come before the report.
    server.wait(LIMIT)
    judge(server.log.read_text(), "accepted sctp")


@check("server-probe")
def _():
    plain = accepts([])
    expect(len(plain.splitlines()), 18, plain)
    expect(accepts([MANYPATH, "run", "--"]), plain)
    return f"{len(plain.splitlines())} lines"


def accepts(launcher):
    server = start(*launcher, *PYTHON, "/manypath/accept_probe.py", "7000", right=True, ready="up\n")
    succeeded(run(MANYPATH, "run", "--", *PYTHON, "-c", KNOCK, user=2001 + len(launcher)))
    server.wait(LIMIT)
    return server.log.read_text()


@functools.cache
def web():
    start("httpd", "-f", "-p", "8080", "-h", "/tmp/www", right=True, port=("tcp", 8080))
    start(*PYTHON, "/manypath/probe_server.py", "7000", RIGHT, right=True, port=("tcp", 7003))
    start(*PYTHON, "/manypath/datagrams.py", "server", "0.0.0.0", "7100", right=True, port=("udp", 7100))
    run("ip", "route", "add", "192.0.2.0/25", "via", RIGHT)


@functools.cache
def serve():
    """manypath on the right host, for the servers there."""
    web()
    start(MANYPATH, "serve", "--allow", "8080,7001,7002,7003,7006,7008,7100/udp", right=True, port=("udp", 9899))


@check("peer-without-manypath")
def _():
    web()
    done = succeeded(run(MANYPATH, "run", "--report", "--", *STATIC, user=2010))
    expect(done.out, PAGE, done.err)
    if counter(done.err, "sctp"):
        raise Failed(f"carried to whom? {done.err}")


@check("attach-without-tcp-diag")
def _():
    """Nobody could tell who waits at the gate: it must not attach."""
    attached(lambda: None, "--client-only", modules=())


@check("client-static-root")
def _():
    carried(STATIC)


@check("client-static-user")
def _():
    carried(STATIC, USER)


@check("client-dynamic-user")
def _():
    carried(DYNAMIC, USER)


@check("stack-killed")
def _():
    """The stack is killed while a program runs: what it connects afterwards goes on, by another stack or plain TCP."""
    serve()
    launcher = start(MANYPATH, "run", "--report", "--", *PYTHON, "-c", TWICE, user=2011, ready=PAGE)
    killed = [one for one in children(launcher.pid) if os.readlink(f"/proc/{one}/exe") == MANYPATH]
    for one in killed:
        os.kill(one, signal.SIGKILL)
    Path("/tmp/again").touch()
    expect(launcher.wait(LIMIT), 0)
    text = launcher.log.read_text()
    expect(text.count(PAGE), 2)
    if not killed and not notice(text):
        raise Failed(f"no stack: {text.replace(PAGE, '')}")


def children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@check("client-probe")
def _():
    serve()
    return compare(run(*PROBE), run(MANYPATH, "run", "--", *PROBE))


def compare(direct, through):
    """Whether the probe has printed the same, line by line."""
    plain, lines = direct.out.splitlines(), through.out.splitlines()
    different = [f"{one!r} / {other!r}" for one, other in zip(plain, lines) if one != other]
    if different or len(plain) < 40 or len(plain) != len(lines):
        raise Failed(f"{len(plain)} and {len(lines)} lines: {different} {direct.err} {through.err}")
    return f"{len(plain)} lines"


@check("datagrams-run")
def _():
    serve()
    done = succeeded(run(MANYPATH, "run", "--report", "--", *DATAGRAMS, "echo", RIGHT, "7100", user=USER))
    expect(done.out, "echo ok\n", done.err)
    judge(done.err, "datagram flows")


@check("doctor")
def _():
    serve()
    done = run(MANYPATH, "doctor", f"{RIGHT}:8080")
    if done.returncode or "all is well" not in done.out:
        raise Failed(f"{done.returncode}: {done.out} {done.err}")


@check("attach-tcp")
def _():
    text = attached(lambda: expect(succeeded(run(*STATIC, cgroup=True)).out, PAGE), "--client-only")
    judge(text, "sctp")


@check("attach-probe")
def _():
    seen = []
    attached(lambda: seen.append(compare(run(*PROBE), run(*PROBE, cgroup=True))), "--client-only")
    return seen[0]


@check("attach-datagrams")
def _():
    def act():
        for how in ("echo", "connected", "asking"):
            succeeded(run(*DATAGRAMS, how, RIGHT, "7100", cgroup=True))

    text = attached(act, "--client-only")
    refused = re.search(r"datagrams stay plain UDP[^\n]*", text)
    if refused:
        raise Plain(refused[0])
    expect(bool(re.search(r"datagrams[^\n]*sctp=3", text)), True, text)


@check("attach-server")
def _():
    def act():
        server = start(*PYTHON, "-c", GREETER, "2", right=True, cgroup=True, port=("tcp", 7000))
        time.sleep(1)
        plain = run(*PYTHON, "-c", GREETED)
        through = run(MANYPATH, "run", "--", *PYTHON, "-c", GREETED, user=2020)
        expect((plain.out, through.out), (f"{RIGHT} 10.1.0.1\n",) * 2, (plain.err, through.err))
        end(server)

    text = attached(act, right=True)
    refused = re.search(r"servers stay plain TCP[^\n]*", text)
    if refused:
        raise Plain(refused[0])
    judge(text, "accepted sctp")


def attached(act, *words, right=False, modules=("inet_diag", "tcp_diag")):
    """Acts while `manypath attach` is at work on the cgroup; what it has said at its end."""
    serve()
    for module in modules:
        load_module(module)
    try:
        redirector = start(MANYPATH, "attach", "--cgroup", str(CGROUP), "--report", *words, right=right, ready="READY")
    except Failed as failed:
        raise (refusal(str(failed)) or failed) from None
    try:
        act()
    except Failed as failed:
        raise Failed(f"{failed}: {end(redirector)}") from None
    return end(redirector)


def refusal(text):
    """That `manypath attach` cannot work here, in its own words."""
    found = re.search(r"manypath: ([^\n]*)\n *([^\n]*(?:needs Linux|modprobe)[^\n]*)", text)
    return Plain(f"{found[1]}: {found[2]}") if found else None


def yama(level, user):
    def with_level():
        Path("/proc/sys/kernel/yama/ptrace_scope").write_text(str(level))
        carried(STATIC, user)

    return with_level


# Last, because level 3 cannot be left again.
for level, user, who in ((1, USER, "user"), (2, 0, "root"), (2, USER, "user"), (3, 0, "root"), (3, USER, "user")):
    CHECKS.append((f"yama-{level}-{who}", yama(level, user)))


def main():
    begin()
    wanted = re.search(r"checks=(\S+)", Path("/proc/cmdline").read_text())
    for name, function in CHECKS:
        if not wanted or name in wanted[1].split(","):
            say(name, function)
    print("END", flush=True)


def say(name, function):
    begun = time.monotonic()
    try:
        kind, detail = "yes", function()
    except Plain as plain:
        kind, detail = "plain", str(plain)
    except Failed as failed:
        kind, detail = "failed", str(failed)
    except BaseException:
        kind, detail = "failed", traceback.format_exc()
    line = {"check": name, "kind": kind, "detail": detail, "seconds": round(time.monotonic() - begun, 1)}
    print("CHECK " + json.dumps(line), flush=True)


def begin():
    global right_network
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    mount("devtmpfs", "/dev")
    mount("tmpfs", "/tmp", b"mode=1777")
    mount("tmpfs", "/run")
    mount("cgroup2", "/sys/fs/cgroup")
    CGROUP.mkdir()
    print("VERSION " + os.uname().release, flush=True)
    load_module("veth")
    join_hosts()
    Path("/tmp/rules-left").write_text("remote enable udp port 7100\n")
    Path("/tmp/www").mkdir()
    Path("/tmp/www/page").write_text(PAGE)


def load_module(name):
    """A module of the kernel, which has no modprobe here to load it by itself."""
    number = {"x86_64": 313, "aarch64": 273}[os.uname().machine]
    file = os.open(f"/manypath/{name}.ko", os.O_RDONLY)
    if libc.syscall(number, file, b"", 0) != 0 and ctypes.get_errno() != errno.EEXIST:
        raise OSError(ctypes.get_errno(), f"finit_module {name}")
    os.close(file)


def attribute(kind, content):
    return struct.pack("HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def add_link(left, right):
    """A pair of interfaces, of which the right host gets one. The `ip` of busybox makes none."""
    interface = bytes(16)
    peer = interface + attribute(IFLA_IFNAME, right.encode()) + attribute(IFLA_NET_NS_FD, struct.pack("I", right_network))
    kind = attribute(IFLA_INFO_KIND, b"veth") + attribute(IFLA_INFO_DATA, attribute(VETH_INFO_PEER, peer))
    body = interface + attribute(IFLA_IFNAME, left.encode()) + attribute(IFLA_LINKINFO, kind)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(struct.pack("IHHII", 16 + len(body), RTM_NEWLINK, REQUEST_CREATE_ACK, 1, 0) + body)
        error = struct.unpack_from("i", netlink.recv(4096), 16)[0]
    if error:
        raise OSError(-error, f"no {left}")


def join_hosts():
    """The two hosts and their two links."""
    global right_network
    ip("link set lo up")
    holder = subprocess.Popen(["sleep", "100000"], preexec_fn=lambda: os.unshare(os.CLONE_NEWNET))
    right_network = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
    for link in (1, 2):
        add_link(f"va{link}", f"vb{link}")
        ip(f"addr add 10.{link}.0.1/24 dev va{link}")
        ip(f"link set va{link} up")
    for link in (1, 2):
        for words in (f"addr add 10.{link}.0.2/24 dev vb{link}", f"link set vb{link} up", "link set lo up"):
            run("ip", *words.split(), right=True)
    # A link needs a moment; whoever starts before does not use it.
    while "NO-CARRIER" in run("ip", "link").out + run("ip", "link", right=True).out:
        time.sleep(0.05)


def power_off():
    Path("/proc/sysrq-trigger").write_text("o")
    time.sleep(10)


try:
    main()
except BaseException:
    print("BROKEN " + traceback.format_exc().replace("\n", " | "), flush=True)
power_off()
