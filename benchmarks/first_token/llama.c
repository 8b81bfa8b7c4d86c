// The first token of llama.cpp:  llama MODEL.gguf THREADS TOKEN…
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>

static void quiet(enum ggml_log_level level, const char* text, void* data) { (void)level, (void)text, (void)data; }

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  llama_log_set(quiet, NULL);
  llama_backend_init();
  struct llama_model_params model_settings = llama_model_default_params();
  model_settings.n_gpu_layers = 0;
  struct llama_model* model = llama_model_load_from_file(argv[1], model_settings);
  if (model == NULL) return 1;
  const int count = argc - 3;
  llama_token* tokens = malloc(sizeof(llama_token) * (size_t)count);
  for (int i = 0; i < count; ++i) tokens[i] = atoi(argv[i + 3]);
  struct llama_context_params settings = llama_context_default_params();
  settings.n_ctx = settings.n_batch = settings.n_ubatch = 512;
  settings.n_threads = settings.n_threads_batch = atoi(argv[2]);
  settings.type_k = settings.type_v = GGML_TYPE_F32;
  struct llama_context* context = llama_init_from_model(model, settings);
  if (context == NULL || llama_decode(context, llama_batch_get_one(tokens, count)) != 0) return 1;
  const float* logits = llama_get_logits_ith(context, -1);
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  int best = 0;
  for (int i = 1; i < vocabulary; ++i) best = logits[i] > logits[best] ? i : best;
  printf("%d\n", best);
  fflush(stdout);
  return 0;
}
