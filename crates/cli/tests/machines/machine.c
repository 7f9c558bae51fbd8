/* Runs a command as on a machine that forbids system calls:
 *     machine SPEC... -- COMMAND...
 * SPEC is errno:CALL:NUMBER (the call fails), kill:CALL (the program is killed), reach (pidfd_getfd fails with EPERM for
 * processes, as where ptrace is forbidden), steering (no BPF program chooses among sockets), or listener (a filter with a listener that lets all calls go on). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBER offsetof(struct seccomp_data, nr)
#define FIRST offsetof(struct seccomp_data, args[0])
#define THIRD offsetof(struct seccomp_data, args[2])

static void fail(const char *what)
{
	perror(what);
	exit(99);
}

static int number_of(const char *name, size_t length)
{
	static const struct {
		const char *name;
		int number;
	} calls[] = {
		{ "pidfd_getfd", SYS_pidfd_getfd },	  { "pidfd_open", SYS_pidfd_open },
		{ "process_vm_readv", SYS_process_vm_readv }, { "kcmp", SYS_kcmp },
		{ "seccomp", SYS_seccomp },
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		if (strlen(calls[i].name) == length && !strncmp(calls[i].name, name, length))
			return calls[i].number;
	fprintf(stderr, "machine: no call %s\n", name);
	exit(99);
}

static int install(struct sock_filter *code, unsigned short length, unsigned long flags)
{
	struct sock_fprog program = { .len = length, .filter = code };
	int result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	if (result < 0)
		fail("seccomp");
	return result;
}

static void forbid(int number, unsigned int action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	install(code, 4, 0);
}

static void forbid_reach(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIRST),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	install(code, 6, 0);
}

static void forbid_steering(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, THIRD),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_ATTACH_REUSEPORT_CBPF, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	install(code, 6, 0);
}

static void hand_over(int to, int fd)
{
	char byte = 0, room[CMSG_SPACE(sizeof fd)] = { 0 };
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	if (sendmsg(to, &message, 0) != 1)
		fail("sendmsg");
}

static int take_over(int from)
{
	int fd;
	char byte, room[CMSG_SPACE(sizeof fd)];
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	if (recvmsg(from, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		fail("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

/* Lets all go on that arrives, until nobody is left; ends as the child does. */
static void serve(int listener, pid_t child)
{
	for (;;) {
		struct pollfd entry = { .fd = listener, .events = POLLIN };
		struct seccomp_notif call = { 0 };
		poll(&entry, 1, -1);
		if (!(entry.revents & POLLIN))
			break;
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		struct seccomp_notif_resp answer = { .id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	int status;
	waitpid(child, &status, 0);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void listen_for_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_listen, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		fail("socketpair");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child > 0) {
		close(pair[1]);
		serve(take_over(pair[0]), child);
	}
	int listener = install(code, 5, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	hand_over(pair[1], listener);
	close(listener);
}

int main(int argc, char **argv)
{
	int at = 1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("prctl");
	for (; at < argc && strcmp(argv[at], "--"); at++) {
		char *spec = argv[at], *colon = strrchr(spec, ':');
		if (!strncmp(spec, "errno:", 6))
			forbid(number_of(spec + 6, colon - spec - 6), SECCOMP_RET_ERRNO | atoi(colon + 1));
		else if (!strncmp(spec, "kill:", 5))
			forbid(number_of(spec + 5, strlen(spec + 5)), SECCOMP_RET_KILL_PROCESS);
		else if (!strcmp(spec, "reach"))
			forbid_reach();
		else if (!strcmp(spec, "steering"))
			forbid_steering();
		else if (!strcmp(spec, "listener"))
			listen_for_calls();
		else
			return 98;
	}
	if (at + 1 >= argc)
		return 97;
	execvp(argv[at + 1], argv + at + 1);
	fail(argv[at + 1]);
}
