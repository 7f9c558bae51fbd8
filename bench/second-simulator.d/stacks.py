"""Other SCTP stacks on the papers' links, live in a lab: usrsctp, with CMT where there are several paths, and the Linux
kernel's SCTP in a guest of User Mode Linux. Beside each cell the simulator's with the same buffers."""

import contextlib
import csv
import json
import os
import statistics
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests/peers")
KERNEL = "/usr/bin/linux.uml"
KIB, PACKET, PAYLOAD, QUEUE = 1024, 1500, 1452, 100
# Seconds at the links' rate that are sent, and those of them that are not measured.
LENGTH, SETTLE = 12, 4
# What a cell may take: round robin over dissimilar paths is far slower than the links.
LIMIT = 150
CMT = ["sysctl.cmt_on_off=1", "sysctl.cmt_use_dac=1", "sysctl.nrsack_enable=1", "sysctl.buffer_splitting=3"]
# How the simulator splits buffers, and what part of them it has: usrsctp has 36 packets of 64 KiB in flight, not 45.
# Buffers of one path are not split.
SPLITS = [("both-queued-equal", 1), ("both-outstanding-equal", 1), ("both-outstanding-equal", 0.8)]
# Stacks, paths in Mbit/s and ms, sizes of the buffers in KiB.
CELLS = [
    ("usrsctp", [(10, 10)], [64, 128, 256]),
    ("usrsctp", [(25, 10)], [64, 128]),
    ("usrsctp", [(50, 10)], [64, 128, 256]),
    ("Linux", [(10, 10)], [64, 128, 256]),
    ("Linux", [(25, 10)], [64, 128]),
    ("Linux", [(50, 10)], [64, 128, 256]),
    ("usrsctp", [(10, 10), (10, 10)], [64, 128, 256]),
    ("usrsctp", [(10, 10), (10, 50)], [64, 128, 256]),
    ("usrsctp", [(10, 10), (10, 75)], [64, 128, 256, 320]),
    ("usrsctp", [(10, 10), (25, 10)], [64, 128, 256]),
    ("usrsctp", [(10, 10), (50, 10)], [64, 128, 256]),
    ("usrsctp", [(10, 10), (10, 10), (1, 50)], [64, 128, 256]),
]

SCENARIO = """name = "stack"
seeds = 3
warmup = "{settle}s"
measure = "{measure}s"
start = {{ min = "0.9s", max = "1.1s" }}
udp = false
[engine]
profile = "paper"
multipath = {multipath}
buffer_split = "{split}"
buffer = "{size}KiB"
{paths}
[[app]]
kind = "saturated"
streams = {streams}
message = {message}
"""
PATH = """[[path]]
rate = "{}mbit"
delay = "{}ms"
queue = {}
framing = 0
"""


def simulate(lab, paths, size, split, place):
    """Mean rate in Mbit/s and delay in ms of the engine in the profile `paper`, round robin."""
    file = os.path.join(place, "stack.toml")
    with open(file, "w") as out:
        out.write(SCENARIO.format(
            settle=SETTLE, measure=LENGTH - SETTLE, multipath=str(len(paths) > 1).lower(), size=size, split=split, streams=len(paths),
            message=PAYLOAD, paths="".join(PATH.format(*path, QUEUE) for path in paths)))
    command = [lab, "sim", "run", file, "--output", os.path.join(place, "stack")]
    subprocess.run(command, check=True, capture_output=True)
    with open(os.path.join(place, "stack/results.csv"), newline="") as rows:
        runs = list(csv.DictReader(rows))
    return tuple(statistics.mean(float(run[name]) for run in runs) for name in ("throughput_mbps", "delay_ms"))


def build(place, name, *libraries):
    program = os.path.join(place, name)
    command = ["cc", "-O2", "-o", program, os.path.join(PEERS, "sockets/peer.c"), *libraries, "-lpthread"]
    subprocess.run(command, check=True)
    return program


