/* The run time of a compiled model: opens its weights, checks arrays, keeps memory and threads for each caller, and answers the code's questions.

   STEPWELL_NAME is the prefix of its functions, STEPWELL_HEADER the model's header, STEPWELL_TABLES a file that describes `the_model`. The comments
   name the parts of Stepwell that do the same in Python. With STEPWELL_BARE there is only the raw function: no memory is taken, no thread started. */
#if !defined(_GNU_SOURCE) && defined(__linux__)
#define _GNU_SOURCE 1
#endif
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include STEPWELL_HEADER

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define API(name) JOIN(STEPWELL_NAME, _##name) /* a function of the header, or one that the model's code calls */
#define HIDDEN __attribute__((visibility("hidden")))
#define ALIGNMENT 64  /* bytes: a cache line, and the widest vector */
#define BOX_ELEMENTS 9 /* of a box: the address of a tensor, then up to 8 sizes (dialects/core/segments.py) */

/* The status that code returns (dialects/core/size_table.py). */
enum verdict {
    V_OK, V_NEGATIVE, V_ASSUMPTION, V_DIVISION, V_OVERFLOW, V_WORKSPACE, V_OUTPUT, V_DIMENSION, V_MISMATCH, V_BROADCAST, V_STOPPED, V_INTERFACE,
    V_INDEX
};

#include STEPWELL_TABLES

#if defined(__wasm__)
#include "stepwell_wasm.h" /* has no threads and no files */
#elif !defined(STEPWELL_BARE)
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#endif

/* ---- Threads ------------------------------------------------------------------------------------------------------------------------------- */

/* The functions of OpenMP that code calls, over a team of threads that belongs to a context. Without a team, code runs on the caller's thread. */

typedef void (*microtask)(int32_t *, int32_t *, void *); /* MLIR passes one argument, a struct */

#define LOOPS 4          /* loops with a dynamic schedule that threads may be in at the same time */
#define GUIDED 36        /* kmp_sch_guided_chunked: chunks shrink with what is left */

struct loop { /* a loop whose chunks are taken as threads become free */
    uint32_t number; /* of the loop in the region, from 1; 0 if the place is free */
    int32_t left;    /* threads that have not finished it */
    uint64_t next, last, chunk;
    bool guided;
};

struct team {
    int32_t threads;
#ifndef STEPWELL_BARE
    struct worker *workers;
    int32_t started;
    int64_t spin; /* nanoseconds */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t sleepers;
    uint32_t region; /* the number of regions so far: workers wait for it to change */
    uint32_t busy;   /* workers that have not finished the region */
    uint32_t arrived, passed; /* threads at a barrier, and barriers so far */
    bool ends;
    struct loop loop[LOOPS];
#endif
    microtask task;
    void *argument;
};

struct member { /* the thread that is running */
    struct team *team;
    int32_t number;
    uint32_t loops; /* with a dynamic schedule, in this region */
    struct loop *loop;
    uint64_t lower, upper; /* without a team: the whole loop */
    bool whole;
};

#ifdef STEPWELL_BARE
static struct member *me(void) {
    static struct member only;
    return &only;
}
#else
static __thread struct member this_thread;

static struct member *me(void) { return &this_thread; }

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait until *word is no longer `old`: awake for a while, then asleep. */
static void await(struct team *team, uint32_t *word, uint32_t old) {
    int64_t until = team->spin ? nanoseconds() + team->spin : 0;
    for (int round = 0; team->spin; ++round) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != old) return;
        relax();
        if (round % 64 == 63 && nanoseconds() > until) break;
    }
    pthread_mutex_lock(&team->lock);
    __atomic_add_fetch(&team->sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == old) pthread_cond_wait(&team->changed, &team->lock);
    __atomic_sub_fetch(&team->sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team->lock);
}

/* Add to a word that threads wait for, and wake those that sleep; returns the sum. What was written before is seen by those that see the sum. Where
   nobody spins, all goes by the lock, which checkers of threads understand. */
static uint32_t change(struct team *team, uint32_t *word, uint32_t by) {
    bool locked = team->spin == 0;
    if (locked) pthread_mutex_lock(&team->lock);
    uint32_t sum = __atomic_add_fetch(word, by, __ATOMIC_SEQ_CST);
    if (!locked && (locked = __atomic_load_n(&team->sleepers, __ATOMIC_SEQ_CST) != 0)) pthread_mutex_lock(&team->lock);
    if (locked) pthread_cond_broadcast(&team->changed), pthread_mutex_unlock(&team->lock);
    return sum;
}

static void take_part(struct team *team, int32_t number) {
    struct member *self = me();
    int32_t own = number, bound = 0;
    self->team = team, self->number = number, self->loops = 0, self->loop = NULL;
    team->task(&own, &bound, team->argument);
}

struct worker {
    pthread_t thread;
    struct team *team;
    int32_t number;
};

static void *work(void *given) {
    const struct worker *self = given;
    struct team *team = self->team;
    for (uint32_t seen = 0;;) {
        await(team, &team->region, seen);
        seen = __atomic_load_n(&team->region, __ATOMIC_ACQUIRE);
        if (team->ends) return NULL;
        take_part(team, self->number);
        change(team, &team->busy, (uint32_t)-1);
    }
}

static void team_end(struct team *team) {
    team->ends = true;
    change(team, &team->region, 1);
    for (int32_t i = 0; i < team->started; ++i) pthread_join(team->workers[i].thread, NULL);
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->lock);
    free(team->workers);
}

/* Start the team's workers; returns whether that was possible. */
static bool team_start(struct team *team, int32_t threads, int64_t spin) {
    pthread_attr_t attributes;
    memset(team, 0, sizeof *team);
    team->threads = threads, team->spin = spin;
    team->workers = calloc((size_t)threads, sizeof *team->workers);
    if (!team->workers) return false;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->changed, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)4 << 20); /* some systems' threads have little */
    while (team->started < threads - 1) {
        struct worker *worker = &team->workers[team->started];
        worker->team = team, worker->number = team->started + 1;
        if (pthread_create(&worker->thread, &attributes, work, worker) != 0) break;
        team->started += 1;
    }
    pthread_attr_destroy(&attributes);
    if (team->started == threads - 1) return true;
    team_end(team);
    return false;
}
#endif

HIDDEN int32_t API(kmpc_global_thread_num)(void *place) {
    (void)place;
    return me()->number;
}

HIDDEN void API(kmpc_barrier)(void *place, int32_t number) {
    (void)place, (void)number;
#ifndef STEPWELL_BARE
    struct team *team = me()->team;
    if (!team || team->threads == 1) return;
    uint32_t passed = __atomic_load_n(&team->passed, __ATOMIC_ACQUIRE);
    if (change(team, &team->arrived, 1) == (uint32_t)team->threads) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_SEQ_CST);
        change(team, &team->passed, 1);
    } else {
        await(team, &team->passed, passed);
    }
#endif
}

static void run_alone(microtask task, void *argument) {
    struct member *self = me(), before = *self;
    int32_t own = 0, bound = 0;
    memset(self, 0, sizeof *self);
    task(&own, &bound, argument);
    *self = before;
}

HIDDEN void API(kmpc_fork_call)(void *place, int32_t count, microtask task, ...) {
    va_list given;
    (void)place;
    va_start(given, task);
    void *argument = count > 0 ? va_arg(given, void *) : NULL;
    va_end(given);
#ifndef STEPWELL_BARE
    struct team *team = me()->team;
    if (team && team->threads > 1) {
        struct member before = *me();
        team->task = task, team->argument = argument;
        memset(team->loop, 0, sizeof team->loop);
        __atomic_store_n(&team->busy, (uint32_t)team->threads - 1, __ATOMIC_SEQ_CST);
        change(team, &team->region, 1);
        take_part(team, 0);
        for (uint32_t busy; (busy = __atomic_load_n(&team->busy, __ATOMIC_ACQUIRE)) != 0;) await(team, &team->busy, busy);
        *me() = before;
        return;
    }
#endif
    run_alone(task, argument);
}

/* A region under a condition, on the caller's thread if it does not hold. */
HIDDEN void API(kmpc_fork_call_if)(void *place, int32_t count, microtask task, int32_t condition, void *argument) {
    if (condition)
        API(kmpc_fork_call)(place, count, task, argument);
    else
        run_alone(task, argument);
}

/* The part of the iterations *lower to *upper that is the thread's: parts differ by at most one. */
HIDDEN void API(kmpc_for_static_init_8u)(
    void *place, int32_t number, int32_t schedule, int32_t *last, uint64_t *lower, uint64_t *upper, int64_t *stride, int64_t step, int64_t chunk) {
    struct team *team = me()->team;
    uint64_t threads = team ? (uint64_t)team->threads : 1, own = (uint64_t)me()->number;
    (void)place, (void)number, (void)schedule, (void)chunk;
    if (*upper < *lower) {
        *stride = step;
        if (last) *last = 0;
        return;
    }
    uint64_t count = (*upper - *lower) / (uint64_t)step + 1, begin = *lower;
    uint64_t each = count / threads, more = count % threads;
    uint64_t first = own * each + (own < more ? own : more), size = each + (own < more);
    *stride = (int64_t)(count * (uint64_t)step);
    if (last) *last = first + size == count && size != 0;
    *lower = begin + first * (uint64_t)step;
    *upper = *lower + size * (uint64_t)step - (uint64_t)step; /* below *lower if there is no part, since `first` is then all of them */
}

