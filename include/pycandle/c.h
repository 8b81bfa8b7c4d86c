/* PyCandle from C, and from every language that can call C: load a model, run it, no C++ in sight.   docs/c.md

     pycandle_model* model = NULL;
     pycandle_tensors* outputs = NULL;
     int64_t ids[] = {15496, 11, 995}, shape[] = {1, 3};
     pycandle_tensor input = {"input_ids", PYCANDLE_I64, 2, shape, ids};
     pycandle_error* error = pycandle_load("model.pycandle", NULL, &model);
     if (!error) error = pycandle_run(model, &input, 1, &outputs);
     if (error) fprintf(stderr, "error: %s\n", pycandle_error_text(error));
     pycandle_error_free(error);
     pycandle_tensors_free(outputs);
     pycandle_model_free(model);

   Errors are values: a function that can fail returns NULL when all went well, else an error that the caller frees. It then
   leaves its result alone. No C++ exception leaves a function, and none of them prints.
   Who made it frees it: each kind of handle has a function for that, which takes NULL too.
   Threads: one model, and the sessions of it, may be used from several threads at once; calls that change the same states
   take turns. A cache is for one thread at a time.
   Version: functions and numbers of PYCANDLE_ABI_VERSION stay as they are; a library may have more. It goes up when that
   cannot be kept. */
#ifndef PYCANDLE_C_H
#define PYCANDLE_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PYCANDLE_C_API __attribute__((visibility("default")))
#else
#define PYCANDLE_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PYCANDLE_ABI_VERSION 1

/* Of the library that was found: compare it with PYCANDLE_ABI_VERSION before anything else when it was opened by hand. */
PYCANDLE_C_API int32_t pycandle_abi_version(void);
/* "0.2.0" */
PYCANDLE_C_API const char* pycandle_library_version(void);

/* ---- errors */

typedef struct pycandle_error pycandle_error;

typedef enum pycandle_error_code {
  PYCANDLE_GAP = 1,       /* the library cannot do this yet */
  PYCANDLE_VERDICT = 2,   /* a value is wrong */
  PYCANDLE_USAGE = 3,     /* the caller asked for what there is not */
  PYCANDLE_BAD_INPUT = 4, /* a file or a tensor is not what it should be */
  PYCANDLE_INTERNAL = 5   /* a fault of the library, or no memory */
} pycandle_error_code;

PYCANDLE_C_API pycandle_error_code pycandle_error_code_of(const pycandle_error*);
/* One sentence. The texts of an error live as long as it does. */
PYCANDLE_C_API const char* pycandle_error_message(const pycandle_error*);
/* All that is known, several lines: what was expected and found, where in the Python source, what to do. */
PYCANDLE_C_API const char* pycandle_error_text(const pycandle_error*);
PYCANDLE_C_API void pycandle_error_free(pycandle_error*);

/* ---- tensors */

typedef enum pycandle_dtype {
  PYCANDLE_F64 = 0,
  PYCANDLE_F32 = 1,
  PYCANDLE_F16 = 2,
  PYCANDLE_BF16 = 3,
  PYCANDLE_I64 = 4,
  PYCANDLE_I32 = 5,
  PYCANDLE_I16 = 6,
  PYCANDLE_I8 = 7,
  PYCANDLE_U8 = 8,
  PYCANDLE_BOOL = 9, /* a byte: 0 or 1 */
  PYCANDLE_C64 = 10,
  PYCANDLE_C128 = 11
} pycandle_dtype;

/* Bytes an element; 0 for a number that is no dtype. */
PYCANDLE_C_API size_t pycandle_dtype_size(int32_t dtype);

/* Dense and row-major. What a function is given it copies; what it gives points into the result that it is of. */
typedef struct pycandle_tensor {
  const char* name;
  int32_t dtype;        /* pycandle_dtype */
  int32_t rank;
  const int64_t* shape; /* rank numbers */
  const void* data;
} pycandle_tensor;

/* Tensors with names, in the order of the model's outputs. */
typedef struct pycandle_tensors pycandle_tensors;

PYCANDLE_C_API size_t pycandle_tensors_count(const pycandle_tensors*);
/* All fields are 0 where there is none. */
PYCANDLE_C_API pycandle_tensor pycandle_tensors_at(const pycandle_tensors*, size_t index);
PYCANDLE_C_API pycandle_tensor pycandle_tensors_named(const pycandle_tensors*, const char* name);
PYCANDLE_C_API void pycandle_tensors_free(pycandle_tensors*);

/* ---- models */

typedef struct pycandle_model pycandle_model;

