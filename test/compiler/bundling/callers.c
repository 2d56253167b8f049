/* Two models, and two copies of the first, in one program with many callers: each result must be that of the first run. test_programs.py.

   ./callers DIGITS.weights LOOP.weights CALLERS RUNS THREADS SPIN */
#include "digits.h"
#include "loop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) do { if ((call) != STEPWELL_OK) { fprintf(stderr, "%s: %s\n", #call, error); exit(1); } } while (0)

static int runs, threads, spin;
static stepwell_model *model[2], *looping;
static float expected[10], rounds_expected[5][8];

static void *allocate(void *user, int32_t output, const stepwell_tensor *tensor) {
    void **kept = user;
    free(kept[output]);
    return kept[output] = malloc(tensor->bytes + 1);
}

static void run_digits(stepwell_context *context, float *y) {
    float x[64];
    stepwell_tensor in = {x, sizeof x, STEPWELL_FLOAT, 4, {1, 1, 8, 8}}, out = {y, 10 * sizeof *y, 0, 0, {0}};
    for (int i = 0; i < 64; ++i) x[i] = (float)(i * 37 % 17);
    if (digits_run(context, &in, &out) != STEPWELL_OK || out.rank != 2 || out.shape[1] != 10) {
        fprintf(stderr, "digits: %s\n", digits_error(context));
        exit(1);
    }
}

static void run_loop(stepwell_context *context, int64_t rounds, float *y) {
    float x[8], most = 1e9f;
    stepwell_tensor in[3] = {
        {x, sizeof x, STEPWELL_FLOAT, 2, {1, 8}}, {&rounds, sizeof rounds, STEPWELL_INT64, 0, {0}}, {&most, sizeof most, STEPWELL_FLOAT, 0, {0}}};
    stepwell_tensor out[2] = {{y, 8 * sizeof *y, 0, 0, {0}}, {NULL, 0, 0, 0, {0}}};
    for (int i = 0; i < 8; ++i) x[i] = 0.25f * (float)(i - 3);
    if (loop_run(context, in, out) != STEPWELL_OK || out[1].shape[0] != rounds) {
        fprintf(stderr, "loop: %s\n", loop_error(context));
        exit(1);
    }
    if (rounds && memcmp((char *)out[1].data + (size_t)(rounds - 1) * 8 * sizeof *y, y, 8 * sizeof *y) != 0) {
        fprintf(stderr, "loop: the last round differs from the result\n");
        exit(1);
    }
}

static void *call(void *given) {
    int number = *(int *)given;
    char error[512];
    void *kept[2] = {NULL, NULL};
    stepwell_context *one, *other;
    stepwell_context_options options = STEPWELL_CONTEXT_OPTIONS;
    options.threads = threads, options.spin_microseconds = spin;
    CHECK(digits_context_new(model[number % 2], &options, &one, error, sizeof error));
    options.allocate = allocate, options.user = kept;
    CHECK(loop_context_new(looping, &options, &other, error, sizeof error));
    for (int i = 0; i < runs; ++i) {
        float y[10], z[8];
        run_digits(one, y);
        run_loop(other, i % 5, z);
        if (memcmp(y, expected, sizeof y) != 0 || memcmp(z, rounds_expected[i % 5], sizeof z) != 0) {
            fprintf(stderr, "caller %d, run %d: other results\n", number, i);
            exit(1);
        }
    }
    digits_context_free(one);
    loop_context_free(other);
    free(kept[0]), free(kept[1]);
    return NULL;
}

int main(int count, char **given) {
    char error[512] = "";
    pthread_t thread[64];
    int number[64], callers;
    void *kept[2] = {NULL, NULL};
    stepwell_context *context;
    stepwell_context_options options = STEPWELL_CONTEXT_OPTIONS;
    if (count != 7) return 2;
    callers = atoi(given[3]), runs = atoi(given[4]), threads = atoi(given[5]), spin = atoi(given[6]);
    if (digits_open("/nowhere", NULL, &model[0], error, sizeof error) == STEPWELL_OK || model[0] || !*error) return 3;
    if (digits_open(given[2], NULL, &model[0], error, sizeof error) != STEPWELL_BAD_WEIGHTS) return 4; /* those of the other model */
    CHECK(digits_open(given[1], NULL, &model[0], error, sizeof error));
    CHECK(digits_open(given[1], NULL, &model[1], error, sizeof error));
    CHECK(loop_open(given[2], NULL, &looping, error, sizeof error));
    if (loop_context_new(model[0], NULL, &context, error, sizeof error) == STEPWELL_OK) return 5; /* a model of the other kind */
    CHECK(digits_context_new(model[0], NULL, &context, error, sizeof error));
    digits_close(model[0]); /* it lasts as long as its context */
    run_digits(context, expected);
    digits_context_free(context);
    CHECK(digits_open(given[1], NULL, &model[0], error, sizeof error));
    options.allocate = allocate, options.user = kept;
    CHECK(loop_context_new(looping, &options, &context, error, sizeof error));
    for (int i = 0; i < 5; ++i) run_loop(context, i, rounds_expected[i]);
    loop_context_free(context);
    for (int i = 0; i < callers; ++i) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, call, &number[i]) != 0) return 6;
    }
    for (int i = 0; i < callers; ++i) pthread_join(thread[i], NULL);
    digits_close(model[0]), digits_close(model[1]), loop_close(looping);
    free(kept[0]), free(kept[1]);
    for (int i = 0; i < 10; ++i) printf("%.9g ", (double)expected[i]);
    printf("\n");
    return 0;
}
