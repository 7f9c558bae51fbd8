"""The set-ups of the grid: fixed ones, and others that a seed draws."""

import dataclasses
import math
import random

# Payload share of a full packet of TCP: 1448 of 1500 bytes (IPv4, timestamps).
PAYLOAD_SHARE = 1448 / 1500
PACKET = 1500
# Two processors emulate the paths and run both ends: more than this is a measure of them.
MAX_SUM_MBIT = 1000
KINDS = ["pair", "asymmetric", "triple", "equal", "satellite"]
# Pairs of paths whose rates vary as recorded or modelled: docs/traces.md.
TRACED = 6
MODELS = ["lte-drive", "lte", "5g", "wifi", "leo", "geo", "dsl"]
TRACE_SECONDS = 20


@dataclasses.dataclass(frozen=True)
class Path:
    """One path. Rates in Mbit/s, delay one way in ms, queues in packets, loss both ways in percent. Packets are
    lost ahead of the queue, so that loss does not lower what a path can carry."""

    down: float
    up: float
    delay: float
    queue_down: int = 100
    queue_up: int = 100
    loss: float = 0
    # Model and seed of a trace, whose mean is the rate of both ways.
    trace: tuple = ()

    def spec(self):
        """As `manypath-lab` takes it. The client is left, so the first of two values is that of the uplink."""
        rate = f"trace={self.trace_file()}" if self.trace else "rate=" + both(f"{self.up:g}mbit", f"{self.down:g}mbit")
        loss = f",loss={self.loss:g}%" if self.loss else ""
        return f"{rate},delay={self.delay:g}ms,queue={both(self.queue_up, self.queue_down)}{loss}"

    def trace_file(self):
        """Where the trace lies, from the top of the source tree."""
        model, seed = self.trace
        return f"target/traces/{model}-{seed}-{self.down:g}mbit.trace"

    def trace_command(self):
        """The arguments of `manypath-lab` that print the trace."""
        model, seed = self.trace
        return ["trace", model, "--seed", f"{seed}", "--seconds", f"{TRACE_SECONDS}", "--rate", f"{self.down:g}mbit"]

    def rate(self, direction):
        return self.down if direction == "down" else self.up

    def words(self):
        rate = f"{self.down:g}" if self.down == self.up else f"{self.down:g}/{self.up:g}"
        queue = f"{self.queue_down}" if self.queue_down == self.queue_up else f"{self.queue_down}/{self.queue_up}"
        rate = f"{self.trace[0]} (seed {self.trace[1]}) {rate}" if self.trace else rate
        return f"{rate} Mbit/s {self.delay:g} ms q{queue}" + (f" {self.loss:g} %" if self.loss else "")


@dataclasses.dataclass(frozen=True)
class Setup:
    """Two hosts and the paths between them."""

    name: str
    paths: tuple

    def specs(self):
        return [path.spec() for path in self.paths]

    def words(self):
        return " + ".join(path.words() for path in self.paths)

    def rate(self, direction):
        return sum(path.rate(direction) for path in self.paths)

    def ceiling(self, direction):
        """What TCP could carry over all paths at best, in Mbit/s of payload."""
        return self.rate(direction) * PAYLOAD_SHARE

    def is_lossy(self):
        return any(path.loss for path in self.paths)

    def is_traced(self):
        return any(path.trace for path in self.paths)

    def seconds(self, wanted):
        """How long a file should take: the whole period of a trace, else `wanted`."""
        return max(wanted, TRACE_SECONDS) if self.is_traced() else wanted


def both(up, down):
    return f"{up}" if up == down else f"{up}/{down}"


def symmetric(rate, delay, queue=100, loss=0):
    return Path(rate, rate, delay, queue, queue, loss)


FIXED = [
    Setup("50+8", (symmetric(50, 15), symmetric(8, 60))),
    Setup("30+2", (symmetric(30, 30, 50), symmetric(2, 150, 50))),
    Setup("30+5", (symmetric(30, 30, 50), symmetric(5, 100, 50))),
    Setup("100+10", (symmetric(100, 10, 200), symmetric(10, 50))),
    Setup("10+10-loss-1", (symmetric(10, 20, loss=1),) * 2),
    Setup("20-loss-3", (symmetric(20, 10, loss=3),)),
    Setup("400+400", (symmetric(400, 10),) * 2),
    Setup("5+5-satellite", (symmetric(5, 300), symmetric(5, 30))),
    Setup("20+10", (symmetric(20, 10), symmetric(10, 40))),
    Setup("50:2+20:1", (Path(50, 2, 15), Path(20, 1, 40))),
    Setup("16:1+16:1", (Path(16, 1, 15), Path(16, 1, 40))),
]


def all_setups(seed, count):
    """The fixed set-ups, as many drawn ones as make `count`, and those with traces. Each is drawn on its own, so
    that another count leaves them as they are."""
    steady = [drawn(seed, number) for number in range(count - len(FIXED))]
    return FIXED + steady + [traced(seed, number) for number in range(TRACED)]


def drawn(seed, number):
    kind = KINDS[number % len(KINDS)]
    # Half of each kind has losses.
    lossy = (number // len(KINDS) + number % len(KINDS)) % 2 == 1
    draw = Draw(f"{seed}/{number}", lossy)
    paths = {
        "pair": lambda: [draw.path(), draw.path()],
        "asymmetric": lambda: [draw.path(uplink=True), draw.path(uplink=True)],
        "triple": lambda: [draw.path() for _ in range(3)],
        "equal": lambda: [draw.path(most=MAX_SUM_MBIT / 2)] * 2,
        "satellite": lambda: [draw.path(delay=300, most=100), draw.path()],
    }[kind]()
    return Setup(f"{kind}-{seed}.{number + 1}", tuple(within_limit(paths)))


def traced(seed, number):
    draw = Draw(f"{seed}/traced/{number}", False)
    models = draw.random.sample(MODELS, 2)
    paths = [draw.path(most=100) for _ in models]
    paths = [dataclasses.replace(path, trace=(model, number + 1)) for path, model in zip(paths, models)]
    return Setup(f"traced-{seed}.{number + 1}", tuple(paths))


class Draw:
    """Draws paths; the same text as `seed` draws the same ones on every machine."""

    def __init__(self, seed, lossy):
        self.random = random.Random(seed)
        self.lossy = lossy

    def log_uniform(self, least, most):
        return math.exp(math.log(least) + self.random.random() * math.log(most / least))

    def path(self, delay=None, most=MAX_SUM_MBIT, uplink=False):
        down = rounded(self.log_uniform(2, most))
        up = rounded(down / self.log_uniform(2, 30)) if uplink else down
        delay = delay or rounded(self.log_uniform(1, 150), 2)
        queue_down = self.queue(down, delay)
        queue_up = self.queue(up, delay) if uplink else queue_down
        loss = round(0.05 + 2.95 * self.random.random(), 2) if self.lossy else 0
        return Path(down, up, delay, queue_down, queue_up, loss)

    def queue(self, rate, delay):
        """From 20 packets to four bandwidth-delay products."""
        product = rate * 1e6 * 2 * delay * 1e-3 / 8 / PACKET
        return int(rounded(self.log_uniform(20, max(4 * product, 40)), 2))


def within_limit(paths):
    excess = max(sum(path.down for path in paths) / MAX_SUM_MBIT, 1)
    if excess == 1:
        return paths
    return [dataclasses.replace(path, down=rounded(path.down / excess), up=rounded(path.up / excess)) for path in paths]


def rounded(value, digits=3):
    return float(f"{value:.{digits}g}")
