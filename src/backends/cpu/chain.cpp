#include "backends/cpu/chain.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "backends/cpu/blocks.h"
#include "backends/cpu/kernel_step.h"
#include "base/error.h"

namespace pycandle::cpu {
namespace {

constexpr int64_t kTile = 1024;          // elements: eight registers of them are half of the first cache
constexpr size_t kLongest = 32;          // instructions

int input_register(size_t input) { return -2 - static_cast<int>(input); }
bool is_input(int r) { return r <= -2; }
size_t input_of(int r) { return static_cast<size_t>(-2 - r); }

// Everything about a chain that does not change from run to run.
struct Program {
  Sizes outer;                           // the loops around the innermost one
  int64_t inner = 1;
  struct Operand {                       // an input or an output of the chain
    View view;
    Sizes outer;                         // strides
    int64_t inner = 0;
    int64_t size = 4;                    // bytes of an element: of f32, a half or a bool
    int tile = -1;                       // where an input is gathered first, when its stride is neither 0 nor 1
    int64_t repeats = 0;                 // numbers that are the whole innermost loop, again and again
  };
  std::vector<Operand> inputs, outputs;
  struct Operation {
    Instruction what;
    int tile = -1;                       // where the result goes ...
    int output = -1;                     // ... or the output that it is written to at once
  };
  std::vector<Operation> operations;
  int tiles = 0;
  struct Reduced {
    int operation = -1;                  // whose result is reduced over the last axes; -1: none is
    Reduction kind = Reduction::sum;
    Binary join = Binary::add;           // of the results of two tiles
    int64_t items = 1;                   // tiles, one after the other, that make one number
    View to = {};
  } reduced;
};

void repeat(const float* x, int64_t count, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += count) std::memcpy(out + i, x, static_cast<size_t>(count) * sizeof(float));
}

template <class T> void gather(const T* x, int64_t step, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i * step];
}

// A register at run time.
struct Place {
  std::byte* data = nullptr;
  int64_t step = 1;
  float* f32() const { return reinterpret_cast<float*>(data); }
  uint8_t* u8() const { return reinterpret_cast<uint8_t*>(data); }
  uint16_t* u16() const { return reinterpret_cast<uint16_t*>(data); }
};

void run_bools(const Instruction& i, const Place& a, const Place* b, uint8_t* out, int64_t n) {
  using Kind = Instruction::Kind;
  const uint8_t *x = a.u8(), *y = b ? b->u8() : nullptr;
  const int64_t s = a.step, t = b ? b->step : 0;
  for (int64_t k = 0; k < n; ++k) {
    const bool p = x[k * s] != 0, q = y && y[k * t] != 0;
    out[k] = i.kind == Kind::bool_and ? p && q : i.kind == Kind::bool_or ? p || q : i.kind == Kind::bool_xor ? p != q : !p;
  }
}

void run_instruction(const Kernels& k, const Instruction& i, const Place* operands, std::byte* result, int64_t n) {
  using Kind = Instruction::Kind;
  float* out = reinterpret_cast<float*>(result);
  const Place &a = operands[0], &b = operands[1], &c = operands[2];
  switch (i.kind) {
    case Kind::unary: k.unary[i.function](a.f32(), out, n, i.p, i.q); return;
    case Kind::binary: k.binary[i.function](a.f32(), a.step, b.f32(), b.step, out, n); return;
    case Kind::compare: k.compare[i.function](a.f32(), a.step, b.f32(), b.step, reinterpret_cast<uint8_t*>(result), n); return;
    case Kind::select: k.select(a.u8(), a.step, b.f32(), b.step, c.f32(), c.step, out, n); return;
    case Kind::to_float:
      for (int64_t e = 0; e < n; ++e) out[e] = a.u8()[e * a.step] != 0 ? 1.0f : 0.0f;
      return;
    case Kind::widen: k.widen(static_cast<WeightFormat>(i.function), a.u16(), n, out); return;
    case Kind::narrow: k.narrow(static_cast<WeightFormat>(i.function), a.f32(), n, reinterpret_cast<uint16_t*>(result)); return;
    default: run_bools(i, a, i.kind == Kind::bool_not ? nullptr : &b, reinterpret_cast<uint8_t*>(result), n);
  }
}

