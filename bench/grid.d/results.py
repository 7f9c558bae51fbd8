"""Tables of measurements below docs/results/bench."""

import os
import sys

import own

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def write(title, said, *tables, how=f" manypath is {own.SAID}."):
    """Writes what the running script has measured, with its command and the load of the machine, into the page of its name.
    A script that measures manypath both ways has columns that say so, and no `how`."""
    name = os.path.basename(sys.argv[0])
    variable = [f"ENCRYPT={os.environ['ENCRYPT']}"] if "ENCRYPT" in os.environ else []
    command = " ".join([*variable, f"bench/{name}", *sys.argv[1:]])
    text = [f"# {title}", "", "```", command, "```", "", f"{said}{how} Load of the machine at the end: {os.getloadavg()[1]:.1f}.", ""]
    for lines in tables:
        text += [*lines, ""]
    with open(os.path.join(ROOT, f"docs/results/bench/{name}.md"), "w") as file:
        file.write("\n".join(text))
