"""What processes have used so far."""

import os

TICK = os.sysconf("SC_CLK_TCK")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def family(pids):
    """The processes and all below them."""
    found = list(pids)
    for pid in found:
        found += children(pid)
    return found


def used(pids):
    """Seconds of user and system time, and voluntary context switches."""
    seconds, switches = 0, 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            seconds += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / TICK
        with open(f"/proc/{pid}/status") as file:
            switches += next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return seconds, switches