HIDDEN void API(kmpc_for_static_fini)(void *place, int32_t number) { (void)place, (void)number; }

HIDDEN void API(kmpc_dispatch_init_8u)(void *place, int32_t number, int32_t schedule, uint64_t lower, uint64_t upper, int64_t step, int64_t chunk) {
    struct member *self = me();
    (void)place, (void)number, (void)step; /* MLIR's steps are 1 */
    self->loops += 1;
    self->lower = lower, self->upper = upper, self->whole = true, self->loop = NULL;
#ifndef STEPWELL_BARE
    struct team *team = self->team;
    if (!team || team->threads == 1) return;
    struct loop *loop = &team->loop[self->loops % LOOPS];
    pthread_mutex_lock(&team->lock);
    while (loop->number != self->loops && loop->left > 0) { /* threads are still in the loop that had this place before */
        pthread_mutex_unlock(&team->lock);
        relax();
        pthread_mutex_lock(&team->lock);
    }
    if (loop->number != self->loops) {
        loop->number = self->loops, loop->left = team->threads;
        loop->next = lower, loop->last = upper, loop->chunk = chunk > 0 ? (uint64_t)chunk : 1;
        loop->guided = (schedule & 0xFF) == GUIDED;
        if (upper < lower) loop->next = 1, loop->last = 0;
    }
    pthread_mutex_unlock(&team->lock);
    self->loop = loop;
#else
    (void)schedule, (void)chunk;
#endif
}

/* The next chunk of the loop, if there is one. */
HIDDEN int32_t API(kmpc_dispatch_next_8u)(void *place, int32_t number, int32_t *last, uint64_t *lower, uint64_t *upper, int64_t *stride) {
    struct member *self = me();
    (void)place, (void)number;
    *stride = 1;
#ifndef STEPWELL_BARE
    struct loop *loop = self->loop;
    if (loop) {
        struct team *team = self->team;
        int32_t found = 0;
        pthread_mutex_lock(&team->lock);
        if (loop->next <= loop->last) {
            uint64_t rest = loop->last - loop->next, chunk = loop->chunk, share = rest / (2 * (uint64_t)team->threads);
            if (loop->guided && share > chunk) chunk = share;
            found = 1;
            *lower = loop->next;
            *upper = rest < chunk ? loop->last : loop->next + chunk - 1;
            if (last) *last = *upper == loop->last;
            if (*upper == loop->last)
                loop->next = 1, loop->last = 0;
            else
                loop->next = *upper + 1;
        } else {
            loop->left -= 1;
            self->loop = NULL, self->whole = false;
        }
        pthread_mutex_unlock(&team->lock);
        return found;
    }
#endif
    if (!self->whole || self->upper < self->lower) return 0;
    self->whole = false;
    *lower = self->lower, *upper = self->upper;
    if (last) *last = 1;
    return 1;
}

/* ---- The raw function ---------------------------------------------------------------------------------------------------------------------- */

#ifdef STEPWELL_RAW
STEPWELL_RAW
#endif

#ifndef STEPWELL_BARE
/* ---- Errors -------------------------------------------------------------------------------------------------------------------------------- */

#define MESSAGE 512 /* bytes of a message with its end */

struct problem { int status; char text[MESSAGE]; };

__attribute__((format(printf, 3, 4))) static int fail(struct problem *problem, int status, const char *format, ...) {
    va_list given;
    va_start(given, format);
    problem->status = status;
    vsnprintf(problem->text, sizeof problem->text, format, given);
    va_end(given);
    return status;
}

static int tell(const struct problem *problem, char *error, size_t size) {
    if (error && size) snprintf(error, size, "%s", problem->text);
    return problem->status;
}

/* ---- Digests: BLAKE2b with 32 bytes (RFC 7693) ---------------------------------------------------------------------------------------------- */

static const uint64_t blake_start[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};
static const uint8_t blake_order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static uint64_t rotated(uint64_t word, int bits) { return word >> bits | word << (64 - bits); }
static void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x, v[d] = rotated(v[d] ^ v[a], 32), v[c] += v[d], v[b] = rotated(v[b] ^ v[c], 24);
    v[a] += v[b] + y, v[d] = rotated(v[d] ^ v[a], 16), v[c] += v[d], v[b] = rotated(v[b] ^ v[c], 63);
}

static void compress(uint64_t *state, const uint8_t *block, uint64_t count, bool last) {
    uint64_t v[16], m[16];
    memcpy(m, block, sizeof m); /* the machines are little-endian */
    for (int i = 0; i < 8; ++i) v[i] = state[i], v[i + 8] = blake_start[i];
    v[12] ^= count;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; ++round) {
        const uint8_t *s = blake_order[round % 10];
        mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]), mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]), mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]), mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]), mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
}

static void digest_of(const uint8_t *data, uint64_t size, uint8_t digest[32]) {
    uint64_t state[8], done = 0;
    uint8_t block[128] = {0};
    memcpy(state, blake_start, sizeof state);
    state[0] ^= 0x01010000u ^ 32u;
    for (; size - done > 128; done += 128) compress(state, data + done, done + 128, false);
    if (size > done) memcpy(block, data + done, size - done);
    compress(state, block, size, true);
    memcpy(digest, state, 32);
}

/* ---- Memory -------------------------------------------------------------------------------------------------------------------------------- */

#ifndef HUGE_PAGE
#define HUGE_PAGE ((size_t)1 << 21)
#endif

struct memory { /* aligned memory that grows, and keeps nothing then */
    char *data;
    size_t bytes;
    void *mapped; /* if it was mapped, all of it */
    size_t mapped_bytes;
};

static void memory_free(struct memory *memory) {
    if (memory->mapped)
        munmap(memory->mapped, memory->mapped_bytes);
    else
        free(memory->data);
    memset(memory, 0, sizeof *memory);
}

/* Large memory is on huge pages if the system has them: small ones are scattered, and share caches as luck has it (support/buffers.py). */
static bool memory_ask(struct memory *memory, uint64_t wanted) {
    void *found = NULL;
    if (memory->data && memory->bytes >= wanted) return true;
    memory_free(memory);
    if (wanted > SIZE_MAX / 2) return false;
    size_t bytes = (size_t)wanted;
    if (bytes < HUGE_PAGE / 2) {
        if (posix_memalign(&found, ALIGNMENT, bytes ? bytes : 1) != 0) return false;
        memory->data = found, memory->bytes = bytes;
        return true;
    }
    size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    found = mmap(NULL, whole + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return false;
    memory->mapped = found, memory->mapped_bytes = whole + HUGE_PAGE;
    memory->data = (char *)(((uintptr_t)found + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    memory->bytes = bytes;
#ifdef MADV_HUGEPAGE
    madvise(memory->data, whole, MADV_HUGEPAGE);
#endif
    return true;
}

/* ---- Models -------------------------------------------------------------------------------------------------------------------------------- */

#define HEAD 4096 /* bytes before the weights in their file: a page, so that they can be mapped */

struct head { /* of a file of weights */
    char magic[8];
    uint32_t version, offset;
    uint64_t bytes;
    uint8_t digest[32];
};

struct stepwell_model {
    const struct description *of; /* so that the handle of another model is noticed */
    const uint8_t *weights;
    struct memory file; /* mapped, or a copy of it */
    int64_t *located;
    uint32_t users; /* the caller and contexts */
    uint32_t verified;
    pthread_mutex_t lock;
};

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

static bool has_feature(const struct feature *feature) {
    uint32_t reg[4] = {0}, saved = 0, high = 0, needed = 0;
    if (!__get_cpuid_count(feature->leaf, feature->subleaf, &reg[0], &reg[1], &reg[2], &reg[3])) return false;
    if (!(reg[feature->reg] >> feature->bit & 1)) return false;
    needed = strncmp(feature->name, "avx512", 6) == 0 ? 0xE6 : strncmp(feature->name, "amx", 3) == 0 ? 0x60000
        : strncmp(feature->name, "avx", 3) == 0 || strcmp(feature->name, "fma") == 0 || strcmp(feature->name, "f16c") == 0 ? 6 : 0;
    if (!needed) return true;
    __get_cpuid(1, &reg[0], &reg[1], &reg[2], &reg[3]);
    if (!(reg[2] >> 27 & 1)) return false; /* the system saves no registers but the oldest */
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0)); /* not moved before the test of whether there is such an instruction */
    return (saved & needed) == needed;
}

static bool may_use_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; } /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
#else
static bool has_feature(const struct feature *feature) { return getauxval(feature->leaf) >> feature->bit & 1; } /* an entry of the vector */
static bool may_use_tiles(void) { return false; }
#endif