void reduce_tile(const Program::Reduced& r, const Kernels& k, const float* tile, int64_t n, int64_t item, const Context& c) {
  float here = 0;
  Reduce args;
  args.outer = 1;
  args.count = n;
  args.x = tile;
  args.out = &here;
  args.kind = r.kind;
  k.reduce(args, 0, 1, nullptr);
  float* to = c.pointer(r.to) + item / r.items;
  if (item % r.items == 0)
    *to = here;
  else
    k.binary[static_cast<int>(r.join)](to, 1, &here, 1, to, 1);
}

// What a part of a chain works in: its tiles, then the places of its registers, inputs and outputs.
int64_t scratch_bytes(const Program& p) {
  return p.tiles * kTile * 4 + static_cast<int64_t>((p.operations.size() + p.inputs.size() + p.outputs.size()) * sizeof(Place));
}

void run_tiles(const Program& p, const Kernels& k, const Context& c, std::byte* scratch, int64_t begin, int64_t end) {
  const int64_t tiles_a_row = (p.inner + kTile - 1) / kTile;
  std::byte* const tiles = scratch;
  Place* const registers = reinterpret_cast<Place*>(tiles + p.tiles * kTile * 4);
  const std::span<Place> inputs(registers + p.operations.size(), p.inputs.size());
  const std::span<Place> outputs(inputs.data() + inputs.size(), p.outputs.size());
  for (int64_t item = begin; item < end; ++item) {
    const int64_t row = item / tiles_a_row, first = item % tiles_a_row * kTile, n = std::min(kTile, p.inner - first);
    const auto place = [&](const Program::Operand& o) {
      int64_t left = row, at = first * o.inner;
      for (size_t a = p.outer.size(); a-- > 0;) {
        at += left % p.outer[a] * o.outer[a];
        left /= p.outer[a];
      }
      return c.pointer<std::byte>(o.view) + at * o.size;
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Program::Operand& o = p.inputs[i];
      inputs[i] = {place(o), o.inner};
      if (o.tile < 0) continue;
      std::byte* tile = tiles + o.tile * kTile * 4;
      if (o.repeats > 0)
        repeat(inputs[i].f32(), o.repeats, reinterpret_cast<float*>(tile), n);
      else if (o.size == 1)
        gather(inputs[i].u8(), o.inner, reinterpret_cast<uint8_t*>(tile), n);
      else if (o.size == 2)
        gather(inputs[i].u16(), o.inner, reinterpret_cast<uint16_t*>(tile), n);
      else
        gather(inputs[i].f32(), o.inner, reinterpret_cast<float*>(tile), n);
      inputs[i] = {tile, 1};
    }
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = {place(p.outputs[i]), 1};
    for (size_t i = 0; i < p.operations.size(); ++i) {
      const Program::Operation& o = p.operations[i];
      Place operands[3];
      for (int j = 0; j < 3; ++j) {
        const int r = o.what.operands[j];
        if (r != -1) operands[j] = is_input(r) ? inputs[input_of(r)] : registers[r];
      }
      std::byte* result = o.output >= 0 ? outputs[o.output].data : tiles + o.tile * kTile * 4;
      run_instruction(k, o.what, operands, result, n);
      registers[i] = {result, 1};
    }
    if (p.reduced.operation >= 0) reduce_tile(p.reduced, k, registers[p.reduced.operation].f32(), n, item, c);
  }
}

