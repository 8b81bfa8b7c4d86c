// One module call while classes are being found (recover.cpp): its steps, a text that calls of one class share, and the
// numbers in which they may differ.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit {

struct Column {
  Attribute value;
  std::string name;                       // what it is called where it is used: stride, in_features
  std::optional<Place> place;             // in a node; else it is a constructor argument
  std::string owner;                      // constructor argument: of this child
};

// Where the text of a draft names a value that a node or a call uses; step -1: the list of its inputs.
struct NamedValue {
  size_t begin, end;
  int32_t step;
  ValueId value;
};

struct Draft {
  bool ready = false;
  int32_t level = 0;
  std::optional<NnModule> nn;
  bool is_sequence = false;               // nn.Sequential whose parts run one after another
  bool is_repetition = false;             // nn.Sequential of equal parts: a loop where it is called
  bool is_listed = false;                 // nn.Sequential that is an element of a list: a class, which a list builds in a word
  std::vector<int32_t> listed_sequences;  // calls that are elements of this one's lists, and no classes yet
  int32_t module_class = -1;
  std::string text;
  std::vector<NamedValue> named;          // in that text
  Values arguments;                       // of the call, as its class takes them; kNoValue: left out (unify.h)
  std::vector<Column> columns;
  std::vector<TensorField> tensors;
  std::vector<TensorField> rows;          // of the cache of a decode step
  std::vector<StateUpdate> updates;
  std::vector<Child> children;
  std::vector<Step> steps;
  std::vector<Attribute> numbers;         // of the class's fields, once it is known
};

// A call of a run of steps, as loops see it.
struct RawStep {
  Unit unit;
  Values arguments, results;              // of calls; of nodes: what they use and give
  std::string kind;                       // calls of one kind have equal texts; empty for nodes
  bool is_nn = false;
  std::string list;                       // "transformer.h" when the path ends in a number …
  int64_t index = -1;                     // … which is this
  std::string path;
};

struct Loop {
  size_t begin = 0, period = 0, count = 0;
  std::vector<Carried> carried;
  size_t size() const { return period * count; }
};

// The longest loop that starts at a step, if any. `needed`: values that are used after the steps.
std::optional<Loop> loop_at(const std::vector<RawStep>&, size_t begin, const Values& needed);

// Writes the draft of one call: its steps with loops folded, the modules it has, its text and its numbers. The drafts of all
// calls inside it are ready.
void write_draft(const CallTree&, int32_t call, std::vector<Draft>& drafts, const std::vector<ModuleClass>& classes);
// A size in the call's own nodes that cannot be said in terms of tensors that it sees, if any.
std::optional<Dim> unsaid_size(const CallTree&, int32_t call);

}  // namespace pycandle::emit
