// States: the buffers that a model changes, which live on between calls.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace pycandle {

// What one caller's states are now. Those that no call has changed are absent: they are as recorded.
struct CallerStates {
  std::mutex mutex;  // held for a whole call, so that calls which share states take turns
  std::map<std::string, Array> values;
};

using StateTypes = std::map<std::string, Type>;
StateTypes state_types(const Program&);

// Some of the states, or with `every` all of them: unknown names, missing ones and other types are an Error. `where` says
// in it where the values come from.
enum class Expected { some, every };
void check_states(const StateTypes&, const std::map<std::string, Array>& given, Expected, const std::string& where);

// Written to a temporary file that is then renamed, so a file at `path` is whole. Reading checks names, dtypes and shapes.
void save_states(const std::filesystem::path&, const std::map<std::string, Array>&);
std::map<std::string, Array> load_states(const std::filesystem::path&, const StateTypes&);

// In memory of its own: nobody else can write into it.
Array copy_of(const Array&);
std::map<std::string, Array> copies_of(const std::map<std::string, Array>&);
// Runs with these states, which are what the run leaves when it ends, and as they were when it throws. They share no memory
// with inputs or outputs, which belong to the caller.
std::vector<Array> run_with_states(const Executable&, RunRequest, std::vector<Array>& states);

}  // namespace pycandle
