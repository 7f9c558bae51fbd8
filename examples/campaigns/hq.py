#!/usr/bin/env python3
"""Does the runs of a scenario by HyperQueue, one run a task, and merges them into FOLDER/merged:

    hq.py scenario.toml --output FOLDER

The arguments are those of `manypath-lab sim plan`; all workers must see FOLDER at the same place. Needs the package
hyperqueue of PyPI in the version of the server, `hq server start`, and its workers.
"""

import json
import os
import shlex
import subprocess
import sys

from hyperqueue import Client, Job

plan = json.loads(subprocess.check_output(["manypath-lab", "sim", "plan", *sys.argv[1:], "--json"]))
job = Job(default_workdir=os.getcwd(), name=plan["scenario"])
for run in plan["runs"]:
    job.program(shlex.split(run["command"]))
client = Client()
client.wait_for_jobs([client.submit(job)])
journals = [run["journal"] for run in plan["runs"]]
subprocess.run(["manypath-lab", "sim", "merge", *journals, "--output", plan["folder"] + "/merged"], check=True)
