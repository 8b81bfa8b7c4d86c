#include "params/checkpoints/pickle.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>

namespace pycandle {
namespace {

constexpr size_t kMostValues = 4'000'000, kMostStack = 8'000'000;

// The codes of pickle's machine, protocols 0 to 5.
enum Code : uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  float_text = 'F',
  int_text = 'I',
  binint = 'J',
  binint1 = 'K',
  long_text = 'L',
  binint2 = 'M',
  none = 'N',
  persid = 'P',
  binpersid = 'Q',
  reduce = 'R',
  string_text = 'S',
  binstring = 'T',
  short_binstring = 'U',
  unicode_text = 'V',
  binunicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  dict = 'd',
  empty_dict = '}',
  appends = 'e',
  get_text = 'g',
  binget = 'h',
  inst = 'i',
  long_binget = 'j',
  list = 'l',
  empty_list = ']',
  obj = 'o',
  put_text = 'p',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  binfloat = 'G',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  newobj = 0x81,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  newobj_ex = 0x92,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
};

}  // namespace

struct Pickle::Machine {
  using Kind = PickleValue::Kind;
  ByteReader& in;
  const Allowed& allowed;
  std::vector<PickleValue>& values;
  std::vector<PickleRef> stack;
  std::vector<size_t> marks;
  std::unordered_map<uint64_t, PickleRef> memo;

  Error bad(const std::string& what) const { return in.bad("the pickle " + what); }

  PickleRef add(PickleValue value) {
    if (values.size() >= kMostValues) throw bad("holds too many objects");
    values.push_back(std::move(value));
    return static_cast<PickleRef>(values.size() - 1);
  }
  void push(PickleRef ref) {
    if (stack.size() >= kMostStack) throw bad("needs too much room");
    stack.push_back(ref);
  }
  void push(PickleValue value) { push(add(std::move(value))); }
  PickleRef take() {
    if (stack.empty() || (!marks.empty() && stack.size() <= marks.back())) throw bad("takes more than it holds");
    const PickleRef ref = stack.back();
    stack.pop_back();
    return ref;
  }
  PickleValue& top() {
    if (stack.empty()) throw bad("takes more than it holds");
    return values[stack.back()];
  }
  std::vector<PickleRef> take_marked() {
    if (marks.empty()) throw bad("has no mark where one is needed");
    std::vector<PickleRef> items(stack.begin() + static_cast<std::ptrdiff_t>(marks.back()), stack.end());
    stack.resize(marks.back());
    marks.pop_back();
    return items;
  }

  void push_text(Kind kind, std::string_view text) {
    PickleValue value;
    value.kind = kind;
    value.text = text;
    push(std::move(value));
  }
  void push_integer(int64_t number, Kind kind = Kind::integer) {
    PickleValue value;
    value.kind = kind;
    value.integer = number;
    push(std::move(value));
  }
  void push_items(Kind kind, std::vector<PickleRef> items) {
    PickleValue value;
    value.kind = kind;
    value.items = std::move(items);
    push(std::move(value));
  }
  void push_tuple(size_t count) {
    std::vector<PickleRef> items(count);
    for (size_t i = count; i-- > 0;) items[i] = take();
    push_items(Kind::tuple, std::move(items));
  }
  void push_dict(std::vector<PickleRef> items) {
    if (items.size() % 2 != 0) throw bad("has a key without a value");
    push_items(Kind::dict, std::move(items));
  }

  void push_global(std::string_view module, std::string_view name) {
    if (!allowed(module, name)) {
      throw in.bad(fmt::format("it holds {}.{}, which is no tensor, dict, list or number", shown_text(module), shown_text(name)))
          .expected("the tensors of a state dict")
          .hint("nothing was executed; save the weights alone: torch.save(model.state_dict(), path)");
    }
    PickleValue value;
    value.kind = Kind::global;
    value.module = module;
    value.text = name;
    push(std::move(value));
  }

