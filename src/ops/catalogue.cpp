#include "ops/catalogue.h"

#include <utility>

namespace pycandle {

// A family is named after its file; the list below is the only place that knows them all.
// Primitives.
std::vector<OpDef> constant_ops();
std::vector<OpDef> elementwise_ops();
std::vector<OpDef> logical_ops();
std::vector<OpDef> movement_ops();
std::vector<OpDef> reduction_ops();
std::vector<OpDef> product_ops();
std::vector<OpDef> gather_scatter_ops();
// Functionals.

namespace {

const std::pair<const char*, Family> kFamilies[] = {
    // Primitives: each has an evaluator.
    {"constants", constant_ops},
    {"elementwise", elementwise_ops},
    {"logical", logical_ops},
    {"movement", movement_ops},
    {"reduction", reduction_ops},
    {"products", product_ops},
    {"gather_scatter", gather_scatter_ops},
    // Functionals: each has a decomposition.
};

}  // namespace

const OpTable& catalogue() {
  static const OpTable table = [] {
    OpTable made;
    for (const auto& [file, family] : kFamilies) {
      for (OpDef& op : family()) {
        op.family = file;
        made.add(std::move(op));
      }
    }
    return made;
  }();
  return table;
}

}  // namespace pycandle
