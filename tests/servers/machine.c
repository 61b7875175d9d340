/* A machine whose wall clock is set and whose disk is slow or fails, as one program sees it.
 *
 * Loaded into a program with LD_PRELOAD, and so into the processes that it starts.  MACHINE_FILE is
 * a file of one `struct machine`, which the test changes while the program runs; MACHINE_ROOT, if
 * there is one, the folder whose files are on that disk.
 *
 * It decides nothing about when.  Clocks that only count are left as they are.  A wait until a time
 * of the wall clock ends when that clock says so, however it was set meanwhile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DESCRIPTORS 65536
#define SECOND_NS 1000000000LL
#define SLICE_NS 50000000LL /* A waiter looks again at a clock that may have been set. */

struct machine {
    int64_t clock_us;       /* By so much the wall clock is ahead. */
    int64_t sync_us;        /* By so much a sync takes longer. */
    int64_t write_error;    /* What fails a write; 0: none does. */
    int64_t clock_read;     /* How often a clock that was set was read. */
    int64_t syncs_delayed;
    int64_t writes_refused;
};

static struct machine healthy;
static struct machine *machine = &healthy;
static char root[PATH_MAX];
static size_t root_bytes;
static unsigned char watched[DESCRIPTORS];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("MACHINE_FILE"), *folder = getenv("MACHINE_ROOT");
    if (folder && strlen(folder) < sizeof root) {
        strcpy(root, folder);
        root_bytes = strlen(root);
    }
    if (!path) return;
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *machine, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) machine = page;
    syscall(SYS_close, file);
}

static void count(int64_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

/* The wall clock. */

static int64_t ahead_ns(void) {
    int64_t ahead_us = __atomic_load_n(&machine->clock_us, __ATOMIC_RELAXED);
    return ahead_us * 1000;
}

static void add(struct timespec *time, int64_t by_ns) {
    int64_t seconds = by_ns / SECOND_NS, rest = time->tv_nsec + by_ns % SECOND_NS;
    time->tv_sec += seconds + (rest >= SECOND_NS) - (rest < 0);
    time->tv_nsec = rest + (rest < 0) * SECOND_NS - (rest >= SECOND_NS) * SECOND_NS;
}

static int is_wall(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

static int read_clock(clockid_t clock, struct timespec *time) {
    static int (*real_clock)(clockid_t, struct timespec *);
    if (!real_clock) real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    return real_clock(clock, time);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = read_clock(clock, time);
    int64_t ahead = is_wall(clock) ? ahead_ns() : 0;
    if (!failed && ahead) {
        count(&machine->clock_read);
        add(time, ahead);
    }
    return failed;
}

EXPORT int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

EXPORT time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}

EXPORT int timespec_get(struct timespec *time, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, time) ? base : 0;
}

/* Waits until a time of the wall clock: in slices, as it may be set during the wait. */

static int64_t left_ns(const struct timespec *until) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = until->tv_sec - now.tv_sec;
    if (seconds > 1000000000) seconds = 1000000000;
    if (seconds < -1000000000) seconds = -1000000000;
    return seconds * SECOND_NS + until->tv_nsec - now.tv_nsec;
}

/* When a slice ends, by a clock that only counts; whether it is the last. */
static int slice(const struct timespec *until, struct timespec *end) {
    int64_t left = left_ns(until);
    read_clock(CLOCK_MONOTONIC, end);
    add(end, left < 0 ? 0 : left < SLICE_NS ? left : SLICE_NS);
    return left <= SLICE_NS;
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  clockid_t clock, const struct timespec *until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    if (clock != CLOCK_REALTIME) return real(condition, mutex, clock, until);
    struct timespec end;
    int is_last = slice(until, &end);
    int ended = real(condition, mutex, CLOCK_MONOTONIC, &end);
    /* A waiter that is woken for nothing looks and waits again, as it has to. */
    return ended == ETIMEDOUT && !is_last ? 0 : ended;
}

/* glibc keeps a condition's clock in the second bit of this word. */
static int counts(const pthread_cond_t *condition) { return condition->__data.__wrefs & 2; }

EXPORT int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until) {
    clockid_t clock = counts(condition) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return pthread_cond_clockwait(condition, mutex, clock, until);
}

EXPORT int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    int ended = pthread_cond_clockwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex,
                                       CLOCK_REALTIME, until);
    return ended == ETIMEDOUT ? thrd_timedout : ended ? thrd_error : thrd_success;
}

