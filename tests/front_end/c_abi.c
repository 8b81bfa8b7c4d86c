/* A C program over the C ABI, driven by tests/python/test_c_abi.py. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <pycandle/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(pycandle_error* error) {
  if (!error) return;
  fprintf(stderr, "code %d\n%s\n", (int)pycandle_error_code_of(error), pycandle_error_text(error));
  pycandle_error_free(error);
  exit(1);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "expected: %s\n", what);
  exit(1);
}

/* The error is of this code and says this word; it is freed. */
static void refused(pycandle_error* error, pycandle_error_code code, const char* word) {
  expect(error != NULL, word);
  if (pycandle_error_code_of(error) != code || !strstr(pycandle_error_text(error), word)) {
    fprintf(stderr, "expected code %d with '%s'\n", (int)code, word);
    stop(error);
  }
  expect(strlen(pycandle_error_message(error)) > 0, "a message");
  pycandle_error_free(error);
}

static pycandle_model* loaded(const char* path, const pycandle_options* options) {
  pycandle_model* model = NULL;
  stop(pycandle_load(path, options, &model));
  return model;
}

static void show(const char* what, pycandle_tensor_info info) {
  printf("%s %s %d", what, info.name, (int)info.dtype);
  for (int32_t i = 0; i < info.rank; ++i) printf(" %s", info.dims[i]);
  printf("\n");
}

static int facts(const char* path) {
  pycandle_model* model = loaded(path, NULL);
  printf("model %s %s %d %d\n", pycandle_model_name(model), pycandle_model_backend(model), pycandle_model_can(model, "forward"),
         pycandle_model_can(model, "levitate"));
  for (size_t i = 0; i < pycandle_input_count(model); ++i) show("input", pycandle_input_at(model, i));
  for (size_t i = 0; i < pycandle_output_count(model); ++i) show("output", pycandle_output_at(model, i));
  expect(pycandle_input_at(model, 99).name == NULL, "no hundredth input");
  pycandle_model_free(model);
  return 0;
}

/* Rows of eight floats on stdin, the outputs' bytes on stdout. */
static int forward(const char* path, const char* backend) {
  static float x[8 * 64];
  const size_t read = fread(x, sizeof(float), 8 * 64, stdin);
  const int64_t shape[] = {(int64_t)read / 8, 8};
  pycandle_options options = PYCANDLE_OPTIONS;
  options.backend = backend;
  options.threads = 1;
  pycandle_model* model = loaded(path, &options);
  const pycandle_tensor input = {"x", PYCANDLE_F32, 2, shape, x};
  pycandle_tensors* outputs = NULL;
  stop(pycandle_run(model, &input, 1, &outputs));
  pycandle_model_free(model); /* the outputs live on */
  for (size_t i = 0; i < pycandle_tensors_count(outputs); ++i) {
    const pycandle_tensor t = pycandle_tensors_at(outputs, i);
    size_t count = pycandle_dtype_size(t.dtype);
    for (int32_t d = 0; d < t.rank; ++d) count *= (size_t)t.shape[d];
    fwrite(t.data, 1, count, stdout);
    expect(pycandle_tensors_named(outputs, t.name).data == t.data, "the same tensor by its name");
  }
  pycandle_tensors_free(outputs);
  return 0;
}

static int errors(const char* path) {
  pycandle_model* model = NULL;
  refused(pycandle_load("/no/such/model", NULL, &model), PYCANDLE_BAD_INPUT, "/no/such/model");
  refused(pycandle_load(NULL, NULL, &model), PYCANDLE_USAGE, "NULL");
  pycandle_options options = PYCANDLE_OPTIONS;
  options.backend = "abacus";
  refused(pycandle_load(path, &options, &model), PYCANDLE_USAGE, "abacus");
  options = (pycandle_options)PYCANDLE_OPTIONS;
  options.weights = "int1";
  refused(pycandle_load(path, &options, &model), PYCANDLE_USAGE, "int1");
  memset(&options, 0, sizeof options);
  refused(pycandle_load(path, &options, &model), PYCANDLE_USAGE, "PYCANDLE_OPTIONS");
  expect(model == NULL, "a result that is left alone");

  options.size = sizeof(size_t) + sizeof(char*); /* of an older header: the backend alone */
  options.backend = "reference";
  options.weights = "int1";
  model = loaded(path, &options);
  expect(strcmp(pycandle_model_backend(model), "reference") == 0, "the reference");

  const float x[16] = {0};
  const int64_t shape[] = {2, 8}, wrong[] = {2, 7}, negative[] = {-2, 8};
  const pycandle_tensor right = {"x", PYCANDLE_F32, 2, shape, x};
  pycandle_tensors* outputs = NULL;
  pycandle_tensor t = right;
  t.shape = wrong;
  refused(pycandle_run(model, &t, 1, &outputs), PYCANDLE_BAD_INPUT, "7");
  t.shape = negative;
  refused(pycandle_run(model, &t, 1, &outputs), PYCANDLE_BAD_INPUT, "-2");
  t = right, t.name = "y";
  refused(pycandle_run(model, &t, 1, &outputs), PYCANDLE_BAD_INPUT, "y");
  t = right, t.dtype = PYCANDLE_I32;
  refused(pycandle_run(model, &t, 1, &outputs), PYCANDLE_BAD_INPUT, "i32");
  t = right, t.dtype = 77;
  refused(pycandle_run(model, &t, 1, &outputs), PYCANDLE_USAGE, "77");
  t = right, t.data = NULL;
  refused(pycandle_run(model, &t, 1, &outputs), PYCANDLE_USAGE, "data");
  const pycandle_tensor twice[] = {right, right};
  refused(pycandle_run(model, twice, 2, &outputs), PYCANDLE_USAGE, "twice");
  refused(pycandle_run(model, NULL, 1, &outputs), PYCANDLE_USAGE, "NULL");
  refused(pycandle_run(model, NULL, 0, &outputs), PYCANDLE_BAD_INPUT, "x");
  refused(pycandle_run(NULL, &right, 1, &outputs), PYCANDLE_USAGE, "NULL");
  pycandle_cache* cache = NULL;
  refused(pycandle_cache_new(model, 1, 8, NULL, 0, &cache), PYCANDLE_GAP, "decode step");
  expect(outputs == NULL && cache == NULL, "results that are left alone");
  stop(pycandle_run(model, &right, 1, &outputs));

  pycandle_tensors_free(outputs);
  pycandle_tensors_free(NULL);
  pycandle_model_free(model);
  pycandle_model_free(NULL);
  pycandle_cache_free(NULL);
  pycandle_error_free(NULL);
  return 0;
}

