// A module that several modules hold: Python knows it by the first of its paths, code by the one through which it is called.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/graph.h"

namespace pycandle::front {

class SharedModules {
 public:
  SharedModules() = default;
  explicit SharedModules(const Program& recorded);
  // The path in the recording of the module that `caller` (a path there) calls by this path; the path itself when there is
  // no other.
  std::string recorded_path(const std::string& path, const std::string& caller) const;

 private:
  std::set<std::string> paths_;                           // that Python called
  std::map<std::string, std::string> path_of_;            // by the tied names of parameters
  std::map<std::string, std::set<std::string>> foreign_;  // what a module calls that lies elsewhere
};

}  // namespace pycandle::front
