// How a command declares its options. CLI11 does the work; its header costs seconds in every file that includes it, so
// only options.cpp does.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace pycandle::cli {

// A handle to an option that was added; each call returns the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  Option& shows_default();       // the variable's value now, in --help
  Option& delimiter(char);       // of a list in one argument
  Option& between(int, int);     // both ends included
  Option& at_least(double);
  Option& one_of(std::initializer_list<std::string>);
  Option& suggests(const std::vector<std::string>&);  // for completions and --help; whoever takes the word checks it
  Option& excludes(const Option&);

 private:
  CLI::Option* option_;
};

// What --help says, as data: for completions and the manual page.
struct OptionFacts {
  std::vector<std::string> names;    // -o, --out; a positional has one without dashes
  std::string help;
  std::vector<std::string> choices;  // the values it takes, when they are listed
  bool takes_value = false, required = false;

  bool is_positional() const { return !names.front().starts_with('-'); }
};
struct CommandFacts {
  std::string name, summary, footer;
  std::vector<OptionFacts> options;
  std::vector<CommandFacts> commands;  // those that --help lists
};

// A handle to a command, or to the whole program.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  Command add_subcommand(const std::string& name, const std::string& summary);
  void footer(const std::string&);
  void hide();  // from the list of --help
  void needs_subcommand();
  // The variable must live until the command has run. T: what options.cpp lists.
  template <typename T> Option add_option(const std::string& name, T& variable, const std::string& help);
  // `take` gets all values at once; the option can be repeated.
  Option add_option_function(const std::string& name, std::function<void(const std::vector<std::string>&)> take,
                             const std::string& help);
  Option add_flag(const std::string& name, bool& variable, const std::string& help);
  Option add_flag_function(const std::string& name, std::function<void()> take, const std::string& help);
  Option get_option(const std::string& name);
  void callback(std::function<void()>);
  CommandFacts facts() const;

 private:
  CLI::App* app_;
};

}  // namespace pycandle::cli
