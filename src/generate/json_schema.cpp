#include "generate/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace pycandle {
namespace {

using Rule = Grammar::Rule;
using Sequence = Grammar::Sequence;

constexpr int64_t kMostItems = 1000, kMostDigits = 15;

Sequence joined(std::initializer_list<Sequence> parts) {
  Sequence all;
  for (const Sequence& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class SchemaGrammar {
 public:
  explicit SchemaGrammar(const Json& root) : root_(root) {
    digit_.push_back(Grammar::range('0', '9'));
    space_ = rule_of({{}, Grammar::literal(" ")});
    comma_ = joined({Grammar::literal(","), {space_}});
    colon_ = joined({Grammar::literal(":"), {space_}});
    make_strings();
    integer_ = make_integer();
    number_ = make_number(integer_);
    make_any();
  }
  Reader reader() {
    const Rule start = schema(root_, "#");
    if (grammar_.has_left_recursion()) refuse("a schema that is itself, with nothing around it,", "#");
    return Reader(grammar_, start);
  }

 private:
  Rule rule_of(const std::vector<Sequence>& alternatives) {
    const Rule rule = grammar_.new_rule();
    for (const Sequence& alternative : alternatives) grammar_.add(rule, alternative);
    return rule;
  }

  void make_strings() {
    const Grammar::Element hex({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
    // No surrogates: half of a pair is no character.
    const Grammar::Element first({{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}});
    const Rule unicode = rule_of({{first, hex, hex, hex}, {Grammar::one_of("dD"), Grammar::range('0', '7'), hex, hex}});
    character_ = rule_of({{Grammar::Element({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, 0x10FFFF}})},
                          {Grammar::one_of("\\"), Grammar::one_of("\"\\/bfnrt")},
                          {Grammar::one_of("\\"), Grammar::one_of("u"), unicode}});
    string_ = string_of(0, std::nullopt);
  }

  // From `least` to `most` (none: any number) of something, then an end: a chain of rules.
  Rule repeated(const Sequence& one, int64_t least, std::optional<int64_t> most, const Sequence& end) {
    Rule rest = grammar_.new_rule();
    grammar_.add(rest, end);
    if (!most) grammar_.add(rest, joined({one, {rest}}));
    for (int64_t i = most ? *most : least; i > 0; --i) {
      const Rule before = rule_of({joined({one, {rest}})});
      if (i > least) grammar_.add(before, end);
      rest = before;
    }
    return rest;
  }

  Rule string_of(int64_t least, std::optional<int64_t> most) {
    return rule_of({joined({Grammar::literal("\""), {repeated({character_}, least, most, Grammar::literal("\""))}})});
  }

  // At most so many digits: every reader knows the number.
  Rule digits(int64_t least, int64_t most) { return repeated(digit_, least, most, {}); }

  Rule make_integer() {
    const Rule natural = rule_of({Grammar::literal("0"), {Grammar::range('1', '9'), digits(0, kMostDigits - 1)}});
    return rule_of({{natural}, joined({Grammar::literal("-"), {natural}})});
  }

  Rule make_number(Rule integer) {
    const Rule fraction = rule_of({{}, joined({Grammar::literal("."), {digits(1, kMostDigits)}})});
    const Rule sign = rule_of({{}, {Grammar::one_of("+-")}});
    const Rule exponent = rule_of({{}, {Grammar::one_of("eE"), sign, digits(1, 2)}});
    return rule_of({{integer, fraction, exponent}});
  }

  void make_any() {
    any_ = grammar_.new_rule();
    grammar_.add(any_, {string_});
    grammar_.add(any_, {number_});
    for (const char* word : {"true", "false", "null"}) grammar_.add(any_, Grammar::literal(word));
    grammar_.add(any_, {array_of({any_}, 0, std::nullopt)});
    grammar_.add(any_, {object_of_any(any_)});
  }

  Rule array_of(const Sequence& item, int64_t least, std::optional<int64_t> most) {
    const Sequence close = Grammar::literal("]");
    const Rule array = grammar_.new_rule();
    if (least == 0) grammar_.add(array, Grammar::literal("[]"));
    if (!most || *most > 0) {
      const Rule rest = repeated(joined({comma_, item}), std::max<int64_t>(0, least - 1),
                                 most ? std::optional(*most - 1) : std::nullopt, close);
      grammar_.add(array, joined({Grammar::literal("["), item, {rest}}));
    }
    return array;
  }

  Rule object_of_any(Rule value) {
    const Sequence member = joined({{string_}, colon_, {value}});
    const Rule rest = repeated(joined({comma_, member}), 0, std::nullopt, Grammar::literal("}"));
    return rule_of({Grammar::literal("{}"), joined({Grammar::literal("{"), member, {rest}})});
  }

  // ---- schemas

  [[noreturn]] static void refuse(const std::string& what, const std::string& path, const std::string& hint = {}) {
    throw Error(ErrorCode::gap, fmt::format("{} in a JSON schema is not supported", what)).found(path).hint(hint);
  }

  static const std::set<std::string>& keywords_of(const std::string& type) {
    static const std::map<std::string, std::set<std::string>> all = {
        {"object", {"properties", "required", "additionalProperties"}},
        {"array", {"items", "minItems", "maxItems"}},
        {"string", {"minLength", "maxLength"}},
        {"integer", {}},
        {"number", {}},
        {"boolean", {}},
        {"null", {}}};
    static const std::set<std::string> none;
    const auto found = all.find(type);
    return found == all.end() ? none : found->second;
  }

  // What says nothing of the text, or is read elsewhere.
  static bool is_silent(const std::string& keyword) {
    static const std::set<std::string> words = {"title", "description", "default",    "examples", "$schema",   "$id", "$comment",
                                                "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "type"};
    return words.count(keyword) > 0;
  }

  static void check_keywords(const Json& schema, const std::set<std::string>& known, const std::string& path) {
    for (const auto& [keyword, value] : schema.items()) {
      if (!is_silent(keyword) && known.count(keyword) == 0) refuse(keyword, path);
    }
  }

  Rule schema(const Json& s, const std::string& path) {
    if (s.is_boolean() && s.get<bool>()) return any_;
    if (!s.is_object()) refuse("what is no object, and not true,", path);
    if (s.contains("$ref")) return referred(s, path);
    if (s.contains("const") || s.contains("enum")) return constants(s, path);
    if (s.contains("anyOf")) return any_of(s, path);
    if (!s.contains("type")) {
      check_keywords(s, {}, path);
      return any_;
    }
    const Json& type = s["type"];
    if (type.is_string()) {
      check_keywords(s, keywords_of(type.get<std::string>()), path);
      return typed(type.get<std::string>(), s, path);
    }
    if (!type.is_array() || type.empty()) refuse("this type", path);
    std::set<std::string> known;
    const Rule rule = grammar_.new_rule();
    for (const Json& each : type) {
      if (!each.is_string()) refuse("this type", path);
      known.insert(keywords_of(each.get<std::string>()).begin(), keywords_of(each.get<std::string>()).end());
      grammar_.add(rule, {typed(each.get<std::string>(), s, path)});
    }
    check_keywords(s, known, path);
    return rule;
  }

  Rule typed(const std::string& type, const Json& s, const std::string& path) {
    if (type == "string") {
      const auto [least, most] = bounds(s, "minLength", "maxLength", path);
      return least == 0 && !most ? string_ : string_of(least, most);
    }
    if (type == "integer") return integer_;
    if (type == "number") return number_;
    if (type == "boolean") return rule_of({Grammar::literal("true"), Grammar::literal("false")});
    if (type == "null") return rule_of({Grammar::literal("null")});
    if (type == "array") {
      const auto [least, most] = bounds(s, "minItems", "maxItems", path);
      return array_of({s.contains("items") ? schema(s["items"], path + "/items") : any_}, least, most);
    }
    if (type == "object") return object(s, path);
    refuse(fmt::format("the type {}", type), path);
  }

  std::pair<int64_t, std::optional<int64_t>> bounds(const Json& s, const char* least, const char* most, const std::string& path) {
    const auto number = [&](const char* keyword) -> std::optional<int64_t> {
      if (!s.contains(keyword)) return std::nullopt;
      const Json& value = s[keyword];
      if (!value.is_number_integer() || value < 0 || value > kMostItems)
        refuse(fmt::format("{} that is no number up to {}", keyword, kMostItems), path);
      return value.get<int64_t>();
    };
    const int64_t from = number(least).value_or(0);
    const std::optional<int64_t> to = number(most);
    if (to && *to < from) refuse(fmt::format("{} below {}", most, least), path);
    return {from, to};
  }

  // Named properties in the order of the schema; those that are not required may be missing. No others are written.
  Rule object(const Json& s, const std::string& path) {
    if (!s.contains("properties")) {
      if (s.contains("required")) refuse("required without properties", path);
      const bool has_values = s.contains("additionalProperties") && s["additionalProperties"].is_object();
      if (s.contains("additionalProperties") && s["additionalProperties"] == false) return rule_of({Grammar::literal("{}")});
      return object_of_any(has_values ? schema(s["additionalProperties"], path + "/additionalProperties") : any_);
    }
    const Json& properties = s["properties"];
    if (!properties.is_object()) refuse("this list of properties", path);
    std::set<std::string> required;
    for (const Json& name : s.value("required", Json::array())) {
      if (!name.is_string() || !properties.contains(name.get<std::string>()))
        refuse("a required property without a schema", path);
      required.insert(name.get<std::string>());
    }
    const Sequence close = Grammar::literal("}");
    // From the last property to the first: what follows when none was written before it, and when one was.
    Rule alone = rule_of({close}), after = alone;
    std::vector<std::pair<std::string, const Json*>> members;
    for (const auto& [name, value] : properties.items()) members.emplace_back(name, &value);
    for (size_t i = members.size(); i-- > 0;) {
      const auto& [name, value] = members[i];
      const Sequence member = joined({constant(name), colon_, {schema(*value, path + "/properties/" + name)}, {after}});
      const Rule first = rule_of({member}), later = rule_of({joined({comma_, member})});
      if (required.count(name) == 0) {
        grammar_.add(first, {alone});
        grammar_.add(later, {after});
      }
      alone = first;
      after = later;
    }
    return rule_of({joined({Grammar::literal("{"), {alone}})});
  }

  // As it is written, in characters of ASCII.
  static Sequence constant(const Json& value) {
    return Grammar::literal(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  }

  Rule constants(const Json& s, const std::string& path) {
    check_keywords(s, {"const", "enum"}, path);
    if (s.contains("const")) return rule_of({constant(s["const"])});
    if (!s["enum"].is_array() || s["enum"].empty()) refuse("an empty enum", path);
    const Rule rule = grammar_.new_rule();
    for (const Json& value : s["enum"]) grammar_.add(rule, constant(value));
    return rule;
  }

  Rule any_of(const Json& s, const std::string& path) {
    check_keywords(s, {"anyOf"}, path);
    if (s.contains("type")) refuse("type beside anyOf", path);
    if (!s["anyOf"].is_array() || s["anyOf"].empty()) refuse("an empty anyOf", path);
    const Rule rule = grammar_.new_rule();
    for (size_t i = 0; i < s["anyOf"].size(); ++i)
      grammar_.add(rule, {schema(s["anyOf"][i], fmt::format("{}/anyOf/{}", path, i))});
    return rule;
  }

  // A schema may refer to itself, behind a character.
  Rule referred(const Json& s, const std::string& path) {
    check_keywords(s, {"$ref"}, path);
    const std::string place = s["$ref"].is_string() ? s["$ref"].get<std::string>() : "";
    if (place != "#" && !place.starts_with("#/")) refuse("a $ref to elsewhere", path, "it may begin with #/");
    if (const auto known = named_.find(place); known != named_.end()) return known->second;
    const Json* target = nullptr;
    try {
      target = &root_.at(Json::json_pointer(place.substr(1)));
    } catch (const Json::exception&) {
      refuse("a $ref to nothing", path);
    }
    const Rule rule = named_[place] = grammar_.new_rule();
    grammar_.add(rule, {schema(*target, place)});
    return rule;
  }

  const Json& root_;
  Grammar grammar_;
  Sequence digit_, comma_, colon_;
  Rule space_, character_, string_, integer_, number_, any_;
  std::map<std::string, Rule> named_;  // by $ref
};

}  // namespace

Reader json_schema_reader(std::string_view text) {
  const Json schema = parse_json(text, "JSON schema");
  return SchemaGrammar(schema).reader();
}

}  // namespace pycandle