// The loops that walk all views at once: neighbouring axes joined where every view allows it, but not the axis `apart` with
// the one before it.
void choose_loops(Program& p, const Sizes& sizes, size_t apart) {
  std::vector<Program::Operand*> all;
  for (auto* list : {&p.inputs, &p.outputs}) {
    for (Program::Operand& o : *list) all.push_back(&o);
  }
  Sizes loops;
  std::vector<Sizes> strides(all.size());
  bool is_cut = false;
  for (size_t a = 0; a < sizes.size(); ++a) {
    is_cut = is_cut || a == apart;
    if (sizes[a] == 1) continue;
    bool joins = !loops.empty() && !is_cut;
    is_cut = false;
    for (size_t o = 0; joins && o < all.size(); ++o) joins = strides[o].back() == all[o]->view.strides[a] * sizes[a];
    if (joins)
      loops.back() *= sizes[a];
    else
      loops.push_back(sizes[a]);
    for (size_t o = 0; o < all.size(); ++o) {
      if (joins)
        strides[o].back() = all[o]->view.strides[a];
      else
        strides[o].push_back(all[o]->view.strides[a]);
    }
  }
  if (loops.empty()) {
    loops.push_back(1);
    for (Sizes& s : strides) s.push_back(1);
  }
  p.inner = loops.back();
  p.outer.assign(loops.begin(), loops.end() - 1);
  for (size_t o = 0; o < all.size(); ++o) {
    all[o]->inner = strides[o].back();
    all[o]->outer.assign(strides[o].begin(), strides[o].end() - 1);
  }
}

// The same for blocks of channels, [batch, blocks, height, width, lanes]: an operand is a whole image, or one number or one for
// each lane at all positions.
void choose_blocked_loops(Program& p, const Sizes& sizes) {
  std::vector<Program::Operand*> all;
  for (auto* list : {&p.inputs, &p.outputs}) {
    for (Program::Operand& o : *list) all.push_back(&o);
  }
  const auto is_whole = [](const Program::Operand* o) { return o->view.is_dense(); };
  if (std::all_of(all.begin(), all.end(), is_whole)) {
    p.inner = element_count(sizes);
    for (Program::Operand* o : all) o->inner = 1;
    return;
  }
  p.outer = {sizes[0], sizes[1]};
  p.inner = sizes[2] * sizes[3] * sizes[4];
  for (Program::Operand* o : all) {
    o->outer = {o->view.strides[0], o->view.strides[1]};
    const bool is_repeated = !is_whole(o) && o->view.strides[4] == 1;
    o->inner = is_whole(o) ? 1 : 0;
    o->repeats = is_repeated ? sizes[4] : 0;
  }
}

// When each register and each input is read last.
struct LastReads {
  std::vector<size_t> registers, inputs;
};

LastReads last_reads(const std::vector<Instruction>& instructions, size_t inputs) {
  LastReads last{std::vector<size_t>(instructions.size(), 0), std::vector<size_t>(inputs, 0)};
  for (size_t i = 0; i < instructions.size(); ++i) {
    for (const int r : instructions[i].operands) {
      if (is_input(r)) last.inputs[input_of(r)] = i;
      if (r >= 0) last.registers[r] = i;
    }
  }
  return last;
}

// Inputs that are not read in place are gathered into tiles of their own. Results that are not outputs lie in tiles too, each
// free for another one after its last read.
void assign_tiles(Program& program, std::vector<size_t> last_read) {
  for (size_t input = 0; input < program.inputs.size(); ++input) {
    Program::Operand& o = program.inputs[input];
    const bool only_vectors = std::any_of(program.operations.begin(), program.operations.end(), [&](const auto& operation) {
      const Instruction& i = operation.what;
      using Kind = Instruction::Kind;
      const bool takes_vectors = i.kind == Kind::unary || i.kind == Kind::widen || i.kind == Kind::narrow;
      return takes_vectors && is_input(i.operands[0]) && input_of(i.operands[0]) == input;
    });
    if (o.repeats > 0 || (o.inner != 1 && (o.inner != 0 || only_vectors))) o.tile = program.tiles++;
  }
  std::vector<int> free_tiles;
  const auto new_tile = [&] {
    if (free_tiles.empty()) return program.tiles++;
    const int tile = free_tiles.back();
    free_tiles.pop_back();
    return tile;
  };
  for (size_t i = 0; i < program.operations.size(); ++i) {
    if (program.operations[i].output < 0) program.operations[i].tile = new_tile();
    for (size_t j = 0; j < i; ++j) {
      if (last_read[j] == i && program.operations[j].tile >= 0) {
        free_tiles.push_back(program.operations[j].tile);
        last_read[j] = SIZE_MAX;
      }
    }
  }
}

