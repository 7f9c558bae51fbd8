"""What is compared: each rival carries a file or ping-pong across a lab."""

import filecmp
import glob
import json
import os
import signal
import subprocess
import time

import lab as labs
from lab import AGG_TUNNEL, HTTP_PORT, MANYPATH, MPTCP_PORT, Failed
from workers import BULK_PORT, ECHO_PORT

CONTROLS = ["cubic", "bbr"]
MPTCP = 262
# A shorter transfer may be over before anybody has looked at its sockets.
SEEN_AFTER = 1.5
# A path with a lower rate than this share of the best one's cannot be the best: it gets a shorter file.
MAY_BE_BEST = 0.5
LONGEST_ALONE, SHORTEST_ALONE = 15, 4
# To start, to end, and to end what does not: seconds.
GRACE = 20


class Rival:
    """Plain TCP over one path; the others change parts of it."""

    family = "tcp"
    before, protocol, port, ports = [], 0, HTTP_PORT, (ECHO_PORT, BULK_PORT)

    def __init__(self, name, control=None, path=0):
        self.name, self.control, self.path = name, control, path

    def missing(self):
        """Why it cannot be measured here, if it cannot."""
        return None

    def rate(self, setup, direction):
        """Of the paths that it uses."""
        return setup.rate(direction)

    def size(self, setup, direction, size):
        """Bytes of its file, where that of the set-up is `size`."""
        return size

    def address(self):
        return f"10.77.{self.path + 1}.2"

    def prepare(self, lab):
        """Starts what it needs; what is returned is stopped after the run."""
        lab.set_control(self.control)
        return []

    def watched_port(self):
        return self.port

    def subflows(self, setup):
        return 1

    def check_report(self, said):
        """Whether the program's connection went the way it should."""

    def transfer(self, lab, direction, size, limit):
        extra = self.prepare(lab)
        try:
            return self.timed(lab, direction, size, limit)
        finally:
            for child in reversed(extra):
                lab.stop(child)

    def timed(self, lab, direction, size, limit):
        source, received, url = lab.file(size), *self.target(lab, direction, size)
        curl = ["curl", "-sS", "-f", "-H", "Expect:", "--noproxy", "*"]
        curl += ["-o", received, url] if direction == "down" else ["-T", source, "-o", "/dev/null", url]
        growing = received if direction == "down" else f"{lab.dir}/nginx-*/body/**"
        watch = Watch(lab, self, "right" if direction == "down" else "left", self.watched_port())
        worker = lab.worker("left", "transfer", self.before, curl, limit, growing)
        result = watch.until_done(worker, limit + GRACE)
        try:
            if result["status"] and not result["cut"]:
                raise Failed(f"curl: status {result['status']}: {result['said'].strip()[-300:]}")
            self.check_report(result["said"])
            if not result["cut"] and not filecmp.cmp(source, received, shallow=False):
                raise Failed("the file arrived damaged")
            watch.check(result["seconds"])
        finally:
            for file in glob.glob(received):
                os.remove(file)
        count = result["received"] if result["cut"] else size
        mbps = count * 8e-6 / result["seconds"]
        return {"seconds": result["seconds"], "mbps": mbps, "cut": result["cut"], "control": watch.seen()}

    def target(self, lab, direction, size):
        base = f"http://{self.address()}:{self.port}"
        if direction == "down":
            return os.path.join(lab.dir, "received"), f"{base}/file-{size}"
        return os.path.join(lab.root, "up/received"), f"{base}/up/received"

    def ping(self, lab, seconds):
        extra = self.prepare(lab)
        server = lab.worker("right", "answer", self.protocol, self.control)
        try:
            if server.stdout.readline() != "ready\n":
                os.killpg(server.pid, signal.SIGKILL)
                raise Failed(f"no answering program: {server.stderr.read().strip()[-300:]}")
            client = lab.worker("left", "ask", self.address(), self.ports, self.protocol, seconds, before=self.before)
            watch = Watch(lab, self, "right", self.watched_port() if self.family == "agg" else BULK_PORT)
            result = watch.until_done(client, seconds + GRACE)
            watch.check(seconds)
            self.check_report(result.pop("errors"))
            return {**result, "seconds": seconds, "cut": False, "control": watch.seen()}
        finally:
            for child in [server, *reversed(extra)]:
                lab.stop(child)


class Tcp(Rival):
    def rate(self, setup, direction):
        return setup.paths[self.path].rate(direction)

    def size(self, setup, direction, size):
        rate = self.rate(setup, direction)
        best = max(path.rate(direction) for path in setup.paths)
        seconds = LONGEST_ALONE if rate >= MAY_BE_BEST * best else SHORTEST_ALONE
        return int(min(size, max(rate * seconds * 125000, 1e6)))


class Mptcp(Rival):
    family = "mptcp"
    before, protocol, port = ["mptcpize", "run"], MPTCP, MPTCP_PORT

    def subflows(self, setup):
        return len(setup.paths)

    def ping(self, lab, seconds):
        # The program of ping-pong asks for MPTCP itself.
        plain, plain.before = Mptcp(self.name, self.control), []
        return Rival.ping(plain, lab, seconds)


