#include "emit/node_forms.h"

namespace pycandle::emit {
namespace {

const Node* producer(const Graph& g, ValueId v) {
  const NodeId n = g.values[v].node;
  return n < 0 ? nullptr : &g.nodes[n];
}

const Shape& shape(const Graph& g, ValueId v) { return g.type(v).shape; }

// The axis by which `longer` has a 1 that `shorter` lacks; -1 when that is not the difference.
int64_t axis_of_one(const Shape& shorter, const Shape& longer) {
  if (longer.size() != shorter.size() + 1) return -1;
  for (size_t axis = longer.size(); axis-- > 0;) {
    Shape without = longer;
    without.erase(without.begin() + static_cast<int64_t>(axis));
    if (longer[axis] == Dim(1) && without == shorter) return static_cast<int64_t>(axis);
  }
  return -1;
}

}  // namespace

const Attribute& attribute_of(const Node& node, std::string_view name) {
  for (const auto& [key, value] : node.attributes) {
    if (key == name) return value;
  }
  internal_error("an attribute is missing");
}

int64_t sliced_axis(const Graph& g, const Node& slice) {
  const auto &starts = std::get<Dims>(attribute_of(slice, "starts")), &stops = std::get<Dims>(attribute_of(slice, "stops"));
  const auto& steps = std::get<Ints>(attribute_of(slice, "steps"));
  const Shape& whole = shape(g, slice.operands[0]);
  int64_t found = -1;
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    if (starts[axis] == Dim(0) && stops[axis] == whole[axis] && steps[axis] == 1) continue;
    if (found >= 0) return -1;
    found = static_cast<int64_t>(axis);
  }
  return found;
}

bool is_select(const Graph& g, const Node& reshape) {
  if (reshape.op->name != "reshape") return false;
  const Node* slice = producer(g, reshape.operands[0]);
  if (!slice || slice->op->name != "slice") return false;
  const int64_t axis = sliced_axis(g, *slice);
  if (axis < 0 || std::get<Ints>(attribute_of(*slice, "steps"))[axis] != 1) return false;
  Shape without = shape(g, slice->results[0]);
  if (without[axis] != Dim(1)) return false;
  without.erase(without.begin() + axis);
  return without == shape(g, reshape.results[0]);
}

bool is_aligned(const Node& broadcast, size_t more) {
  const Ints& axes = std::get<Ints>(attribute_of(broadcast, "axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int64_t>(more + i)) return false;
  }
  return true;
}

std::optional<PlainReshape> plain_reshape(const Graph& g, const ModuleClass& made, NodeId n) {
  using Kind = PlainReshape::Kind;
  const Node& node = g.nodes[n];
  const Shape &before = shape(g, node.operands[0]), &after = shape(g, node.results[0]);
  if (const int64_t axis = axis_of_one(before, after); axis >= 0) return {{Kind::unsqueeze, static_cast<size_t>(axis)}};
  if (const int64_t axis = axis_of_one(after, before); axis >= 0) return {{Kind::squeeze, static_cast<size_t>(axis)}};
  const bool has_fields = made.places.lower_bound({static_cast<int32_t>(n), "shape", -1}) !=
                          made.places.upper_bound({static_cast<int32_t>(n), "shape", 1000});
  if (has_fields) return {};
  for (size_t start = 0; start + 1 < before.size(); ++start) {  // consecutive axes made one
    for (size_t end = start + 1; end < before.size() && before.size() - (end - start) >= after.size(); ++end) {
      const auto from = before.begin() + static_cast<int64_t>(start), to = before.begin() + static_cast<int64_t>(end) + 1;
      Shape flat(before.begin(), from);
      flat.push_back(product(Shape(from, to)));
      flat.insert(flat.end(), to, before.end());
      if (flat != after) continue;
      if (start == 0 && end + 1 == before.size()) return {{Kind::flatten_all}};
      if (end + 1 == before.size()) return {{Kind::flatten_from, start}};
      return {{Kind::flatten, start, end}};
    }
  }
  return {};
}

std::vector<Dim> written_dims(const Graph& g, const ModuleClass& made, NodeId n,
                              const std::function<bool(ValueId)>& is_used_once) {
  const Node& node = g.nodes[n];
  std::vector<Dim> found;
  const auto add = [&](const Dims& dims) { found.insert(found.end(), dims.begin(), dims.end()); };
  const std::string& op = node.op->name;
  if (op == "reshape") {
    const bool selects = is_select(g, node) && is_used_once(node.operands[0]);
    if (!selects && !plain_reshape(g, made, n)) add(std::get<Dims>(attribute_of(node, "shape")));
    return found;
  }
  if (op == "broadcast") {
    const Shape &before = shape(g, node.operands[0]), &after = shape(g, node.results[0]);
    const size_t more = after.size() - before.size();
    const bool aligned = is_aligned(node, more);
    for (size_t i = 0; i < after.size(); ++i) {
      if (!aligned || i < more || before[i - more] != after[i]) found.push_back(after[i]);
    }
    return found;
  }
  if (const int64_t axis = op == "slice" ? sliced_axis(g, node) : -1; axis >= 0) {
    const auto i = static_cast<size_t>(axis);
    found.push_back(std::get<Dims>(attribute_of(node, "starts"))[i]);
    const Dim stop = std::get<Dims>(attribute_of(node, "stops"))[i];
    if (stop != shape(g, node.operands[0])[i]) found.push_back(stop);
    return found;
  }
  for (const auto& [name, value] : node.attributes) {
    if (const Dim* d = std::get_if<Dim>(&value)) found.push_back(*d);
    if (const Dims* dims = std::get_if<Dims>(&value)) add(*dims);
  }
  return found;
}

}  // namespace pycandle::emit
