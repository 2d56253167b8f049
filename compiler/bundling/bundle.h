/* @NAME@: a model compiled by Stepwell @VERSION@ for @TARGET@. docs/deploy.md of Stepwell explains this interface.
@SIGNATURE@ */
#ifndef STEPWELL_BUNDLE_@NAME@_H
#define STEPWELL_BUNDLE_@NAME@_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef STEPWELL_ABI_VERSION /* the part that the headers of all bundles share */
#define STEPWELL_ABI_VERSION 1
#define STEPWELL_MAX_RANK 16
#define STEPWELL_UNKNOWN (-1) /* a size that is free, or known only after a run */

/* What functions return: 0, or the kind of a problem. */
enum stepwell_status {
    STEPWELL_OK = 0,
    STEPWELL_BAD_ARGUMENT = 1, /* an argument does not fit the model, or this version of the interface */
    STEPWELL_BAD_WEIGHTS = 2,  /* a file of weights cannot be read, or is not the one of this code */
    STEPWELL_BAD_CPU = 3,      /* this machine lacks instructions that the code needs */
    STEPWELL_NO_MEMORY = 4,    /* memory or threads cannot be had */
    STEPWELL_LIMIT = 5,        /* sizes need more memory, or a loop more rounds, than the limits that the model was compiled with */
    STEPWELL_BAD_SIZES = 6,    /* the sizes of inputs, or those that the data ask for, do not fit the model */
    STEPWELL_BAD_INDEX = 7,    /* an index in the data is out of range */
    STEPWELL_CANCELLED = 8     /* the run was cancelled */
};

/* The type of elements, numbered as in ONNX (TensorProto.DataType). An element of fewer than 8 bits lies in the lowest bits of a byte. */
enum stepwell_dtype {
    STEPWELL_FLOAT = 1, STEPWELL_UINT8 = 2, STEPWELL_INT8 = 3, STEPWELL_UINT16 = 4, STEPWELL_INT16 = 5, STEPWELL_INT32 = 6,
    STEPWELL_INT64 = 7, STEPWELL_BOOL = 9, STEPWELL_FLOAT16 = 10, STEPWELL_DOUBLE = 11, STEPWELL_UINT32 = 12, STEPWELL_UINT64 = 13,
    STEPWELL_BFLOAT16 = 16, STEPWELL_FLOAT8E4M3FN = 17, STEPWELL_FLOAT8E4M3FNUZ = 18, STEPWELL_FLOAT8E5M2 = 19,
    STEPWELL_FLOAT8E5M2FNUZ = 20, STEPWELL_UINT4 = 21, STEPWELL_INT4 = 22, STEPWELL_FLOAT4E2M1 = 23, STEPWELL_FLOAT8E8M0 = 24,
    STEPWELL_UINT2 = 25, STEPWELL_INT2 = 26
};

/* An input or an output of the model. */
typedef struct stepwell_info {
    const char *name;
    int32_t dtype;
    int32_t rank;
    const int64_t *shape;       /* STEPWELL_UNKNOWN for a size that is free, or known only after a run */
    const char *const *symbols; /* for such a size its name or formula, NULL if it has none; NULL for a number */
} stepwell_info;

/* An array of the caller's: dense, row-major, aligned to its elements. */
typedef struct stepwell_tensor {
    void *data;
    size_t bytes; /* of the memory at `data`; a run sets it to the bytes of an output */
    int32_t dtype;
    int32_t rank;
    int64_t shape[STEPWELL_MAX_RANK];
} stepwell_tensor;

/* How to open a model. Start from STEPWELL_OPEN_OPTIONS. */
typedef struct stepwell_open_options {
    uint32_t abi;          /* STEPWELL_ABI_VERSION */
    uint32_t size;         /* sizeof(stepwell_open_options) */
    uint32_t tensor_size;  /* sizeof(stepwell_tensor) */
    uint32_t flags;        /* of STEPWELL_UNVERIFIED and STEPWELL_COPIED */
} stepwell_open_options;
#define STEPWELL_UNVERIFIED 1 /* do not compare the digest of the weights, which the first run does otherwise */
#define STEPWELL_COPIED 2     /* copy the weights into memory of large pages, instead of mapping their file: a network that reads many weights is then
                                 faster, opening takes longer, and processes do not share them */
#define STEPWELL_OPEN_OPTIONS {STEPWELL_ABI_VERSION, sizeof(stepwell_open_options), sizeof(stepwell_tensor), 0}