// An output of a chain, and the instruction that gives it.
struct Stored {
  ValueId value;
  View view;
  size_t instruction;
};

// In place where the input is walked as the output is, and nothing reads it (or its buffer otherwise) afterwards.
void share_inputs(const std::vector<View>& inputs, const std::vector<size_t>& last_read, const std::vector<Stored>& outputs,
                  Step& step) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const View& in = inputs[i];
    const bool once = std::count_if(inputs.begin(), inputs.end(), [&](const View& v) { return v.buffer == in.buffer; }) == 1;
    if (!once || in.offset != 0 || !in.is_dense()) continue;
    for (const Stored& out : outputs) {
      if (in.dtype == out.view.dtype && last_read[i] <= out.instruction) step.may_share.emplace_back(in.buffer, out.view.buffer);
    }
  }
}

// The step runs the program: parts of `units`, each of `whole` items that one thread does.
void run_program(Program program, int64_t units, int64_t whole, int parts, Planner& planner, Step& step) {
  const int64_t scratch = (scratch_bytes(program) + 63) / 64 * 64;
  const View memory = dense_view(planner.new_buffer(static_cast<size_t>(scratch * parts)), DType::u8, {scratch * parts});
  step.writes.push_back(memory.buffer);
  step.run = [program = std::move(program), units, whole, parts, scratch, memory, &k = kernels()](Context& c) {
    run_parts(parts, [&](int part) {
      run_tiles(program, k, c, c.pointer<std::byte>(memory) + part * scratch, part_of(units, parts, part) * whole,
                part_of(units, parts, part + 1) * whole);
    });
  };
}

}  // namespace

int Chains::chain_of(ValueId v) const { return chain_of_.has(v) ? chain_of_[v] : -1; }

// One operand lies in blocks, and the others may.
bool Chains::runs_in_blocks(size_t index, const Values& operands) const {
  if (!is_blockwise(planner_, index)) return false;
  const ValueId result = planner_.node(index).results[0];
  const auto is_blocked = [&](ValueId v) { return planner_.is_blocked(v); };
  const auto may_be = [&](ValueId v) {
    return planner_.sizes(v) == planner_.sizes(result) &&
           (is_blocked(v) || planner_.is_one_a_channel(v) || planner_.wants_blocked(result));
  };
  return std::any_of(operands.begin(), operands.end(), is_blocked) && std::all_of(operands.begin(), operands.end(), may_be);
}

// The open chain that computes one of the operands, or a new one; the others' are closed.
int Chains::chosen_for(const Values& operands, const Sizes& sizes, bool is_blocked) {
  if (chain_of_.empty()) chain_of_.assign(planner_.graph().values.size(), -1);
  int chosen = -1;
  for (const ValueId v : operands) {
    const int c = chain_of(v);
    if (c < 0) continue;
    const Chain& chain = chains_[c];
    if (chain.is_blocked == is_blocked && chain.sizes == sizes && chain.instructions.size() < kLongest)
      chosen = std::max(chosen, c);
  }
  for (const ValueId v : operands) {
    if (chain_of(v) >= 0 && chain_of(v) != chosen) close(v);
  }
  return chosen;
}

int Chains::input_of_chain(Chain& chain, const View& view) {
  size_t input = 0;
  while (input < chain.inputs.size() && !(same_places(chain.inputs[input], view) && chain.inputs[input].dtype == view.dtype))
    ++input;
  if (input == chain.inputs.size()) chain.inputs.push_back(view);
  return input_register(input);
}

