/* Runs a bundle, NAME, on what is in a file, and writes what comes out: for machines where Python is not at hand (test/support/crossing.py).

   ./runner WEIGHTS IN OUT THREADS. A file has for each array its dtype, rank and sizes as int64, then its bytes; IN has inputs of several runs,
   after their number. */
#include NAME_HEADER

#include <stdio.h>
#include <stdlib.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define CALL(function) JOIN(NAME, function)

static size_t item(int32_t dtype) {
    switch (dtype) {
    case STEPWELL_DOUBLE: case STEPWELL_INT64: case STEPWELL_UINT64: return 8;
    case STEPWELL_FLOAT: case STEPWELL_INT32: case STEPWELL_UINT32: return 4;
    case STEPWELL_FLOAT16: case STEPWELL_BFLOAT16: case STEPWELL_INT16: case STEPWELL_UINT16: return 2;
    default: return 1;
    }
}

static void *allocate(void *user, int32_t output, const stepwell_tensor *tensor) {
    (void)user, (void)output;
    return calloc(1, tensor->bytes);
}

static void get(void *to, size_t bytes, FILE *file) {
    if (fread(to, 1, bytes, file) != bytes) exit(3);
}

static void read_tensor(stepwell_tensor *tensor, FILE *file) {
    int64_t numbers[2];
    get(numbers, sizeof numbers, file);
    tensor->dtype = (int32_t)numbers[0], tensor->rank = (int32_t)numbers[1];
    get(tensor->shape, (size_t)numbers[1] * sizeof *tensor->shape, file);
    tensor->bytes = item(tensor->dtype);
    for (int32_t d = 0; d < tensor->rank; ++d) tensor->bytes *= (size_t)tensor->shape[d];
    tensor->data = malloc(tensor->bytes + 1);
    get(tensor->data, tensor->bytes, file);
}

static void write_tensor(const stepwell_tensor *tensor, FILE *file) {
    int64_t numbers[2] = {tensor->dtype, tensor->rank};
    fwrite(numbers, 1, sizeof numbers, file);
    fwrite(tensor->shape, sizeof *tensor->shape, (size_t)tensor->rank, file);
    fwrite(tensor->data, 1, tensor->bytes, file);
}

int main(int count, char **given) {
    char error[512];
    int64_t runs;
    stepwell_model *model;
    stepwell_context *context;
    stepwell_context_options options = STEPWELL_CONTEXT_OPTIONS;
    FILE *in = count == 5 ? fopen(given[2], "rb") : NULL, *out = in ? fopen(given[3], "wb") : NULL;
    if (!out) return 2;
    options.allocate = allocate, options.threads = atoi(given[4]);
    if (CALL(open)(given[1], NULL, &model, error, sizeof error) != STEPWELL_OK ||
        CALL(context_new)(model, &options, &context, error, sizeof error) != STEPWELL_OK) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    get(&runs, sizeof runs, in);
    for (int64_t run = 0; run < runs; ++run) {
        stepwell_tensor *x = calloc((size_t)CALL(input_count)() + 1, sizeof *x), *y = calloc((size_t)CALL(output_count)() + 1, sizeof *y);
        for (int32_t i = 0; i < CALL(input_count)(); ++i) read_tensor(&x[i], in);
        if (CALL(run)(context, x, y) != STEPWELL_OK) {
            fprintf(stderr, "%s\n", CALL(error)(context));
            return 1;
        }
        for (int32_t i = 0; i < CALL(output_count)(); ++i) write_tensor(&y[i], out);
        for (int32_t i = 0; i < CALL(input_count)(); ++i) free(x[i].data);
        for (int32_t i = 0; i < CALL(output_count)(); ++i)
            if (y[i].bytes) free(y[i].data);
        free(x);
        free(y);
    }
    fclose(in);
    if (fclose(out) != 0) return 4;
    CALL(context_free)(context);
    CALL(close)(model);
    return 0;
}
