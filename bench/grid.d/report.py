"""Medians of the runs, what manypath wins and loses, and how that is written."""

import csv
import json
import os
import re
import statistics
import subprocess

from lab import ROOT
from own import SAID

RIVALS = ["tcp", "mptcp", "agg"]
ALONE = ["association", "encrypted"]
FAMILIES = [*RIVALS, "manypath", *ALONE]
NAMES = {"tcp": "TCP on one path", "mptcp": "MPTCP", "agg": "aggligator"}
HOW = "../../../bench/README.md#the-grid-the-whole-product-beside-its-rivals"
# Less than this is a loss: rounded to two digits it is 0.99 at most.
LOST = 0.995


def read(file):
    if not os.path.exists(file):
        return []
    with open(file) as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


class Row:
    """A set-up in one direction: of each family the best rival, with the median of its runs."""

    def __init__(self, setup, measure, direction, entries):
        self.setup, self.measure, self.direction = setup, measure, direction
        self.ceiling, self.best, self.runs, self.cut = setup.ceiling(direction), {}, {}, set()
        for name in dict.fromkeys(entry["rival"] for entry in entries):
            own = [entry for entry in entries if entry["rival"] == name]
            self.runs[name] = len(own)
            self.cut |= {name} if any(entry["cut"] for entry in own) else set()
            self.offer(name, statistics.median(entry["mbps"] for entry in own))

    def offer(self, name, mbps):
        family = name.split("-")[0]
        if mbps > self.best.get(family, ("", -1))[1]:
            self.best[family] = (name, mbps)

    def mbps(self, family):
        return self.best[family][1] if family in self.best else None

    def ratio(self, to):
        """What manypath has over another family, or over the sum of the ceilings."""
        own, other = self.mbps("manypath"), self.ceiling if to == "ceiling" else self.mbps(to)
        return own / other if own is not None and other else None

    def lost_to(self):
        """The rivals that carried more, the best of them first."""
        ratios = {to: self.ratio(to) for to in RIVALS}
        return sorted((to for to, ratio in ratios.items() if ratio and ratio < LOST), key=ratios.get)

    def words(self, family):
        if family not in self.best:
            return "–"
        name, mbps = self.best[family]
        kind = name[len(family) + 1:].replace("-", " ")
        return f"{digits(mbps)}" + (f" {kind}" if kind else "") + ("†" if name in self.cut else "")


def kind(entry):
    """Whether a run of manypath was encrypted. Before it could be, runs did not say."""
    return entry.get("manypath", "plain")


