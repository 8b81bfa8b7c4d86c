#include "passes/decoding/rolling.h"

#include <algorithm>
#include <set>

#include "passes/constants.h"

namespace pycandle::decoding {
namespace {

constexpr size_t kKey = 1, kValue = 2, kMask = 3, kKeyMask = 4, kSlopes = 5;

class Search {
 public:
  Search(const Program& p, const SequenceAxes& axes, const std::function<bool(ValueId)>& is_kept)
      : p_(p), axes_(axes), is_kept_(is_kept) {
    for (const Node& node : p.graph.nodes) {
      if (looks_back_a_little(node)) rolling_.insert(&node);
    }
  }

  std::map<ValueId, int64_t> run() {
    while (std::erase_if(rolling_, [&](const Node* node) { return !rolls(*node); }) > 0) {
    }
    std::map<ValueId, int64_t> windows;
    for (const Node* node : rolling_) {
      const int64_t window = call_of(p_.graph, *node).integer("window");
      for (const ValueId rows : rows_of(*node)) {
        for (const ValueId v : moved(rows)) windows[v] = std::max(windows[v], window);
      }
    }
    return windows;
  }

 private:
  // Without what has a place for each position beside keys and values.
  bool looks_back_a_little(const Node& node) const {
    if (node.op->name != "scaled_dot_product_attention" || !axes_.of_tokens(node.operands[kKey])) return false;
    const Call call = call_of(p_.graph, node);
    return call.has("window") && call.integer("window") > 0 && !call.has("masked_bias") && node.operands[kMask] == kNoValue &&
           node.operands[kSlopes] == kNoValue;
  }

  static Values rows_of(const Node& attention) {
    Values rows{attention.operands[kKey], attention.operands[kValue]};
    if (attention.operands[kKeyMask] != kNoValue) rows.push_back(attention.operands[kKeyMask]);
    return rows;
  }

  // The value, those that it is moved from, and the one that is kept; nothing when more than their order changes.
  Values moved(ValueId v) const {
    Values chain{v};
    while (axes_.sequence_count(chain.back()) == 1 && !is_kept_(chain.back())) {
      const Node* node = defining_node(p_.graph, chain.back());
      if (!node || (node->op->name != "transpose" && node->op->name != "cast")) return {};
      chain.push_back(node->operands[0]);
    }
    if (axes_.sequence_count(chain.back()) != 1 || !axes_.of_tokens(chain.back())) return {};
    return chain;
  }

  bool rolls(const Node& attention) const {
    const Values rows = rows_of(attention);
    return std::all_of(rows.begin(), rows.end(), [&](ValueId v) {
      const Values chain = moved(v);
      return !chain.empty() &&
             std::all_of(chain.begin(), chain.end(), [&](ValueId link) { return is_read_by_windows(link, chain); });
    });
  }

  bool is_read_by_windows(ValueId v, const Values& chain) const {
    const auto is_v = [v](const auto& entry) { return entry.value == v; };
    if (std::any_of(p_.outputs.begin(), p_.outputs.end(), is_v)) return false;
    return std::all_of(p_.graph.nodes.begin(), p_.graph.nodes.end(), [&](const Node& user) {
      if (std::find(user.operands.begin(), user.operands.end(), v) == user.operands.end()) return true;
      if (rolling_.count(&user) != 0) return true;
      return user.results.size() == 1 && std::find(chain.begin(), chain.end(), user.results[0]) != chain.end();
    });
  }

  const Program& p_;
  const SequenceAxes& axes_;
  const std::function<bool(ValueId)>& is_kept_;
  std::set<const Node*> rolling_;
};

}  // namespace

std::map<ValueId, int64_t> read_windows(const Program& p, const SequenceAxes& axes, const std::function<bool(ValueId)>& is_kept) {
  return Search(p, axes, is_kept).run();
}

}  // namespace pycandle::decoding
