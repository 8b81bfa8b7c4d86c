// pycandle man: the manual page, from the same texts as --help.
#include <fmt/format.h>

#include "base/version.h"
#include "cli/command.h"
#include "cli/program_facts.h"

namespace pycandle::cli {
namespace {

// Letters beyond ASCII by their numbers: "…" is \\[u2026].
std::string numbered(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t count = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t letter = first & (0xffU >> (count == 1 ? 0 : count + 1));
    for (size_t k = 1; k < count && i + k < text.size(); ++k)
      letter = letter << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fU);
    out += count == 1 ? std::string(1, text[i]) : fmt::format("\\[u{:04X}]", letter);
    i += count;
  }
  return out;
}

// Text for roff: a backslash and a dash have a meaning there, and so has a dot or quote that begins a line.
std::string roff(const std::string& text) {
  std::string escaped = replaced_all(replaced_all(text, "\\", "\\e"), "-", "\\-");
  escaped = replaced_all(escaped, "\n", "\n.br\n");
  escaped = numbered(escaped);
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string head_of(const OptionFacts& option) {
  std::string head;
  for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + fmt::format("\\fB{}\\fR", roff(name));
  if (!option.choices.empty()) return head + fmt::format(" {}", roff(fmt::format("{}", fmt::join(option.choices, "|"))));
  return head + (option.takes_value && !option.is_positional() ? " \\fIVALUE\\fR" : "");
}

void describe(const CommandFacts& facts, const std::string& words, std::string& page) {
  page += fmt::format(".SS {}\n{}\n", roff(words), roff(facts.summary));
  for (const OptionFacts& option : facts.options) page += fmt::format(".TP\n{}\n{}\n", head_of(option), roff(option.help));
  if (!facts.footer.empty()) page += fmt::format(".PP\n{}\n", roff(facts.footer));
  for (const CommandFacts& command : facts.commands) describe(command, words + " " + command.name, page);
}

std::string manual_page(const CommandFacts& program) {
  std::string page = fmt::format(".TH PYCANDLE 1 \"\" \"pycandle {}\"\n.SH NAME\npycandle \\- {}\n", version(),
                                 roff(program.summary));
  page += ".SH SYNOPSIS\n\\fBpycandle\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR ...] [\\fIFILE\\fR ...]\n.SH OPTIONS\n";
  for (const OptionFacts& option : program.options) page += fmt::format(".TP\n{}\n{}\n", head_of(option), roff(option.help));
  page += fmt::format(".PP\n{}\n.SH COMMANDS\n", roff(program.footer));
  for (const CommandFacts& command : program.commands) describe(command, "pycandle " + command.name, page);
  return page;
}

}  // namespace

void add_man(Command& app, Context& context) {
  Command command = add_command(app, context, "man", "print the manual page",
                                "pycandle man > ~/.local/share/man/man1/pycandle.1");
  command.callback([app] { fmt::print("{}", manual_page(facts_of_program(app))); });
}

}  // namespace pycandle::cli
