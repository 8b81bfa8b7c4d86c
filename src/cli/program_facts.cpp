#include "cli/program_facts.h"

#include "cli/in_python.h"

namespace pycandle::cli {

CommandFacts facts_of_program(const Command& program) {
  CommandFacts facts = program.facts();
  for (CommandFacts& command : facts.commands) {
    if (const PythonCommand* in_python = find_python_command(command.name)) command.options = options_of(*in_python);
  }
  return facts;
}

std::string replaced_all(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

}  // namespace pycandle::cli
