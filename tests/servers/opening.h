// The functions by which a program opens files, each as one call of open_at, which the library that
// includes this defines before it, with EXPORT.

#define OPEN_AT(folder)                                                                            \
    mode_t mode = 0;                                                                               \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                           \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode = va_arg(rest, int);                                                                  \
        va_end(rest);                                                                              \
    }                                                                                              \
    return open_at(folder, path, flags, mode);

EXPORT int open(const char *path, int flags, ...) { OPEN_AT(AT_FDCWD) }
EXPORT int open64(const char *path, int flags, ...) { OPEN_AT(AT_FDCWD) }
EXPORT int openat(int folder, const char *path, int flags, ...) { OPEN_AT(folder) }
EXPORT int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
EXPORT int openat64(int folder, const char *path, int flags, ...) { OPEN_AT(folder) }
