"""Objects of eBPF by the numbers that the kernel gives them. "of PID" prints those that a process holds;
"alive KIND:NUMBER..." prints those of them that still exist."""
import ctypes, os, platform, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
BY_NUMBER = {"prog": 13, "map": 14, "link": 30}

if sys.argv[1] == "of":
    folder = f"/proc/{sys.argv[2]}/fdinfo"
    for fd in os.listdir(folder):
        try:
            lines = open(f"{folder}/{fd}").readlines()
        except FileNotFoundError:
            # Closed since it was listed.
            continue
        for line in lines:
            kind, _, number = line.partition("_id:")
            # A link tells the number of its program, too.
            if number and kind in BY_NUMBER:
                print(f"{kind}:{number.strip()}")
else:
    for one in sys.argv[2:]:
        kind, number = one.split(":")
        attributes = ctypes.create_string_buffer(struct.pack("=IIII", int(number), 0, 0, 0), 16)
        if libc.syscall(BPF, BY_NUMBER[kind], attributes, 16) >= 0:
            print(one)
