//! Programs of other users under a launcher of root's, whose memory may be their own trap; and calls that go past
//! the shim.

use crate::harness::{Test, Verdict};
use crate::launch::{Done, Shim};
use crate::network::Network;
use crate::python::client;

pub(crate) const TESTS: &[Test] = &[
    ("memory_that_blocks_keeps_its_own_user_waiting_alone", blocking_memory),
    ("a_file_system_that_does_not_answer_keeps_its_own_user_waiting_alone", blocking_file),
    ("programs_of_another_user_connect_send_and_ask", another_user),
    ("connects_of_32_bit_programs_are_counted", other_abi),
    ("io_uring_is_counted", io_uring),
];

fn run(text: &str) -> Done {
    let words = client(text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Shim::default().run(&words).expect_status(0)
}

/// A page of the program that is never filled: whoever reads it waits.
const BLOCKING: &str = "
def blocking_page():
    libc.mmap.restype = ctypes.c_void_p
    number = {'x86_64': 323, 'aarch64': 282}[os.uname().machine]
    fd = libc.syscall(number, os.O_CLOEXEC | os.O_NONBLOCK)
    assert fd >= 0, 'userfaultfd'
    api = ctypes.create_string_buffer(struct.pack('=QQQ', 0xaa, 0, 0))
    assert libc.ioctl(fd, ctypes.c_ulong(0xc018aa3f), api) == 0
    page = libc.mmap(None, 4096, 3, 0x22, -1, 0)
    register = ctypes.create_string_buffer(struct.pack('=QQQQ', page, 4096, 1, 0))
    assert libc.ioctl(fd, ctypes.c_ulong(0xc020aa00), register) == 0
    return page
helpers = []
def become_another():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
";

fn blocking_memory(network: &Network) -> Verdict {
    keep_waiting(network, "page_of = blocking_page")
}

/// A file system of one file, in which nothing is ever read.
const FILE_SYSTEM: &str = "
def serve_file(folder):
    fd = os.open('/dev/fuse', os.O_RDWR)
    libc.unshare(0x20000)
    libc.mount(b'none', b'/', None, 0x44000, None)
    how = f'fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other'
    assert libc.mount(b'test', folder.encode(), b'fuse', 0, how.encode()) == 0, 'fuse'
    def attributes(node):
        mode = 0o40755 if node == 1 else 0o100644
        return struct.pack('=6Q10I', node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
    def serve():
        while True:
            request = os.read(fd, 1 << 18)
            _, call, unique, node = struct.unpack_from('=IIQQ', request)
            answers = {
                26: struct.pack('=4I2H2I2H8I', 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, *[0] * 8),
                1: struct.pack('=4Q2I', 2, 1, 99, 99, 0, 0) + attributes(2),
                3: struct.pack('=Q2I', 99, 0, 0) + attributes(node),
                14: bytes(16),
            }
            if call in answers:
                os.write(fd, struct.pack('=IiQ', 16 + len(answers[call]), 0, unique) + answers[call])
            elif call not in (2, 15, 36, 42):
                os.write(fd, struct.pack('=IiQ', 16, -38, unique))
    # Whoever else had the descriptor would keep the file system alive, and with it all who wait for it.
    server = os.fork()
    if server == 0:
        serve()
    os.close(fd)
    helpers.append(server)
    file = os.open(folder + '/file', os.O_RDONLY)
    libc.mmap.restype = ctypes.c_void_p
    return libc.mmap(None, 4096, 1, 1, file, 0)
";

fn blocking_file(network: &Network) -> Verdict {
    if !std::path::Path::new("/dev/fuse").exists() {
        return Verdict::Skipped("needs /dev/fuse".into());
    }
    let begin = format!(
        "{FILE_SYSTEM}
import tempfile
folder = tempfile.mkdtemp()
page = serve_file(folder)
page_of = lambda: page"
    );
    keep_waiting(network, &begin)
}

/// Programs of another user let the launcher read from `page`; root's own goes on.
fn keep_waiting(network: &Network, begin: &str) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("needs root".into());
    }
    let done = run(&format!(
        "{BLOCKING}{begin}
def wait_for_ever(call):
    pid = os.fork()
    if pid == 0:
        own = page_of()
        become_another()
        s = tcp()
        call(s, own)
        os._exit(1)
    return pid
def connect(s, page):
    libc.connect(s.fileno(), ctypes.c_void_p(page), 16)
def name_of(s, page):
    begin(s, ECHO)
    room = ctypes.c_int(16)
    libc.getpeername(s.fileno(), ctypes.c_void_p(page), ctypes.byref(room))
waiting = [wait_for_ever(call) for call in [connect, name_of] * 20]
time.sleep(1)
begun = time.time()
for _ in range(3):
    s = tcp()
    show(begin(s, ECHO), s.getpeername()[0], echo(s))
show(time.time() - begun < 20)
for pid in helpers + waiting:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
show('over')"
    ));
    let expected = ["0 10.99.0.2 True\n".repeat(3), "True\nover\n".into()].concat();
    assert_eq!(done.stdout, expected, "{done:#?}");
    Verdict::Passed
}

