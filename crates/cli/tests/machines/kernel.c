/* Preloaded under manypath, answers as an older kernel would: OLD_KERNEL=5.4. With INTERRUPT_ACCEPT set, the
 * first caller that gets a descriptor is interrupted by SIGUSR1 before it is told the number. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CONTINUES 5005
#define GETFD 5006
#define ADDFD 5009
#define ADDFD_SEND 5014
#define PIDFD_THREAD 6009

#define CALLS 64
static struct {
	unsigned long long id;
	pid_t thread;
} calls[CALLS];
static int last;

static int version(void)
{
	const char *text = getenv("OLD_KERNEL");
	int major = 99, minor = 0;
	if (text)
		sscanf(text, "%d.%d", &major, &minor);
	return major * 1000 + minor;
}

static int refuse(int number)
{
	errno = number;
	return -1;
}

static void interrupt(unsigned long long id)
{
	static int done;
	if (!getenv("INTERRUPT_ACCEPT") || done)
		return;
	for (int i = 0; i < CALLS; i++)
		if (calls[i].id == id) {
			done = 1;
			syscall(SYS_kill, calls[i].thread, SIGUSR1);
			usleep(300000);
		}
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*real)(int, unsigned long, ...);
	va_list list;
	va_start(list, request);
	void *argument = va_arg(list, void *);
	va_end(list);
	if (!real)
		real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	unsigned int number = request;
	if (number == (unsigned int)SECCOMP_IOCTL_NOTIF_SEND) {
		struct seccomp_notif_resp *answer = argument;
		if (answer->flags && version() < CONTINUES)
			return refuse(EINVAL);
	}
	if (number == (unsigned int)SECCOMP_IOCTL_NOTIF_ADDFD) {
		struct seccomp_notif_addfd *request = argument;
		if (version() < ADDFD || (request->flags & SECCOMP_ADDFD_FLAG_SEND && version() < ADDFD_SEND))
			return refuse(EINVAL);
		int result = real(fd, number, argument);
		if (result >= 0)
			interrupt(request->id);
		return result;
	}
	int result = real(fd, request, argument);
	if (number == (unsigned int)SECCOMP_IOCTL_NOTIF_RECV && !result) {
		struct seccomp_notif *call = argument;
		calls[last % CALLS].id = call->id;
		calls[last++ % CALLS].thread = call->pid;
	}
	return result;
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_pidfd_getfd && version() < GETFD)
		return refuse(ENOSYS);
	if (number == SYS_pidfd_open && a[1] && version() < PIDFD_THREAD)
		return refuse(EINVAL);
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int uname(struct utsname *about)
{
	const char *text = getenv("OLD_KERNEL");
	long result = syscall(SYS_uname, about);
	if (!result && text)
		snprintf(about->release, sizeof about->release, "%s.0-test", text);
	return result;
}