class Results:
    """What was measured of these set-ups."""

    def __init__(self, entries, setups):
        known = {json.dumps(setup.specs()): setup for setup in setups}
        kinds = {kind(entry) for entry in entries if entry["rival"] == "manypath"}
        # Plain runs and encrypted ones are two things: those of the present kind count, if there are any.
        self.kind = SAID if SAID in kinds else next(iter(kinds), SAID)
        fits = [entry for entry in entries if entry["rival"] != "manypath" or kind(entry) == self.kind]
        # Of a run that was made again the last one counts.
        runs = {json.dumps(entry["key"]): entry for entry in fits if json.dumps(entry["paths"]) in known}
        self.entries = [entry for entry in runs.values() if "error" not in entry]
        self.failures = [entry for entry in runs.values() if "error" in entry]
        groups = {}
        for entry in self.entries:
            if entry["measure"] != "ping":
                key = (json.dumps(entry["paths"]), entry["measure"], entry["direction"])
                groups.setdefault(key, []).append(entry)
        order = [json.dumps(setup.specs()) for setup in setups]
        keys = sorted(groups, key=lambda key: (key[1], key[2], order.index(key[0])))
        self.rows = [Row(known[paths], measure, way, groups[paths, measure, way]) for paths, measure, way in keys]
        self.setups = setups

    def page(self):
        parts = [self.heading(), self.losses(), self.medians()]
        for measure, direction, title in TABLES:
            rows = [row for row in self.rows if (row.measure, row.direction) == (measure, direction)]
            parts += [f"## {title}\n\n{table(rows)}"] if rows else []
        parts += [self.pings(), self.failed(), self.places()]
        return "\n\n".join(part for part in parts if part) + "\n"

    def heading(self):
        if not self.entries:
            return "# The grid\n\nNothing was measured yet."
        loads = [entry["load"] for entry in self.entries]
        builds = sorted({entry["build"] for entry in self.entries if entry["rival"] in ["manypath", *ALONE]})
        rivals = ", ".join(sorted({re.sub("-[A-Z]$", "", name) for row in self.rows for name in row.runs}))
        counts = sorted({count for row in self.rows for count in row.runs.values()})
        runs = "-".join(str(count) for count in dict.fromkeys([counts[0], counts[-1]])) if counts else "no"
        return (
            "# The grid\n\n"
            "Downloads and uploads of one file by curl and nginx over emulated paths: goodput in Mbit/s from the start of\n"
            f"the program to its end; runs of each rival: {runs}, of which the median counts. Written by\n"
            f"`bench/grid --report --write` ([how it is measured]({HOW})).\n\n"
            f"* Measured: {rivals}; a dash marks what was not measured.\n"
            f"* Build of manypath, {self.kind}: {', '.join(builds) or 'not measured'}.\n"
            f"* Load of the machine meanwhile: {min(loads):.1f} to {max(loads):.1f}, the measurement included.\n"
            "* `association`: the engine over UDP sockets alone, plain, from its opening on. `encrypted`: the same with the key\n"
            "  exchange and the DTLS chunks of manypath, from its INIT on.\n"
            "* †: a run was ended at its limit, and counts with what had arrived."
        )

    def losses(self):
        judged = [row for row in self.rows if any(row.ratio(to) for to in RIVALS)]
        lost = sorted((row for row in judged if row.lost_to()), key=lambda row: row.ratio(row.lost_to()[0]))
        if not judged:
            return ""
        far = sum(row.ratio(row.lost_to()[0]) < 0.97 for row in lost)
        lines = [
            f"## Where manypath loses\n\n{len(lost)} of {len(judged)} points, {far} of them by more than 3 %,"
            " those furthest behind first.\n"
        ]
        if lost:
            lines += ["| set-up | | manypath | loses to |", "|---|---|---|---|"]
        for row in lost:
            what = row.direction + ("" if row.measure == "bulk" else ", 1 MB")
            to = "; ".join(f"{NAMES[name]} {row.words(name)} ({row.ratio(name):.2f})" for name in row.lost_to())
            lines.append(f"| {row.setup.name} | {what} | {row.words('manypath')} | {to} |")
        return "\n".join(lines)

    def medians(self):
        lines = ["## Medians of the ratios\n", f"| set-ups | | n |{''.join(f' to {name} |' for name, _ in COLUMNS)}"]
        lines.append("|---|---|---|" + "---|" * len(COLUMNS))
        for (measure, direction, title), (name, fits) in ((one, group) for one in TABLES for group in GROUPS):
            rows = [row for row in self.rows if (row.measure, row.direction) == (measure, direction)]
            rows = [row for row in rows if fits(row.setup) and row.mbps("manypath") is not None]
            if rows:
                ratios = "".join(f" {middle([row.ratio(to) for row in rows])} |" for _, to in COLUMNS)
                lines.append(f"| {name} | {title} | {len(rows)} |{ratios}")
        return "\n".join(lines) if len(lines) > 3 else ""

    def pings(self):
        found = {}
        for entry in self.entries:
            if entry["measure"] == "ping":
                found.setdefault((entry["setup"], entry["rival"]), []).append(entry)
        if not found:
            return ""
        lines = ["## Answers of 64 bytes beside a download\n"]
        lines.append("| set-up | rival | p50 ms | p90 | p99 | download Mbit/s |")
        lines.append("|---|---|---|---|---|---|")
        for (setup, rival), runs in found.items():
            values = [f"{statistics.median(run[name] for run in runs):.1f}" for name in ["p50", "p90", "p99", "mbps"]]
            lines.append(f"| {setup} | {rival} | {' | '.join(values)} |")
        return "\n".join(lines)

    def failed(self):
        if not self.failures:
            return ""
        told = lambda one: " ".join(one["error"].split())[:200]
        rows = [f"* {one['setup']} {one['direction']} {one['rival']}: {told(one)}" for one in self.failures]
        return "## Runs without a result\n\n" + "\n".join(rows)

    def places(self):
        used = [setup for setup in self.setups if any(row.setup is setup for row in self.rows)]
        rows = [f"| {setup.name} | {setup.words()} |" for setup in used]
        head = "## Set-ups\n\nRates down/up, delay one way, queue in packets, loss both ways.\n\n"
        return f"{head}| name | paths |\n|---|---|\n" + "\n".join(rows) if rows else ""

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "README.md"), "w") as file:
            picture = "![Ratios of manypath to its rivals](grid.svg)"
            file.write(self.page().replace("\n\n## ", f"\n\n{picture}\n\n## ", 1))
        with open(os.path.join(folder, "grid.json"), "w") as file:
            kept = [{key: value for key, value in entry.items() if key != "key"} for entry in self.entries]
            file.write("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
        with open(os.path.join(folder, "grid.csv"), "w", newline="") as file:
            self.write_csv(csv.writer(file, lineterminator="\n"))
        draw = ["run", "-q", "--release", "-p", "manypath-sim", "--example", "grid_chart", "--", folder]
        subprocess.run([os.environ.get("CARGO", "cargo"), *draw], cwd=ROOT, check=True)

    def write_csv(self, out):
        out.writerow(["setup", "measure", "direction", "ceiling", *FAMILIES])
        for row in self.rows:
            values = [row.mbps(family) for family in FAMILIES]
            texts = ["" if value is None else f"{value:.3f}" for value in [row.ceiling, *values]]
            out.writerow([row.setup.name, row.measure, row.direction, *texts])


TABLES = [
    ("bulk", "down", "Download"), ("bulk", "up", "Upload"),
    ("short", "down", "Download of 1 MB"), ("short", "up", "Upload of 1 MB"),
]
COLUMNS = [
    ("TCP", "tcp"), ("MPTCP", "mptcp"), ("agg", "agg"), ("sum", "ceiling"), ("association", "association"),
    ("encrypted", "encrypted"),
]
GROUPS = [
    ("all", lambda setup: True), ("without loss", lambda setup: not setup.is_lossy() and not setup.is_traced()),
    ("with loss", lambda setup: setup.is_lossy()), ("with traces", lambda setup: setup.is_traced()),
]


def table(rows):
    lines = ["| set-up | TCP, best path | MPTCP | aggligator | manypath | association | encrypted | sum of ceilings |"]
    lines[0] += "".join(f" to {name} |" for name, _ in COLUMNS)
    lines.append("|---" * (8 + len(COLUMNS)) + "|")
    for row in rows:
        values = [row.words(family) for family in FAMILIES] + [digits(row.ceiling)]
        ratios = [shown(row.ratio(to), to in RIVALS) for _, to in COLUMNS]
        lines.append(f"| {row.setup.name} | {' | '.join(values + ratios)} |")
    return "\n".join(lines)


def shown(ratio, bold):
    return "–" if ratio is None else f"**{ratio:.2f}**" if bold and ratio < LOST else f"{ratio:.2f}"


def middle(ratios):
    there = [ratio for ratio in ratios if ratio is not None]
    return f"{statistics.median(there):.2f}" if there else "–"


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
