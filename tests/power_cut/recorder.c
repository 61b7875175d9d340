/* Records every change of the files below a folder, in the order in which they happen.
 *
 * Loaded into a program with LD_PRELOAD.  RECORDER_ROOT is the folder, an absolute path;
 * RECORDER_TRACE the file that is written; RECORDER_EVENTS_MAX kills the process after so many
 * changes, as nothing is left to record then.
 *
 * It decides nothing about a power cut: disk.py does, from the trace.  A change is done and written
 * down under one lock, so the trace is the order of the changes.  A sync is written down and not
 * done: nobody cuts this machine's power, and a test must not wait for its disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DESCRIPTORS 65536

/* One event; first_bytes of one path, second_bytes of another, data_bytes of data follow. */
struct event {
    char kind;
    char pad[7];
    uint64_t inode;
    int64_t place;
    uint32_t first_bytes, second_bytes;
    uint64_t data_bytes;
};

static char root[PATH_MAX];
static size_t root_bytes;
static int trace = -1;
static long events_left = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char watched[DESCRIPTORS];

static void leave_to_parent(void) { trace = -1; }

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("RECORDER_ROOT"), *path = getenv("RECORDER_TRACE");
    const char *events_max = getenv("RECORDER_EVENTS_MAX");
    if (!folder || !path || strlen(folder) >= sizeof root) return;
    strcpy(root, folder);
    root_bytes = strlen(root);
    if (events_max) events_left = atol(events_max);
    trace = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pthread_atfork(NULL, NULL, leave_to_parent);
}

static int is_inside(const char *path) {
    return trace >= 0 && path && !strncmp(path, root, root_bytes) &&
           (path[root_bytes] == '/' || !path[root_bytes]);
}

static void put(const void *from, size_t bytes) {
    const char *next = from;
    while (bytes) {
        long done = syscall(SYS_write, trace, next, bytes);
        if (done <= 0) abort();
        next += done;
        bytes -= done;
    }
}

static void note(char kind, uint64_t inode, int64_t place, const char *first, const char *second,
                 const void *data, size_t data_bytes) {
    int error = errno;
    struct event event = {.kind = kind, .inode = inode, .place = place};
    event.first_bytes = first ? strlen(first) : 0;
    event.second_bytes = second ? strlen(second) : 0;
    event.data_bytes = data_bytes;
    put(&event, sizeof event);
    put(first, event.first_bytes);
    put(second, event.second_bytes);
    put(data, data_bytes);
    if (events_left > 0 && --events_left == 0) syscall(SYS_kill, getpid(), SIGKILL);
    errno = error;
}

/* Whether a descriptor belongs to a file or folder below the root; tells which. */
static int is_watched(int descriptor, struct stat *found) {
    return trace >= 0 && descriptor >= 0 && descriptor < DESCRIPTORS && watched[descriptor] &&
           !fstat(descriptor, found) && (S_ISREG(found->st_mode) || S_ISDIR(found->st_mode));
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    if (!is_inside(path)) {
        int opened = syscall(SYS_openat, folder, path, flags, mode);
        if (opened >= 0 && opened < DESCRIPTORS) watched[opened] = 0;
        return opened;
    }
    pthread_mutex_lock(&lock);
    int there = !syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
    int opened = syscall(SYS_openat, folder, path, flags, mode);
    struct stat found;
    if (opened >= 0 && opened < DESCRIPTORS) {
        watched[opened] = 1;
        if (is_watched(opened, &found) && S_ISREG(found.st_mode)) {
            if (!there) note('C', found.st_ino, 0, path, NULL, NULL, 0);
            else if (flags & O_TRUNC) note('T', found.st_ino, 0, NULL, NULL, NULL, 0);
        }
    }
    pthread_mutex_unlock(&lock);
    return opened;
}

#include "../servers/opening.h"

EXPORT int close(int descriptor) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS) watched[descriptor] = 0;
    return syscall(SYS_close, descriptor);
}

EXPORT ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t place) {
    struct stat found;
    if (!is_watched(descriptor, &found)) return syscall(SYS_pwrite64, descriptor, data, bytes, place);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_pwrite64, descriptor, data, bytes, place);
    if (done > 0) note('W', found.st_ino, place, NULL, NULL, data, done);
    pthread_mutex_unlock(&lock);
    return done;
}
EXPORT ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t place) {
    return pwrite64(descriptor, data, bytes, place);
}

EXPORT ssize_t write(int descriptor, const void *data, size_t bytes) {
    struct stat found;
    if (!is_watched(descriptor, &found)) return syscall(SYS_write, descriptor, data, bytes);
    pthread_mutex_lock(&lock);
    ssize_t done = syscall(SYS_write, descriptor, data, bytes);
    if (done > 0) {
        off_t end = syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
        note('W', found.st_ino, end - done, NULL, NULL, data, done);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

EXPORT ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    struct stat found;
    if (!is_watched(descriptor, &found)) return syscall(SYS_writev, descriptor, parts, count);
    ssize_t sum = 0;
    for (int number = 0; number < count; number++) {
        ssize_t done = write(descriptor, parts[number].iov_base, parts[number].iov_len);
        if (done < 0) return sum ? sum : done;
        sum += done;
        if ((size_t)done < parts[number].iov_len) break;
    }
    return sum;
}

EXPORT int ftruncate64(int descriptor, off64_t size) {
    struct stat found;
    if (!is_watched(descriptor, &found)) return syscall(SYS_ftruncate, descriptor, size);
    pthread_mutex_lock(&lock);
    int failed = syscall(SYS_ftruncate, descriptor, size);
    if (!failed) note('T', found.st_ino, size, NULL, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}
EXPORT int ftruncate(int descriptor, off_t size) { return ftruncate64(descriptor, size); }

static int synced(int descriptor, long call) {
    struct stat found;
    if (!is_watched(descriptor, &found)) return syscall(call, descriptor);
    pthread_mutex_lock(&lock);
    note('S', found.st_ino, 0, NULL, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}
EXPORT int fsync(int descriptor) { return synced(descriptor, SYS_fsync); }
EXPORT int fdatasync(int descriptor) { return synced(descriptor, SYS_fdatasync); }

EXPORT int unlinkat(int folder, const char *path, int flags) {
    if (!is_inside(path)) return syscall(SYS_unlinkat, folder, path, flags);
    pthread_mutex_lock(&lock);
    int failed = syscall(SYS_unlinkat, folder, path, flags);
    if (!failed) note('U', 0, 0, path, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}
EXPORT int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
EXPORT int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

EXPORT int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    if (!is_inside(old) && !is_inside(new)) return syscall(SYS_renameat2, from, old, to, new, flags);
    pthread_mutex_lock(&lock);
    int failed = syscall(SYS_renameat2, from, old, to, new, flags);
    if (!failed) note('R', 0, 0, old, new, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}
EXPORT int renameat(int from, const char *old, int to, const char *new) {
    return renameat2(from, old, to, new, 0);
}
EXPORT int rename(const char *old, const char *new) {
    return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0);
}

EXPORT int mkdirat(int folder, const char *path, mode_t mode) {
    if (!is_inside(path)) return syscall(SYS_mkdirat, folder, path, mode);
    pthread_mutex_lock(&lock);
    int failed = syscall(SYS_mkdirat, folder, path, mode);
    struct stat found;
    if (!failed && !stat(path, &found)) note('D', found.st_ino, 0, path, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}
EXPORT int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