class Agg(Rival):
    """Aggligator's port forwarding: TCP connections over all pairs of interfaces."""

    family = "agg"
    port, ports = 9080, (9001, 9002)
    FORWARDED = [(HTTP_PORT, 9080), (ECHO_PORT, 9001), (BULK_PORT, 9002)]

    def missing(self):
        return None if os.path.exists(AGG_TUNNEL) else "agg-tunnel is not installed: bench/grid --setup"

    def address(self):
        return "127.0.0.1"

    def watched_port(self):
        return self.link_port

    def subflows(self, setup):
        return len(setup.paths)

    def prepare(self, lab):
        # Some of its links go from the interface of one path to the address of another.
        lab.set_control(self.control, pairs=True)
        # Another one each time: the server cannot take one that has connections left, even closed ones.
        self.link_port = port = next(lab.link_ports)
        served = [word for service, _ in self.FORWARDED for word in ("-p", service)]
        server = lab.start("right", "agg-server", port, AGG_TUNNEL, "server", "-n", "--tcp", port, *served)
        wanted = [word for pair in self.FORWARDED for word in ("-p", "{}:{}".format(*pair))]
        hosts = [word for path in range(len(lab.setup.paths)) for word in ("--tcp", f"10.77.{path + 1}.2:{port}")]
        client = [AGG_TUNNEL, "client", "-4", "-n", *hosts, *wanted]
        try:
            return [server, lab.start("left", "agg-client", self.port, *client)]
        except Failed:
            lab.stop(server)
            raise


class Manypath(Rival):
    family = "manypath"
    before = [MANYPATH, "run", "--json", "--"]

    def check_report(self, said):
        """A fallback to plain TCP would be measured as something that it is not."""
        try:
            carried = json.loads(said.strip().splitlines()[-1])["sctp"]
        except (IndexError, ValueError, KeyError):
            carried = 0
        if not carried:
            raise Failed(f"the connection fell back to TCP: {said.strip()[:2000]}")


class Association(Rival):
    """The engine over UDP sockets, without shim, stack and flows; in a lab of its own. Its name is that of the transport."""

    family = "association"

    def transfer(self, lab, direction, size, limit):
        result = self.bench(lab.setup, direction, ["-n", str(size)], limit)
        cut = result is None
        if cut:
            # What had arrived is not known; so as long again, with a clock instead of a size.
            result = self.bench(lab.setup, direction, ["-t", f"{limit}", "-O", "0"], limit + GRACE)
            if result is None:
                raise Failed("manypath-lab bench does not end")
        seconds, mbps = result["runs"][0]["seconds"], result["goodput_mbps"]
        return {"seconds": seconds, "mbps": mbps, "cut": cut, "control": None}

    def bench(self, setup, direction, amount, limit):
        """The result of `manypath-lab bench`, or none within the limit."""
        case = "reverse" if direction == "down" else "throughput"
        with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
            # No TCP is measured; the default needs no allowance from the system.
            control = file.read().strip()
        labs_of = [word for spec in setup.specs() for word in ("--lab", spec)]
        command = [MANYPATH, "bench", *labs_of, "--case", case, "--transport", self.family, *amount]
        child = subprocess.Popen(
            [*command, "-C", control, "--runs", "1", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=labs.with_us, start_new_session=True,
        )
        try:
            out, errors = child.communicate(timeout=limit + 2)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                child.communicate(timeout=30)
        results = json.loads(out)["results"] if out else []
        if not results:
            raise Failed(f"manypath-lab bench: {errors.strip()[-300:] or out[-300:]}")
        return results[0]

    def ping(self, lab, seconds):
        raise Failed("an association carries no ping-pong")


class Encrypted(Association):
    """The same with the keys and DTLS chunks of the product; its time begins with the INIT, as a connection's does."""

    family = "encrypted"


class Watch:
    """Looks at the sender's TCP connections while a transfer goes on."""

    def __init__(self, lab, rival, host, port):
        self.lab, self.rival, self.host, self.port = lab, rival, host, port
        self.controls, self.subflows = set(), 0

    def until_done(self, worker, limit):
        """What the worker prints. One that does not end by itself in time is a failure."""
        begun, needed = time.monotonic(), self.rival.subflows(self.lab.setup)
        while worker.poll() is None:
            if time.monotonic() - begun > limit:
                self.lab.stop(worker)
                raise Failed(f"not finished after {limit:.0f} s")
            # Rarely: to look costs processor time.
            time.sleep(0.25 if time.monotonic() - begun < 1 else 0.5)
            if self.rival.control and self.subflows < needed and worker.poll() is None:
                self.look()
        self.lab.children.remove(worker)
        out, errors = worker.communicate()
        if worker.returncode or not out:
            raise Failed(f"status {worker.returncode}: {errors.strip()[-300:]}")
        return {"errors": errors, **json.loads(out)}

    def look(self):
        found = self.lab.controls(self.host, self.port)
        self.controls |= set(found)
        self.subflows = max(self.subflows, len(found))

    def seen(self):
        return ",".join(sorted(self.controls)) or None

    def check(self, seconds):
        wanted = self.rival.control
        if not wanted:
            return
        if self.controls - {wanted}:
            raise Failed(f"the congestion control was {self.seen()}, not {wanted}")
        if seconds < SEEN_AFTER:
            return
        if not self.controls:
            raise Failed("no TCP connection of the transfer was seen, so its congestion control is unknown")
        if self.subflows < 2 <= self.rival.subflows(self.lab.setup):
            raise Failed("only one path was used")


def rivals(setup):
    """All of them, in the order of the tables."""
    names = [chr(ord("A") + number) for number in range(len(setup.paths))]
    alone = [Tcp(f"tcp-{control}-{name}", control, path) for path, name in enumerate(names) for control in CONTROLS]
    several = [kind(f"{kind.family}-{control}", control) for kind in [Mptcp, Agg] for control in CONTROLS]
    return [*alone, *several, Manypath("manypath"), Association("association"), Encrypted("encrypted")]
