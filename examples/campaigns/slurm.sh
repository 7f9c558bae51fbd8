#!/usr/bin/env bash
# Does the runs of a scenario by Slurm, one run a task, and merges them into FOLDER/merged:
#
#     slurm.sh scenario.toml --output FOLDER
#
# The arguments are those of `manypath-lab sim plan`; all nodes must see FOLDER at the same place. The environment chooses
# partition and limits (SBATCH_PARTITION, SBATCH_TIMELIMIT, see sbatch(1)).
set -euo pipefail
plan=$(manypath-lab sim plan "$@" --json)
list() { python3 -c "import json, sys; plan = json.load(sys.stdin); print(*$1, sep='\n')" <<<"$plan"; }
folder=$(list '[plan["folder"]]')
mkdir -p "$folder"
list '[run["command"] for run in plan["runs"]]' >"$folder/commands"
last=$(($(wc -l <"$folder/commands") - 1))
# Waits, and fails if a task has failed. The log of each task lies beside its results.
sbatch --wait --array="0-$last" --cpus-per-task=1 --job-name=manypath --output="$folder/slurm-%a.log" \
    --wrap "sed -n \$((SLURM_ARRAY_TASK_ID + 1))p $(printf %q "$folder")/commands | sh"
mapfile -t journals < <(list '[run["journal"] for run in plan["runs"]]')
manypath-lab sim merge "${journals[@]}" --output "$folder/merged"