  // Little-endian two's complement of any length; one that does not fit keeps its bytes.
  void push_long(std::string_view bytes) {
    PickleValue value;
    value.kind = Kind::integer;
    value.text = bytes;
    if (bytes.size() <= 8) {
      uint64_t number = !bytes.empty() && (static_cast<uint8_t>(bytes.back()) & 0x80U) != 0 ? ~uint64_t{0} : 0;
      for (size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[i]);
      value.integer = static_cast<int64_t>(number);
      value.text = {};
    }
    push(std::move(value));
  }

  void push_decimal(std::string_view text) {
    if (text.ends_with('L')) text.remove_suffix(1);
    if (text == "00" || text == "01") return push_integer(text == "01" ? 1 : 0, Kind::boolean);
    int64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) throw bad("has a bad number");
    push_integer(number);
  }

  void push_real(double number) {
    PickleValue value;
    value.kind = Kind::real;
    value.real = number;
    push(std::move(value));
  }

  void push_quoted(std::string_view text) {
    if (text.size() < 2 || text.front() != text.back() || text.find('\\') != std::string_view::npos)
      throw bad("has a text that cannot be read");
    push_text(Kind::text, text.substr(1, text.size() - 2));
  }

  uint64_t memo_number(std::string_view text) {
    uint64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) throw bad("has a bad number");
    return number;
  }
  void remember(uint64_t number) {
    if (stack.empty()) throw bad("takes more than it holds");
    memo[number] = stack.back();
  }
  void recall(uint64_t number) {
    const auto at = memo.find(number);
    if (at == memo.end()) throw bad("refers to an object that is not there");
    push(at->second);
  }

  void extend(Kind kind, const std::vector<PickleRef>& items) {
    PickleValue& into = top();
    // A call stands for the object it makes: an OrderedDict gets its entries so.
    const bool fits = into.is(kind) || into.is(Kind::call);
    if (!fits || (kind == Kind::dict && items.size() % 2 != 0)) throw bad("adds items to what cannot hold them");
    into.items.insert(into.items.end(), items.begin(), items.end());
  }

  void push_call(PickleRef function, PickleRef arguments) {
    if (!values[function].is(Kind::global)) throw bad("calls what is no class");
    if (!values[arguments].is(Kind::tuple)) throw bad("calls a class without a list of arguments");
    push_items(Kind::call, {function, arguments, kNoState});
  }
  static constexpr PickleRef kNoState = 0;  // values[0] is None

  bool step();
  bool step_text(uint8_t code);
  bool step_binary(uint8_t code);
  bool step_object(uint8_t code);
};

bool Pickle::Machine::step_text(uint8_t code) {
  switch (code) {
    case float_text: {
      const std::string text(in.line("a number"));
      char* end = nullptr;
      const double number = std::strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0') throw bad("has a bad number");
      push_real(number);
      return true;
    }
    case int_text:
    case long_text: push_decimal(in.line("a number")); return true;
    case string_text: push_quoted(in.line("a text")); return true;
    case unicode_text: {
      const std::string_view text = in.line("a text");
      if (text.find('\\') != std::string_view::npos) throw bad("has a text that cannot be read");
      push_text(Kind::text, text);
      return true;
    }
    case get_text: recall(memo_number(in.line("a number"))); return true;
    case put_text: remember(memo_number(in.line("a number"))); return true;
    case global: {
      const std::string_view module = in.line("a class");
      push_global(module, in.line("a class"));
      return true;
    }
    default: return false;
  }
}

