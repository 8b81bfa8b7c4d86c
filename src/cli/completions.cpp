// pycandle completions: scripts that complete commands, options and their values in a shell.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/program_facts.h"

namespace pycandle::cli {
namespace {

// A command that can be typed, such as {"weights extract", …}; one with subcommands stands before them.
struct Typed {
  std::string words;
  const CommandFacts* facts;
};

void list(const CommandFacts& facts, const std::string& before, std::vector<Typed>& typed) {
  for (const CommandFacts& command : facts.commands) {
    typed.push_back({before + command.name, &command});
    list(command, before + command.name + " ", typed);
  }
}

// What may follow the command: its subcommands, or the words that its argument takes.
std::string next_words(const CommandFacts& facts) {
  std::vector<std::string> words;
  for (const CommandFacts& command : facts.commands) words.push_back(command.name);
  for (const OptionFacts& option : facts.options)
    if (option.is_positional()) words.insert(words.end(), option.choices.begin(), option.choices.end());
  return fmt::format("{}", fmt::join(words, " "));
}

// 'it'\''s': text as one word of a shell.
std::string quoted(const std::string& text) { return "'" + replaced_all(text, "'", "'\\''") + "'"; }

std::string bash_script(const CommandFacts& program) {
  std::vector<Typed> typed = {{"", &program}};
  list(program, "", typed);
  std::string options, values, groups;
  for (const Typed& command : typed) {
    std::vector<std::string> words;
    for (const OptionFacts& option : command.facts->options) {
      if (option.is_positional()) continue;
      words.insert(words.end(), option.names.begin(), option.names.end());
      for (const std::string& name : option.names) {
        if (!option.choices.empty()) {
          values += fmt::format("    {}) words={} ;;\n", quoted(command.words + " " + name),
                                quoted(fmt::format("{}", fmt::join(option.choices, " "))));
        }
      }
    }
    const std::string commands = next_words(*command.facts);
    options += fmt::format("    {}) options={} commands={} ;;\n", quoted(command.words),
                           quoted(fmt::format("{}", fmt::join(words, " "))), quoted(commands));
    if (!command.facts->commands.empty() && !command.words.empty()) groups += (groups.empty() ? "" : "|") + command.words;
  }
  return fmt::format(R"(# bash completions of pycandle: source this file, or save it as
# ~/.local/share/bash-completion/completions/pycandle
_pycandle() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command='' options='' commands='' words=''
  local place=1
  if ((COMP_CWORD > 1)); then command=${{COMP_WORDS[1]}} place=2; fi
  case $command in {}) if ((COMP_CWORD > 2)); then command+=" ${{COMP_WORDS[2]}}" place=3; fi ;; esac
  case "$command $previous" in
{}  esac
  case $command in
{}  esac
  if [[ -n $words ]]; then mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  elif [[ $current == -* ]]; then mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $commands && $COMP_CWORD == "$place" ]]; then mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  else compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _pycandle pycandle
)",
                     groups, values, options);
}

// One argument of _arguments: '(-o --out)'{-o,--out}'[where it goes]:out:_files'.
std::string zsh_argument(const OptionFacts& option) {
  std::string help = option.help;
  for (const char* special : {"\\", "[", "]", ":"}) help = replaced_all(help, special, std::string("\\") + special);
  std::string value;
  if (option.takes_value) {
    value = option.choices.empty() ? ":value:_files" : fmt::format(":value:({})", fmt::join(option.choices, " "));
  }
  std::string lines;
  for (const std::string& name : option.names)
    lines += fmt::format(" \\\n        {}", quoted(fmt::format("*{}[{}]{}", name, help, value)));
  return lines;
}

void zsh_cases(const CommandFacts& facts, size_t depth, std::string& text) {
  const std::string indent(2 * depth + 2, ' ');
  std::string described;
  for (const CommandFacts& command : facts.commands)
    described += " " + quoted(command.name + ":" + replaced_all(command.summary, ":", "\\:"));
  if (!facts.commands.empty()) {
    text += fmt::format("{}if ((CURRENT == {})) && [[ $words[CURRENT] != -* ]]; then\n{}  local -a commands=({} )\n", indent,
                        depth + 1, indent, described);
    text += fmt::format("{0}  _describe command commands\n{0}  return\n{0}fi\n{0}case $words[{1}] in\n", indent, depth + 1);
    for (const CommandFacts& command : facts.commands) {
      text += fmt::format("{}  {})\n", indent, command.name);
      zsh_cases(command, depth + 1, text);
      text += fmt::format("{}  ;;\n", indent);
    }
    text += fmt::format("{}esac\n", indent);
  }
  std::string arguments;
  for (const OptionFacts& option : facts.options) {
    if (!option.is_positional())
      arguments += zsh_argument(option);
    else if (!option.choices.empty())
      arguments += fmt::format(" \\\n        '{}:{}:({})'", depth, option.names.front(), fmt::join(option.choices, " "));
  }
  text += fmt::format("{}_arguments{} \\\n        '*:file:_files'\n", indent, arguments);
  text += indent + "return\n";
}

std::string zsh_script(const CommandFacts& program) {
  std::string text =
      "#compdef pycandle\n# zsh completions of pycandle: save this file as _pycandle in a folder of $fpath\n_pycandle() {\n";
  zsh_cases(program, 1, text);
  return text + "}\nif [[ $funcstack[1] == _pycandle ]]; then _pycandle \"$@\"; else compdef _pycandle pycandle; fi\n";
}

std::string fish_script(const CommandFacts& program) {
  std::string text = "# fish completions of pycandle: save this file as ~/.config/fish/completions/pycandle.fish\n";
  std::vector<Typed> typed = {{"", &program}};
  list(program, "", typed);
  for (const Typed& command : typed) {
    const std::string seen = "__fish_seen_subcommand_from ";
    const std::string here = command.words.empty() ? "" : seen + replaced_all(command.words, " ", "; and " + seen);
    const std::string names = next_words(*command.facts);
    const std::string none = names.empty() ? "" : (here.empty() ? "" : here + "; and ") + "not " + seen + names;
    for (const CommandFacts& inner : command.facts->commands) {
      text += fmt::format("complete -c pycandle -f -n {} -a {} -d {}\n", quoted(none), inner.name, quoted(inner.summary));
    }
    for (const OptionFacts& option : command.facts->options) {
      if (option.is_positional()) {
        if (!option.choices.empty()) text += fmt::format("complete -c pycandle -f -n {} -a {}\n", quoted(none), quoted(names));
        continue;
      }
      std::string flags;
      for (const std::string& name : option.names)
        flags += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.takes_value)
        flags += option.choices.empty() ? " -r"
                                        : fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(option.choices, " "))));
      text += fmt::format("complete -c pycandle -n {}{} -d {}\n", quoted(names.empty() ? here : none), flags,
                          quoted(option.help));
    }
  }
  return text;
}

}  // namespace

void add_completions(Command& app, Context& context) {
  auto shell = std::make_shared<std::string>();
  Command command = add_command(app, context, "completions",
                                "print a script that completes commands, options and values in a shell",
                                "pycandle completions bash > ~/.local/share/bash-completion/completions/pycandle");
  command.add_option("shell", *shell, "the shell").one_of({"bash", "zsh", "fish"}).required();
  command.callback([app, shell] {
    const CommandFacts program = facts_of_program(app);
    fmt::print("{}", *shell == "bash" ? bash_script(program) : *shell == "zsh" ? zsh_script(program) : fish_script(program));
  });
}

}  // namespace pycandle::cli
