/* Counts what a program asks of its disk and of SQLite: syncs, steps of statements, written bytes.
 *
 * Loaded into a program with LD_PRELOAD.  WRITES_COUNTED is a folder: each process keeps a file of
 * its own there, named by its pid, with its counts as they are at any moment.  Every call is made
 * as it was asked for.  A step is counted only where SQLite is a library of its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define ADD(field, number) __atomic_fetch_add(&counts->field, number, __ATOMIC_RELAXED)

struct counts {
    unsigned long syncs, steps, bytes;
};

static struct counts unshared, *counts = &unshared;

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("WRITES_COUNTED");
    char path[PATH_MAX];
    if (!folder || snprintf(path, sizeof path, "%s/%d", folder, getpid()) >= PATH_MAX) return;
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || syscall(SYS_ftruncate, file, sizeof *counts)) return;
    void *mapped = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) counts = mapped;
    syscall(SYS_close, file);
}

EXPORT int fsync(int descriptor) {
    ADD(syncs, 1);
    return syscall(SYS_fsync, descriptor);
}

EXPORT int fdatasync(int descriptor) {
    ADD(syncs, 1);
    return syscall(SYS_fdatasync, descriptor);
}

EXPORT ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t place) {
    ADD(bytes, bytes);
    return syscall(SYS_pwrite64, descriptor, data, bytes, place);
}

EXPORT int sqlite3_step(void *statement) {
    static int (*step)(void *);
    if (!step) {
        /* Python loads it for its own module alone, so that it is not among what comes next. */
        void *library = dlopen("libsqlite3.so.0", RTLD_LAZY | RTLD_NOLOAD);
        step = (int (*)(void *))dlsym(library ? library : RTLD_NEXT, "sqlite3_step");
    }
    ADD(steps, 1);
    return step(statement);
}
