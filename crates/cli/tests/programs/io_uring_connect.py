"""Connects by io_uring, which no system call filter sees, and fetches a file. Prints the result of the
connect, the peer's name and whether the answer was a page. Arguments: address and port."""
import ctypes, mmap, socket, struct, sys

SETUP, ENTER, CONNECT, GETEVENTS = 425, 426, 16, 1
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
params = ctypes.create_string_buffer(120)
ring = libc.syscall(SETUP, 4, params)
if ring < 0:
    sys.exit(f"io_uring_setup: {ctypes.get_errno()}")
sq_entries, cq_entries = struct.unpack_from("II", params, 0)
sq_head, sq_tail, sq_mask, _, _, _, sq_array = struct.unpack_from("7I", params, 40)
cq_head, cq_tail, cq_mask, _, _, cqes = struct.unpack_from("6I", params, 80)
sq = mmap.mmap(ring, sq_array + 4 * sq_entries, offset=0)
cq = mmap.mmap(ring, cqes + 16 * cq_entries, offset=0x8000000)
entries = mmap.mmap(ring, 64 * sq_entries, offset=0x10000000)

s = socket.socket()
host, port = sys.argv[1], int(sys.argv[2])
address = ctypes.create_string_buffer(struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(host)), 16)
# opcode, flags, ioprio, fd, off (length of the address), addr, len
entries[0:64] = struct.pack("=BBHiQQI", CONNECT, 0, 0, s.fileno(), 16, ctypes.addressof(address), 0).ljust(64, b"\0")
sq[sq_array:sq_array + 4] = struct.pack("=I", 0)
sq[sq_tail:sq_tail + 4] = struct.pack("=I", 1)
if libc.syscall(ENTER, ring, 1, 1, GETEVENTS, None, 0) < 0:
    sys.exit(f"io_uring_enter: {ctypes.get_errno()}")
_, result = struct.unpack_from("=Qi", cq, cqes)
s.sendall(b"GET /small HTTP/1.0\r\n\r\n")
answer = b""
while piece := s.recv(65536):
    answer += piece
print(result, *s.getpeername(), b"200 OK" in answer)