void Chains::append(int to, size_t index, Instruction instruction, ValueId result) {
  Chain& chain = chains_[to];
  instruction.result = static_cast<int>(chain.instructions.size());
  chain.instructions.push_back(instruction);
  chain.values.push_back(result);
  chain.nodes.push_back(index);
  if (result != kNoValue) chain_of_[result] = to;
}

bool Chains::join(size_t index) {
  const auto what = elementwise(planner_, index);
  if (!what) return false;
  const ValueId result = planner_.node(index).results[0];
  const bool is_blocked = runs_in_blocks(index, what->operands);
  const Sizes own = planner_.sizes(result), sizes = is_blocked ? blocked_sizes(own) : own;
  int chosen = chosen_for(what->operands, sizes, is_blocked);
  for (const ValueId v : what->operands) {
    if (!is_blocked && chain_of(v) < 0 && planner_.view(v).sizes != sizes) return false;  // the evaluator says what is wrong
  }
  Instruction instruction = what->instruction;
  std::vector<View> views;  // of the operands that other steps give: those steps come first
  for (const ValueId v : what->operands)
    views.push_back(chain_of(v) >= 0 ? View() : is_blocked ? planner_.blocked_operand(v) : planner_.view(v));
  if (chosen < 0) {
    chosen = static_cast<int>(chains_.size());
    Chain& chain = chains_.emplace_back();
    chain.sizes = sizes;
    chain.is_blocked = is_blocked;
  }
  Chain& chain = chains_[chosen];
  for (size_t i = 0; i < what->operands.size(); ++i) {
    const ValueId v = what->operands[i];
    if (chain_of(v) == chosen) {
      const auto at = std::find(chain.values.begin(), chain.values.end(), v);
      instruction.operands[i] = static_cast<int>(at - chain.values.begin());
    } else {
      instruction.operands[i] = input_of_chain(chain, views[i]);
    }
  }
  append(chosen, index, instruction, result);
  return true;
}

void Chains::scale_and_shift(size_t index, ValueId v, const View& scale, const View& shift) {
  const Sizes sizes = blocked_sizes(planner_.sizes(v));
  int chosen = chosen_for({v}, sizes, true);
  const View x = chosen < 0 ? planner_.blocked(v) : View();
  if (chosen < 0) {
    chosen = static_cast<int>(chains_.size());
    Chain& chain = chains_.emplace_back();
    chain.sizes = sizes;
    chain.is_blocked = true;
  }
  Chain& chain = chains_[chosen];
  const auto on_all_positions = [&](View one_a_channel) {
    const int64_t lanes = sizes.back();
    one_a_channel.sizes = sizes;
    one_a_channel.strides = {0, lanes, 0, 0, 1};
    return one_a_channel;
  };
  Instruction by{Instruction::Kind::binary, static_cast<int>(Binary::mul)},
      plus{Instruction::Kind::binary, static_cast<int>(Binary::add)};
  const auto at = std::find(chain.values.begin(), chain.values.end(), v);
  by.operands[0] = at == chain.values.end() ? input_of_chain(chain, x) : static_cast<int>(at - chain.values.begin());
  by.operands[1] = input_of_chain(chain, on_all_positions(scale));
  append(chosen, index, by, kNoValue);
  plus.operands[0] = static_cast<int>(chain.instructions.size()) - 1;
  plus.operands[1] = input_of_chain(chain, on_all_positions(shift));
  append(chosen, index, plus, planner_.node(index).results[0]);
}

Chains::Chain Chains::taken(int c) {
  Chain chain = std::move(chains_[c]);
  for (const ValueId value : chain.values) {
    if (value != kNoValue) chain_of_[value] = -1;
  }
  return chain;
}

void Chains::close(ValueId v) {
  if (chain_of(v) < 0) return;
  Chain chain = taken(chain_of(v));
  emit(chain, {});
}