bool Pickle::Machine::step_binary(uint8_t code) {
  switch (code) {
    case binint: push_integer(in.number<int32_t>("a number")); return true;
    case binint1: push_integer(in.number<uint8_t>("a number")); return true;
    case binint2: push_integer(in.number<uint16_t>("a number")); return true;
    case long1: push_long(in.text(in.number<uint8_t>("a number"), "a number")); return true;
    case long4: {
      const auto count = in.number<int32_t>("a number");
      if (count < 0) throw bad("has a number of negative length");
      push_long(in.text(static_cast<uint64_t>(count), "a number"));
      return true;
    }
    case binfloat: {
      uint64_t bits = 0;
      for (const std::byte b : in.take(8, "a number")) bits = bits << 8 | static_cast<uint64_t>(b);
      push_real(std::bit_cast<double>(bits));
      return true;
    }
    case binstring:
    case binunicode: push_text(Kind::text, in.text(in.number<uint32_t>("a text"), "a text")); return true;
    case short_binstring:
    case short_binunicode: push_text(Kind::text, in.text(in.number<uint8_t>("a text"), "a text")); return true;
    case binunicode8: push_text(Kind::text, in.text(in.number<uint64_t>("a text"), "a text")); return true;
    case binbytes: push_text(Kind::bytes, in.text(in.number<uint32_t>("bytes"), "bytes")); return true;
    case short_binbytes: push_text(Kind::bytes, in.text(in.number<uint8_t>("bytes"), "bytes")); return true;
    case binbytes8:
    case bytearray8: push_text(Kind::bytes, in.text(in.number<uint64_t>("bytes"), "bytes")); return true;
    case binget: recall(in.number<uint8_t>("a number")); return true;
    case long_binget: recall(in.number<uint32_t>("a number")); return true;
    case binput: remember(in.number<uint8_t>("a number")); return true;
    case long_binput: remember(in.number<uint32_t>("a number")); return true;
    case memoize: remember(memo.size()); return true;
    case proto:
      if (in.number<uint8_t>("the protocol") > 5) throw bad("has a protocol later than 5");
      return true;
    case frame: in.take(8, "a frame"); return true;
    default: return false;
  }
}

bool Pickle::Machine::step_object(uint8_t code) {
  switch (code) {
    case none: push(kNoState); return true;
    case newtrue: push_integer(1, Kind::boolean); return true;
    case newfalse: push_integer(0, Kind::boolean); return true;
    case mark: marks.push_back(stack.size()); return true;
    case pop:
      if (!marks.empty() && marks.back() == stack.size()) {
        marks.pop_back();
      } else {
        take();
      }
      return true;
    case pop_mark: take_marked(); return true;
    case dup: {
      if (stack.empty()) throw bad("takes more than it holds");
      push(PickleRef{stack.back()});
      return true;
    }
    case empty_dict: push_items(Kind::dict, {}); return true;
    case empty_list: push_items(Kind::list, {}); return true;
    case empty_tuple: push_items(Kind::tuple, {}); return true;
    case empty_set: push_items(Kind::set, {}); return true;
    case tuple1: push_tuple(1); return true;
    case tuple2: push_tuple(2); return true;
    case tuple3: push_tuple(3); return true;
    case tuple: push_items(Kind::tuple, take_marked()); return true;
    case list: push_items(Kind::list, take_marked()); return true;
    case frozenset: push_items(Kind::set, take_marked()); return true;
    case dict: push_dict(take_marked()); return true;
    case append: {
      const PickleRef item = take();
      extend(Kind::list, {item});
      return true;
    }
    case appends: extend(Kind::list, take_marked()); return true;
    case additems: extend(Kind::set, take_marked()); return true;
    case setitem: {
      const PickleRef value = take(), key = take();
      extend(Kind::dict, {key, value});
      return true;
    }
    case setitems: extend(Kind::dict, take_marked()); return true;
    case stack_global: {
      const PickleRef name = take(), module = take();
      if (!values[name].is(Kind::text) || !values[module].is(Kind::text)) throw bad("names a class by what is no text");
      push_global(values[module].text, values[name].text);
      return true;
    }
    case reduce:
    case newobj: {
      const PickleRef arguments = take(), function = take();
      push_call(function, arguments);
      return true;
    }
    case build: {
      const PickleRef state = take();
      if (!top().is(Kind::call)) throw bad("sets the state of what has none");
      top().items[2] = state;
      return true;
    }
    case binpersid: push_items(Kind::persistent, {take()}); return true;
    default: return false;
  }
}

// False at the end.
bool Pickle::Machine::step() {
  const auto code = in.number<uint8_t>("the pickle");
  if (code == stop) return false;
  if (!step_binary(code) && !step_object(code) && !step_text(code))
    throw bad(fmt::format("has an instruction that is not allowed (0x{:02x})", code));
  return true;
}

Pickle::Pickle(ByteReader& reader, const Allowed& allowed) {
  Machine machine{reader, allowed, values_, {}, {}, {}};
  machine.add({});  // None
  while (machine.step()) {
  }
  root_ = machine.take();
}

}  // namespace pycandle
