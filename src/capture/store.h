// Where a front end's parameters are: types at once, bytes when asked for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/array.h"
#include "ir/graph.h"

namespace pycandle::front {

// A buffer that models change: what the store says, until a run has changed it.
struct StateCell {
  std::mutex mutex;
  std::optional<Array> value;
};

class ParameterStore {
 public:
  struct Entry {
    std::string canonical;  // the name under which it is captured
    DType dtype;
    Sizes shape;
  };
  virtual ~ParameterStore() = default;
  virtual std::optional<Entry> find(const std::string& name) const = 0;
  virtual Array load(const std::string& canonical) const = 0;
  virtual std::vector<std::string> names() const = 0;
  virtual std::string where() const = 0;  // for errors

  std::shared_ptr<StateCell> cell(const std::string& canonical) const;

 private:
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<StateCell>> cells_;
};

std::shared_ptr<const ParameterStore> open_store(const std::string& path);
std::shared_ptr<const ParameterStore> memory_store(std::map<std::string, Array>);

}  // namespace pycandle::front