bool Chains::reduce(ValueId v, size_t axes, Reduction kind, ValueId result) {
  if (chain_of(v) < 0 || waits_in_blocks(v) || planner_.uses(v) != 1) return false;
  const Sizes sizes = planner_.sizes(v);
  const int64_t count = element_count(Sizes(sizes.end() - static_cast<std::ptrdiff_t>(axes), sizes.end()));
  if (count < 2 || element_count(sizes) == 0) return false;
  Chain chain = taken(chain_of(v));
  emit(chain, {v, result, axes, kind});
  return true;
}

bool Chains::is_needed(const Chain& chain, ValueId v) const {
  if (v == kNoValue) return false;
  const auto& users = planner_.shared().users[v];
  if (static_cast<size_t>(planner_.uses(v)) > users.size()) return true;  // an output of the program
  return std::any_of(users.begin(), users.end(), [&](size_t n) {
    return std::find(chain.nodes.begin(), chain.nodes.end(), n) == chain.nodes.end() && !planner_.is_done(n);
  });
}

void Chains::emit(Chain& chain, const Ending& ending) {
  Program program;
  Step step;
  step.kernel = ending.value == kNoValue ? "chain" : "reducing_chain";
  for (const View& v : chain.inputs) {
    program.inputs.push_back({v, {}, 0, static_cast<int64_t>(size_of(v.dtype)), -1});
    step.reads.push_back(v.buffer);
    step.bytes += v.bytes();
  }
  std::vector<Stored> outputs;
  for (size_t i = 0; i < chain.instructions.size(); ++i) {
    Program::Operation operation{chain.instructions[i], -1, -1};
    if (chain.values[i] != ending.value && is_needed(chain, chain.values[i])) {
      const View out = chain.is_blocked ? planner_.blocked_result(chain.values[i]) : planner_.result(chain.values[i]);
      operation.output = static_cast<int>(program.outputs.size());
      program.outputs.push_back({out, {}, 0, static_cast<int64_t>(size_of(out.dtype)), -1});
      outputs.push_back({chain.values[i], out, i});
      step.writes.push_back(out.buffer);
      step.bytes += out.bytes();
    }
    program.operations.push_back(operation);
  }
  if (chain.is_blocked)
    choose_blocked_loops(program, chain.sizes);
  else
    choose_loops(program, chain.sizes, chain.sizes.size() - ending.axes);
  const LastReads last = last_reads(chain.instructions, chain.inputs.size());
  assign_tiles(program, last.registers);
  share_inputs(chain.inputs, last.inputs, outputs, step);

  int64_t rows = 1;
  for (const int64_t size : program.outer) rows *= size;
  const int64_t items = rows * ((program.inner + kTile - 1) / kTile);
  int64_t whole = 1;  // items that one thread does: those of one number that they are reduced to
  if (ending.value != kNoValue) {
    const auto at = std::find(chain.values.begin(), chain.values.end(), ending.value);
    const View out = planner_.result(ending.result);
    whole = items / out.count();
    const Binary join = ending.kind == Reduction::max ? Binary::max : ending.kind == Reduction::min ? Binary::min : Binary::add;
    program.reduced = {static_cast<int>(at - chain.values.begin()), ending.kind, join, whole, out};
    step.writes.push_back(out.buffer);
    outputs.push_back({ending.result, out, chain.instructions.size()});
  }
  if (items > 0 && !outputs.empty()) {
    const double work = 2 * static_cast<double>(rows * program.inner) * static_cast<double>(chain.instructions.size());
    const int64_t units = items / whole;
    run_program(std::move(program), units, whole, parts_for(planner_.threads(), units, work), planner_, step);
    const size_t current = planner_.current;
    planner_.current = chain.nodes.back();
    planner_.add(std::move(step));
    planner_.current = current;
  }
  for (const Stored& out : outputs) {
    if (chain.is_blocked)
      planner_.define_blocked(out.value, out.view);
    else
      planner_.define(out.value, out.view);
  }
}

}  // namespace pycandle::cpu
