// Python's names as names of the emitted language: valid, different from each other, and as close to Python as can be.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pycandle::emit {

// "class" → class_, "0" → _0, "größe" → groesse, "a.b" → a_b
std::string identifier(std::string_view python);
// Does emitted code use the name without saying whose it is (cat, Tensor, nn)? Then nothing of a model may have it.
bool is_spoken_for(std::string_view name);
const std::vector<std::string>& spoken_names();
// The name of a member or a class: as identifier() gives it, when it is none of those and none that constructors use (w).
bool may_be_member(std::string_view name);
std::string member_name(std::string_view python);
// The namespace of a model: "GPT2Model" → gpt2_model, "Index" → index_model, as C has a function index().
std::string namespace_name(std::string_view class_name);
// "layer_norm" → LayerNorm, "conv2d_3x3" → Conv2d3x3
std::string camel_case(std::string_view name);
// "GPT2Block" → gpt2_block, "MakeMoE" → make_moe, "Seq2Seq" → seq2seq
std::string snake_case(std::string_view name);
// What stands after the last dot: "transformers.models.gpt2.GPT2Block" → GPT2Block.
std::string last_part(std::string_view dotted);
std::string_view all_but_last(std::string_view dotted);
std::vector<std::string> parts(std::string_view text, char separator);

// The names in use in one scope.
class Scope {
 public:
  void reserve(std::string_view name) { used_.insert(std::string(name)); }
  void release(const std::string& name) { used_.erase(name); }
  bool has(const std::string& name) const { return used_.count(name) != 0; }
  // The first of the candidates that is free, else the first with a number after it; taken from here on.
  std::string take(const std::vector<std::string>& candidates);
  std::string take(const std::string& name) { return take(std::vector<std::string>{name}); }

 private:
  std::set<std::string> used_;
};

}  // namespace pycandle::emit
