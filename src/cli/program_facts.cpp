#include "cli/program_facts.h"

#include "cli/command.h"

namespace pycandle::cli {

CommandFacts facts_with_record(const Command& program) {
  CommandFacts facts = program.facts();
  for (CommandFacts& command : facts.commands) {
    if (command.name == "record") command.options = record_options();
  }
  return facts;
}

std::string replaced_all(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

}  // namespace pycandle::cli
