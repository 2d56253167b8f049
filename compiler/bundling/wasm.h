/* For the run time in C on WebAssembly: the parts of POSIX that a module without imports cannot have. There is one thread and no file; every function
   that asks for more fails, so that the run time reports it as on any other machine. */
#include <errno.h>
#include <stdlib.h>

#define HUGE_PAGE SIZE_MAX /* memory has no pages to choose: all of it comes from malloc */

/* ---- Threads ---- */

typedef int pthread_t, pthread_mutex_t, pthread_cond_t, pthread_attr_t;

static int pthread_mutex_init(pthread_mutex_t *lock, const void *how) { return (void)lock, (void)how, 0; }
static int pthread_mutex_destroy(pthread_mutex_t *lock) { return (void)lock, 0; }
static int pthread_mutex_lock(pthread_mutex_t *lock) { return (void)lock, 0; }
static int pthread_mutex_unlock(pthread_mutex_t *lock) { return (void)lock, 0; }
static int pthread_cond_init(pthread_cond_t *place, const void *how) { return (void)place, (void)how, 0; }
static int pthread_cond_destroy(pthread_cond_t *place) { return (void)place, 0; }
static int pthread_cond_wait(pthread_cond_t *place, pthread_mutex_t *lock) { return (void)place, (void)lock, 0; }
static int pthread_cond_broadcast(pthread_cond_t *place) { return (void)place, 0; }
static int pthread_attr_init(pthread_attr_t *how) { return (void)how, 0; }
static int pthread_attr_destroy(pthread_attr_t *how) { return (void)how, 0; }
static int pthread_attr_setstacksize(pthread_attr_t *how, size_t bytes) { return (void)how, (void)bytes, 0; }
static int pthread_join(pthread_t thread, void **result) { return (void)thread, (void)result, 0; }
static int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *given) {
    return (void)thread, (void)how, (void)start, (void)given, EAGAIN;
}

#define timespec wasm_timespec /* the library has one too */
struct timespec { int64_t tv_sec, tv_nsec; };
#define CLOCK_MONOTONIC 1
static int clock_gettime(int clock, struct timespec *now) { return (void)clock, now->tv_sec = now->tv_nsec = 0; }

/* ---- Files and pages ---- */

typedef long ssize_t;
struct stat { int64_t st_size; uint32_t st_mode; };
#define S_ISREG(mode) ((mode) != 0)
enum { O_RDONLY, O_NONBLOCK = 0, O_CLOEXEC = 0, SEEK_SET = 0, PROT_READ = 0, PROT_WRITE = 0, MAP_PRIVATE = 0, MAP_ANONYMOUS = 0, MAP_SHARED = 0 };
#define MAP_FAILED ((void *)-1)

static int open(const char *path, int how) { return (void)path, (void)how, -1; }
static int close(int file) { return (void)file, 0; }
static int fstat(int file, struct stat *found) { return (void)file, found->st_size = 0, found->st_mode = 0, -1; }
static int64_t lseek(int file, int64_t to, int from) { return (void)file, (void)to, (void)from, -1; }
static ssize_t read(int file, void *to, size_t bytes) { return (void)file, (void)to, (void)bytes, -1; }
static int munmap(void *memory, size_t bytes) { return (void)memory, (void)bytes, -1; }
static unsigned long getauxval(unsigned long entry) { return (void)entry, 0; }
static void *mmap(void *memory, size_t bytes, int may, int how, int file, int64_t from) {
    return (void)memory, (void)bytes, (void)may, (void)how, (void)file, (void)from, MAP_FAILED;
}

/* ---- Text: the formats that messages use. The library's functions write files and floats too, and are larger than most models. ---- */

static size_t put(char *text, size_t size, size_t at, const char *from, size_t count) {
    for (size_t i = 0; i < count; ++i, ++at)
        if (at + 1 < size) text[at] = from[i];
    return at;
}

static int vsnprintf(char *text, size_t size, const char *format, va_list given) {
    size_t at = 0;
    for (const char *next = format; *next; ++next) {
        if (*next != '%') {
            at = put(text, size, at, next, 1);
            continue;
        }
        bool sign = next[1] == '+', wide;
        size_t most = SIZE_MAX, count = 0;
        if (sign) ++next;
        if (next[1] == '.')
            for (most = 0, ++next; next[1] >= '0' && next[1] <= '9'; ++next) most = 10 * most + (size_t)(next[1] - '0');
        if ((wide = next[1] == 'l' && next[2] == 'l')) next += 2;
        char kind = *++next, digits[24], *end = digits + sizeof digits, *begin = end;
        if (kind == 's') {
            const char *from = va_arg(given, const char *);
            while (count < most && from[count]) ++count;
            at = put(text, size, at, from, count);
        } else if (kind == 'd' || kind == 'u' || kind == 'p') {
            int64_t number = kind == 'd' ? (wide ? va_arg(given, long long) : va_arg(given, int)) : wide ? va_arg(given, long long) : va_arg(given, unsigned);
            uint64_t rest = kind == 'd' && number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
            do *--begin = (char)('0' + rest % 10);
            while (rest /= 10);
            if (kind == 'd' && (number < 0 || sign)) *--begin = number < 0 ? '-' : '+';
            at = put(text, size, at, begin, (size_t)(end - begin));
        } else {
            at = put(text, size, at, &kind, 1);
        }
    }
    if (size) text[at < size ? at : size - 1] = 0;
    return (int)at;
}

__attribute__((format(printf, 3, 4))) static int snprintf(char *text, size_t size, const char *format, ...) {
    va_list given;
    va_start(given, format);
    int count = vsnprintf(text, size, format, given);
    va_end(given);
    return count;
}