EXPORT int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
    static int (*real)(sem_t *, clockid_t, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "sem_clockwait");
    if (clock != CLOCK_REALTIME) return real(semaphore, clock, until);
    for (;;) {
        struct timespec end;
        int is_last = slice(until, &end);
        int failed = real(semaphore, CLOCK_MONOTONIC, &end);
        if (!failed || errno != ETIMEDOUT || is_last) return failed;
    }
}

EXPORT int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    return sem_clockwait(semaphore, CLOCK_REALTIME, until);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    for (;;) {
        struct timespec end;
        int is_last = slice(until, &end);
        int failed = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &end);
        if (failed != ETIMEDOUT || is_last) return failed;
    }
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *left) {
    if (!is_wall(clock) || !(flags & TIMER_ABSTIME)) {
        return syscall(SYS_clock_nanosleep, clock, flags, until, left) ? errno : 0;
    }
    for (;;) {
        struct timespec end;
        int is_last = slice(until, &end);
        int failed = syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
        if (failed || is_last) return failed ? errno : 0;
    }
}

/* The disk. */

static int is_inside(const char *path) {
    return root_bytes && path && !strncmp(path, root, root_bytes) && path[root_bytes] == '/';
}

static int refuses(int descriptor) {
    if (descriptor < 0 || descriptor >= DESCRIPTORS || !watched[descriptor]) return 0;
    int64_t error = __atomic_load_n(&machine->write_error, __ATOMIC_RELAXED);
    if (!error) return 0;
    count(&machine->writes_refused);
    errno = error;
    return 1;
}

static void delay(void) {
    int64_t delay_us = __atomic_load_n(&machine->sync_us, __ATOMIC_RELAXED);
    if (!delay_us) return;
    count(&machine->syncs_delayed);
    struct timespec left = {delay_us / 1000000, delay_us % 1000000 * 1000};
    while (syscall(SYS_nanosleep, &left, &left) && errno == EINTR) {}
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    int opened = syscall(SYS_openat, folder, path, flags, mode);
    if (opened >= 0 && opened < DESCRIPTORS) watched[opened] = is_inside(path);
    return opened;
}

#include "opening.h"

EXPORT int close(int descriptor) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS) watched[descriptor] = 0;
    return syscall(SYS_close, descriptor);
}

#define REFUSED(descriptor) (__builtin_expect(refuses(descriptor), 0))

EXPORT ssize_t write(int descriptor, const void *data, size_t bytes) {
    return REFUSED(descriptor) ? -1 : syscall(SYS_write, descriptor, data, bytes);
}
EXPORT ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t place) {
    return REFUSED(descriptor) ? -1 : syscall(SYS_pwrite64, descriptor, data, bytes, place);
}
EXPORT ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t place) {
    return pwrite64(descriptor, data, bytes, place);
}
EXPORT ssize_t writev(int descriptor, const struct iovec *parts, int number) {
    return REFUSED(descriptor) ? -1 : syscall(SYS_writev, descriptor, parts, number);
}
/* Servers make files of a fixed length before they write. */
EXPORT int ftruncate64(int descriptor, off64_t bytes) {
    return REFUSED(descriptor) ? -1 : syscall(SYS_ftruncate, descriptor, bytes);
}
EXPORT int ftruncate(int descriptor, off_t bytes) { return ftruncate64(descriptor, bytes); }
EXPORT int fallocate64(int descriptor, int mode, off64_t place, off64_t bytes) {
    return REFUSED(descriptor) ? -1 : syscall(SYS_fallocate, descriptor, mode, place, bytes);
}
EXPORT int fallocate(int descriptor, int mode, off_t place, off_t bytes) {
    return fallocate64(descriptor, mode, place, bytes);
}

EXPORT int fsync(int descriptor) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS && watched[descriptor]) delay();
    return REFUSED(descriptor) ? -1 : syscall(SYS_fsync, descriptor);
}
EXPORT int fdatasync(int descriptor) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS && watched[descriptor]) delay();
    return REFUSED(descriptor) ? -1 : syscall(SYS_fdatasync, descriptor);
}
/* Mapped files have no descriptor here: all of them are on the disk. */
EXPORT int msync(void *from, size_t bytes, int flags) {
    if (root_bytes && flags & MS_SYNC) delay();
    return syscall(SYS_msync, from, bytes, flags);
}