static int check_machine(struct problem *problem) {
    const struct description *of = &the_model;
    for (int32_t i = 0; i < of->features; ++i)
        if (!has_feature(&of->feature[i]))
            return fail(problem, STEPWELL_BAD_CPU, "%s: this machine lacks %s, which the code needs", of->name, of->feature[i].name);
    if (of->tiles && !may_use_tiles())
        return fail(problem, STEPWELL_BAD_CPU, "%s: the system does not give the registers of AMX", of->name);
    return STEPWELL_OK;
}

static int check_head(const struct head *head, uint64_t size, const char *what, struct problem *problem) {
    const struct description *of = &the_model;
    if (memcmp(head->magic, "STEPWELL", 8) != 0) return fail(problem, STEPWELL_BAD_WEIGHTS, "%s: no weights of Stepwell", what);
    if (head->version != 1 || head->offset != HEAD)
        return fail(problem, STEPWELL_BAD_WEIGHTS, "%s: weights of version %u, expected 1", what, (unsigned)head->version);
    if (head->bytes != of->weights_bytes || memcmp(head->digest, of->digest, 32) != 0)
        return fail(problem, STEPWELL_BAD_WEIGHTS, "%s: the weights of another model than %s", what, of->name);
    if (size != HEAD + of->weights_bytes)
        return fail(problem, STEPWELL_BAD_WEIGHTS, "%s: expected %llu bytes, got %llu", what, (unsigned long long)(HEAD + of->weights_bytes),
                    (unsigned long long)size);
    return STEPWELL_OK;
}

/* Read so many bytes of a file; returns whether they were there. */
static bool read_all(int file, char *to, size_t bytes) {
    for (ssize_t got; bytes > 0; to += got, bytes -= (size_t)got)
        if ((got = read(file, to, bytes < (size_t)1 << 30 ? bytes : (size_t)1 << 30)) <= 0) return false;
    return true;
}

static int map_weights(stepwell_model *model, const char *path, bool copied, struct problem *problem) {
    struct head head;
    struct stat found;
    int status, file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return fail(problem, STEPWELL_BAD_WEIGHTS, "%s: %s", path, strerror(errno));
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || !read_all(file, (char *)&head, sizeof head))
        status = fail(problem, STEPWELL_BAD_WEIGHTS, "%s: no weights of Stepwell", path);
    else
        status = check_head(&head, (uint64_t)found.st_size, path, problem);
    size_t bytes = (size_t)found.st_size;
    if (status == STEPWELL_OK && copied) {
        if (!memory_ask(&model->file, bytes) || lseek(file, 0, SEEK_SET) != 0 || !read_all(file, model->file.data, bytes))
            status = fail(problem, STEPWELL_NO_MEMORY, "%s: it cannot be copied to memory", path);
    } else if (status == STEPWELL_OK) {
        void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
        if (mapped == MAP_FAILED) status = fail(problem, STEPWELL_NO_MEMORY, "%s: %s", path, strerror(errno));
        if (mapped != MAP_FAILED) model->file.mapped = model->file.data = mapped, model->file.mapped_bytes = bytes;
    }
    if (status == STEPWELL_OK) model->weights = (const uint8_t *)model->file.data + HEAD;
    close(file);
    return status;
}

static void release(stepwell_model *model) {
    if (__atomic_sub_fetch(&model->users, 1, __ATOMIC_SEQ_CST) != 0) return;
    memory_free(&model->file);
    free(model->located);
    pthread_mutex_destroy(&model->lock);
    free(model);
}

static int open_model(
    const char *path, const void *memory, size_t bytes, const stepwell_open_options *options, stepwell_model **result, struct problem *problem) {
    const struct description *of = &the_model;
    stepwell_model *model;
    int status = STEPWELL_OK;
    if (!result) return fail(problem, STEPWELL_BAD_ARGUMENT, "%s: expected a place for the model, got NULL", of->name);
    *result = NULL;
    if (options && (options->abi != STEPWELL_ABI_VERSION || options->size != sizeof *options || options->tensor_size != sizeof(stepwell_tensor)))
        return fail(problem, STEPWELL_BAD_ARGUMENT, "%s: the program uses another header than the one of version %d", of->name, STEPWELL_ABI_VERSION);
    if ((status = check_machine(problem)) != STEPWELL_OK) return status;
    if (!(model = calloc(1, sizeof *model))) return fail(problem, STEPWELL_NO_MEMORY, "%s: no memory", of->name);
    model->of = of, model->users = 1, model->verified = (options && options->flags & STEPWELL_UNVERIFIED) || of->embedded;
    pthread_mutex_init(&model->lock, NULL);
    if (of->embedded) {
        model->weights = of->embedded;
    } else if (memory) {
        struct head head;
        if (bytes < HEAD || (uintptr_t)memory % ALIGNMENT != 0) {
            status = fail(problem, STEPWELL_BAD_ARGUMENT, "%s: expected weights of at least %d bytes at a multiple of %d", of->name, HEAD, ALIGNMENT);
        } else {
            memcpy(&head, memory, sizeof head);
            status = check_head(&head, bytes, of->name, problem);
            model->weights = (const uint8_t *)memory + HEAD;
        }
    } else if (path) {
        status = map_weights(model, path, options && options->flags & STEPWELL_COPIED, problem);
    } else {
        status = fail(problem, STEPWELL_BAD_ARGUMENT, "%s: expected the file of its weights, got NULL", of->name);
    }
    if (status == STEPWELL_OK && of->places) { /* runtime/weights.py: Weights.table */
        model->located = malloc((size_t)of->places * sizeof *model->located);
        if (!model->located) status = fail(problem, STEPWELL_NO_MEMORY, "%s: no memory", of->name);
        for (int32_t i = 0; model->located && i < of->places; ++i)
            model->located[i] = (int64_t)((uintptr_t)model->weights + (uintptr_t)of->offsets[i] - (uintptr_t)model->located);
    }
    if (status != STEPWELL_OK) {
        release(model);
        return status;
    }
    *result = model;
    return STEPWELL_OK;
}

static int verify(stepwell_model *model, struct problem *problem) {
    uint8_t digest[32];
    int status = STEPWELL_OK;
    if (__atomic_load_n(&model->verified, __ATOMIC_ACQUIRE)) return STEPWELL_OK;
    pthread_mutex_lock(&model->lock);
    if (!model->verified) {
        digest_of(model->weights, model->of->weights_bytes, digest);
        if (memcmp(digest, model->of->digest, sizeof digest) == 0)
            __atomic_store_n(&model->verified, 1, __ATOMIC_RELEASE);
        else
            status = fail(problem, STEPWELL_BAD_WEIGHTS, "%s: the weights are damaged: they have another digest", model->of->name);
    }
    pthread_mutex_unlock(&model->lock);
    return status;
}

int API(open)(const char *weights, const stepwell_open_options *options, stepwell_model **model, char *error, size_t error_size) {
    struct problem problem = {0, ""};
    open_model(weights, NULL, 0, options, model, &problem);
    return tell(&problem, error, error_size);
}

int API(open_memory)(
    const void *weights, size_t bytes, const stepwell_open_options *options, stepwell_model **model, char *error, size_t error_size) {
    struct problem problem = {0, ""};
    if (!weights && !the_model.embedded)
        fail(&problem, STEPWELL_BAD_ARGUMENT, "%s: expected its weights, got NULL", the_model.name);
    else
        open_model(NULL, weights, bytes, options, model, &problem);
    return tell(&problem, error, error_size);
}

void API(close)(stepwell_model *model) {
    if (model) release(model);
}

static int check_model(const stepwell_model *model, struct problem *problem) {
    if (model && model->of == &the_model) return STEPWELL_OK;
    return fail(problem, STEPWELL_BAD_ARGUMENT, "%s: expected a model that %s_open has opened, got %s", the_model.name, the_model.name,
                model ? "another one" : "NULL");
}

int API(verify)(stepwell_model *model, char *error, size_t error_size) {
    struct problem problem = {0, ""};
    if (check_model(model, &problem) == STEPWELL_OK) verify(model, &problem);
    return tell(&problem, error, error_size);
}

int32_t API(input_count)(void) { return the_model.inputs; }
int32_t API(output_count)(void) { return the_model.outputs; }
const stepwell_info *API(input)(int32_t number) { return number < 0 || number >= the_model.inputs ? NULL : &the_model.input[number]; }
const stepwell_info *API(output)(int32_t number) { return number < 0 || number >= the_model.outputs ? NULL : &the_model.output[number]; }

/* ---- Boxes: tensors in sequences of any length (runtime/boxes.py) ------------------------------------------------------------------------------ */

#define FEW 64                /* blocks that are searched after each round of a loop */
#define LITTLE ((int64_t)1 << 20) /* bytes that need not be freed at once */

