// proof_runner <manifest> <header>...: a line for each header, "equal", or why codegen would not write it.
#include <cstdio>

#include "base/file.h"
#include "emit/proof/proof.h"
#include "import/importer.h"
#include "ops/core/catalogue.h"
#include "passes/pipeline.h"

int main(int count, char** arguments) {
  using namespace pycandle;
  try {
    const Program program = run_program_pipeline(import_manifest(arguments[1], catalogue()).program, catalogue());
    for (int i = 2; i < count; ++i) {
      std::string said = "equal";
      try {
        emit::proof::prove(read_text(arguments[i]), program);
      } catch (const Error& error) {
        said = error.message() + ": " + error.found();
      }
      for (char& c : said) c = c == '\n' ? ' ' : c;
      std::printf("%s\n", said.c_str());
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
