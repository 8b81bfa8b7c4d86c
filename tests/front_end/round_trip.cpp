// round_trip <folder> <name>: the GPT of the examples against a recording of its torch twin: layer by layer, then as a program.
#define main example_main
#include "../../examples/gpt_block.cpp"
#undef main

int main(int, char** arguments) {
  try {
    const std::string folder = arguments[1], name = arguments[2], manifest = folder + "/" + name + "_manifest.json";
    Gpt model(Config(), Weights::open(manifest));
    const RoundTrip same = round_trip(compile(model, signature_of(manifest)), manifest);
    std::printf("%s\n", same.equal ? "equal" : same.difference.c_str());

    Checker checker = Checker::load(name, folder);
    checker.collect();
    model.checker = checker;
    compile(model, signature_of(manifest)).run(checker.inputs());
    for (const CheckResult& r : checker.results())
      std::printf("%s %s %g %g %g\n", r.passed ? "passed" : "wrong", r.layer.c_str(), r.mse, r.max_diff, r.cosine);
    return same.equal ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
