"""The machine of a guest of User Mode Linux whose process 1 is the program that imports this. The root file system is the
host's, read-only."""
import ctypes
import os
import subprocess
import time
import traceback

FINIT_MODULE = 313  # x86-64, the only machine with this kernel beside i386


def mount(kind, where):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(kind.encode(), where.encode(), kind.encode(), 0, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {where}")


def load(name):
    """Loads a module and what it needs: the guest has no insmod."""
    folder = f"/usr/lib/uml/modules/{os.uname().release}/"
    libc = ctypes.CDLL(None, use_errno=True)
    with open(folder + "modules.dep") as file:
        lines = dict(line.rstrip().split(":", 1) for line in file)
    path = next(path for path in lines if path.endswith(f"/{name}.ko"))
    for module in [*reversed(lines[path].split()), path]:
        descriptor = os.open(folder + module, os.O_RDONLY)
        loaded = libc.syscall(FINIT_MODULE, descriptor, b"", 0)
        if loaded != 0 and ctypes.get_errno() != 17:  # EEXIST: already there
            raise OSError(ctypes.get_errno(), f"finit_module {module}")
        os.close(descriptor)


def ip(command):
    subprocess.run(["ip", *command.split()], check=True)


def begin(temporary):
    """SCTP, and a folder for files that programs make, which hides the host's of that name."""
    mount("proc", "/proc")
    mount("tmpfs", temporary)
    os.environ["TMPDIR"] = temporary
    load("hmac")  # signs the cookies
    load("sctp")
    ip("link set lo up")


def run(main, words):
    """Calls `main` with the words of the command line that are ours, and turns the machine off."""
    try:
        main(*(word for word in words if "=" not in word))  # the kernel adds console=tty0
    except BaseException:
        print("FAILED", traceback.format_exc(), flush=True)
    with open("/proc/sysrq-trigger", "w") as trigger:
        trigger.write("o")
    time.sleep(10)
