#include "pycandle/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/safetensors.h"
#include "capture/capture.h"
#include "capture/store.h"

namespace pycandle::front {
namespace {

// What there is below the path, or in all when nothing is: at most a line of it.
std::string what_there_is(const ParameterStore& store, const std::string& path) {
  constexpr size_t kMost = 8;
  std::vector<std::string> near, all = store.names();
  for (const std::string& name : all) {
    if (path.empty() || name.starts_with(path + ".")) near.push_back(name);
  }
  if (near.empty()) near = std::move(all);
  const size_t count = near.size();
  if (count > kMost) near.resize(kMost);
  return fmt::format("{}{} in {}", fmt::join(near, ", "), count > kMost ? fmt::format(" and {} more", count - kMost) : "",
                     store.where());
}

}  // namespace

Weights Weights::open(const std::string& path) {
  Weights w;
  w.store_ = open_store(path);
  return w;
}

Weights Weights::from(std::map<std::string, Array> arrays) {
  Weights w;
  w.store_ = memory_store(std::move(arrays));
  return w;
}

std::string Weights::full(std::string_view name) const {
  std::string all = path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  if (ties_) {
    if (const auto tie = ties_->find(all); tie != ties_->end()) return tie->second;
  }
  return all;
}

Weights Weights::operator/(std::string_view name) const {
  Weights w = *this;
  w.path_ = path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  return w;
}

Weights Weights::operator/(int64_t index) const { return *this / std::string_view(std::to_string(index)); }

bool Weights::has(std::string_view name) const { return store_ && store_->find(full(name)); }

Tensor Weights::get(std::string_view name) const {
  const std::string all = full(name);
  if (!store_)
    throw Error(ErrorCode::bad_input, fmt::format("there is no parameter {}: no weights were given", all))
        .module_path(path_)
        .hint("Weights::open(\"model.safetensors\")");
  const auto entry = store_->find(all);
  if (!entry)
    throw Error(ErrorCode::bad_input, fmt::format("there is no parameter {}", all))
        .module_path(path_)
        .found(what_there_is(*store_, path_));
  auto leaf = std::make_shared<Leaf>();
  leaf->name = entry->canonical;
  leaf->type = {entry->dtype, Shape(entry->shape.begin(), entry->shape.end())};
  leaf->store = store_;
  return Capture::of_leaf(std::move(leaf));
}

State Weights::state(std::string_view name) const {
  auto leaf = std::make_shared<Leaf>(*Capture::leaf_of(get(name)));
  leaf->cell = store_->cell(leaf->name);
  return State(Capture::of_leaf(std::move(leaf)));
}

Tensor Weights::get(std::string_view name, const Dims& shape) const {
  Tensor parameter = get(name);
  const Shape expected = base_shape(shape);
  if (Capture::leaf_of(parameter)->type.shape != expected)
    throw Error(ErrorCode::bad_input, fmt::format("parameter {} has another shape than the module says", full(name)))
        .module_path(path_)
        .expected(to_string(expected))
        .found(to_string(Capture::leaf_of(parameter)->type.shape));
  return parameter;
}

Weights Weights::tied(std::string_view name, std::string_view canonical) const {
  Weights w = *this;
  auto ties = ties_ ? *ties_ : std::map<std::string, std::string>();
  ties[path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name)] = canonical;
  w.ties_ = std::make_shared<const std::map<std::string, std::string>>(std::move(ties));
  return w;
}

std::map<std::string, Array> load_arrays(const std::string& path) {
  const Safetensors file = Safetensors::open(path);
  std::map<std::string, Array> arrays;
  for (const auto& [name, entry] : file.entries()) arrays.emplace(name, file.get(name));
  return arrays;
}

void save_arrays(const std::string& path, const std::map<std::string, Array>& arrays) { write_safetensors(path, arrays); }

}  // namespace pycandle::front
