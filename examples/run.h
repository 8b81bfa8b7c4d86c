// What the examples' programs do: <weights.safetensors> <inputs.safetensors> <outputs.safetensors>
#pragma once

#include <pycandle/pycandle.h>

#include <cstdio>

template <class Make> int run_example(int count, char** arguments, const pycandle::Signature& signature, const Make& make) {
  if (count != 4) {
    std::fprintf(stderr, "usage: %s <weights.safetensors> <inputs.safetensors> <outputs.safetensors>\n", arguments[0]);
    return 2;
  }
  try {
    const auto model = make(pycandle::Weights::open(arguments[1]));
    const pycandle::Compiled run = pycandle::compile(model, signature);
    pycandle::save_arrays(arguments[3], run.run(pycandle::load_arrays(arguments[2])));
    return 0;
  } catch (const pycandle::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return pycandle::exit_status(error.code());
  }
}