struct block {
    char *data;
    int64_t bytes, filled; /* filled: how much of it boxes refer to, -1 if that does not matter */
    bool nested, doomed;
};

struct boxes {
    struct block **block; /* in the order in which they were taken */
    int64_t count, room;
    int64_t bytes, due_count, due_bytes;
};

static void boxes_clear(struct boxes *boxes) {
    for (int64_t i = 0; i < boxes->count; ++i) free(boxes->block[i]->data), free(boxes->block[i]);
    free(boxes->block);
    memset(boxes, 0, sizeof *boxes);
}

static struct block *box_take(struct boxes *boxes, int64_t size, bool nested) {
    struct block *block;
    void *data = NULL;
    int64_t bytes = size + size / 8;
    if (boxes->count == boxes->room) {
        int64_t room = boxes->room ? 2 * boxes->room : 64;
        struct block **more = realloc(boxes->block, (size_t)room * sizeof *more);
        if (!more) return NULL;
        boxes->block = more, boxes->room = room;
    }
    if (!(block = malloc(sizeof *block))) return NULL;
    if ((uint64_t)bytes > SIZE_MAX / 2 || posix_memalign(&data, ALIGNMENT, bytes ? (size_t)bytes : 1) != 0) {
        free(block);
        return NULL;
    }
    if (nested) memset(data, 0, (size_t)bytes); /* it is searched to its end */
    block->data = data, block->bytes = bytes, block->filled = -1, block->nested = nested, block->doomed = false;
    boxes->block[boxes->count++] = block;
    boxes->bytes += bytes;
    return block;
}

/* The block that begins at `data`: the last ones are the likely ones. */
static struct block *box_at(const struct boxes *boxes, const char *data) {
    for (int64_t i = boxes->count; i-- > 0;)
        if (boxes->block[i]->data == data) return boxes->block[i];
    return NULL;
}

static struct block *box_grows(const struct boxes *boxes, const char *data, int64_t before, int64_t size) {
    struct block *block = box_at(boxes, data);
    return block && block->filled == before && size <= block->bytes ? block : NULL;
}

static struct block *box_grow(struct boxes *boxes, const char *data, int64_t before, int64_t size, bool nested, int64_t most) {
    struct block *block = box_grows(boxes, data, before, size);
    if (!block) {
        int64_t more = (most - boxes->bytes - size) / 2;
        block = box_take(boxes, size + (more < 0 ? 0 : more < size ? more : size), nested);
    }
    if (block) block->filled = size;
    return block;
}

static int by_address(const void *a, const void *b) {
    const struct block *const *one = a, *const *other = b;
    return ((*one)->data > (*other)->data) - ((*one)->data < (*other)->data);
}

/* Free the blocks taken since the record's mark to which no box of it leads. Returns whether there was memory for the search. */
static bool boxes_keep(struct boxes *boxes, int64_t *record, const char *base, int64_t most) {
    int64_t mark = record[1], since = boxes->count - mark, waiting = 0, room = record[0] + since, kept = mark;
    if (mark < 0) {
        record[1] = boxes->count;
        return true;
    }
    if (since <= 0 || (since > FEW && boxes->count < boxes->due_count && boxes->bytes < boxes->due_bytes)) return true;
    struct block **sorted = malloc((size_t)since * sizeof *sorted);
    const int64_t **rows = malloc((size_t)(room + 1) * sizeof *rows);
    int64_t *counts = malloc((size_t)(room + 1) * sizeof *counts);
    if (!sorted || !rows || !counts) {
        free(sorted), free(rows), free(counts);
        return false;
    }
    memcpy(sorted, boxes->block + mark, (size_t)since * sizeof *sorted);
    qsort(sorted, (size_t)since, sizeof *sorted, by_address);
    for (int64_t i = 0; i < since; ++i) sorted[i]->doomed = true;
    for (int64_t i = 0; i < record[0]; ++i) {
        rows[waiting] = (const int64_t *)(intptr_t)record[2 + 2 * i];
        counts[waiting++] = record[3 + 2 * i];
    }
    while (waiting > 0) { /* each block is added once at most */
        const int64_t *row = rows[--waiting];
        for (int64_t left = counts[waiting], i = 0; i < left; ++i) {
            struct block key, *wanted = &key, **found;
            key.data = (char *)((uintptr_t)base + (uintptr_t)row[i * BOX_ELEMENTS]);
            found = bsearch(&wanted, sorted, (size_t)since, sizeof *sorted, by_address);
            if (!found || !(*found)->doomed) continue;
            (*found)->doomed = false;
            if ((*found)->nested) {
                rows[waiting] = (const int64_t *)(const void *)(*found)->data;
                counts[waiting] = (*found)->bytes / (int64_t)(sizeof(int64_t) * BOX_ELEMENTS);
                ++waiting;
            }
        }
    }
    for (int64_t i = mark; i < boxes->count; ++i) {
        struct block *block = boxes->block[i];
        if (block->doomed) {
            boxes->bytes -= block->bytes;
            free(block->data), free(block);
        } else {
            boxes->block[kept++] = block;
        }
    }
    boxes->count = kept;
    free(sorted), free(rows), free(counts);
    int64_t allowed = boxes->bytes > LITTLE ? boxes->bytes : LITTLE, spare = (most - boxes->bytes) / 4;
    boxes->due_count = 2 * boxes->count, boxes->due_bytes = boxes->bytes + (allowed < spare ? allowed : spare);
    return true;
}

/* ---- Contexts ------------------------------------------------------------------------------------------------------------------------------ */

#define NOT_KNOWN INT64_MIN /* the value of a symbol that no input has given yet: others may be negative */
#define VERSION 1            /* of the functions that code calls (dialects/core/runtime_interface.py) */
#define MANY_THREADS 1024
#define SPIN 1000            /* microseconds: waking a thread takes 50, and kernels follow each other closely */

struct callbacks {
    int64_t version;
    void (*enter)(struct callbacks *, int64_t *, int64_t);
    void (*poll)(struct callbacks *, int64_t *, int64_t);
    void (*keep)(struct callbacks *, int64_t *, int64_t);
    stepwell_context *context;
};

struct state { /* of a pair */
    struct memory memory, spare;
    stepwell_tensor tensor; /* what it holds; along the axis `room` elements have memory */
    int64_t room;
};

struct stepwell_context {
    const struct description *of;
    stepwell_model *model;
    stepwell_context_options options;
    struct team team;
    bool has_team;
    uint32_t cancelled;
    struct problem problem;
    struct memory workspace;
    int64_t *table, *sized;  /* of the run, and as `sizes` has left it */
    bool is_sized;           /* for the symbols in it */
    int64_t *values;         /* of symbols, or NOT_KNOWN */
    uint64_t *hidden;
    void **pointers;         /* what the code takes */
    stepwell_tensor *argument, *result;
    struct memory *plain;    /* copies of booleans other than 0 and 1 */
    struct memory *blocks;   /* of segments */
    struct boxes boxes;
    struct callbacks callbacks;
    struct state *state;
    bool has_state;
    int64_t *lengths;
};

static int out_of_memory(stepwell_context *context, const char *what, uint64_t bytes) {
    unsigned long long size = bytes;
    return fail(&context->problem, STEPWELL_NO_MEMORY, "%s: no memory for %s of %llu bytes", context->of->name, what, size);
}

/* The bytes of a tensor; -1 if they are more than a quarter of what addresses can tell apart, or if a size is not known. */
static int64_t bytes_of(const stepwell_tensor *tensor, int64_t item) {
    int64_t bytes = item;
    bool empty = false;
    for (int32_t i = 0; i < tensor->rank; ++i) {
        if (tensor->shape[i] < 0) return -1;
        if (tensor->shape[i] == 0) empty = true;
    }
    if (empty) return 0;
    for (int32_t i = 0; i < tensor->rank; ++i)
        if (__builtin_mul_overflow(bytes, tensor->shape[i], &bytes) || (uint64_t)bytes > SIZE_MAX / 4) return -1;
    return bytes;
}

static const char *shape_text(const stepwell_tensor *tensor, char text[128]) {
    size_t end = 0;
    if (tensor->rank == 0) return "a scalar";
    for (int32_t i = 0; i < tensor->rank && end < 100; ++i)
        end += (size_t)snprintf(text + end, 128 - end, "%s%lld", i ? "x" : "", (long long)tensor->shape[i]);
    return text;
}

static const char *expected_text(const stepwell_info *info, char text[128]) {
    size_t end = 0;
    if (info->rank == 0) return "a scalar";
    for (int32_t i = 0; i < info->rank && end < 100; ++i) {
        const char *by = i ? "x" : "";
        if (info->shape[i] >= 0)
            end += (size_t)snprintf(text + end, 128 - end, "%s%lld", by, (long long)info->shape[i]);
        else
            end += (size_t)snprintf(text + end, 128 - end, "%s%.20s", by, info->symbols && info->symbols[i] ? info->symbols[i] : "?");
    }
    return text;
}

