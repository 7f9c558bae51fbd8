"""Read the results of `manypath-lab sim`.

    runs = read_runs("results")     # a folder with runs*.jsonl, or such a file; several are merged
    table = frame(runs)             # a pandas.DataFrame with the columns of results.csv

Times are in seconds, rates in bit/s, sizes in bytes, unless a name tells another unit (`delay_ms`, `throughput_mbps`).
"""

import csv
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Union

__all__ = ["Run", "Mean", "read_runs", "rows", "frame", "read_series", "mean_ci95"]

Value = Union[int, float, str]


@dataclass(frozen=True)
class Run:
    """A simulated run: one line of runs.jsonl, one row of results.csv."""

    id: str
    """Stands for what was simulated and by which version."""
    index: int
    """Place in the plan of the scenario, from 0."""
    scenario: str
    setup: str
    """Empty if the scenario has no setups."""
    case: str
    """Empty if the scenario has no cases."""
    seed: int
    parameters: Dict[str, Value]
    figures: Dict[str, float]
    """Not a number where a run has no value."""
    trace_hash: str
    """Stands for every packet of the run."""
    failure: str
    """Why the association ended early; empty if it did not."""
    version: str
    """Version of the simulator."""


def read_runs(*results: Union[str, Path]) -> List[Run]:
    """Return the runs in folders or files, each once, in the order of their plan, as `manypath-lab sim merge` does.

    Raises FileNotFoundError if a folder has no runs. A line that was cut off by a crash is left out.
    """
    found = {}
    for journal in (journal for result in results for journal in _journals(Path(result))):
        for line in journal.read_text(encoding="utf-8").splitlines():
            try:
                run = _run(json.loads(line))
            except (ValueError, KeyError):
                continue
            found[run.index, run.id] = run
    return [run for _, run in sorted(found.items())]


def rows(runs: Iterable[Run]) -> List[Dict[str, Any]]:
    """Return one flat dictionary a run, whose keys are the columns of results.csv that the run has."""
    return [
        {
            "id": run.id,
            "index": run.index,
            "scenario": run.scenario,
            "setup": run.setup,
            "case": run.case,
            "seed": run.seed,
            **run.parameters,
            "trace_hash": run.trace_hash,
            "failure": run.failure,
            **run.figures,
        }
        for run in runs
    ]


def frame(runs: Iterable[Run]):
    """Return the rows as a pandas.DataFrame. Needs pandas."""
    import pandas

    return pandas.DataFrame(rows(runs))


def read_series(folder: Union[str, Path], run: Run) -> List[Dict[str, float]]:
    """Return the time series of a run that was done with `--series`: one dictionary for each moment."""
    with open(Path(folder) / f"{run.id}.series.csv", encoding="utf-8", newline="") as file:
        return [{name: _float(text) for name, text in row.items()} for row in csv.DictReader(file)]


class Mean(NamedTuple):
    """The mean of several runs."""

    mean: float
    ci95: float
    """Half the width of the 95 % confidence interval (Student's t); 0 for a single value."""
    count: int


def mean_ci95(values: Iterable[float]) -> Mean:
    """Return the mean of the values that are numbers, as the figures of `manypath-lab` show it.

    Raises ValueError if there are none.
    """
    numbers = [float(value) for value in values if math.isfinite(value)]
    count = len(numbers)
    if count == 0:
        raise ValueError("there is no number to take the mean of")
    mean = statistics.fmean(numbers)
    if count == 1:
        return Mean(mean, 0.0, 1)
    return Mean(mean, _student_t_975(count - 1) * statistics.stdev(numbers, mean) / math.sqrt(count), count)


def _journals(result: Path) -> List[Path]:
    if not result.is_dir():
        return [result]
    journals = sorted(result.glob("runs*.jsonl"))
    if not journals:
        raise FileNotFoundError(f"{result}: no runs*.jsonl in it")
    return journals


def _run(line: Dict[str, Any]) -> Run:
    return Run(
        id=line["id"],
        index=line["index"],
        scenario=line["scenario"],
        setup=line.get("setup", ""),
        case=line["case"],
        seed=line["seed"],
        parameters={name: _value(text) for name, text in line["parameters"]},
        figures={name: math.nan if value is None else value for name, value in line["figures"]},
        trace_hash=line["trace_hash"],
        failure=line["failure"],
        version=line.get("version", ""),
    )


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _float(text: str) -> float:
    return float(text) if text else math.nan


# Quantiles of Student's t distribution for 1 to 30 degrees of freedom, two-sided 95 %.
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def _student_t_975(degrees: int) -> float:
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    # First two terms of the Cornish-Fisher expansion around the normal quantile.
    z, n = 1.959964, degrees
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n * n)
