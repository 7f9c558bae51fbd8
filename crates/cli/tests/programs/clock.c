/* Steps the wall clock of the programs that load this, as far as they ask the C library or read the kernel's stamps of
 * packets. The machine's clock stays as it is. MANYPATH_SOAK_CLOCK names a file of three numbers: what is added since
 * a time of the machine's clock, what was added before, and that time, all in nanoseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

struct step { int64_t added, added_before, since; };

static const struct step none;
static const volatile struct step *step = &none;

static void *next(void **place, const char *name)
{
    if (!*place)
        *place = dlsym(RTLD_NEXT, name);
    return *place;
}

__attribute__((constructor)) static void map_step(void)
{
    const char *file = getenv("MANYPATH_SOAK_CLOCK");
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        step = map;
    close(fd);
}

static void shift(struct timespec *t)
{
    int64_t real = t->tv_sec * SECOND + t->tv_nsec;
    real += real >= step->since ? step->added : step->added_before;
    t->tv_sec = real / SECOND;
    t->tv_nsec = real % SECOND;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    static void *real;
    int (*call)(clockid_t, struct timespec *) = next(&real, "clock_gettime");
    int done = call(id, t);
    if (!done && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        shift(t);
    return done;
}

int gettimeofday(struct timeval *t, void *zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *t)
{
    struct timespec now = { 0, 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}

static void shift_stamps(struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct timespec stamp;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
        shift(&stamp);
        memcpy(CMSG_DATA(c), &stamp, sizeof stamp);
    }
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    static void *real;
    ssize_t (*call)(int, struct msghdr *, int) = next(&real, "recvmsg");
    ssize_t done = call(fd, message, flags);
    if (done >= 0)
        shift_stamps(message);
    return done;
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit)
{
    static void *real;
    int (*call)(int, struct mmsghdr *, unsigned, int, struct timespec *) = next(&real, "recvmmsg");
    int done = call(fd, messages, count, flags, limit);
    for (int i = 0; i < done; i++)
        shift_stamps(&messages[i].msg_hdr);
    return done;
}
