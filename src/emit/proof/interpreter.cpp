#include "emit/proof/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "emit/proof/functions.h"
#include "emit/proof/layers.h"

namespace pycandle::emit::proof {
namespace {

[[noreturn]] void wrong(std::string what) { throw Error(ErrorCode::gap, std::move(what)); }

// "nn::Sequential<A, B<C, D>>": its head, and A and B<C, D>.
struct Type {
  std::string head;
  std::vector<std::string> arguments;

  explicit Type(const std::string& text) : head(text.substr(0, text.find('<'))) {
    if (head.size() == text.size()) return;
    int depth = 0;
    std::string part;
    for (const char c : text.substr(head.size() + 1, text.size() - head.size() - 2)) {
      depth += c == '<' ? 1 : c == '>' ? -1 : 0;
      if (c == ',' && depth == 0) {
        arguments.push_back(std::move(part));
        part.clear();
      } else if (c != ' ' || !part.empty()) {
        part += c;
      }
    }
    arguments.push_back(std::move(part));
  }
};

void expect_type(const Value& value, const std::string& type) {
  if (!value.layer()) cannot_be(value, "a module");
  if (value.layer()->type != type)
    throw Error(ErrorCode::gap, "a module is of another type than the code says").expected(type).found(value.layer()->type);
}

Value number(const std::string& text) {
  const auto read = [&](auto n) {
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, n);
    if (error != std::errc() || stopped != end) wrong(fmt::format("{} is no number", text));
    return n;
  };
  if (text.find_first_of(".eE") != std::string::npos) return read(double{});
  return static_cast<int64_t>(read(uint64_t{}));
}

// The items of a list, as values that later changes of a state do not change.
Value settled(Value value) {
  if (value.state()) return to<front::Tensor>(value);
  if (!value.list()) return value;
  List items;
  for (const Value& item : *value.list()) items.push_back(settled(item));
  return items;
}

Value converted(const Value& value, const std::string& type) {
  if (type == "Tensor") return to<front::Tensor>(value);
  if (type == "Dim") return to<front::Dim>(value);
  if (type == "int64_t") return to<int64_t>(value);
  if (type == "double") return to<double>(value);
  if (type == "bool") return to<bool>(value);
  if (type == "auto" || type == "Tensors" || type == "std::complex<double>") return value;
  if (type == "Ints" || type == "Numbers") return value.list() ? value : (cannot_be(value, "a list"), value);
  if (type == "Weights") return to<front::Weights>(value);
  if (type == "State") return value.state() ? value : (cannot_be(value, "a state"), value);
  if (type == "Config") return value.record() ? value : (cannot_be(value, "a Config"), value);
  wrong(fmt::format("a value of type {}", type));
}

}  // namespace

struct Interpreter::Instance final : Layer {
  Interpreter* interpreter = nullptr;
  const Class* made_of = nullptr;
  std::map<std::string, Value> members;
  std::string path;

  const Function* function(const std::string& name) const {
    const auto found = std::find_if(made_of->functions.begin(), made_of->functions.end(),
                                    [&](const Function& f) { return f.name == name; });
    return found == made_of->functions.end() ? nullptr : &*found;
  }
  Value call(const List& arguments) const override {
    const front::ModuleScope scope(path, {});
    const Function* forward = function("forward");
    if (!forward) wrong(fmt::format("{} has no forward()", type));
    return interpreter->call(*this, *forward, arguments);
  }
};

class Interpreter::SequentialLayer final : public Layer {
 public:
  SequentialLayer(std::string path, List parts) : path_(std::move(path)), parts_(std::move(parts)) {}
  Value call(const List& arguments) const override {
    const front::ModuleScope scope(path_, {});
    List flow = arguments;
    for (const Value& part : parts_) flow = {part.layer()->call(flow)};
    return flow.at(0);
  }

 private:
  std::string path_;
  List parts_;
};

// ---- what is built

