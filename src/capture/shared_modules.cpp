#include "capture/shared_modules.h"

namespace pycandle::front {
namespace {

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

SharedModules::SharedModules(const Program& p) {
  for (const ModuleCall& call : p.calls) paths_.insert(call.path);
  for (const ModuleCall& call : p.calls) {
    if (call.parent < 0) continue;
    const std::string& caller = p.calls[call.parent].path;
    if (!caller.empty() && !call.path.starts_with(caller + ".")) foreign_[caller].insert(call.path);
  }
  // right.shared.0.weight is another name of left.shared.0.weight: right.shared is left.shared.
  for (const std::string& path : paths_) {
    if (path.empty()) continue;
    for (const Parameter& q : p.parameters) {
      if (!q.name.starts_with(path + ".")) continue;
      const std::string rest = q.name.substr(path.size());
      for (const std::string& alias : q.aliases) {
        if (!alias.ends_with(rest) || alias.size() == rest.size()) continue;
        const std::string other = alias.substr(0, alias.size() - rest.size());
        if (paths_.count(other) == 0) path_of_.emplace(other, path);
      }
    }
  }
}

std::string SharedModules::recorded_path(const std::string& path, const std::string& caller) const {
  if (paths_.count(path) != 0) return path;
  for (size_t end = path.size(); end != std::string::npos && end > 0; end = path.rfind('.', end - 1)) {
    const auto found = path_of_.find(path.substr(0, end));
    if (found == path_of_.end()) continue;
    const std::string there = found->second + path.substr(end);
    if (paths_.count(there) != 0) return there;
  }
  const auto calls = foreign_.find(caller);  // without parameters: by its own name
  if (calls == foreign_.end()) return path;
  for (const std::string& there : calls->second) {
    if (last_part(there) == last_part(path)) return there;
  }
  return path;
}

}  // namespace pycandle::front
