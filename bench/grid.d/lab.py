"""Two hosts of `manypath-lab` with the servers of all rivals."""

import contextlib
import ctypes
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import own
from workers import BULK_PORT, ECHO_PORT

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MANYPATH = os.path.abspath(os.environ.get("MANYPATH", os.path.join(ROOT, "target/release/manypath")))
RIVALS_ROOT = os.path.join(ROOT, "target/rivals")
AGG_TUNNEL, AGG_VERSION = os.path.join(RIVALS_ROOT, "bin/agg-tunnel"), "0.18.12"
GRID = os.path.join(ROOT, "bench/grid")
HTTP_PORT, MPTCP_PORT, FIRST_LINK_PORT = 8080, 8081, 5800
START_LIMIT = 10
# Of routes that only sockets bound to their device use: others find a better one. Each device has another, or
# routes to the same network would replace each other.
PAIR_METRIC = 900
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
NGINX = """daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log; events {{}}
http {{ access_log off; sendfile on; client_max_body_size 0; client_body_temp_path {dir}/body;
proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
server {{ listen 0.0.0.0:{port}; root {root}; location /up/ {{ dav_methods PUT; }} }} }}
"""


class Failed(Exception):
    """A run that has no result, and why."""


def with_us():
    """In a child before its program: it ends when this process does, in whatever way."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Lab:
    """A lab that is up; programs on its hosts end with it."""

    def __init__(self, setup, serve=()):
        self.setup, self.control, self.children, self.options = setup, (None, False), [], serve
        self.link_ports = itertools.count(FIRST_LINK_PORT)
        self.name = f"grid{os.getpid()}"
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix="manypath-grid-", dir=memory)
        self.root = self.make("www")
        self.make("www/up")
        try:
            self.start_hosts()
            self.start_servers()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def make(self, folder):
        path = os.path.join(self.dir, folder)
        os.makedirs(path, exist_ok=True)
        return path

    def make_traces(self):
        """Under one name there is always the same trace, so one that exists is kept."""
        for path in self.setup.paths:
            if path.trace and not os.path.exists(path.trace_file()):
                os.makedirs(os.path.dirname(path.trace_file()), exist_ok=True)
                done = subprocess.run([MANYPATH, "lab", *path.trace_command()], capture_output=True, check=True)
                with open(f"{path.trace_file()}.new", "wb") as file:
                    file.write(done.stdout)
                os.rename(file.name, path.trace_file())

    def restart_traces(self):
        """Each rival meets the same seconds of a trace."""
        for number, path in enumerate(self.setup.paths):
            if path.trace:
                command = [MANYPATH, "lab", "--name", self.name, "path", chr(ord("A") + number), "trace"]
                subprocess.run([*command, path.trace_file()], capture_output=True, check=True)

    def start_hosts(self):
        self.make_traces()
        paths = [word for spec in self.setup.specs() for word in ("--path", spec)]
        self.holder = self.spawn([MANYPATH, "lab", "--name", self.name, "up", "--foreground", *paths], "lab")
        self.wait(self.holder, "lab", lambda: "Ctrl-C" in self.log("lab"))
        for host in ["left", "right"]:
            # No connection inherits what an earlier one has learned, or its congestion control would matter.
            self.run(host, "sysctl", "-w", "net.ipv4.tcp_no_metrics_save=1")
            self.run(host, "ip", "mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8")
        for number in range(2, len(self.setup.paths) + 1):
            self.run("right", "ip", "mptcp", "endpoint", "add", f"10.77.{number}.2", "dev", device(number), "signal")

    def start_servers(self):
        for port, before in [(HTTP_PORT, []), (MPTCP_PORT, ["mptcpize", "run"])]:
            folder = self.make(f"nginx-{port}")
            with open(f"{folder}/conf", "w") as file:
                file.write(NGINX.format(dir=folder, root=self.root, port=port))
            program = [*before, find("nginx"), "-c", f"{folder}/conf", "-p", folder, "-e", f"{folder}/error.log"]
            self.start("right", f"nginx-{port}", port, *program)
        allow = ",".join(map(str, [HTTP_PORT, ECHO_PORT, BULK_PORT]))
        self.serve = self.start("right", "serve", 9899, MANYPATH, "serve", "--allow", allow, *self.options)

    def on(self, host, *command):
        return [MANYPATH, "lab", "--name", self.name, "exec", host, "--", *map(str, command)]

    def run(self, host, *command):
        done = subprocess.run(self.on(host, *command), capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"`{' '.join(map(str, command))}` on {host}: {done.stderr.strip()}")
        return done.stdout

    def environment(self):
        return {**own.environment(os.path.join(self.dir, "own")), "MANYPATH_OWN_STACK": "1"}

    def spawn(self, command, name):
        with open(os.path.join(self.dir, f"{name}.log"), "w") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(),
                preexec_fn=with_us, start_new_session=True,
            )
        self.children.append(child)
        return child

    def log(self, name):
        with open(os.path.join(self.dir, f"{name}.log")) as file:
            return file.read()

    def start(self, host, name, port, *command):
        """Starts a server and waits until it has its port."""
        child = self.spawn(self.on(host, *command), name)
        self.wait(child, name, lambda: has_port(child.pid, port))
        return child

    def wait(self, child, name, ready):
        limit = time.monotonic() + START_LIMIT
        while not ready():
            if child.poll() is not None or time.monotonic() > limit:
                raise Failed(f"{name} did not start: {self.log(name).strip()[:500]}")
            time.sleep(0.02)

    def output(self, *command):
        """The lines that a program on the left prints, those of standard error last."""
        done = subprocess.run(self.on("left", *command), capture_output=True, text=True, env=self.environment())
        if done.returncode:
            raise Failed(f"`{command[0]}`: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout.splitlines() + done.stderr.splitlines()

    def stop(self, child):
        """Ends a program and those that it has started."""
        self.children.remove(child)
        for sign in [signal.SIGTERM, signal.SIGKILL]:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(child.pid, sign)
                child.wait(3)
        child.wait()

    def worker(self, host, name, *arguments, before=()):
        """One of workers.py, with its output as a pipe."""
        command = self.on(host, *before, sys.executable, GRID, "--worker", name, *map(json.dumps, arguments))
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(), preexec_fn=with_us, start_new_session=True,
        )
        self.children.append(child)
        return child

    def set_control(self, name, pairs=False):
        """Sets the congestion control by an attribute of the routes: the sysctl takes only what the system's
        administrator allows. With `pairs` also for sockets that are bound to a device and connect to an address of
        another path. Without a name the routes stay as they are, but for those of the pairs."""
        wanted = (name or self.control[0], pairs)
        if wanted == self.control:
            return
        congctl = ["congctl", wanted[0]] if wanted[0] else []
        for host, own in [("left", 1), ("right", 2)]:
            for path, net in itertools.product(range(1, len(self.setup.paths) + 1), repeat=2):
                route = [f"10.77.{net}.0/24", "dev", device(path), "proto", "kernel", "scope", "link"]
                route += ["src", f"10.77.{path}.{own}"] + (["metric", PAIR_METRIC + path] if path != net else [])
                if path == net or pairs:
                    self.run(host, "ip", "route", "replace", *route, *congctl)
                elif self.control[1]:
                    self.run(host, "ip", "route", "del", *route)
        self.control = wanted

    def controls(self, host, port):
        """The congestion control of each TCP connection at `port`, as the kernel tells it."""
        said = self.run(host, "ss", "-tinHO", "state", "established", f"( sport = :{port} or dport = :{port} )")
        found = (re.search(r"(\w+) wscale:", line) for line in said.splitlines())
        return [match.group(1) for match in found if match]

    def file(self, size):
        """A file of random bytes, so that nothing on the way can compress them."""
        path = os.path.join(self.root, f"file-{size}")
        if not os.path.exists(path):
            with open(path, "wb") as file:
                for at in range(0, size, 1 << 20):
                    file.write(os.urandom(min(1 << 20, size - at)))
        return path

    def close(self):
        for child in reversed(self.children[:]):
            self.stop(child)
        shutil.rmtree(self.dir, ignore_errors=True)


def install_agg_tunnel():
    crate = ["aggligator-util", "--version", AGG_VERSION, "--bin", "agg-tunnel", "--no-default-features", "--locked"]
    subprocess.run([os.environ.get("CARGO", "cargo"), "install", *crate, "--root", RIVALS_ROOT], check=True)


def device(path):
    return f"path{chr(ord('A') + path - 1)}"


def has_port(pid, port):
    """Whether somebody has the port (TCP: listens at it) in the network namespace of a process."""
    for table, state in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")]:
        try:
            with open(f"/proc/{pid}/net/{table}") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        if any(row[1].endswith(f":{port:04X}") and row[3] == state for row in rows):
            return True
    return False


def find(program):
    places = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin"
    found = shutil.which(program, path=places)
    if not found:
        raise SystemExit(f"grid: {program} is missing: bench/grid --setup")
    return found
