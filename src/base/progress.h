// How long work tells what it is doing. The library never prints: whoever starts the work passes a function.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace pycandle {

// what: "verify h.3.mlp"; done of total, total 0 when unknown. Called from one thread at a time.
using ProgressFn = std::function<void(std::string_view what, size_t done, size_t total)>;

inline void report(const ProgressFn& progress, std::string_view what, size_t done, size_t total) {
  if (progress) progress(what, done, total);
}

// A line for a person ("use_cache was set to False"), where silence would hide something.
using LogFn = std::function<void(std::string_view line)>;

}  // namespace pycandle
