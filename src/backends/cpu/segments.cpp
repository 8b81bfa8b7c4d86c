#include "backends/cpu/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backends/at_sizes.h"

namespace pycandle::cpu {
namespace {

bool draws_numbers(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& node) {
    return node.op->is_random || std::any_of(node.regions.begin(), node.regions.end(), draws_numbers);
  });
}

// Some nodes of the program, one after another.
struct Piece {
  bool finds = false;
  Program program;
  std::unique_ptr<Executable> run;
  Values inputs, outputs;    // of the whole program's values
  std::vector<size_t> taps;  // of the whole program
  Values ends;               // what no later piece needs
};

// The module calls and files that errors and profiles name, without the values of the calls.
void keep_places(const Program& whole, Program& p) {
  p.files = whole.files;
  p.calls = whole.calls;
  for (ModuleCall& call : p.calls) {
    call.args.clear();
    call.output = {};
  }
}

class Cutter {
 public:
  explicit Cutter(const Program& p) : whole_(p), parameter_of_(p.graph.values.size(), -1), last_user_(p.graph.values.size(), -1) {
    for (size_t i = 0; i < p.parameters.size(); ++i) {
      if (p.parameters[i].value != kNoValue) parameter_of_[p.parameters[i].value] = static_cast<int32_t>(i);
    }
    for (size_t n = 0; n < p.graph.nodes.size(); ++n) {
      const bool finds = finds_a_size(p.graph, p.graph.nodes[n]);
      if (pieces_.empty() || pieces_.back().finds != finds) {
        pieces_.emplace_back().finds = finds;
        nodes_.emplace_back();
      }
      nodes_.back().push_back(n);
      for (const ValueId v : p.graph.nodes[n].operands) {
        if (v != kNoValue) last_user_[v] = static_cast<int32_t>(pieces_.size()) - 1;
      }
    }
    for (const Output& o : p.outputs) last_user_[o.value] = static_cast<int32_t>(pieces_.size());
  }

  std::vector<Piece> pieces() && {
    for (size_t i = 0; i < pieces_.size(); ++i) build(pieces_[i], nodes_[i], static_cast<int32_t>(i));
    return std::move(pieces_);
  }

 private:
  ValueId operand(Piece& piece, PerValue<ValueId>& here, ValueId v) const {
    if (v == kNoValue || here[v] != kNoValue) return v == kNoValue ? v : here[v];
    Program& p = piece.program;
    here[v] = p.graph.add_input(whole_.graph.type(v));
    if (parameter_of_[v] >= 0) {
      Parameter parameter = whole_.parameters[static_cast<size_t>(parameter_of_[v])];
      parameter.value = here[v];
      p.parameters.push_back(std::move(parameter));
    } else {
      p.inputs.push_back({fmt::format("v{}", v), here[v], {}, true});
      piece.inputs.push_back(v);
    }
    return here[v];
  }

  void build(Piece& piece, const std::vector<size_t>& nodes, int32_t number) const {
    Program& p = piece.program;
    p.name = whole_.name;
    p.symbols = whole_.symbols;
    for (Symbol& s : p.symbols) {  // the request says how large they are
      s.input.clear();
      s.axis = -1;
    }
    keep_places(whole_, p);
    PerValue<ValueId> here(whole_.graph.values.size(), kNoValue);
    for (const bool wants_inputs : {true, false}) {  // a graph's inputs come first: those of the run, then parameters
      for (const size_t n : nodes)
        for (const ValueId v : whole_.graph.nodes[n].operands) {
          const bool is_made_here = v == kNoValue || std::binary_search(nodes.begin(), nodes.end(), node_of(v));
          if (!is_made_here && (parameter_of_[v] < 0) == wants_inputs) operand(piece, here, v);
        }
    }
    for (const size_t n : nodes) {
      const Node& node = whole_.graph.nodes[n];
      Node copy = node;
      copy.results.clear();
      for (ValueId& v : copy.operands) v = v == kNoValue ? v : here[v];
      std::vector<Type> types;
      for (const ValueId r : node.results) types.push_back(whole_.graph.type(r));
      const Values results = p.graph.add_node(std::move(copy), std::move(types)).results;
      for (size_t r = 0; r < results.size(); ++r) here[node.results[r]] = results[r];
      for (const ValueId r : node.results) {
        if (last_user_[r] <= number) continue;
        p.outputs.push_back({fmt::format("v{}", r), here[r]});
        piece.outputs.push_back(r);
      }
    }
    for (size_t t = 0; t < whole_.taps.size(); ++t) {
      Tap tap = whole_.taps[t];
      if (tap.inside || !std::binary_search(nodes.begin(), nodes.end(), node_of(tap.value))) continue;
      tap.value = here[tap.value];
      p.taps.push_back(std::move(tap));
      piece.taps.push_back(t);
    }
    p.bind_outputs();
    for (const ValueId v : piece.inputs) {
      if (last_user_[v] == number) piece.ends.push_back(v);
    }
  }