/* ---- What code asks (runtime/late_sizes.py: Run) ---- */

static int too_large(stepwell_context *context, const struct segment *segment, int64_t needed) {
    return fail(&context->problem, STEPWELL_LIMIT, "%s: results would take %lld bytes of memory, more than %lld (limit workspace_bytes)",
                segment->nodes, (long long)needed, (long long)context->of->most_bytes);
}

/* Give memory to an output, whose shape is set. */
static int give_memory(stepwell_context *context, int32_t output) {
    const struct argument *of = &context->of->result[output];
    stepwell_tensor *tensor = &context->result[output];
    int64_t bytes = bytes_of(tensor, of->item);
    static char nothing[ALIGNMENT];
    if (bytes < 0) return fail(&context->problem, STEPWELL_LIMIT, "output '%s': its size does not fit %d bits", of->info.name,
                               (int)sizeof(size_t) * 8 - 2);
    if (tensor->data) {
        if ((uint64_t)bytes > tensor->bytes)
            return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "output '%s': expected memory of %lld bytes, got %llu", of->info.name,
                        (long long)bytes, (unsigned long long)tensor->bytes);
        tensor->bytes = (size_t)bytes;
        return STEPWELL_OK;
    }
    tensor->bytes = (size_t)bytes;
    for (int32_t i = 0; i < context->of->pairs; ++i) { /* a state that is passed on whole */
        if (context->of->pair[i].output != output) continue;
        struct memory *memory = &context->state[i].spare;
        if (!memory_ask(memory, (uint64_t)bytes)) return out_of_memory(context, of->info.name, (unsigned long long)bytes);
        tensor->data = memory->data;
        return STEPWELL_OK;
    }
    if (bytes == 0) {
        tensor->data = nothing;
        return STEPWELL_OK;
    }
    if (!context->options.allocate)
        return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "output '%s': expected memory, or a function `allocate`, got NULL", of->info.name);
    int32_t number = output; /* among the outputs of the model, without the state */
    for (int32_t i = 0; context->of->of_output && i < context->of->outputs; ++i)
        if (context->of->of_output[i] == output) number = i;
    tensor->data = context->options.allocate(context->options.user, number, tensor);
    if (!tensor->data) return out_of_memory(context, of->info.name, (uint64_t)bytes);
    return STEPWELL_OK;
}

/* Whether a slot has memory of its own. */
static bool is_alone(const struct segment *segment, int32_t slot) {
    for (int32_t i = 0; i < segment->outputs; ++i)
        if (segment->output[i][0] == slot) return true;
    for (int32_t i = 0; i < segment->boxes; ++i)
        if (segment->box[i][0] == slot) return true;
    return false;
}

static int enter_segment(stepwell_context *context, int64_t *table, int64_t number) {
    const struct description *of = context->of;
    const struct segment *segment = &of->segment[number];
    int64_t *slots = table + segment->start + segment->count, *told = slots + segment->slots;
    int64_t total = *told++, base = (int64_t)(intptr_t)context->workspace.data, needed = total;
    int status;
    const int64_t *sizes = told, *grown = told + segment->outputs + segment->boxes, *shapes = grown + 2 * segment->grows;
    for (int32_t i = 0; i < segment->outputs; ++i)
        if (__builtin_add_overflow(needed, sizes[i], &needed)) return too_large(context, segment, INT64_MAX);
    for (int32_t i = 0; i < segment->boxes; ++i) {
        bool there = false;
        for (int32_t g = 0; g < segment->grows; ++g)
            if (segment->grow[g] == segment->box[i][0])
                there = box_grows(&context->boxes, (char *)(intptr_t)(slots[segment->grow[g]] + base), grown[2 * g], grown[2 * g + 1]) != NULL;
        if (!there && __builtin_add_overflow(needed, sizes[segment->outputs + i], &needed)) return too_large(context, segment, INT64_MAX);
    }
    if (needed > of->most_bytes - context->boxes.bytes) return too_large(context, segment, needed);
    struct memory *block = &context->blocks[number];
    if (!memory_ask(block, (uint64_t)total)) return out_of_memory(context, segment->nodes, (unsigned long long)total);
    int64_t begin = (int64_t)(intptr_t)block->data;
    for (int32_t slot = 0; slot < segment->slots; ++slot) /* those that lie in the block */
        if (!is_alone(segment, slot)) slots[slot] += begin - base;
    for (int32_t i = 0; i < segment->outputs; ++i) {
        int32_t output = segment->output[i][1];
        stepwell_tensor *tensor = &context->result[output];
        for (int32_t d = 0; d < tensor->rank; ++d)
            if (of->result[output].sizes[d] == -1) tensor->shape[d] = *shapes++;
        if ((status = give_memory(context, output)) != STEPWELL_OK) return status;
        slots[segment->output[i][0]] = (int64_t)(intptr_t)tensor->data - base;
    }
    for (int32_t i = 0; i < segment->boxes; ++i) {
        int32_t slot = segment->box[i][0], g = 0;
        int64_t size = sizes[segment->outputs + i];
        bool nested = segment->box[i][1] != 0;
        while (g < segment->grows && segment->grow[g] != slot) ++g;
        struct block *taken = g == segment->grows
            ? box_take(&context->boxes, size, nested)
            : box_grow(&context->boxes, (char *)(intptr_t)(slots[slot] + base), grown[2 * g], grown[2 * g + 1], nested, of->most_bytes);
        if (!taken) return out_of_memory(context, segment->nodes, (unsigned long long)size);
        slots[slot] = (int64_t)(intptr_t)taken->data - base;
    }
    return STEPWELL_OK;
}

static void enter(struct callbacks *callbacks, int64_t *table, int64_t number) {
    stepwell_context *context = callbacks->context;
    if (enter_segment(context, table, number) == STEPWELL_OK) table[context->of->late - 1] = 1;
}

static void poll_(struct callbacks *callbacks, int64_t *table, int64_t round) {
    stepwell_context *context = callbacks->context;
    int64_t most = context->of->most_rounds, next = round + 16;
    if (__atomic_load_n(&context->cancelled, __ATOMIC_RELAXED))
        fail(&context->problem, STEPWELL_CANCELLED, "%s: the run was cancelled", context->of->name);
    else if (round >= most)
        fail(&context->problem, STEPWELL_LIMIT, "a loop goes on after %lld rounds, more than it may (limit loop_rounds)", (long long)round);
    else
        table[context->of->late - 1] = next < most ? next : most > round + 1 ? most : round + 1;
}

static void keep(struct callbacks *callbacks, int64_t *table, int64_t record) {
    stepwell_context *context = callbacks->context;
    if (boxes_keep(&context->boxes, (int64_t *)(intptr_t)record, context->workspace.data, context->of->most_bytes))
        table[context->of->late - 1] = 1;
    else
        out_of_memory(context, "the search of boxes", 0);
}

/* ---- What code finds wrong ---- */

static int64_t decoded(uint64_t code) { return code % 2 ? -(int64_t)(code / 2) - 1 : (int64_t)(code / 2); }

static int64_t size_of(const stepwell_context *context, size_code size) {
    return size >= -1 ? size : context->table ? context->table[-2 - size] : -1;
}

static int bad_index(stepwell_context *context, int64_t number) {
    const struct check *check = &context->of->check[number];
    const uint64_t *codes = context->hidden;
    struct problem *problem = &context->problem;
    for (int32_t i = 0; i < check->result; ++i) codes += context->of->widths[i];
    if (check->reason) return fail(problem, STEPWELL_BAD_INDEX, "%s: %s", check->node, check->reason);
    for (int32_t i = 0; i < check->count; ++i) {
        int64_t size = check->compared ? -1 : size_of(context, check->sizes[i]);
        int64_t least = size_of(context, check->several) == 0 ? 1 : 0, twice = check->from_start ? size : 2 * size;
        uint64_t limit = check->compared || check->exact ? 1 : (uint64_t)(twice > least ? twice : least);
        if (size >= 0 && codes[i] < limit) continue;
        if (check->compared && codes[i] == 0) continue;
        long long index = check->compared ? decoded(codes[i] - 1) : check->from_start && !check->exact ? (int64_t)codes[i] : decoded(codes[i]);
        char sizes[32];
        snprintf(sizes, sizeof sizes, "%lld", (long long)size);
        const char *known = size < 0 ? check->texts[i] : sizes;
        if (check->exact)
            return fail(problem, STEPWELL_BAD_INDEX, "%s of %s: the data ask for %+lld elements along dimension %lld, of which there are %s",
                        check->op, check->node, index, (long long)check->dims[i], known);
        return fail(problem, STEPWELL_BAD_INDEX, "%s of %s: index %lld is out of range for dimension %lld of size %s", check->op, check->node,
                    index, (long long)check->dims[i], known);
    }
    return fail(problem, STEPWELL_BAD_INDEX, "%s of %s: an index is out of range", check->op, check->node);
}

