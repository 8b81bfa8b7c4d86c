#include "emit/onnx/forms.h"

#include <map>

namespace pycandle::emit::onnx {

const Form* form_of(const Call& c, int opset) {
  static const std::multimap<std::string_view, const Form*> table = [] {
    std::multimap<std::string_view, const Form*> all;
    for (const std::span<const Form> family :
         {elementwise_forms(), shape_forms(), reduction_forms(), layer_forms(), control_forms()}) {
      for (const Form& form : family) all.emplace(form.op, &form);
    }
    return all;
  }();
  const auto [first, last] = table.equal_range(c.op().name);
  for (auto at = first; at != last; ++at) {
    const Form& form = *at->second;
    if (form.since <= opset && (form.holds == nullptr || form.holds(c))) return &form;
  }
  return nullptr;
}

}  // namespace pycandle::emit::onnx
