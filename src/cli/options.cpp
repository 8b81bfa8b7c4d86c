#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

namespace pycandle::cli {
namespace {

// CLI11 wraps negative and too large numbers around, and takes nan. The empty text means: fine.
template <typename T> std::string problem_with(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && stopped == end;
  if constexpr (std::is_floating_point_v<T>) {
    return whole && std::isfinite(value) ? "" : fmt::format("expected a finite number, found {}", text);
  } else {
    using Limits = std::numeric_limits<T>;
    return whole ? "" : fmt::format("expected a whole number from {} to {}, found {}", Limits::min(), Limits::max(), text);
  }
}

// The words of one_of and suggests, which stand in the name of the type: TEXT:{all,final}.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}', open);
  if (close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  if (facts.names.empty()) facts.names.push_back(option.get_single_name());
  facts.help = option.get_description();
  facts.choices = choices_of(option);
  facts.takes_value = option.get_items_expected_max() > 0;
  facts.required = option.get_required();
  return facts;
}

CommandFacts facts_of(CLI::App& app) {
  CommandFacts facts = {app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (CLI::Option* option : app.get_options()) facts.options.push_back(facts_of(*option));
  for (CLI::App* command : app.get_subcommands({})) {
    if (!command->get_group().empty()) facts.commands.push_back(facts_of(*command));
  }
  return facts;
}

template <typename T> struct NumberOf {
  using type = T;
};
template <typename T> struct NumberOf<std::optional<T>> : NumberOf<T> {};
template <typename T> struct NumberOf<std::vector<T>> : NumberOf<T> {};

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::delimiter(char c) {
  option_->delimiter(c);
  return *this;
}

Option& Option::between(int least, int most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::at_least(double least) {
  option_->check([least](const std::string& text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value >= least ? std::string() : fmt::format("expected {} or more, found {}", least, text);
  });
  return *this;
}

Option& Option::one_of(std::initializer_list<std::string> words) {
  option_->check(CLI::IsMember(std::vector<std::string>(words)));
  return *this;
}

Option& Option::suggests(const std::vector<std::string>& words) {
  option_->type_name(fmt::format("TEXT:{{{}}}", fmt::join(words, ",")));
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Command Command::add_subcommand(const std::string& name, const std::string& summary) {
  return Command(*app_->add_subcommand(name, summary));
}

void Command::footer(const std::string& text) { app_->footer(text); }
void Command::hide() { app_->group(""); }
void Command::needs_subcommand() { app_->require_subcommand(1); }

template <typename T> Option Command::add_option(const std::string& name, T& variable, const std::string& help) {
  CLI::Option* option = app_->add_option(name, variable, help);
  if (name.starts_with('-')) option->allow_extra_args(false);  // a list takes one value each time it is named
  using Number = typename NumberOf<T>::type;
  if constexpr (std::is_arithmetic_v<Number>) option->check(problem_with<Number>);
  return Option(option);
}

template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, int64_t&, const std::string&);
template Option Command::add_option(const std::string&, uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<int>&, const std::string&);
template Option Command::add_option(const std::string&, std::filesystem::path&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::filesystem::path>&, const std::string&);

Option Command::add_option_function(const std::string& name, std::function<void(const std::vector<std::string>&)> take,
                                    const std::string& help) {
  return Option(app_->add_option_function<std::vector<std::string>>(name, std::move(take), help)->allow_extra_args(false));
}

Option Command::add_flag(const std::string& name, bool& variable, const std::string& help) {
  return Option(app_->add_flag(name, variable, help));
}

Option Command::add_flag_function(const std::string& name, std::function<void()> take, const std::string& help) {
  return Option(app_->add_flag_callback(name, std::move(take), help));
}

Option Command::get_option(const std::string& name) { return Option(app_->get_option(name)); }

void Command::callback(std::function<void()> run) { app_->callback(std::move(run)); }

CommandFacts Command::facts() const { return facts_of(*app_); }

}  // namespace pycandle::cli
