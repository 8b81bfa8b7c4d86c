// What the programs of an emitted project stand on: where its files are, whether its code is the recorded program still,
// and what to do when it is not.
#pragma once

#include <exception>
#include <string>

#include "pycandle/model.h"

namespace pycandle::front {
// The folder around this source file that is a project: with a .pycandle/project.json, else with a CMakeLists.txt; where
// the program is run when there is none.
PYCANDLE_API std::string project_folder(Here = Here::current());
// The folder that has {name}_manifest.json: PYCANDLE_TRACE when that is set, else `folder` as seen from this source file and
// the folders around it, from the program's own place, and from where it is run. An Error lists where it looked.
PYCANDLE_API std::string recording_folder(const std::string& name, const std::string& folder, Here = Here::current());

// Is the captured program the recorded one? Parameters by name, dynamic sizes by their place in the inputs.
struct RoundTrip {
  bool equal = false;
  std::string difference;  // which ops differ, and whether that can show: proven, tried, or with an input that shows it
  std::string accepted;    // by whom and why, when PROJECT/accepted.json has this very program; else empty
  bool passed() const { return equal || !accepted.empty(); }
};
PYCANDLE_API RoundTrip round_trip(const Compiled&, const std::string& manifest, const std::string& project = {});

// After a failure: keeps the program in PROJECT/.pycandle/captured, and says which commands look at it there.
PYCANDLE_API std::string next_step(const Compiled&, const std::string& manifest, const std::string& project);

// An error as one line, for a program's last words.
PYCANDLE_API std::string in_one_line(const std::exception&);

}  // namespace pycandle::front