class Lab:
    """Two hosts, joined by the paths."""

    def __init__(self, program, paths, place):
        self.program, self.paths, self.place = program, paths, place
        self.name = f"second{os.getpid()}"
        specs = [word for rate, delay in paths for word in ("--path", f"{rate}mbit,{delay}ms,queue={QUEUE}")]
        subprocess.run([program, "up", "--name", self.name, *specs], check=True, capture_output=True)

    def on(self, host, *words):
        return [self.program, "exec", "--name", self.name, host, "--", *words]

    def addresses(self, host):
        return ",".join(f"10.77.{path + 1}.{1 if host == 'left' else 2}" for path in range(len(self.paths)))

    def down(self):
        subprocess.run([self.program, "down", "--name", self.name], check=False, capture_output=True)

    def join_guest(self):
        """A wire from the right host to the guest."""
        for words in ("sysctl -q -w net.ipv4.ip_forward=1", "ip tuntap add dev guest mode tap",
                      "ip addr add 10.78.1.1/24 dev guest", "ip link set guest up"):
            subprocess.run(self.on("right", *words.split()), check=True)
        subprocess.run(self.on("left", *"ip route add 10.78.1.0/24 via 10.77.1.2".split()), check=True)

    def guest(self, line):
        """The guest that runs this command line as its only one."""
        job = os.path.join(self.place, "job")
        with open(job, "w") as out:
            out.write(f"path vec0 10.78.1.2/24 10.77.1.1 10.78.1.1\nudp 0\nrun {line}\n")
        words = "mem=256M root=/dev/root rootfstype=hostfs rootflags=/ ro quiet con=null con0=null,fd:1"
        return self.on("right", *realtime(), KERNEL, *words.split(), "vec0:transport=tap,ifname=guest,depth=64,gro=0",
                       f"umid={self.name}", f"uml_dir={self.place}/", "init=/usr/bin/python3", "--",
                       os.path.join(PEERS, "linux/guest.py"), job)


def realtime():
    """As the lab's paths: other work of this machine shall not show."""
    return ["chrt", "-r", "1"] if os.geteuid() == 0 else []


def transfer(lab, stack, size, programs):
    """Rate in Mbit/s and delay in ms at the receiver, which is usrsctp's; the sender is of the stack."""
    rate = 1e6 / 8 * sum(rate for rate, _ in lab.paths) * PAYLOAD / PACKET
    sent, mark = int(rate * LENGTH), int(rate * SETTLE)
    common = [f"buffer={size * KIB}", f"message={PAYLOAD}", f"streams={len(lab.paths)}", "digest=0", "stamp=1", f"seconds={LIMIT}"]
    library = [*common, "udp=0", *(CMT if len(lab.paths) > 1 else [])]
    there, here = ("left", "right") if stack == "Linux" else ("right", "left")
    listen = lab.on(there, *realtime(), programs["usrsctp"], "listen", lab.addresses(there), *library,
                    f"receive={sent}", f"mark={mark}", "linger=100")
    if stack == "Linux":
        words = [programs["Linux"], "connect", "10.78.1.2", lab.addresses(there), *common, f"send={sent}", "wait=1"]
        connect = lab.guest(" ".join(words))
    else:
        connect = lab.on(here, *realtime(), programs["usrsctp"], "connect", lab.addresses(here), lab.addresses(there),
                         *library, f"send={sent}", "wait=1")
    with subprocess.Popen(listen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as receiver:
        while (line := receiver.stderr.readline()) and "ready" not in line:
            pass
        threading.Thread(target=receiver.stderr.read, daemon=True).start()
        sender = subprocess.Popen(connect, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            answer = receiver.stdout.read()
            with contextlib.suppress(subprocess.TimeoutExpired):
                sender.wait(20)
        finally:
            for program in (sender, receiver):
                if program.poll() is None:
                    program.kill()
            sender.wait()
    if not answer.strip():
        return None
    result = json.loads(answer)
    return 8e-6 * (sent - mark) / result["since_mark"], result["delay_ms"]


def cell(lab_program, stack, paths, size, programs, place):
    lab = Lab(lab_program, paths, place)
    try:
        if stack == "Linux":
            lab.join_guest()
        return transfer(lab, stack, size, programs)
    finally:
        lab.down()


def measure(lab_program, place, runs, only):
    """Of each cell: stack, paths, buffer, the stack's rates and delays, the simulator's for each split, load of the machine."""
    programs = {"usrsctp": build(place, "peer-usrsctp", "-DUSRSCTP", "-lusrsctp")}
    if os.path.exists(KERNEL):
        programs["Linux"] = build(place, "peer-linux", "-lsctp")
    for stack, paths, sizes in CELLS:
        name = "+".join(str(rate) for rate, _ in paths) + " Mbit/s, " + "/".join(str(delay) for _, delay in paths) + " ms"
        if stack not in programs or (only and only not in f"{stack} {name}"):
            continue
        for size in sizes:
            splits = SPLITS if len(paths) > 1 else SPLITS[:1]
            simulated = [simulate(lab_program, paths, round(size * part), split, place) for split, part in splits]
            seen = [run for _ in range(runs) if (run := cell(lab_program, stack, paths, size, programs, place))]
            yield stack, name, size, seen, simulated, os.getloadavg()[0]
            time.sleep(0.2)