/* What the status of `sizes`, or of a segment of `main`, says. */
static int bad_sizes(stepwell_context *context, int64_t code, bool before) {
    const struct description *of = context->of;
    struct problem *problem = &context->problem;
    int kind = (int)(code & 0xFF);
    int64_t number = code >> 8 & 0xFFFFFF;
    const struct segment *segment = before || !of->segments ? NULL : &of->segment[code >> 32];
    const char *where = segment ? segment->nodes : of->name;
    if (kind == V_STOPPED && problem->status) return problem->status;
    switch (kind) {
    case V_INDEX:
        return bad_index(context, number);
    case V_NEGATIVE:
    case V_MISMATCH:
        if (segment)
            return fail(problem, STEPWELL_BAD_SIZES, "%s: the data ask for %lld as the size %s", where,
                        (long long)context->table[segment->start + number], segment->sizes[number]);
        return fail(problem, STEPWELL_BAD_SIZES, "%s: the size %s is negative", where, of->symbol_names[number]);
    case V_ASSUMPTION:
    case V_BROADCAST:
        return fail(problem, STEPWELL_BAD_SIZES, "%s: the sizes do not fit: expected %s", where,
                    segment ? segment->assumptions[number] : of->assumptions[number]);
    case V_DIVISION:
        return fail(problem, STEPWELL_BAD_SIZES, "%s: a size divides by 0", where);
    case V_OVERFLOW:
        return fail(problem, STEPWELL_LIMIT, "%s: a size does not fit 64 bits, or memory 62", where);
    case V_WORKSPACE:
        return fail(problem, STEPWELL_LIMIT, "%s: the sizes need more workspace than %lld bytes (limit workspace_bytes)", where,
                    (long long)of->most_bytes);
    case V_OUTPUT:
        return fail(problem, STEPWELL_LIMIT, "output '%s': more than %lld bytes (limit value_bytes)", of->result[number].info.name,
                    (long long)of->most_value_bytes);
    case V_DIMENSION:
        return fail(problem, STEPWELL_LIMIT, "%s: a dimension of size %s is more than %lld (limit value_bytes)", where, of->symbol_names[number],
                    (long long)of->most_value_bytes);
    case V_INTERFACE:
        return fail(problem, STEPWELL_BAD_ARGUMENT, "%s: the code is for another version of the run time than %d", where, VERSION);
    default:
        return fail(problem, STEPWELL_BAD_SIZES, "%s: the code returned status %lld", where, (long long)code);
    }
}

/* ---- Arrays ---- */

static int64_t element(const stepwell_tensor *tensor, int32_t number) {
    const char *data = tensor->data;
    switch (tensor->dtype) {
    case STEPWELL_INT64: case STEPWELL_UINT64: { int64_t x; memcpy(&x, data + 8 * number, 8); return x; }
    case STEPWELL_INT32: { int32_t x; memcpy(&x, data + 4 * number, 4); return x; }
    case STEPWELL_UINT32: { uint32_t x; memcpy(&x, data + 4 * number, 4); return x; }
    case STEPWELL_INT16: { int16_t x; memcpy(&x, data + 2 * number, 2); return x; }
    case STEPWELL_UINT16: { uint16_t x; memcpy(&x, data + 2 * number, 2); return x; }
    case STEPWELL_INT8: return ((const int8_t *)data)[number];
    case STEPWELL_FLOAT: { float x; memcpy(&x, data + 4 * number, 4); return (int64_t)x; }
    case STEPWELL_DOUBLE: { double x; memcpy(&x, data + 8 * number, 8); return (int64_t)x; }
    default: return ((const uint8_t *)data)[number];
    }
}

/* Whether a size is a symbol, and not a formula of symbols. */
static bool is_symbol(const struct description *of, size_code size) { return size <= -2 && -2 - size < of->symbols; }

/* Take the shape of an argument: compare what is fixed, and bind symbols. */
static int take_shape(stepwell_context *context, int32_t number, const stepwell_tensor *given, const char *kind) {
    const struct description *of = context->of;
    const struct argument *argument = &of->argument[number];
    const stepwell_info *info = &argument->info;
    char expected[128], came[128];
    if (given->dtype != info->dtype)
        return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "%s '%s': expected elements of type %d, got %d", kind, info->name, (int)info->dtype,
                    (int)given->dtype);
    bool fits = given->rank == info->rank;
    for (int32_t d = 0; fits && d < info->rank; ++d)
        fits = given->shape[d] >= 0 && (argument->sizes[d] < 0 || given->shape[d] == argument->sizes[d]);
    if (!fits)
        return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "%s '%s': expected %s, got %s", kind, info->name, expected_text(info, expected),
                    given->rank < 0 || given->rank > STEPWELL_MAX_RANK ? "another rank" : shape_text(given, came));
    int64_t bytes = bytes_of(given, argument->item);
    if (bytes < 0 || (given->bytes && given->bytes < (uint64_t)bytes) || (!given->data && bytes) ||
        (bytes && (uintptr_t)given->data % (argument->item >= 8 ? 8 : (unsigned)argument->item) != 0))
        return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "%s '%s': expected %lld bytes at a multiple of %d, got %llu at %p", kind, info->name,
                    (long long)bytes, (int)argument->item, (unsigned long long)given->bytes, given->data);
    for (int32_t d = 0; d < info->rank; ++d) {
        if (!is_symbol(of, argument->sizes[d])) continue;
        int64_t *value = &context->values[-2 - argument->sizes[d]];
        if (*value != NOT_KNOWN && *value != given->shape[d])
            return fail(&context->problem, STEPWELL_BAD_SIZES, "%s '%s': expected %s = %lld, as in another input, got %lld", kind, info->name,
                        info->symbols[d], (long long)*value, (long long)given->shape[d]);
        *value = given->shape[d];
    }
    for (int32_t i = 0; i < argument->valued; ++i)
        if (argument->elements[i] >= 0) context->values[argument->elements[i]] = element(given, i);
    context->argument[number] = *given;
    context->argument[number].bytes = (size_t)bytes;
    return STEPWELL_OK;
}

/* Sizes of inputs that are formulas of others. */
static int compare_formulas(stepwell_context *context) {
    const struct description *of = context->of;
    for (int32_t i = 0; i < of->arguments; ++i) {
        const struct argument *argument = &of->argument[i];
        for (int32_t d = 0; d < argument->info.rank; ++d) {
            if (argument->sizes[d] > -2 || is_symbol(of, argument->sizes[d])) continue;
            int64_t expected = size_of(context, argument->sizes[d]), came = context->argument[i].shape[d];
            if (expected != came)
                return fail(&context->problem, STEPWELL_BAD_SIZES, "input '%s': expected %s = %lld, as the sizes of others say, got %lld",
                            argument->info.name, argument->info.symbols[d], (long long)expected, (long long)came);
        }
    }
    return STEPWELL_OK;
}

/* Complete the table for the symbols, and see to the workspace. */
static int take_sizes(stepwell_context *context) {
    const struct description *of = context->of;
    uint64_t workspace = (uint64_t)of->workspace_bytes;
    if (of->sizes) {
        if (!context->is_sized || memcmp(context->sized, context->values, (size_t)of->symbols * sizeof(int64_t)) != 0) {
            memset(context->sized, 0, (size_t)of->entries * sizeof(int64_t));
            for (int32_t i = 0; i < of->symbols; ++i) context->sized[i] = context->values[i] == NOT_KNOWN ? 0 : context->values[i];
            context->is_sized = false;
            int64_t code = of->sizes(context->sized);
            if (code) return bad_sizes(context, code, true);
            context->is_sized = true;
        }
        workspace = (uint64_t)context->sized[of->workspace];
    }
    if (of->entries) memcpy(context->table, context->sized, (size_t)of->entries * sizeof(int64_t));
    return memory_ask(&context->workspace, workspace) ? STEPWELL_OK : out_of_memory(context, "the workspace", workspace);
}

static void describe_result(stepwell_context *context, int32_t number) {
    const struct argument *result = &context->of->result[number];
    stepwell_tensor *tensor = &context->result[number];
    tensor->dtype = result->info.dtype, tensor->rank = result->info.rank;
    for (int32_t d = 0; d < tensor->rank; ++d) tensor->shape[d] = size_of(context, result->sizes[d]);
}

static bool waits(const struct argument *result) {
    for (int32_t d = 0; d < result->info.rank; ++d)
        if (result->sizes[d] == -1) return true;
    return false;
}

static int32_t argument_of(const struct description *of, int32_t input) { return of->of_input ? of->of_input[input] : input; }
static int32_t result_of(const struct description *of, int32_t output) { return of->of_output ? of->of_output[output] : output; }

/* ---- State (driver/bound.py: BoundModel) ---- */

#define LEAST 64 /* the smallest room of a cache, in elements along its axis */

