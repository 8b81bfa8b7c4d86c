// The first token of a bundle:  ours MODEL.pycandle THREADS TOKEN…
#include <pycandle/error.h>
#include <pycandle/generation.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    const auto model = pycandle::LanguageModel::load(argv[1], {.threads = std::atoi(argv[2])});
    std::vector<pycandle::TokenId> prompt;
    for (int i = 3; i < argc; ++i) prompt.push_back(static_cast<pycandle::TokenId>(std::atoi(argv[i])));
    pycandle::Generation generation = model.start_tokens({prompt}, {.max_tokens = 1, .ignore_end = true, .cache_capacity = 512});
    generation.next();
    std::printf("%u\n", generation.results()[0].tokens[0].id);
    std::fflush(stdout);
    return 0;
  } catch (const pycandle::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return pycandle::exit_status(error.code());
  }
}
