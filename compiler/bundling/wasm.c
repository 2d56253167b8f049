/* The module of @NAME@: the run time, and the functions that @NAME@.mjs calls. A module has a memory of its own, so it holds one model and one context. */
#define @NAME@_kmpc_barrier __kmpc_barrier
#define @NAME@_kmpc_dispatch_init_8u __kmpc_dispatch_init_8u
#define @NAME@_kmpc_dispatch_next_8u __kmpc_dispatch_next_8u
#define @NAME@_kmpc_for_static_fini __kmpc_for_static_fini
#define @NAME@_kmpc_for_static_init_8u __kmpc_for_static_init_8u
#define @NAME@_kmpc_fork_call __kmpc_fork_call
#define @NAME@_kmpc_fork_call_if __kmpc_fork_call_if
#define @NAME@_kmpc_global_thread_num __kmpc_global_thread_num
#include <stdint.h>

int64_t @NAME@_code_main(void **arguments) __asm__("main");
int64_t @NAME@_code_sizes(int64_t *table) __asm__("sizes");
#include "@NAME@.c"

#define EXPORT(name) __attribute__((export_name(name)))

/* ---- Memory: the library's allocator is as large as many models. Free blocks are a list in the order of their addresses; neighbours are merged. ---- */

#define PAGE 65536

struct space { /* the head of a block, of ALIGNMENT bytes; sizes count the head and are multiples of ALIGNMENT */
    size_t size;
    struct space *next; /* of a free block */
};

extern char __heap_base; /* the linker's: where data and stack end */
static struct space *spaces;
static size_t memory_end;

static void space_give(struct space *given) {
    struct space **at = &spaces, *before = NULL;
    for (; *at && *at < given; at = &before->next) before = *at;
    given->next = *at, *at = given;
    if (given->next && (char *)given + given->size == (char *)given->next) given->size += given->next->size, given->next = given->next->next;
    if (before && (char *)before + before->size == (char *)given) before->size += given->size, before->next = given->next;
}

/* Add memory of the machine, so that a block of the size is free; returns whether there was enough. */
static bool more_space(size_t size) {
    size_t begin = memory_end ? memory_end : ((size_t)&__heap_base + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, end = __builtin_wasm_memory_size(0) * PAGE;
    if (end < begin || end - begin < size) {
        size_t pages = (begin + size - end + PAGE - 1) / PAGE;
        if (begin + size < begin || __builtin_wasm_memory_grow(0, pages) == SIZE_MAX) return false;
        end += pages * PAGE;
    }
    if (end == 0) end -= PAGE; /* all of 4 GiB: the last page is left */
    memory_end = end;
    struct space *made = (struct space *)begin;
    made->size = end - begin;
    space_give(made);
    return true;
}

static void *space_take(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return NULL;
    size_t size = (bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (int attempt = 0; attempt < 2; ++attempt) {
        for (struct space **at = &spaces; *at; at = &(*at)->next) {
            struct space *found = *at, *rest = (struct space *)((char *)found + size);
            if (found->size < size) continue;
            if (found->size == size)
                *at = found->next;
            else
                rest->size = found->size - size, rest->next = found->next, found->size = size, *at = rest;
            return (char *)found + ALIGNMENT;
        }
        if (attempt == 0 && !more_space(size)) break;
    }
    return NULL;
}

void *malloc(size_t bytes) { return space_take(bytes); }

void free(void *memory) {
    if (memory) space_give((struct space *)((char *)memory - ALIGNMENT));
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    void *memory = __builtin_mul_overflow(count, size, &bytes) ? NULL : space_take(bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

void *realloc(void *memory, size_t bytes) {
    void *more = space_take(bytes);
    if (!more || !memory) return more;
    size_t before = ((struct space *)((char *)memory - ALIGNMENT))->size - ALIGNMENT;
    memcpy(more, memory, before < bytes ? before : bytes);
    free(memory);
    return more;
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) { /* all blocks are aligned to ALIGNMENT */
    *memory = alignment > ALIGNMENT ? NULL : space_take(bytes);
    return *memory ? 0 : ENOMEM;
}

/* Instructions of the machine, of which the compiler makes use here. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes) { return __builtin_memcpy(to, from, bytes); }
void *memmove(void *to, const void *from, size_t bytes) { return __builtin_memmove(to, from, bytes); }
void *memset(void *to, int byte, size_t bytes) { return __builtin_memset(to, byte, bytes); }

/* ---- Arithmetic ---- */

/* A fused multiply-add in doubles, which hold the product exactly: the sum is rounded to odd, so that rounding it again to a float is right (Boldo and
   Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57, 2008). */
float fmaf(float x, float y, float z) {
    double product = (double)x * y, sum = product + z, back = sum - product, error = (product - (sum - back)) + (z - back);
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if ((error > 0 || error < 0) && bits % 2 == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
    memcpy(&sum, &bits, sizeof sum);
    return (float)sum;
}

/* ---- The model ---- */

static stepwell_model *model;
static stepwell_context *context;
static char message[MESSAGE];

static void *allocate(void *user, int32_t output, const struct stepwell_tensor *tensor) {
    (void)user, (void)output;
    return space_take(tensor->bytes);
}

EXPORT("take") void *wasm_take(size_t bytes) { return space_take(bytes); }
EXPORT("give") void wasm_give(void *memory) { free(memory); }

EXPORT("open") int wasm_open(const void *weights, size_t bytes, uint32_t flags) {
    stepwell_open_options opening = STEPWELL_OPEN_OPTIONS;
    stepwell_context_options options = STEPWELL_CONTEXT_OPTIONS;
    opening.flags = flags, options.allocate = allocate;
    int status = API(open_memory)(weights, bytes, &opening, &model, message, sizeof message);
    return status != STEPWELL_OK ? status : API(context_new)(model, &options, &context, message, sizeof message);
}

EXPORT("info") const stepwell_info *wasm_info(bool output, int32_t number) { return output ? API(output)(number) : API(input)(number); }
EXPORT("run") int wasm_run(const stepwell_tensor *inputs, stepwell_tensor *outputs) { return API(run)(context, inputs, outputs); }
EXPORT("reset") void wasm_reset(void) { API(reset)(context); }
EXPORT("message") const char *wasm_message(void) { return context ? API(error)(context) : message; }