/* Copy `count` elements along the axis from one array to another with more room. */
static void copy_along(
    char *to, const char *from, const stepwell_tensor *whole, int32_t axis, int64_t to_room, int64_t from_room, int64_t count, int64_t item) {
    int64_t outer = 1, inner = item;
    for (int32_t d = 0; d < whole->rank; ++d) *(d < axis ? &outer : &inner) *= d == axis ? 1 : whole->shape[d];
    for (int64_t i = 0; i < outer; ++i) memcpy(to + i * to_room * inner, from + i * from_room * inner, (size_t)(count * inner));
}

/* Give a cache room for so many elements along its axis; what it holds is kept. */
static int make_room(stepwell_context *context, const struct pair *pair, struct state *state, int64_t needed) {
    const struct description *of = context->of;
    int64_t item = of->argument[pair->input].item, bytes, room = 2 * needed > LEAST ? 2 * needed : LEAST;
    stepwell_tensor whole = state->tensor;
    if (state->room >= needed && state->memory.data) return STEPWELL_OK;
    whole.shape[pair->axis] = room;
    bytes = bytes_of(&whole, item);
    if (bytes < 0 || bytes > of->most_value_bytes) {
        whole.shape[pair->axis] = room = needed;
        bytes = bytes_of(&whole, item);
    }
    if (bytes < 0 || bytes > of->most_value_bytes)
        return fail(&context->problem, STEPWELL_LIMIT, "state '%s': %lld elements along dimension %d are more than %lld bytes (limit value_bytes)",
                    of->argument[pair->input].info.name, (long long)needed, (int)pair->axis, (long long)of->most_value_bytes);
    struct memory more = {0};
    if (!memory_ask(&more, (uint64_t)bytes)) return out_of_memory(context, of->argument[pair->input].info.name, (unsigned long long)bytes);
    if (state->memory.data && state->tensor.shape[pair->axis])
        copy_along(more.data, state->memory.data, &whole, pair->axis, room, state->room, state->tensor.shape[pair->axis], item);
    memory_free(&state->memory);
    state->memory = more, state->room = room;
    return STEPWELL_OK;
}

/* The state before the first run: sizes that follow from no input are 0, and what is there is zeros. */
static int begin_state(stepwell_context *context) {
    const struct description *of = context->of;
    for (int32_t i = 0; i < of->pairs; ++i) {
        const struct pair *pair = &of->pair[i];
        const struct argument *argument = &of->argument[pair->input];
        struct state *state = &context->state[i];
        state->tensor.dtype = argument->info.dtype, state->tensor.rank = argument->info.rank;
        for (int32_t d = 0; d < argument->info.rank; ++d) {
            size_code size = argument->sizes[d];
            int32_t symbol = d == pair->axis ? pair->length : is_symbol(of, size) ? (int32_t)(-2 - size) : -1;
            state->tensor.shape[d] = symbol < 0 ? (size >= 0 ? size : 0) : larger(context->values[symbol], 0);
        }
        if (pair->axis >= 0) {
            state->room = 0;
            memory_free(&state->memory);
            int status = make_room(context, pair, state, state->tensor.shape[pair->axis]);
            if (status != STEPWELL_OK) return status;
            memset(state->memory.data, 0, state->tensor.shape[pair->axis] ? state->memory.bytes : 0);
        } else {
            int64_t bytes = bytes_of(&state->tensor, argument->item);
            if (bytes < 0 || !memory_ask(&state->memory, (uint64_t)bytes)) return out_of_memory(context, argument->info.name, (uint64_t)bytes);
            memset(state->memory.data, 0, (size_t)bytes);
        }
    }
    context->has_state = true;
    return STEPWELL_OK;
}

/* The arguments that are state: caches with all their room, others as they are. */
static int take_state(stepwell_context *context) {
    const struct description *of = context->of;
    int status;
    if (!context->has_state && (status = begin_state(context)) != STEPWELL_OK) return status;
    for (int32_t i = 0; i < of->pairs; ++i) {
        const struct pair *pair = &of->pair[i];
        if (pair->axis >= 0) context->values[pair->length] = context->state[i].tensor.shape[pair->axis];
    }
    for (int32_t i = 0; i < of->pairs; ++i) {
        const struct pair *pair = &of->pair[i];
        struct state *state = &context->state[i];
        stepwell_tensor given = state->tensor;
        if (pair->axis >= 0) {
            if ((status = make_room(context, pair, state, pair->after(context->values))) != STEPWELL_OK) return status;
            given.shape[pair->axis] = state->room;
        }
        given.data = state->memory.data, given.bytes = 0;
        if ((status = take_shape(context, pair->input, &given, "state")) != STEPWELL_OK) return status;
    }
    return STEPWELL_OK;
}

/* After a run: what it has written is the state of the next one. */
static void keep_state(stepwell_context *context) {
    for (int32_t i = 0; i < context->of->pairs; ++i) {
        const struct pair *pair = &context->of->pair[i];
        struct state *state = &context->state[i];
        if (pair->axis >= 0) {
            state->tensor.shape[pair->axis] = pair->after(context->values);
        } else {
            struct memory used = state->memory;
            state->memory = state->spare, state->spare = used;
            memcpy(state->tensor.shape, context->result[pair->output].shape, sizeof state->tensor.shape);
        }
    }
}

void API(reset)(stepwell_context *context) {
    if (context) context->has_state = false;
}

/* ---- Runs ---- */

static int check_context(stepwell_context *context, const void *inputs, const void *outputs) {
    const struct description *of = &the_model;
    if (!context || context->of != of) return STEPWELL_BAD_ARGUMENT;
    context->problem.status = STEPWELL_OK, context->problem.text[0] = 0;
    if ((!inputs && of->inputs) || (!outputs && of->outputs))
        return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "%s: expected %d inputs and %d outputs, got NULL", of->name, (int)of->inputs,
                    (int)of->outputs);
    return STEPWELL_OK;
}

static int prepare(stepwell_context *context, const stepwell_tensor *inputs) {
    const struct description *of = context->of;
    int status;
    for (int32_t i = 0; i < of->symbols; ++i) context->values[i] = NOT_KNOWN;
    for (int32_t i = 0; i < of->inputs; ++i)
        if ((status = take_shape(context, argument_of(of, i), &inputs[i], "input")) != STEPWELL_OK) return status;
    if (of->pairs && (status = take_state(context)) != STEPWELL_OK) return status;
    if (of->lengths) { /* how much the caches hold */
        const struct argument *last = &of->argument[of->arguments - 1];
        stepwell_tensor *tensor = &context->argument[of->arguments - 1];
        for (int32_t i = 0; i < last->valued; ++i) context->lengths[i] = last->elements[i] < 0 ? 0 : context->values[last->elements[i]];
        tensor->data = context->lengths, tensor->bytes = (size_t)last->valued * sizeof(int64_t);
    }
    if ((status = take_sizes(context)) != STEPWELL_OK || (status = compare_formulas(context)) != STEPWELL_OK) return status;
    for (int32_t i = 0; i < of->results; ++i) describe_result(context, i);
    return STEPWELL_OK;
}

int API(prepare)(stepwell_context *context, const stepwell_tensor *inputs, stepwell_tensor *outputs) {
    int status = check_context(context, inputs, outputs);
    if (status != STEPWELL_OK || (status = prepare(context, inputs)) != STEPWELL_OK) return status;
    for (int32_t i = 0; i < context->of->outputs; ++i) {
        int32_t number = result_of(context->of, i);
        int64_t bytes = bytes_of(&context->result[number], context->of->result[number].item);
        void *data = outputs[i].data;
        outputs[i] = context->result[number];
        outputs[i].data = data, outputs[i].bytes = bytes < 0 ? 0 : (size_t)bytes;
    }
    return STEPWELL_OK;
}

static bool overlap(const stepwell_tensor *a, const stepwell_tensor *b) {
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return a->bytes && b->bytes && x < y + b->bytes && y < x + a->bytes;
}

static int give_outputs(stepwell_context *context, const stepwell_tensor *outputs) {
    const struct description *of = context->of;
    int status;
    for (int32_t i = 0; i < of->results; ++i) context->result[i].data = NULL, context->result[i].bytes = 0;
    for (int32_t i = 0; i < of->outputs; ++i) {
        stepwell_tensor *tensor = &context->result[result_of(of, i)];
        tensor->data = outputs[i].data, tensor->bytes = outputs[i].bytes;
        if (tensor->data && (uintptr_t)tensor->data % (unsigned)(of->result[result_of(of, i)].item >= 8 ? 8 : of->result[result_of(of, i)].item) != 0)
            return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "output '%s': expected memory that is aligned to its elements, got %p",
                        of->output[i].name, tensor->data);
    }
    for (int32_t i = 0; i < of->pairs; ++i)
        if (of->pair[i].axis >= 0) {
            stepwell_tensor *tensor = &context->result[of->pair[i].output];
            tensor->data = context->state[i].memory.data, tensor->bytes = context->state[i].memory.bytes;
        }
    for (int32_t i = 0; i < of->results; ++i)
        if (!waits(&of->result[i]) && (status = give_memory(context, i)) != STEPWELL_OK) return status;
    for (int32_t i = 0; i < of->outputs; ++i) {
        const stepwell_tensor *own = &context->result[result_of(of, i)];
        for (int32_t j = 0; j < i; ++j)
            if (overlap(own, &context->result[result_of(of, j)]))
                return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "output '%s': expected memory of its own, got memory shared with output '%s'",
                            of->output[i].name, of->output[j].name);
        for (int32_t j = 0; j < of->inputs; ++j)
            if (overlap(own, &context->argument[argument_of(of, j)]))
                return fail(&context->problem, STEPWELL_BAD_ARGUMENT, "output '%s': expected memory of its own, got memory shared with input '%s'",
                            of->output[i].name, of->input[j].name);
    }
    return STEPWELL_OK;
}

