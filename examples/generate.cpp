// Text from a recorded language model, as it is written:  generate MODEL tokenizer.json PROMPT
#include <pycandle/error.h>
#include <pycandle/generation.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: generate MODEL tokenizer.json PROMPT\n";
    return 2;
  }
  try {
    const auto model = pycandle::LanguageModel::load(argv[1], {.tokenizer = argv[2]});
    model.generate(argv[3], {.max_tokens = 20}, [](const pycandle::GeneratedPart& part) {
      std::cout << part.text << std::flush;
      return true;
    });
    std::cout << "\n";
    return 0;
  } catch (const pycandle::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return pycandle::exit_status(error.code());
  }
}
