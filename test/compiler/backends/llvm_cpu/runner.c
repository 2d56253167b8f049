/* Runs a model from C, with its own memory and its own answers, and writes what came of it: test_c_interface.py. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct host { /* a runtime with what its functions need behind it */
    struct stepwell_runtime runtime;
    char *workspace, *block;
    float *places;
    int64_t asked, rounds;
};

static void enter(struct stepwell_runtime *runtime, int64_t *table, int64_t segment) {
    struct host *host = (struct host *)runtime;
    int64_t *slots = table + SEGMENT + 1; /* behind one number; the slot OUTPUT is an output, the others lie in the block */
    int64_t bytes = slots[SLOTS];
    if (segment != 0 || bytes < 0) return;
    free(host->block);
    host->block = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    free(host->places);
    host->places = malloc(slots[SLOTS + 1] + 1);
    for (int slot = 0; slot < SLOTS; ++slot) {
        char *place = slot == OUTPUT ? (char *)host->places : host->block + slots[slot];
        slots[slot] = place - host->workspace;
    }
    table[STEPWELL_ENTRY_ANSWER] = 1;
}

static void poll(struct stepwell_runtime *runtime, int64_t *table, int64_t round) {
    struct host *host = (struct host *)runtime;
    host->asked += 1;
    table[STEPWELL_ENTRY_ANSWER] = round < host->rounds ? round + 3 : 0;
}

static void keep(struct stepwell_runtime *runtime, int64_t *table, int64_t record) { table[STEPWELL_ENTRY_ANSWER] = runtime && record; }

static void read_all(void *to, size_t size, const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file || fread(to, 1, size, file) != size) exit(3);
    fclose(file);
}

int main(int count, char **given) {
    if (count != 8) return 2;
    int64_t n = atoll(given[1]), rounds = atoll(given[2]), most = atoll(given[3]), version = atoll(given[4]), at = atoll(given[5]);
    struct host host = {{version, enter, poll, keep}, NULL, NULL, NULL, 0, most};
    int64_t table[STEPWELL_ENTRIES] = {n}, where[STEPWELL_WEIGHTS];
    int64_t status = stepwell_sizes(table);
    printf("%lld %lld", (long long)status, (long long)table[STEPWELL_ENTRY_WORKSPACE]);
    if (status) return 0;
    float *x = malloc(n * 6 * sizeof(float) + 1), *y = malloc(n * 6 * sizeof(float) + 1);
    char *weights = aligned_alloc(64, STEPWELL_WEIGHTS_BYTES + 64);
    read_all(x, n * 6 * sizeof(float), given[6]);
    read_all(weights, STEPWELL_WEIGHTS_BYTES, given[7]);
    stepwell_locate(where, weights);
    host.workspace = aligned_alloc(64, table[STEPWELL_ENTRY_WORKSPACE] + 64);
    table[STEPWELL_ENTRY_RUNTIME] = version ? (int64_t)(intptr_t)&host : 0;
    float row[6];
    uint64_t reach = 0;
    void *arguments[STEPWELL_ARGUMENTS] = {x, &rounds, &at, y, NULL, row, &reach, where, host.workspace, table};
    status = stepwell_main(arguments);
    printf(" %lld %lld %llu\n", (long long)status, (long long)host.asked, (unsigned long long)reach);
    if (status) return 0;
    int64_t found = table[SEGMENT];
    for (int64_t i = 0; i < n * 6; ++i) printf("%.9g ", y[i]);
    printf("\n");
    for (int64_t i = 0; i < 2 * found; ++i) printf("%.9g ", host.places[i]);
    printf("\n");
    for (int i = 0; i < 6; ++i) printf("%.9g ", row[i]);
    printf("\n");
    return 0;
}
