#include "params/bundle_parameters.h"

#include <fmt/format.h>

#include <mutex>

#include "base/error.h"
#include "base/weight_bytes.h"
#include "params/type_check.h"

namespace pycandle {
namespace {

class BundleParameters final : public ParameterSource {
 public:
  explicit BundleParameters(std::shared_ptr<const Bundle> bundle)
      : bundle_(std::move(bundle)), weights_(bundle_->archive.section(kBundleWeights)) {}

  Array get(const Parameter& p) const override { return read("parameter", p.name, p.type); }
  Array get_state(const State& s, const Type& type) const override { return read("state", s.name, type); }
  Hash128 fingerprint(const Parameter& p) const override {
    const auto found = bundle_->table.find(p.name);
    if (found == bundle_->table.end() || !weights_.file) return ParameterSource::fingerprint(p);
    return hash128(fmt::format("bundle {} {} {}", weights_.file->stamp(), found->second.offset, p.type.text()));
  }
  void release(const Array& array) const override {
    if (weights_.file) weights_.file->release(array.data(), array.bytes());
  }

 private:
  Array read(const char* kind, const std::string& name, const Type& type) const {
    const auto found = bundle_->table.find(name);
    if (found == bundle_->table.end())
      throw Error(ErrorCode::bad_input, fmt::format("{} {} is not in the bundle", kind, name)).expected(type.text());
    const StoredWeight& w = found->second;
    const Array value = w.format == WeightFormat::f32 ? Array(w.dtype, w.shape, weights_.bytes.data() + w.offset, weights_.owner)
                                                      : widened(name, w);
    check_type(value, fmt::format("{} {}", kind, name), type, "the bundle");
    return value;
  }

  // What is in use already is not made twice.
  Array widened(const std::string& name, const StoredWeight& w) const {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const std::vector<float>>& kept = widened_[name];
    std::shared_ptr<const std::vector<float>> values = kept.lock();
    if (!values) {
      auto made = std::make_shared<std::vector<float>>(static_cast<size_t>(element_count(w.shape)));
      from_bytes(w.format, weights_.bytes.data() + w.offset, MatrixPlace::of(w.shape[0], w.shape[1], w.axis), made->data());
      if (weights_.file) weights_.file->release(weights_.bytes.data() + w.offset, w.bytes);
      kept = values = std::move(made);
    }
    return Array(DType::f32, w.shape, values->data(), values);
  }

  std::shared_ptr<const Bundle> bundle_;
  Section weights_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::weak_ptr<const std::vector<float>>> widened_;
};

}  // namespace

std::shared_ptr<const ParameterSource> bundle_parameters(std::shared_ptr<const Bundle> bundle) {
  return std::make_shared<BundleParameters>(std::move(bundle));
}

}  // namespace pycandle
