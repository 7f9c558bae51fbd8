"""Simulates a small scenario and reads what comes out.

MANYPATH_LAB is the program to use (manypath-lab): python3 -m unittest discover -s python/tests
"""

import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
import manypath_sim as sim  # noqa: E402

SCENARIO = """
name = "small"
seeds = 2
measure = "1s"
[[path]]
rate = "5mbit"
delay = "5ms"
[[app]]
kind = "saturated"
[[case]]
name = "lossy, slow"
set = { "path.A.loss" = 0.02 }
[[case]]
name = "plain"
"""


def simulate(folder, *options):
    program = os.environ.get("MANYPATH_LAB", "manypath-lab")
    command = [program, "sim", "run", "small.toml", "--output", "results", *options]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "results"


class ResultsOfTheProgram(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "small.toml").write_text(SCENARIO)

    def test_rows_are_those_of_the_csv_file(self):
        results = simulate(self.folder, "--series", "100ms")
        runs = sim.read_runs(results)
        with open(results / "results.csv", newline="") as file:
            expected = list(csv.DictReader(file))
        self.assertEqual(len(runs), 4)
        for row, told in zip(sim.rows(runs), expected):
            self.assertEqual(list(row), list(told))
            for name, value in row.items():
                if isinstance(value, str):
                    self.assertEqual(value, told[name], name)
                elif told[name]:
                    self.assertTrue(math.isclose(value, float(told[name]), rel_tol=1e-5), (name, value, told[name]))
                else:
                    self.assertTrue(math.isnan(value), name)
        self.assertEqual((runs[0].case, runs[0].seed, runs[0].parameters["path.A.loss"]), ("lossy, slow", 1, 0.02))
        series = sim.read_series(results, runs[3])
        times = [moment["time_s"] for moment in series]
        self.assertEqual(times, sorted(times))
        self.assertGreater(len(times), 8)
        self.assertGreater(max(moment["A_cwnd"] for moment in series), 1452)

    def test_shards_are_merged_in_the_order_of_the_plan(self):
        for shard in ("1/2", "0/2"):
            results = simulate(self.folder, "--shard", shard)
        runs = sim.read_runs(results)
        self.assertEqual([run.index for run in runs], [0, 1, 2, 3])
        # The same runs again, and a line that a crash has cut off.
        journal = results / "runs-0-of-2.jsonl"
        cut = self.folder / "cut.jsonl"
        cut.write_text(journal.read_text() + json.dumps({"id": "x"})[:5])
        self.assertEqual(sim.read_runs(results, cut), runs)
        self.assertEqual([run.index for run in sim.read_runs(cut)], [0, 2])


class Statistics(unittest.TestCase):
    def test_a_folder_without_runs_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(FileNotFoundError, "no runs"):
            sim.read_runs(folder)

    def test_the_interval_is_that_of_the_textbook(self):
        mean = sim.mean_ci95([4, 5, 6, 7, math.nan])
        self.assertEqual((mean.mean, mean.count), (5.5, 4))
        self.assertAlmostEqual(mean.ci95, 3.182 * 1.290994 / 2, places=5)
        self.assertEqual(sim.mean_ci95([3]), (3, 0, 1))
        self.assertAlmostEqual(sim._student_t_975(120), 1.980, places=3)
        with self.assertRaises(ValueError):
            sim.mean_ci95([math.nan])


if __name__ == "__main__":
    unittest.main()
