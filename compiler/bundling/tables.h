/* The types of the tables that describe a model to the run time in C. Its data follow in the file of each bundle. */

/* A size: a number, -1 if only a run can tell, else -2 minus the entry of the table that holds it. */
typedef int64_t size_code;

struct argument { /* an input or an output of the code */
    stepwell_info info;
    const size_code *sizes;
    int32_t item;     /* bytes of an element */
    int32_t valued;   /* how many elements are symbols */
    const int32_t *elements; /* of the first `valued` elements, the number of the symbol, or -1 */
};

struct segment { /* runtime/late_sizes.py: LateSegment */
    const char *nodes;
    int32_t start, count, slots, outputs, boxes, grows;
    const char *const *sizes;        /* what each number stands for */
    const int32_t (*output)[2];      /* slot, output */
    const int32_t (*box)[2];         /* slot, whether it may hold boxes */
    const int32_t *grow;             /* slots */
    const char *const *assumptions;
};

struct check { /* dialects/core/index_checks.py: IndexCheck */
    const char *node, *op, *reason;
    int32_t result, count;
    bool exact, from_start, compared;
    size_code several; /* how many indices there are */
    const int64_t *dims;
    const size_code *sizes;
    const char *const *texts;
};

struct pair { /* a state: an output that is the input of the next run (driver/bound.py) */
    int32_t input, output;
    int32_t axis;     /* along which it grows in place; -1 if it is passed on whole */
    int32_t length, capacity;                   /* the symbols of how much it holds, and of how much there is room for */
    int64_t (*after)(const int64_t *symbols);   /* how much it holds after the run */
};

struct feature { /* an instruction set that the code needs: a bit of a register that the machine describes itself by */
    const char *name;
    uint32_t leaf, subleaf, reg, bit;
};

struct description {
    const char *name;
    int32_t inputs, outputs;            /* of the model, without the state */
    const stepwell_info *input, *output;
    int32_t arguments, results, hidden; /* of the code */
    const struct argument *argument, *result;
    const int32_t *widths;              /* of the hidden results */
    const int32_t *of_input, *of_output; /* the argument and the result of each input and output; NULL: the same number */
    uint64_t weights_bytes;
    uint8_t digest[32];
    const unsigned char *embedded;
    int32_t places; /* 0 if the code takes the arena itself */
    const int64_t *offsets;
    int64_t workspace_bytes;
    int32_t symbols, entries, workspace, late; /* entries: of the table; workspace: the entry with its bytes, -1 if that is fixed */
    const char *const *symbol_names;
    const char *const *assumptions;
    int64_t most_bytes, most_value_bytes, most_rounds;
    int32_t segments, checks, pairs, lengths; /* lengths: whether the last argument is the numbers of elements that caches hold */
    const struct segment *segment;
    const struct check *check;
    const struct pair *pair;
    int32_t features, tiles; /* tiles: whether Linux must be asked for the registers of AMX */
    const struct feature *feature;
    int64_t (*main)(void **);
    int64_t (*sizes)(int64_t *);
};

/* For the formulas in tables. */
static inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