  size_t node_of(ValueId v) const {
    const NodeId node = whole_.graph.values[v].node;
    return node == kNoNode ? SIZE_MAX : static_cast<size_t>(node);
  }

  const Program& whole_;
  PerValue<int32_t> parameter_of_, last_user_;  // last_user_: the piece that reads a value last
  std::vector<Piece> pieces_;
  std::vector<std::vector<size_t>> nodes_;
};

class Segments final : public Executable {
 public:
  Segments(const Program& p, std::shared_ptr<const ParameterSource> parameters, const CompilePiece& compile)
      : whole_(p), parameters_(std::move(parameters)), pieces_(Cutter(p).pieces()) {
    for (Piece& piece : pieces_) piece.run = compile(piece.program, piece.finds);
  }

  std::vector<Array> run(const RunRequest& request) const override {
    Bindings sizes = bind_inputs(whole_, request.inputs, request.symbols);
    PerValue<Array> values(whole_.graph.values.size());
    for (size_t i = 0; i < whole_.inputs.size(); ++i) values[whole_.inputs[i].value] = request.inputs[i];
    tap_what_is_given(request, values);
    for (const Piece& piece : pieces_) {
      const Bindings before = sizes;
      run_piece(piece, request, sizes, values);
      for (const auto& [name, size] : sizes) {
        if (!before.contains(name)) evaluate_checks(whole_, sizes, name);
      }
    }
    if (request.found) *request.found = sizes;
    std::vector<Array> outputs;
    for (const Output& o : whole_.outputs) outputs.push_back(value_of(o.value, values));
    return outputs;
  }

  ExecutableUse use() const override {
    ExecutableUse all;
    for (const Piece& piece : pieces_) {
      const ExecutableUse own = piece.run->use();
      all.planned.insert(all.planned.end(), own.planned.begin(), own.planned.end());
      all.weight_bytes += own.weight_bytes;
      all.arena_bytes = std::max(all.arena_bytes, own.arena_bytes);
    }
    return all;
  }

 private:
  void run_piece(const Piece& piece, const RunRequest& request, Bindings& sizes, PerValue<Array>& values) const {
    RunRequest own;
    own.on_step = request.on_step;
    own.seed = request.seed;
    own.prepare_fully = request.prepare_fully;
    own.symbols = sizes;
    for (const ValueId v : piece.inputs) own.inputs.push_back(values[v]);
    if (request.on_tap) own.on_tap = [&](size_t tap, const Array& a) { request.on_tap(piece.taps[tap], a); };
    if (piece.finds) own.found = &sizes;
    std::vector<Array> results = piece.run->run(own);
    for (size_t i = 0; i < results.size(); ++i) values[piece.outputs[i]] = std::move(results[i]);
    for (const ValueId v : piece.ends) values[v] = Array();
  }

  Array value_of(ValueId v, const PerValue<Array>& values) const {
    for (const Parameter& q : whole_.parameters)
      if (q.value == v) return parameters_->get(q);
    return values[v];
  }

  void tap_what_is_given(const RunRequest& request, const PerValue<Array>& values) const {
    for (size_t t = 0; t < whole_.taps.size() && request.on_tap; ++t) {
      const Tap& tap = whole_.taps[t];
      if (!tap.inside && whole_.graph.values[tap.value].node == kNoNode) request.on_tap(t, value_of(tap.value, values));
    }
  }

  Program whole_;
  std::shared_ptr<const ParameterSource> parameters_;
  std::vector<Piece> pieces_;
};

}  // namespace

bool can_be_cut(const Program& p) { return p.states.empty() && !draws_numbers(p.graph); }

std::unique_ptr<Executable> in_segments(const Program& p, std::shared_ptr<const ParameterSource> parameters,
                                        const CompilePiece& compile) {
  return std::make_unique<Segments>(p, std::move(parameters), compile);
}

}  // namespace pycandle::cpu