fn another_user(network: &Network) -> Verdict {
    if !network.real_root {
        return Verdict::Skipped("needs root".into());
    }
    let text = format!(
        "{BLOCKING}
become_another()
s = tcp(False)
show(begin(s, ECHO), wait(s), error(s), s.getpeername(), s.getsockname()[0], echo(s))
s = tcp(False)
show(begin(s, CLOSED), wait(s), error(s))
s = tcp()
show(s.sendto(b'he', socket.MSG_FASTOPEN, (FAR, ECHO)), s.sendmsg([b'l', b'lo']))
s.shutdown(socket.SHUT_WR)
show(s.recv(99, socket.MSG_WAITALL))
s = tcp()
show(s.sendmsg([b'hel', b'lo'], [], socket.MSG_FASTOPEN, (FAR, ECHO)))
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)
show(s.getsockopt(socket.IPPROTO_IP, socket.IP_TOS), s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > 0)
show(libc.getpeername(s.fileno(), ctypes.c_void_p(8), ctypes.byref(ctypes.c_int(16))), name(ctypes.get_errno()))
s = tcp()
show(libc.connect(s.fileno(), ctypes.c_void_p(8), 16), name(ctypes.get_errno()))"
    );
    let done = run(&text);
    let expected = "EINPROGRESS ['0x4'] 0 ('10.99.0.2', 7003) 10.99.0.1 True\n\
                    EINPROGRESS ['0x1c'] ECONNREFUSED\n2 3\nb'hello'\n5\n16 True\n\
                    -1 EFAULT\n-1 EFAULT\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
    assert_eq!(done.count("sctp"), 3, "{done:#?}");
    Verdict::Passed
}

/// The way by which 32-bit programs enter the kernel is open to all programs on x86.
fn other_abi(_: &Network) -> Verdict {
    if !cfg!(target_arch = "x86_64") {
        return Verdict::Skipped("needs x86-64".into());
    }
    let done = run("
import mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex('53 89f8 89f3 4189c8 89d1 4489c2 cd80 5b c3'))
call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 4)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
libc.mmap.restype = ctypes.c_void_p
low = libc.mmap(None, 4096, 3, 0x62, -1, 0)
address = struct.pack('=H', 2) + struct.pack('!H4s8x', ECHO, socket.inet_aton(FAR))
ctypes.memmove(low, address, 16)
if call(20, 0, 0, 0) != os.getpid():
    sys.exit(77)
s = tcp()
show(call(362, s.fileno(), low, 16), echo(s))
s = tcp()
ctypes.memmove(low + 64, struct.pack('=III', s.fileno(), low, 16), 12)
show(call(102, 3, low + 64, 0), echo(s))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
show(call(362, s.fileno(), low, 16))");
    assert_eq!(done.stdout, "0 True\n0 True\n0\n", "{done:#?}");
    assert_eq!((done.count("32-bit"), done.count("opened")), (2, 0), "{done:#?}");
    Verdict::Passed
}

fn io_uring(_: &Network) -> Verdict {
    let done = run("
parameters = ctypes.create_string_buffer(256)
show([libc.syscall(425, 1, parameters) for _ in range(2)], name(ctypes.get_errno()))");
    assert_eq!(done.stdout, "[-1, -1] ENOSYS\n", "{done:#?}");
    assert!(done.report.contains("; io_uring hidden=2 (--allow-io-uring)"), "{done:#?}");
    Verdict::Passed
}