/* Begin with PYCANDLE_OPTIONS: what is not set is the default, also what later versions add. */
typedef struct pycandle_options {
  size_t size;             /* of this struct, as the caller knows it */
  const char* backend;     /* NULL: PYCANDLE_BACKEND, or "cpu"; "reference" is the definition of right */
  const char* weights;     /* of linear layers and embeddings: NULL or "f32", "bf16", "f16", "int8", "int4" */
  const char* checkpoint;  /* weights from this file or folder, not those beside the program */
  const char* cache;       /* what rows of a cache are kept in: NULL or "f32", "bf16", "f16" */
  size_t parameter_budget; /* most bytes of weights in memory; 0: all of them */
  int32_t threads;         /* 0: PYCANDLE_THREADS, or all cores */
  int32_t small_memory;    /* 1: weights are read where they lie, in about half of the memory, and slower */
  int32_t check_weights;   /* 1: all of them are read now, and damaged ones refused */
} pycandle_options;
#define PYCANDLE_OPTIONS {sizeof(pycandle_options), NULL, NULL, NULL, NULL, 0, 0, 0, 0}

/* path: a bundle, a manifest, or the folder of one. options may be NULL. */
PYCANDLE_C_API pycandle_error* pycandle_load(const char* path, const pycandle_options* options, pycandle_model** model);
/* The same weights and plans, with states of its own that begin as recorded: one for each caller of a model that has states. */
PYCANDLE_C_API pycandle_error* pycandle_session(const pycandle_model*, pycandle_model** session);
PYCANDLE_C_API void pycandle_model_free(pycandle_model*);

/* Texts and lists of a model live as long as it does. */
PYCANDLE_C_API const char* pycandle_model_name(const pycandle_model*);
PYCANDLE_C_API const char* pycandle_model_backend(const pycandle_model*);
/* 1: it can; "forward", "trace", "causal_lm", "embedding". */
PYCANDLE_C_API int32_t pycandle_model_can(const pycandle_model*, const char* capability);

/* What the model takes or gives. dims: numbers, or names and expressions of sizes that are open: "batch", "2*s1 + 1". */
typedef struct pycandle_tensor_info {
  const char* name;
  int32_t dtype;
  int32_t rank;
  const char* const* dims;
} pycandle_tensor_info;

PYCANDLE_C_API size_t pycandle_input_count(const pycandle_model*);
PYCANDLE_C_API size_t pycandle_output_count(const pycandle_model*);
PYCANDLE_C_API pycandle_tensor_info pycandle_input_at(const pycandle_model*, size_t index);
PYCANDLE_C_API pycandle_tensor_info pycandle_output_at(const pycandle_model*, size_t index);

/* Inputs by name, in any order. */
PYCANDLE_C_API pycandle_error* pycandle_run(const pycandle_model*, const pycandle_tensor* inputs, size_t count,
                                            pycandle_tensors** outputs);

/* ---- token by token, for a model that can "causal_lm" */

/* What the model has seen of each sequence of a batch. */
typedef struct pycandle_cache pycandle_cache;

/* inputs: what the model reads once, as an encoder; none for most. */
PYCANDLE_C_API pycandle_error* pycandle_cache_new(const pycandle_model*, int64_t batch, int64_t capacity,
                                                  const pycandle_tensor* inputs, size_t count, pycandle_cache** cache);
PYCANDLE_C_API void pycandle_cache_free(pycandle_cache*);
PYCANDLE_C_API int64_t pycandle_cache_batch(const pycandle_cache*);
PYCANDLE_C_API int64_t pycandle_cache_capacity(const pycandle_cache*);
/* Tokens of one sequence; -1 where there is no such sequence. */
PYCANDLE_C_API int64_t pycandle_cache_length(const pycandle_cache*, int64_t sequence);
/* Forgets the tokens of a sequence behind the first `length`. */
PYCANDLE_C_API pycandle_error* pycandle_cache_truncate(pycandle_cache*, int64_t sequence, int64_t length);
/* A copy of these sequences: samples from one prompt, beams. */
PYCANDLE_C_API pycandle_error* pycandle_cache_fork(const pycandle_cache*, const int64_t* sequences, size_t count,
                                                   pycandle_cache** fork);
/* Runs new tokens [batch, new] behind those in the cache. counts: NULL, or how many of each row are real, the rest is padding.
   last: 1 gives the outputs of each sequence's last token alone. */
PYCANDLE_C_API pycandle_error* pycandle_step(const pycandle_model*, pycandle_cache*, const pycandle_tensor* tokens, size_t count,
                                             const int64_t* counts, int32_t last, pycandle_tensors** outputs);

#ifdef __cplusplus
}
#endif

#endif
