"""What manypath keeps while it is measured: files of its own, and whether it encrypts."""

import os

# A value of the setting `encrypt`, for all scripts. Both ends can, so that `opportunistic` and `require` are the same.
ENCRYPT = os.environ.get("ENCRYPT", "opportunistic")
SAID = "plain" if ENCRYPT == "off" else "encrypted"
FILES = ["KEYS", "PATHS", "PEERS", "RULES", "RUNTIME_DIR", "SYSCTL"]


def environment(folder):
    """Stacks keep to files in `folder`: they leave nothing behind, also to the next run."""
    os.makedirs(folder, exist_ok=True)
    files = {f"MANYPATH_{name}": os.path.join(folder, name.lower()) for name in FILES}
    with open(files["MANYPATH_SYSCTL"], "w") as file:
        file.write(f"encrypt = {ENCRYPT}\n")
    return {**os.environ, **files}
