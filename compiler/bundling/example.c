/* Runs @NAME@ once: inputs from raw files, if any are given, else zeros; prints the first elements of each output.

   ./example @NAME@.weights [INPUT.bin ...] */
#include "@NAME@.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(n) ((n) > 0 ? (n) : 1)

static void *allocate(void *user, int32_t output, const stepwell_tensor *tensor) {
    (void)user, (void)output;
    return malloc(tensor->bytes);
}

static size_t item(int32_t dtype) {
    switch (dtype) {
    case STEPWELL_DOUBLE: case STEPWELL_INT64: case STEPWELL_UINT64: return 8;
    case STEPWELL_FLOAT: case STEPWELL_INT32: case STEPWELL_UINT32: return 4;
    case STEPWELL_FLOAT16: case STEPWELL_BFLOAT16: case STEPWELL_INT16: case STEPWELL_UINT16: return 2;
    default: return 1;
    }
}

int main(int count, char **given) {
    char error[512];
    stepwell_model *model;
    stepwell_context *context;
    stepwell_context_options options = STEPWELL_CONTEXT_OPTIONS;
    int32_t inputs = @NAME@_input_count(), outputs = @NAME@_output_count();
    stepwell_tensor *x = calloc((size_t)COUNT(inputs), sizeof *x), *y = calloc((size_t)COUNT(outputs), sizeof *y);
    options.allocate = allocate;
    if (@NAME@_open(count > 1 ? given[1] : NULL, NULL, &model, error, sizeof error) != STEPWELL_OK ||
        @NAME@_context_new(model, &options, &context, error, sizeof error) != STEPWELL_OK) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    for (int32_t i = 0; i < inputs; ++i) {
        const stepwell_info *info = @NAME@_input(i);
        x[i].dtype = info->dtype, x[i].rank = info->rank, x[i].bytes = item(info->dtype);
        for (int32_t d = 0; d < info->rank; ++d) {
            x[i].shape[d] = info->shape[d] == STEPWELL_UNKNOWN ? 1 : info->shape[d]; /* free sizes: your own */
            x[i].bytes *= (size_t)x[i].shape[d];
        }
        x[i].data = calloc(1, x[i].bytes + 1);
        if (count > i + 2) {
            FILE *file = fopen(given[i + 2], "rb");
            if (!file || fread(x[i].data, 1, x[i].bytes, file) != x[i].bytes) {
                fprintf(stderr, "%s: expected %zu bytes for input '%s'\n", given[i + 2], x[i].bytes, info->name);
                return 1;
            }
            fclose(file);
        }
    }
    if (@NAME@_run(context, x, y) != STEPWELL_OK) {
        fprintf(stderr, "%s\n", @NAME@_error(context));
        return 1;
    }
    for (int32_t i = 0; i < outputs; ++i) {
        printf("%s:", @NAME@_output(i)->name);
        for (size_t at = 0; at < 8 && (at + 1) * item(y[i].dtype) <= y[i].bytes; ++at)
            y[i].dtype == STEPWELL_FLOAT ? printf(" %g", ((float *)y[i].data)[at])
            : y[i].dtype == STEPWELL_INT64 ? printf(" %lld", ((long long *)y[i].data)[at]) : printf(" %02x", ((unsigned char *)y[i].data)[at]);
        printf("\n");
        free(y[i].bytes ? y[i].data : NULL);
    }
    for (int32_t i = 0; i < inputs; ++i) free(x[i].data);
    free(x), free(y);
    @NAME@_context_free(context);
    @NAME@_close(model);
    return 0;
}
