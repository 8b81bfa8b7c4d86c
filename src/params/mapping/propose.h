// Which tensor is which parameter, when the names differ: by known spellings, shapes and order. Where two candidates are
// equally good nothing is chosen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "params/mapping/ledger.h"

namespace pycandle {

enum class Why { same_name, known_name, order, shape };
const char* name_of(Why);  // "same name", "known names", "same order", "only shape"

struct NameProposal {
  std::string target;
  SourceExpr source;
  Why why = Why::same_name;
};
struct Ambiguity {
  std::string target;
  std::vector<std::string> candidates;  // sources as rules write them
  std::string reason;
};
struct Proposals {
  std::vector<NameProposal> found;
  std::vector<Ambiguity> ambiguous;
  std::vector<std::string> unmatched;   // parameters for which nothing was found
};

// Heads of attention, for files whose rotary rows stand in another order.
struct Heads {
  int64_t queries = 0, keys = 0;        // 0: not known
};
// From the recorded configuration, the fields of a GGUF file, or params.json and config.json beside the checkpoint.
Heads find_heads(const Recording*, const Checkpoint&);

Proposals propose(const std::vector<Target>&, const Checkpoint&, const Heads&);
// The rules file: a line for each parameter whose name differs, what is ambiguous as comments.
std::string rules_text(const Proposals&, const std::string& title);

}  // namespace pycandle