/* What belongs to one caller. Start from STEPWELL_CONTEXT_OPTIONS. */
typedef struct stepwell_context_options {
    uint32_t size;             /* sizeof(stepwell_context_options) */
    int32_t threads;           /* of a run, the caller's among them */
    int32_t spin_microseconds; /* how long threads wait for work before they sleep; -1: as long as is usually best */
    int32_t reserved;          /* 0 */
    /* Gives memory for an output that the caller left without (`data` is NULL), aligned to its elements; it is the caller's. NULL ends the run.
       The output's dtype, rank, shape and bytes are set. NULL: all outputs have memory. */
    void *(*allocate)(void *user, int32_t output, const struct stepwell_tensor *tensor);
    void *user;
} stepwell_context_options;
#define STEPWELL_CONTEXT_OPTIONS {sizeof(stepwell_context_options), 1, -1, 0, NULL, NULL}

typedef struct stepwell_model stepwell_model;     /* code and weights, for any number of contexts, in any threads */
typedef struct stepwell_context stepwell_context; /* workspace, threads and state of one caller: for one thread at a time */
#elif STEPWELL_ABI_VERSION != 1
#error "the header of another bundle has another STEPWELL_ABI_VERSION"
#endif

#if defined(_WIN32) || !defined(__GNUC__)
#define STEPWELL_PUBLIC_@NAME@
#else
#define STEPWELL_PUBLIC_@NAME@ __attribute__((visibility("default")))
#endif

/* Open the model with the file of its weights (NULL if they are embedded). `options` may be NULL. On failure *model is NULL, and `error`, if it is
   not NULL, gets a message of at most `error_size` bytes with its end. Close it with @NAME@_close: it lasts until the last context is freed. */
STEPWELL_PUBLIC_@NAME@ int @NAME@_open(
    const char *weights, const stepwell_open_options *options, stepwell_model **model, char *error, size_t error_size);

/* The same with the content of that file in memory, at a multiple of 64, which must stay as it is until the model is gone. */
STEPWELL_PUBLIC_@NAME@ int @NAME@_open_memory(
    const void *weights, size_t bytes, const stepwell_open_options *options, stepwell_model **model, char *error, size_t error_size);
STEPWELL_PUBLIC_@NAME@ void @NAME@_close(stepwell_model *model);

/* Compare the digest of the weights now. */
STEPWELL_PUBLIC_@NAME@ int @NAME@_verify(stepwell_model *model, char *error, size_t error_size);

/* The inputs and outputs; NULL for a number that there is not. */
STEPWELL_PUBLIC_@NAME@ int32_t @NAME@_input_count(void);
STEPWELL_PUBLIC_@NAME@ int32_t @NAME@_output_count(void);
STEPWELL_PUBLIC_@NAME@ const stepwell_info *@NAME@_input(int32_t number);
STEPWELL_PUBLIC_@NAME@ const stepwell_info *@NAME@_output(int32_t number);

/* Make a context; `options` may be NULL: then runs take one thread. Failure is reported as by @NAME@_open. */
STEPWELL_PUBLIC_@NAME@ int @NAME@_context_new(
    stepwell_model *model, const stepwell_context_options *options, stepwell_context **context, char *error, size_t error_size);
STEPWELL_PUBLIC_@NAME@ void @NAME@_context_free(stepwell_context *context);

/* Set dtype, rank, shape and bytes of the outputs that inputs of these shapes give; `bytes` is 0, and a size STEPWELL_UNKNOWN, if only a run can
   tell. Data are read only of inputs whose elements are sizes. */
STEPWELL_PUBLIC_@NAME@ int @NAME@_prepare(stepwell_context *context, const stepwell_tensor *inputs, stepwell_tensor *outputs);

/* Run on arrays for all inputs and outputs, in the model's order. Outputs overlap neither each other nor inputs; their dtype, rank, shape and bytes
   are set. After a failure their content is undefined, and what `allocate` gave is still the caller's. */
STEPWELL_PUBLIC_@NAME@ int @NAME@_run(stepwell_context *context, const stepwell_tensor *inputs, stepwell_tensor *outputs);

/* Make the run of a context, if there is one, end soon if it is in a loop: from any thread. */
STEPWELL_PUBLIC_@NAME@ void @NAME@_cancel(stepwell_context *context);

/* Forget the state that a model keeps from run to run, such as KV caches: the next run begins with an empty one. */
STEPWELL_PUBLIC_@NAME@ void @NAME@_reset(stepwell_context *context);

/* The message of the last failure of a context, until its next call. */
STEPWELL_PUBLIC_@NAME@ const char *@NAME@_error(const stepwell_context *context);

/* The bytes of memory of a context. */
STEPWELL_PUBLIC_@NAME@ size_t @NAME@_context_bytes(const stepwell_context *context);
@RAW@
#ifdef __cplusplus
}
#endif
#endif