const Class* Interpreter::class_named(const std::string& name) const {
  for (const Class& c : source_->classes) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

Value Interpreter::built(const std::string& text, const List& arguments) {
  const Type type(text);
  if (type.head == "nn::ModuleList") return built_list(type.arguments.at(0), arguments);
  if (type.head == "nn::Sequential") return built_sequence(text, type.arguments, arguments);
  if (const Class* own = class_named(text)) return instance(*own, arguments);
  if (std::shared_ptr<const Layer> layer = make_layer(text, arguments)) return layer;
  wrong(fmt::format("there is no module {}", text));
}

// (count, weights, more…) makes T(more…, weights / i); (count, make) makes make(i).
Value Interpreter::built_list(const std::string& element, const List& arguments) {
  if (arguments.size() < 2) wrong("a list of modules needs a count, and weights or a function");
  List modules;
  for (int64_t i = 0; i < to<int64_t>(arguments[0]); ++i) {
    if (const Lambda* make = arguments[1].function()) {
      modules.push_back((*make)({Value(i)}));
    } else {
      List more(arguments.begin() + 2, arguments.end());
      more.emplace_back(to<front::Weights>(arguments[1]) / i);
      modules.push_back(built(element, more));
    }
    expect_type(modules.back(), element);
  }
  return modules;
}

Value Interpreter::built_sequence(const std::string& type, const std::vector<std::string>& parts, const List& arguments) {
  if (arguments.size() != parts.size() + 1) wrong(fmt::format("{} is built of {} modules", type, arguments.size() - 1));
  for (size_t i = 0; i < parts.size(); ++i) expect_type(arguments[i + 1], parts[i]);
  const std::string path = to<front::Weights>(arguments[0]).path();
  auto made = std::make_shared<SequentialLayer>(path, List(arguments.begin() + 1, arguments.end()));
  made->type = type;
  return std::shared_ptr<const Layer>(std::move(made));
}

Value Interpreter::config(const Class& c) {
  Record record;
  Frame nothing;
  for (size_t i = 0; i < c.members.size(); ++i)
    record.fields.emplace(c.members[i].name, converted(evaluated(c.values[i], nothing), c.members[i].type));
  return record;
}

// struct LayerCache { Tensor lengths; CacheRows key{lengths, "key"}; CacheList<Part> h{lengths}; Part attn{lengths}; };
Value Interpreter::cache(const std::string& text, const front::Tensor& lengths) {
  const Class* c = class_named(text);
  if (!c || c->is_module || c->members.empty() || c->members[0].name != "lengths") wrong(fmt::format("{} is no cache", text));
  Frame frame;
  Record record{{}, text};
  for (size_t i = 0; i < c->members.size(); ++i) {
    const Member& declared = c->members[i];
    line_ = declared.line;
    const List given = i == 0 ? List{lengths} : all_evaluated(c->values[i].parts, frame);
    const Type type(declared.type);
    Value value;
    if (type.head == "Tensor" && i == 0) {
      value = lengths;
    } else if (type.head == "CacheRows" && given.size() == 2) {
      value = front::CacheRows(to<front::Tensor>(given[0]), to<std::string>(given[1]));
    } else if (type.head == "CacheList" && given.size() == 1) {
      value = CacheParts{type.arguments.at(0), to<front::Tensor>(given[0])};
    } else if (given.size() == 1) {
      value = cache(declared.type, to<front::Tensor>(given[0]));
    } else {
      wrong(fmt::format("member {} of {} is not initialised", declared.name, text));
    }
    frame.scopes[0][declared.name] = {value, false};
    if (!record.fields.emplace(declared.name, std::move(value)).second)
      wrong(fmt::format("{} has two members {}", text, declared.name));
  }
  return record;
}

Value Interpreter::argument(const Value& value, const Parameter& p) const {
  const Class* part = class_named(p.type);
  if (!part || part->is_module || p.type == "Config") return converted(value, p.type);
  if (!value.record() || value.record()->type != p.type) cannot_be(value, p.type.c_str());
  return value;
}

Value Interpreter::member(const Member& declared, const List& arguments) {
  const bool is_module = declared.type.starts_with("nn::") || class_named(declared.type);
  if (is_module) return built(declared.type, arguments);
  if (arguments.size() != 1) wrong(fmt::format("member {} is made of {} values", declared.name, arguments.size()));
  return converted(arguments[0], declared.type);
}

Value Interpreter::instance(const Class& c, const List& arguments) {
  if (!c.is_module) wrong(fmt::format("{} is no module", c.name));
  Frame frame;
  if (arguments.size() > c.constructed_with.size()) wrong(fmt::format("{} is built with too many arguments", c.name));
  for (size_t i = 0; i < c.constructed_with.size(); ++i) {
    const Parameter& p = c.constructed_with[i];
    if (i >= arguments.size() && !p.has_default) wrong(fmt::format("{} is built without {}", c.name, p.name));
    Value value = i < arguments.size() ? converted(arguments[i], p.type) : Value();
    if (i >= arguments.size() && class_named(p.type)) value = config(*class_named(p.type));
    frame.scopes[0][p.name] = {std::move(value), p.is_const};
  }
  auto made = std::make_shared<Instance>();
  made->interpreter = this;
  made->made_of = &c;
  made->type = c.name;
  std::map<std::string, const Code*> initialised;
  for (const Code& code : c.initialised) {
    if (code.kind != Code::Kind::call || !initialised.emplace(code.parts.at(0).text, &code).second)
      wrong(fmt::format("a member of {} is initialised twice", c.name));
  }
  if (!initialised.contains("Module")) wrong(fmt::format("{} does not say where its weights are", c.name));
  made->path = to<front::Weights>(evaluated(initialised.at("Module")->parts.at(1), frame)).path();
  for (const Member& declared : c.members) {
    line_ = declared.line;
    const auto code = initialised.find(declared.name);
    if (code == initialised.end()) wrong(fmt::format("member {} of {} is not initialised", declared.name, c.name));
    line_ = code->second->line;
    Value value = member(declared, all_evaluated(code->second->parts, frame, 1));
    if (!made->members.emplace(declared.name, std::move(value)).second)
      wrong(fmt::format("{} has two members {}", c.name, declared.name));
  }
  if (initialised.size() != c.members.size() + 1) wrong(fmt::format("{} initialises a member that it does not have", c.name));
  return std::shared_ptr<const Layer>(std::move(made));
}

// ---- what is run

Value Interpreter::call(const Instance& self, const Function& f, const List& arguments) {
  const auto needed = std::count_if(f.parameters.begin(), f.parameters.end(), [](const Parameter& p) { return !p.has_default; });
  if (arguments.size() > f.parameters.size() || arguments.size() < static_cast<size_t>(needed))
    throw Error(ErrorCode::gap, fmt::format("{}() of {} is called with another number of tensors", f.name, self.type))
        .expected(std::to_string(f.parameters.size()))
        .found(std::to_string(arguments.size()));
  Frame frame;
  frame.self = &self;
  for (size_t i = 0; i < f.parameters.size(); ++i) {
    const Parameter& p = f.parameters[i];
    const Value given = i < arguments.size() ? arguments[i] : Value(front::Tensor());
    if (!p.name.empty()) declare(frame, p.name, argument(given, p), p.is_const, p.type);
  }
  const size_t line = line_;
  bool returns = false;
  Value value = body(f.body, frame, returns);
  if (!returns) wrong(fmt::format("{}() of {} returns nothing", f.name, self.type));
  value = returned(*self.made_of, f, std::move(value));
  line_ = line;
  return value;
}

Value Interpreter::returned(const Class& c, const Function& f, Value value) {
  if (f.result == "Tensor") return to<front::Tensor>(value);
  const size_t expected = f.result == "Output" ? c.output.size() : Type(f.result).arguments.size();
  if (!value.list() || value.list()->size() != expected) wrong(fmt::format("{}() does not return {}", f.name, f.result));
  value = settled(std::move(value));
  for (const Value& item : *value.list()) to<front::Tensor>(item);
  return value;
}

Value Interpreter::body(const std::vector<Statement>& statements, Frame& frame, bool& returns) {
  for (const Statement& s : statements) {
    Value value = run(s, frame, returns);
    if (returns) return value;
  }
  return {};
}

Value Interpreter::run(const Statement& s, Frame& frame, bool& returns) {
  using Kind = Statement::Kind;
  line_ = s.line;
  if (s.kind == Kind::for_each || s.kind == Kind::for_count) {
    loop(s, frame);
    return {};
  }
  if (!s.has_value) {
    declare(frame, s.names[0], front::Tensor(), false, s.type);
    return {};
  }
  Value value = evaluated(s.value, frame);
  line_ = s.line;
  if (s.kind == Kind::give) {
    returns = true;
    return value;
  }
  if (s.kind == Kind::declare) declare(frame, s.names[0], converted(value, s.type), s.is_const, s.type);
  if (s.kind == Kind::assign) assign(frame, s.names[0], value);
  if (s.kind == Kind::declare || s.kind == Kind::assign || s.kind == Kind::call) return {};
  if (!value.list() || value.list()->size() != s.names.size())
    wrong(fmt::format("{} names for another number of values", s.names.size()));
  for (size_t i = 0; i < s.names.size(); ++i) {
    const Value& part = (*value.list())[i];
    if (s.kind == Kind::declare_parts) {
      declare(frame, s.names[i], settled(part), false, "auto");
    } else {
      assign(frame, s.names[i], part);
    }
  }
  return {};
}

void Interpreter::loop(const Statement& s, Frame& frame) {
  const Value over = evaluated(s.value, frame);
  const bool counts = s.kind == Statement::Kind::for_count;
  if (!counts && !over.list()) cannot_be(over, "a list of modules");
  const int64_t end = counts ? to<int64_t>(over) : static_cast<int64_t>(over.list()->size());
  for (int64_t i = 0; i < end; ++i) {
    if (!counts) expect_type((*over.list())[i], s.type);
    frame.scopes.emplace_back();
    frame.scopes.back()[s.names[0]] = {counts ? Value(i) : (*over.list())[i], true};
    bool returns = false;
    body(s.body, frame, returns);
    if (returns) wrong("a loop returns");
    frame.scopes.pop_back();
  }
}

void Interpreter::declare(Frame& frame, const std::string& name, Value value, bool is_const, const std::string& type) {
  if (!frame.scopes.back().emplace(name, Variable{std::move(value), is_const}).second)
    wrong(fmt::format("{} {} is declared twice", type, name));
}

void Interpreter::assign(Frame& frame, const std::string& name, const Value& value) {
  for (auto scope = frame.scopes.rbegin(); scope != frame.scopes.rend(); ++scope) {
    const auto variable = scope->find(name);
    if (variable == scope->end()) continue;
    if (variable->second.is_const) wrong(fmt::format("{} is const and is assigned to", name));
    variable->second.value = to<front::Tensor>(value);
    return;
  }
  const Value* member = found(frame, name);
  if (!member || !member->state()) wrong(fmt::format("{} is assigned to and is no variable", name));
  *member->state() = to<front::Tensor>(value);
}

// ---- expressions

const Value* Interpreter::found(const Frame& frame, const std::string& name) {
  for (auto scope = frame.scopes.rbegin(); scope != frame.scopes.rend(); ++scope) {
    const auto variable = scope->find(name);
    if (variable != scope->end()) return &variable->second.value;
  }
  if (!frame.self) return nullptr;
  const auto member = frame.self->members.find(name);
  return member == frame.self->members.end() ? nullptr : &member->second;
}

List Interpreter::all_evaluated(const std::vector<Code>& parts, Frame& frame, size_t from) {
  List all;
  for (size_t i = from; i < parts.size(); ++i) all.push_back(evaluated(parts[i], frame));
  return all;
}

Value Interpreter::evaluated(const Code& code, Frame& frame) {
  switch (code.kind) {
    case Code::Kind::number: return number(code.text);
    case Code::Kind::string: return code.text;
    case Code::Kind::name: return named(code, frame);
    case Code::Kind::list: return list(code, frame);
    case Code::Kind::call: return called(code, frame);
    case Code::Kind::function: return lambda(code, frame);
    case Code::Kind::prefix: return prefix(code.text, evaluated(code.parts[0], frame));
    case Code::Kind::infix: {
      const Value left = evaluated(code.parts[0], frame);
      return infix(code.text, left, evaluated(code.parts[1], frame));
    }
    case Code::Kind::choice: return evaluated(code.parts[to<bool>(evaluated(code.parts[0], frame)) ? 1 : 2], frame);
    case Code::Kind::element: {
      const Value whole = evaluated(code.parts[0], frame);
      if (const CacheParts* parts = whole.as<CacheParts>()) return cache(parts->type, parts->lengths);
      const auto index = static_cast<size_t>(to<int64_t>(evaluated(code.parts[1], frame)));
      if (!whole.list() || index >= whole.list()->size()) wrong(fmt::format("element {} of {}", index, whole.kind()));
      return (*whole.list())[index];
    }
    case Code::Kind::member: {
      const Value object = evaluated(code.parts[0], frame);
      const bool is_pair = object.list() && object.list()->size() == 2;
      if (is_pair && code.text == "first") return (*object.list())[0];
      if (is_pair && code.text == "second") return (*object.list())[1];
      if (object.record() && object.record()->fields.contains(code.text)) return object.record()->fields.at(code.text);
      wrong(fmt::format("{} has no member {}", object.kind(), code.text));
    }
  }
  internal_error("an expression of no kind");
}

Value Interpreter::named(const Code& code, Frame& frame) {
  if (const Value* known = found(frame, code.text)) return *known;
  constexpr std::string_view kDType = "DType::";
  if (code.text.starts_with(kDType)) {
    const std::string name = code.text.substr(kDType.size());
    if (const auto dtype = dtype_from_name(name == "boolean" ? "bool" : name)) return *dtype;
  }
  if (code.text == "true" || code.text == "false") return code.text == "true";
  if (code.text == "std::nullopt") return {};
  if (code.text == "INFINITY") return static_cast<double>(INFINITY);
  if (code.text == "NAN") return static_cast<double>(NAN);
  wrong(fmt::format("{} is not declared", code.text));
}

Value Interpreter::list(const Code& code, Frame& frame) {
  if (code.fields.empty()) return settled(all_evaluated(code.parts, frame));
  Record record;
  for (size_t i = 0; i < code.parts.size(); ++i) {
    if (!record.fields.emplace(code.fields[i], settled(evaluated(code.parts[i], frame))).second)
      wrong(fmt::format("option {} is given twice", code.fields[i]));
  }
  return record;
}

// [&] sees what is around it; [] nothing.
Value Interpreter::lambda(const Code& code, Frame& frame) {
  Frame* around = code.text == "&" ? &frame : nullptr;
  return std::make_shared<const Lambda>([this, &code, around](const List& arguments) {
    Frame own;
    Frame& inside = around ? *around : own;
    inside.scopes.emplace_back();
    for (size_t i = 0; i < code.parameters.size(); ++i) inside.scopes.back()[code.parameters[i]] = {arguments.at(i), true};
    bool returns = false;
    Value value = body(code.body, inside, returns);
    inside.scopes.pop_back();
    if (!returns) wrong("a function returns nothing");
    return value;
  });
}

Value Interpreter::called(const Code& code, Frame& frame) {
  const Code& callee = code.parts[0];
  if (callee.kind == Code::Kind::member) {
    const Value object = evaluated(callee.parts[0], frame);
    return call_member(object, callee.text, callee.types, all_evaluated(code.parts, frame, 1));
  }
  const List arguments = all_evaluated(code.parts, frame, 1);
  if (callee.kind == Code::Kind::name) return called_by_name(callee, arguments, frame);
  const Value target = evaluated(callee, frame);
  if (!target.layer()) cannot_be(target, "a module");
  return target.layer()->call(arguments);
}

// As C++ looks names up: variables and members hide functions.
Value Interpreter::called_by_name(const Code& callee, const List& arguments, Frame& frame) {
  if (const Value* known = found(frame, callee.text)) {
    if (known->layer()) return known->layer()->call(arguments);
    throw Error(ErrorCode::gap, fmt::format("{} is called and is no module", callee.text)).found(known->kind());
  }
  if (frame.self) {
    if (const Function* own = frame.self->function(callee.text)) return call(*frame.self, *own, arguments);
  }
  if (callee.text.starts_with("nn::") || class_named(callee.text)) return built(callee.text + callee.types, arguments);
  if (callee.text == "Tensor" && arguments.empty()) return front::Tensor();
  if (callee.text == "todo") return todo_(to<std::string>(arguments.at(0)));
  if (auto value = call_free(callee.text, callee.types, arguments)) return std::move(*value);
  wrong(fmt::format("there is no function {}", callee.text));
}

std::vector<std::pair<std::string, front::Tensor>> Interpreter::run(const front::Weights& w,
                                                                    const std::vector<front::Tensor>& inputs) {
  if (source_->classes.empty()) wrong("the code has no class");
  const Class& model = source_->classes.back();
  const Value made = instance(model, {Value(w)});
  List given(inputs.begin(), inputs.end());
  const auto forward = std::find_if(model.functions.begin(), model.functions.end(),
                                    [](const Function& f) { return f.name == "forward"; });
  const bool has_cache = forward != model.functions.end() && !forward->parameters.empty() &&
                         class_named(forward->parameters.back().type) != nullptr;
  if (has_cache) given.back() = cache(forward->parameters.back().type, inputs.back());  // made of the lengths
  const Value result = made.layer()->call(given);
  std::vector<std::pair<std::string, front::Tensor>> outputs;
  if (!result.list()) return {{"output", to<front::Tensor>(result)}};
  const List& all = *result.list();
  if (model.output.empty()) {
    for (size_t i = 0; i < all.size(); ++i) outputs.emplace_back(fmt::format("output.{}", i), to<front::Tensor>(all[i]));
  }
  for (const auto& [path, field] : model.output_paths) {
    const auto at = std::find_if(model.output.begin(), model.output.end(), [&](const Member& m) { return m.name == field; });
    if (at == model.output.end()) wrong(fmt::format("Output has no field {}", field));
    outputs.emplace_back("output." + path, to<front::Tensor>(all[at - model.output.begin()]));
  }
  return outputs;
}

}  // namespace pycandle::emit::proof