/* Booleans as code takes them: bytes of 0 or 1. */
static int plain_booleans(stepwell_context *context) {
    for (int32_t i = 0; i < context->of->arguments; ++i) {
        stepwell_tensor *given = &context->argument[i];
        const uint8_t *data = given->data;
        uint8_t seen = 0;
        if (context->of->argument[i].info.dtype != STEPWELL_BOOL) continue;
        for (size_t at = 0; at < given->bytes; ++at) seen |= data[at];
        if (seen <= 1) continue;
        if (!memory_ask(&context->plain[i], given->bytes)) return out_of_memory(context, context->of->argument[i].info.name, given->bytes);
        for (size_t at = 0; at < given->bytes; ++at) context->plain[i].data[at] = data[at] != 0;
        given->data = context->plain[i].data;
    }
    return STEPWELL_OK;
}

static int run(stepwell_context *context, const stepwell_tensor *inputs, const stepwell_tensor *outputs) {
    const struct description *of = context->of;
    int status = verify(context->model, &context->problem);
    void **next = context->pointers;
    uint64_t *hidden = context->hidden;
    if (status != STEPWELL_OK || (status = prepare(context, inputs)) != STEPWELL_OK || (status = give_outputs(context, outputs)) != STEPWELL_OK ||
        (status = plain_booleans(context)) != STEPWELL_OK)
        return status;
    for (int32_t i = 0; i < of->arguments; ++i) *next++ = context->argument[i].data;
    for (int32_t i = 0; i < of->results; ++i) *next++ = waits(&of->result[i]) ? NULL : context->result[i].data;
    for (int32_t i = 0; i < of->hidden; hidden += of->widths[i++]) *next++ = hidden;
    *next++ = of->places ? (void *)context->model->located : (void *)(uintptr_t)context->model->weights;
    *next++ = context->workspace.data;
    *next++ = context->table;
    if (of->late) context->table[of->late - 2] = (int64_t)(intptr_t)&context->callbacks, context->table[of->late - 1] = 0;
    struct member before = *me();
    memset(me(), 0, sizeof before);
    if (context->has_team) me()->team = &context->team;
    int64_t code = of->main(context->pointers);
    *me() = before;
    if (code) status = bad_sizes(context, code, false);
    boxes_clear(&context->boxes);
    if (status == STEPWELL_OK) keep_state(context);
    return status;
}

int API(run)(stepwell_context *context, const stepwell_tensor *inputs, stepwell_tensor *outputs) {
    int status = check_context(context, inputs, outputs);
    if (status != STEPWELL_OK) return status;
    __atomic_store_n(&context->cancelled, 0, __ATOMIC_RELAXED);
    status = run(context, inputs, outputs);
    for (int32_t i = 0; i < context->of->outputs; ++i) { /* also after a failure: what `allocate` gave is the caller's */
        const stepwell_tensor *made = &context->result[result_of(context->of, i)];
        if (status == STEPWELL_OK || (made->data && !outputs[i].data)) outputs[i] = *made;
    }
    return status;
}

void API(cancel)(stepwell_context *context) {
    if (context) __atomic_store_n(&context->cancelled, 1, __ATOMIC_RELAXED);
}

const char *API(error)(const stepwell_context *context) {
    return context && context->of == &the_model ? context->problem.text : "expected a context of this model";
}

size_t API(context_bytes)(const stepwell_context *context) {
    size_t bytes = sizeof *context + context->workspace.bytes;
    for (int32_t i = 0; i < context->of->segments; ++i) bytes += context->blocks[i].bytes;
    for (int32_t i = 0; i < context->of->pairs; ++i) bytes += context->state[i].memory.bytes + context->state[i].spare.bytes;
    return bytes;
}

void API(context_free)(stepwell_context *context) {
    if (!context) return;
    if (context->has_team) team_end(&context->team);
    for (int32_t i = 0; context->plain && i < context->of->arguments; ++i) memory_free(&context->plain[i]);
    for (int32_t i = 0; context->blocks && i < context->of->segments; ++i) memory_free(&context->blocks[i]);
    for (int32_t i = 0; context->state && i < context->of->pairs; ++i)
        memory_free(&context->state[i].memory), memory_free(&context->state[i].spare);
    boxes_clear(&context->boxes);
    memory_free(&context->workspace);
    free(context->table), free(context->sized), free(context->values), free(context->hidden), free(context->pointers), free(context->argument);
    free(context->result), free(context->plain), free(context->blocks), free(context->state), free(context->lengths);
    release(context->model);
    free(context);
}

static void *zeros(bool *enough, int64_t count, size_t size) {
    void *found = calloc(count > 0 ? (size_t)count : 1, size);
    *enough = *enough && found;
    return found;
}

int API(context_new)(stepwell_model *model, const stepwell_context_options *options, stepwell_context **result, char *error, size_t error_size) {
    const struct description *of = &the_model;
    stepwell_context_options chosen = STEPWELL_CONTEXT_OPTIONS;
    struct problem problem = {0, ""};
    bool enough = true;
    int64_t widths = 0;
    if (result) *result = NULL;
    if (options && options->size == sizeof chosen) chosen = *options;
    if (!result)
        fail(&problem, STEPWELL_BAD_ARGUMENT, "%s: expected a place for the context, got NULL", of->name);
    else if (check_model(model, &problem) == STEPWELL_OK && options && options->size != sizeof chosen)
        fail(&problem, STEPWELL_BAD_ARGUMENT, "%s: expected options of %d bytes, got %u", of->name, (int)sizeof chosen, (unsigned)options->size);
    else if (!problem.status && (chosen.threads < 1 || chosen.threads > MANY_THREADS))
        fail(&problem, STEPWELL_BAD_ARGUMENT, "%s: expected 1 to %d threads, got %d", of->name, MANY_THREADS, (int)chosen.threads);
    stepwell_context *context = problem.status ? NULL : calloc(1, sizeof *context);
    if (!problem.status && !context) fail(&problem, STEPWELL_NO_MEMORY, "%s: no memory", of->name);
    if (problem.status) return tell(&problem, error, error_size);
    __atomic_add_fetch(&model->users, 1, __ATOMIC_SEQ_CST);
    context->of = of, context->model = model, context->options = chosen;
    for (int32_t i = 0; i < of->hidden; ++i) widths += of->widths[i];
    context->table = zeros(&enough, of->entries, sizeof *context->table);
    context->sized = zeros(&enough, of->entries, sizeof *context->sized);
    context->values = zeros(&enough, of->symbols, sizeof *context->values);
    context->hidden = zeros(&enough, widths, sizeof *context->hidden);
    context->pointers = zeros(&enough, (int64_t)of->arguments + of->results + of->hidden + 3, sizeof *context->pointers);
    context->argument = zeros(&enough, of->arguments, sizeof *context->argument);
    context->result = zeros(&enough, of->results, sizeof *context->result);
    context->plain = zeros(&enough, of->arguments, sizeof *context->plain);
    context->blocks = zeros(&enough, of->segments, sizeof *context->blocks);
    context->state = zeros(&enough, of->pairs, sizeof *context->state);
    context->lengths = zeros(&enough, of->lengths ? of->argument[of->arguments - 1].valued : 0, sizeof *context->lengths);
    context->callbacks.version = VERSION, context->callbacks.context = context;
    if (the_model.late) /* else no code calls them, and a linker leaves them out */
        context->callbacks.enter = enter, context->callbacks.poll = poll_, context->callbacks.keep = keep;
    if (!enough || (!of->sizes && !memory_ask(&context->workspace, (uint64_t)of->workspace_bytes)))
        fail(&problem, STEPWELL_NO_MEMORY, "%s: no memory for a workspace of %lld bytes", of->name, (long long)of->workspace_bytes);
    if (!problem.status && chosen.threads > 1) {
        int64_t spin = chosen.spin_microseconds < 0 ? SPIN : chosen.spin_microseconds;
        context->has_team = team_start(&context->team, chosen.threads, spin * 1000);
        if (!context->has_team) fail(&problem, STEPWELL_NO_MEMORY, "%s: the system gives no %d threads", of->name, (int)chosen.threads);
    }
    if (problem.status)
        API(context_free)(context);
    else
        *result = context;
    return tell(&problem, error, error_size);
}
#endif
