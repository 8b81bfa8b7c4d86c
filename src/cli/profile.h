// --profile: where the time goes, as text, and of every command that runs a model.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "runtime/profile.h"

namespace pycandle::cli {

std::string to_text(const Profile&);

// --profile of a command that runs a model in ways of its own: all steps from here on, added up.
class RunsProfile {
 public:
  RunsProfile(bool wanted, int threads) : threads_(threads) {
    if (wanted) active_step_log = &log_.emplace();
  }
  ~RunsProfile() { active_step_log = nullptr; }
  RunsProfile(const RunsProfile&) = delete;
  RunsProfile& operator=(const RunsProfile&) = delete;

  void print() const;              // nothing, when it was not asked for
  void add_to(Json& document) const;  // as "profile"; likewise

 private:
  std::optional<StepLog> log_;
  int threads_;
};
void add_profile_option(Command&, bool& wanted);

}  // namespace pycandle::cli
