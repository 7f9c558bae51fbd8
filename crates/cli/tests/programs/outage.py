"""Connects every ten milliseconds and kills somebody meanwhile, or stops it for four seconds: outage.py HOST PORT PID SIGNAL

Prints, as JSON, how many connects succeeded before and after, how long after the signal the last connect began
that failed or took more than a quarter second, how many failed, and what became of those that were under way then.
"""
import json
import os
import signal
import socket
import sys
import threading
import time

host, port, pid, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), getattr(signal, "SIG" + sys.argv[4])
BEFORE, AFTER, SLOW = 1.0, 4.0, 0.25
attempts = []


def attempt(begun):
    try:
        with socket.create_connection((host, port), timeout=20):
            attempts.append((begun, time.monotonic() - begun, "connected"))
    except OSError as error:
        attempts.append((begun, time.monotonic() - begun, type(error).__name__))


threads, start, killed = [], time.monotonic(), None
while time.monotonic() < start + BEFORE + AFTER:
    if killed is None and time.monotonic() >= start + BEFORE:
        killed = time.monotonic()
        os.kill(pid, number)
    threads.append(threading.Thread(target=attempt, args=(time.monotonic(),)))
    threads[-1].start()
    time.sleep(0.01)
if number == signal.SIGSTOP:
    os.kill(pid, signal.SIGCONT)
for thread in threads:
    thread.join()

bad = [one for one in attempts if one[2] != "connected" or one[1] > SLOW]
after = [one for one in bad if one[0] >= killed]
under_way = [one for one in attempts if one[0] < killed < one[0] + one[1]]
print(json.dumps({
    "before": sum(one[2] == "connected" for one in attempts if one[0] < killed - SLOW),
    "after": sum(one[2] == "connected" for one in attempts if one[0] >= killed + 1),
    "recovered_ms": round(1000 * max((begun - killed for begun, _, _ in after), default=0), 1),
    "failed_after": len(after),
    "failed": sum(one[2] != "connected" for one in attempts),
    "under_way": sorted({(how, round(took, 1)) for _, took, how in under_way}),
    "bad_before": [one for one in bad if one[0] < killed and one not in under_way],
}))