static double count_of(const pycandle_model* model) {
  const float one = 1;
  const int64_t shape[] = {1};
  const pycandle_tensor input = {"x", PYCANDLE_F32, 1, shape, &one};
  pycandle_tensors* outputs = NULL;
  stop(pycandle_run(model, &input, 1, &outputs));
  const double count = *(const float*)pycandle_tensors_at(outputs, 0).data;
  pycandle_tensors_free(outputs);
  return count;
}

static int sessions(const char* path) {
  pycandle_model *model = loaded(path, NULL), *other = NULL;
  expect(count_of(model) == 1 && count_of(model) == 2, "a state that counts");
  stop(pycandle_session(model, &other));
  expect(count_of(other) == 1, "a session that begins as recorded");
  expect(count_of(model) == 3 && count_of(other) == 2, "two states");
  pycandle_model_free(model);
  expect(count_of(other) == 3, "a session that outlives the model");
  pycandle_model_free(other);
  return 0;
}

enum { kTokens = 7 };
static const int64_t kIds[kTokens] = {3, 1, 4, 1, 5, 9, 2};

static void* stepwise(void* argument) {
  const pycandle_model* model = argument;
  const int64_t shape[] = {1, kTokens};
  pycandle_tensor input = {"input_ids", PYCANDLE_I64, 2, shape, kIds};
  pycandle_tensors* whole = NULL;
  stop(pycandle_run(model, &input, 1, &whole));
  const pycandle_tensor all = pycandle_tensors_at(whole, 0);
  const int64_t width = all.shape[2];
  pycandle_cache* cache = NULL;
  stop(pycandle_cache_new(model, 1, 16, NULL, 0, &cache));
  expect(pycandle_cache_batch(cache) == 1 && pycandle_cache_capacity(cache) >= 16, "a cache as asked for");
  for (int64_t i = 0; i < kTokens; ++i) {
    const int64_t one[] = {1, 1};
    const pycandle_tensor token = {"input_ids", PYCANDLE_I64, 2, one, kIds + i};
    pycandle_tensors* outputs = NULL;
    stop(pycandle_step(model, cache, &token, 1, NULL, 1, &outputs));
    const float* step = pycandle_tensors_at(outputs, 0).data;
    const float* row = (const float*)all.data + i * width;
    for (int64_t c = 0; c < width; ++c) expect(fabsf(step[c] - row[c]) <= 1e-4f * (1 + fabsf(row[c])), "the same logits");
    pycandle_tensors_free(outputs);
  }
  expect(pycandle_cache_length(cache, 0) == kTokens && pycandle_cache_length(cache, 1) == -1, "seven tokens");
  pycandle_cache* fork = NULL;
  const int64_t twice[] = {0, 0};
  stop(pycandle_cache_fork(cache, twice, 2, &fork));
  stop(pycandle_cache_truncate(fork, 1, 2));
  expect(pycandle_cache_length(fork, 0) == kTokens && pycandle_cache_length(fork, 1) == 2, "a fork that forgot");
  refused(pycandle_cache_truncate(fork, 5, 2), PYCANDLE_USAGE, "5");
  pycandle_cache_free(fork);
  pycandle_cache_free(cache);
  pycandle_tensors_free(whole);
  return NULL;
}

/* Two threads, one model. */
static int steps(const char* path) {
  pycandle_model* model = loaded(path, NULL);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) expect(pthread_create(&threads[i], NULL, stepwise, model) == 0, "a thread");
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  pycandle_model_free(model);
  return 0;
}

int main(int argc, char** argv) {
  expect(argc > 2 && pycandle_abi_version() == PYCANDLE_ABI_VERSION, "two arguments, and the version of the header");
  if (!strcmp(argv[1], "facts")) return facts(argv[2]);
  if (!strcmp(argv[1], "forward")) return forward(argv[2], argc > 3 ? argv[3] : NULL);
  if (!strcmp(argv[1], "errors")) return errors(argv[2]);
  if (!strcmp(argv[1], "sessions")) return sessions(argv[2]);
  if (!strcmp(argv[1], "steps")) return steps(argv[2]);
  return 2;
}
