#include "runtime/guarded_backend.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backends/in_place.h"
#include "base/error.h"
#include "runtime/backends.h"

namespace pycandle {
namespace {

// Calls into the library.
template <class Call> decltype(auto) in_library(const std::string& library, const char* doing, const Call& call) {
  const auto says = [&](const std::string& what) {
    return Error(ErrorCode::internal, fmt::format("{} failed while it {}", library, doing))
        .found(what)
        .hint("this is an error of that library, not of PyCandle");
  };
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw says(error.what());
  } catch (...) {
    throw says("an exception that is no std::exception");
  }
}

Error wrong_result(const std::string& library, const std::string& what) {
  return Error(ErrorCode::bad_input, fmt::format("{} gave {}", library, what))
      .hint("a backend gives the types of the program (docs/backend.md); pycandle test-backend finds the op");
}

// What is needed of the program to look at results.
struct Promised {
  Program types;  // its graph has no nodes
  std::vector<Type> outputs, taps, states;
};

Promised promised_by(const Program& p) {
  Promised promised;
  for (const Output& o : p.outputs) promised.outputs.push_back(p.graph.type(o.value));
  for (const State& s : p.states) promised.states.push_back(p.graph.type(s.updated == kNoValue ? s.value : s.updated));
  for (const Tap& t : p.taps) promised.taps.push_back(t.value == kNoValue ? Type{} : p.graph.type(t.value));
  promised.types.name = p.name;
  promised.types.symbols = p.symbols;
  promised.types.checks = p.checks;
  promised.types.outputs = p.outputs;
  promised.types.states = p.states;
  promised.types.taps = p.taps;
  promised.types.files = p.files;  // checks say where they come from
  for (const ModuleCall& call : p.calls) {
    ModuleCall& copy = promised.types.calls.emplace_back();
    copy.path = call.path;
    copy.call = call.call;
  }
  for (const Input& input : p.inputs) {
    Input copy = input;
    copy.value = promised.types.graph.add_input(p.graph.type(input.value));
    promised.types.inputs.push_back(std::move(copy));
  }
  return promised;
}

class GuardedExecutable : public Executable {
 public:
  GuardedExecutable(std::string library, std::unique_ptr<Executable> inner, Promised promised)
      : library_(std::move(library)), inner_(std::move(inner)), promised_(std::move(promised)) {}

  std::vector<Array> run(const RunRequest& request) const override {
    return watched(request, [&](const RunRequest& mine) { return inner_->run(mine); });
  }
  ExecutableUse use() const override {
    return in_library(library_, "said what it uses", [&] { return inner_->use(); });
  }

 protected:
  template <class Run> std::vector<Array> watched(const RunRequest& request, const Run& run) const {
    const Bindings sizes = bind_inputs(promised_.types, request.inputs, request.symbols);
    RunRequest mine = request;
    if (request.on_tap) {
      mine.on_tap = [&](size_t tap, const Array& value) {
        if (tap >= promised_.taps.size()) throw wrong_result(library_, fmt::format("tap {} of {}", tap, promised_.taps.size()));
        check(fmt::format("the tap {}", promised_.types.taps[tap].id.text()), promised_.taps[tap], value, sizes);
        request.on_tap(tap, value);
      };
    }
    std::vector<Array> outputs = in_library(library_, "ran", [&] { return run(mine); });
    if (outputs.size() != promised_.outputs.size())
      throw wrong_result(library_, "another number of outputs than the program has")
          .expected(std::to_string(promised_.outputs.size()))
          .found(std::to_string(outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i)
      check(fmt::format("the output {}", promised_.types.outputs[i].name), promised_.outputs[i], outputs[i], sizes);
    if (!request.states) return outputs;
    if (request.states->size() != promised_.states.size())
      throw wrong_result(library_, "another number of states than the program has");
    for (size_t i = 0; i < promised_.states.size(); ++i)
      check(fmt::format("the state {}", promised_.types.states[i].name), promised_.states[i], (*request.states)[i], sizes);
    return outputs;
  }
  const Executable& inner() const { return *inner_; }
  const std::string& library() const { return library_; }

 private:
  void check(const std::string& what, const Type& type, const Array& value, const Bindings& sizes) const {
    bool fits = value.dtype() == type.dtype && value.rank() == type.rank();
    for (size_t axis = 0; fits && axis < type.shape.size(); ++axis) {
      const Dim dim = type.shape[axis].substitute(known(sizes));
      fits = !dim.is_number() || dim.number() == value.shape()[axis];  // one that the data decides can be any
    }
    if (fits && (value.size() == 0 || value.data() != nullptr)) return;
    throw wrong_result(library_, fmt::format("{} with another type than the program says", what))
        .expected(fmt::format("{}", type.text()))
        .found(fmt::format("{}{}", name_of(value.dtype()), to_string(value.shape())));
  }
  static std::map<std::string, Dim, std::less<>> known(const Bindings& sizes) {
    std::map<std::string, Dim, std::less<>> dims;
    for (const auto& [symbol, size] : sizes) dims.emplace(symbol, Dim(size));
    return dims;
  }

  std::string library_;
  std::unique_ptr<Executable> inner_;
  Promised promised_;
};

// One that can do more.
class GuardedInPlace final : public GuardedExecutable, public RunsInPlace {
 public:
  using GuardedExecutable::GuardedExecutable;
  std::vector<Array> run_in_place(const RunRequest& request) const override {
    return watched(request, [&](const RunRequest& mine) { return in_place().run_in_place(mine); });
  }
  std::unique_ptr<RepeatedRun> repeated(RunRequest request) const override {
    return in_library(library(), "prepared a run", [&] { return in_place().repeated(std::move(request)); });
  }

 private:
  const RunsInPlace& in_place() const { return dynamic_cast<const RunsInPlace&>(inner()); }
};

class GuardedBackend final : public Backend {
 public:
  GuardedBackend(std::string library, const Backend& inner)
      : library_(std::move(library)), inner_(inner), name_(in_library(library_, "said its name", [&] { return inner_.name(); })) {
    std::string problem;
    if (name_.empty()) problem = "without a name";
    for (const std::string& ours : backend_names()) {
      if (name_ == ours) problem = fmt::format("with the name {}, which a backend of PyCandle has", name_);
    }
    if (!problem.empty()) throw Error(ErrorCode::bad_input, fmt::format("{} has a backend {}", library_, problem));
  }
  std::string name() const override { return name_; }
  bool claims(const Call& call) const override {
    return in_library(library_, "was asked for its claims", [&] { return inner_.claims(call); });
  }
  std::vector<std::string> implementations(std::string_view functional) const override {
    return in_library(library_, "was asked for implementations", [&] { return inner_.implementations(functional); });
  }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    std::unique_ptr<Executable> inner = in_library(
        library_, "compiled", [&] { return inner_.compile(p, table, std::move(parameters), options, timings); });
    if (!inner) throw wrong_result(library_, "no executable");
    const bool in_place = dynamic_cast<const RunsInPlace*>(inner.get()) != nullptr;
    if (in_place) return std::make_unique<GuardedInPlace>(library_, std::move(inner), promised_by(p));
    return std::make_unique<GuardedExecutable>(library_, std::move(inner), promised_by(p));
  }

 private:
  std::string library_;
  const Backend& inner_;
  std::string name_;
};

}  // namespace

const Backend& guarded_backend(const std::string& library, const Backend& (*make)()) {
  const Backend& inner = in_library(library, "was loaded", [&]() -> const Backend& { return make(); });
  return *new GuardedBackend(library, inner);  // for good: executables, and the library itself, live as long
}

}  // namespace pycandle
