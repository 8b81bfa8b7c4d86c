// The contract of a backend (docs/backend.md): claim ops, compile a program, run it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/array.h"
#include "ir/op_def.h"
#include "params/parameters.h"

namespace pycandle {

struct RunRequest {
  std::vector<Array> inputs;                               // in the order of Program::inputs
  std::vector<Array>* states = nullptr;                    // in the order of Program::states; updated in place; null: the recorded ones, discarded
  std::function<void(size_t tap, const Array&)> on_tap;    // called once per tap of Program::taps, when its value exists
  // Values of random ops come from here in verification: asked with the index of the tap, empty Array → draw.
  uint64_t seed = 0;
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual std::vector<Array> run(const RunRequest&) const = 0;  // in the order of Program::outputs; safe from several threads
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual bool claims(const Node&) const = 0;
  // The program is in program form; compile runs the backend pipeline itself.
  virtual std::unique_ptr<Executable> compile(const Program&, const OpTable&, std::shared_ptr<const ParameterSource>) const = 0;
};

// By name: "reference". A usage error lists the backends that this build has.
const Backend& find_backend(const std::string& name);
std::vector<std::string> backend_names();

// Checks inputs against the program's types and binds the symbols: one Error that names input, axis, expected and found.
Bindings bind_inputs(const Program&, const std::vector<Array>& inputs);

}  // namespace pycandle
