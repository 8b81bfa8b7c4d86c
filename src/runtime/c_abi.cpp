#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/version.h"
#include "base/weight_format.h"
#include "pycandle/c.h"
#include "pycandle/loaded_model.h"

using pycandle::Array;
using pycandle::DType;
using pycandle::Error;
using pycandle::ErrorCode;

struct pycandle_error {
  pycandle_error_code code;
  std::string message, text;
};

struct pycandle_tensors {
  std::vector<std::pair<std::string, Array>> all;
};

namespace {

struct Info {
  pycandle::TensorInfo facts;
  std::vector<const char*> dims;
};

}  // namespace

struct pycandle_model {
  pycandle::LoadedModel model;
  std::vector<Info> inputs, outputs;
};

struct pycandle_cache {
  pycandle::ModelCache cache;
};

namespace {

static_assert(static_cast<int>(DType::f64) == PYCANDLE_F64 && static_cast<int>(DType::i64) == PYCANDLE_I64 &&
              static_cast<int>(DType::boolean) == PYCANDLE_BOOL && static_cast<int>(DType::c128) == PYCANDLE_C128 &&
              pycandle::kDTypeCount == PYCANDLE_C128 + 1);

pycandle_error_code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::gap: return PYCANDLE_GAP;
    case ErrorCode::verdict: return PYCANDLE_VERDICT;
    case ErrorCode::usage: return PYCANDLE_USAGE;
    case ErrorCode::bad_input: return PYCANDLE_BAD_INPUT;
    case ErrorCode::internal: break;
  }
  return PYCANDLE_INTERNAL;
}

// Where there is no memory for an error either.
pycandle_error* no_memory() {
  static pycandle_error error{PYCANDLE_INTERNAL, "out of memory", "out of memory"};
  return &error;
}

pycandle_error* made(pycandle_error_code code, const std::string& message, const std::string& text) noexcept {
  try {
    return new pycandle_error{code, message, text};
  } catch (...) {
    return no_memory();
  }
}

// Runs a piece of C++; what it throws is the error that is returned.
template <class F> pycandle_error* guarded(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const Error& error) {
    return made(code_of(error.code()), error.message(), error.text());
  } catch (const std::bad_alloc&) {
    return no_memory();
  } catch (const std::exception& error) {
    return made(PYCANDLE_INTERNAL, error.what(), error.what());
  } catch (...) {
    return made(PYCANDLE_INTERNAL, "an exception of an unknown type", "an exception of an unknown type");
  }
}

// The same for a question: `otherwise` where it throws.
template <class T, class F> T answered(T otherwise, F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    return otherwise;
  }
}

void expect(bool holds, const char* what) {
  if (!holds) throw Error(ErrorCode::usage, fmt::format("{} is NULL", what));
}

std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

// Copied, so that a model may keep it, and a boolean that is neither 0 nor 1 is 1.
Array array_of(const pycandle_tensor& t) {
  if (t.dtype < 0 || t.dtype >= pycandle::kDTypeCount) {
    throw Error(ErrorCode::usage, fmt::format("the input {} has no dtype", t.name))
        .expected("a number of pycandle_dtype")
        .found(std::to_string(t.dtype));
  }
  expect(t.rank >= 0 && (t.rank == 0 || t.shape), "the shape of an input");
  const auto dtype = static_cast<DType>(t.dtype);
  Array copy(dtype, pycandle::Sizes(t.shape, t.shape + t.rank));
  if (copy.bytes() == 0) return copy;
  expect(t.data != nullptr, "the data of an input");
  std::memcpy(copy.mutable_data(), t.data, copy.bytes());
  if (dtype == DType::boolean) {
    auto* bytes = static_cast<uint8_t*>(copy.mutable_data());
    for (size_t i = 0; i < copy.bytes(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
  }
  return copy;
}

pycandle::LoadedModel::Tensors arrays_of(const pycandle_tensor* tensors, size_t count) {
  expect(tensors || count == 0, "the list of inputs");
  pycandle::LoadedModel::Tensors all;
  for (size_t i = 0; i < count; ++i) {
    expect(tensors[i].name != nullptr, "the name of an input");
    if (!all.emplace(tensors[i].name, array_of(tensors[i])).second)
      throw Error(ErrorCode::usage, fmt::format("the input {} is given twice", tensors[i].name));
  }
  return all;
}

// In the order of the outputs; what a model gives beside them follows.
pycandle_tensors* ordered(const pycandle_model& m, pycandle::LoadedModel::Tensors values) {
  auto result = std::make_unique<pycandle_tensors>();
  for (const Info& output : m.outputs) {
    if (auto found = values.extract(output.facts.name)) result->all.emplace_back(found.key(), std::move(found.mapped()));
  }
  for (auto& [name, value] : values) result->all.emplace_back(name, std::move(value));
  return result.release();
}

std::vector<Info> with_dims(std::vector<pycandle::TensorInfo> infos) {
  std::vector<Info> all;
  all.reserve(infos.size());
  for (pycandle::TensorInfo& info : infos) all.push_back({std::move(info), {}});
  for (Info& info : all) {
    for (const std::string& dim : info.facts.shape) info.dims.push_back(dim.c_str());
  }
  return all;
}

pycandle_model* with_facts(pycandle::LoadedModel loaded) {
  auto inputs = with_dims(loaded.inputs()), outputs = with_dims(loaded.outputs());
  return new pycandle_model{std::move(loaded), std::move(inputs), std::move(outputs)};
}

pycandle_tensor_info info_at(const std::vector<Info>& all, size_t i) {
  if (i >= all.size()) return {};
  const Info& info = all[i];
  return {info.facts.name.c_str(), static_cast<int32_t>(info.facts.dtype), static_cast<int32_t>(info.dims.size()),
          info.dims.data()};
}

pycandle_tensor view_of(const std::pair<std::string, Array>& named) {
  const Array& a = named.second;
  return {named.first.c_str(), static_cast<int32_t>(a.dtype()), static_cast<int32_t>(a.rank()), a.shape().data(), a.data()};
}

// What this caller knows of the options; the rest is as the library has it.
pycandle::ModelOptions options_of(const pycandle_options* given) {
  pycandle_options known = PYCANDLE_OPTIONS;
  if (given) {
    constexpr size_t kMost = 4096;
    if (given->size < sizeof(size_t) || given->size > kMost) {
      throw Error(ErrorCode::usage, "the options are not initialised")
          .expected("pycandle_options options = PYCANDLE_OPTIONS;")
          .found(fmt::format("size {}", given->size));
    }
    std::memcpy(&known, given, std::min(given->size, sizeof(known)));
  }
  pycandle::ModelOptions options;
  options.backend = text_or(known.backend, "");
  options.threads = known.threads;
  if (known.weights) options.weights = pycandle::parse_weight_format(known.weights);
  options.checkpoint = text_or(known.checkpoint, "");
  options.cache = text_or(known.cache, "f32");
  if (known.parameter_budget > 0) options.parameter_budget = known.parameter_budget;
  options.small_memory = known.small_memory != 0;
  options.check_weights = known.check_weights != 0;
  return options;
}

}  // namespace

int32_t pycandle_abi_version() { return PYCANDLE_ABI_VERSION; }
const char* pycandle_library_version() { return pycandle::version(); }

pycandle_error_code pycandle_error_code_of(const pycandle_error* e) { return e ? e->code : PYCANDLE_INTERNAL; }
const char* pycandle_error_message(const pycandle_error* e) { return e ? e->message.c_str() : ""; }
const char* pycandle_error_text(const pycandle_error* e) { return e ? e->text.c_str() : ""; }
void pycandle_error_free(pycandle_error* e) {
  if (e != no_memory()) delete e;
}

size_t pycandle_dtype_size(int32_t dtype) {
  return dtype >= 0 && dtype < pycandle::kDTypeCount ? pycandle::size_of(static_cast<DType>(dtype)) : 0;
}

size_t pycandle_tensors_count(const pycandle_tensors* t) { return t ? t->all.size() : 0; }
pycandle_tensor pycandle_tensors_at(const pycandle_tensors* t, size_t i) {
  return t && i < t->all.size() ? view_of(t->all[i]) : pycandle_tensor{};
}
pycandle_tensor pycandle_tensors_named(const pycandle_tensors* t, const char* name) {
  if (!t || !name) return {};
  const auto found = std::find_if(t->all.begin(), t->all.end(), [&](const auto& each) { return each.first == name; });
  return found == t->all.end() ? pycandle_tensor{} : view_of(*found);
}
void pycandle_tensors_free(pycandle_tensors* t) { delete t; }

pycandle_error* pycandle_load(const char* path, const pycandle_options* options, pycandle_model** model) {
  return guarded([&] {
    expect(path && model, "the path or the result");
    *model = with_facts(pycandle::load_model(path, options_of(options)));
  });
}

pycandle_error* pycandle_session(const pycandle_model* m, pycandle_model** session) {
  return guarded([&] {
    expect(m && session, "the model or the result");
    *session = with_facts(m->model.session());
  });
}

void pycandle_model_free(pycandle_model* m) { delete m; }

const char* pycandle_model_name(const pycandle_model* m) { return m ? m->model.name().c_str() : ""; }
const char* pycandle_model_backend(const pycandle_model* m) { return m ? m->model.backend().c_str() : ""; }
int32_t pycandle_model_can(const pycandle_model* m, const char* capability) {
  return answered<int32_t>(0, [&] { return m && capability && m->model.can(capability) ? 1 : 0; });
}

size_t pycandle_input_count(const pycandle_model* m) { return m ? m->inputs.size() : 0; }
size_t pycandle_output_count(const pycandle_model* m) { return m ? m->outputs.size() : 0; }
pycandle_tensor_info pycandle_input_at(const pycandle_model* m, size_t i) {
  return m ? info_at(m->inputs, i) : pycandle_tensor_info{};
}
pycandle_tensor_info pycandle_output_at(const pycandle_model* m, size_t i) {
  return m ? info_at(m->outputs, i) : pycandle_tensor_info{};
}

pycandle_error* pycandle_run(const pycandle_model* m, const pycandle_tensor* inputs, size_t count, pycandle_tensors** outputs) {
  return guarded([&] {
    expect(m && outputs, "the model or the result");
    *outputs = ordered(*m, m->model.forward(arrays_of(inputs, count)));
  });
}

pycandle_error* pycandle_cache_new(const pycandle_model* m, int64_t batch, int64_t capacity, const pycandle_tensor* inputs,
                                   size_t count, pycandle_cache** cache) {
  return guarded([&] {
    expect(m && cache, "the model or the result");
    *cache = new pycandle_cache{m->model.new_cache(batch, capacity, arrays_of(inputs, count))};
  });
}

void pycandle_cache_free(pycandle_cache* c) { delete c; }
int64_t pycandle_cache_batch(const pycandle_cache* c) { return c ? c->cache.batch() : 0; }
int64_t pycandle_cache_capacity(const pycandle_cache* c) { return c ? c->cache.capacity() : 0; }
int64_t pycandle_cache_length(const pycandle_cache* c, int64_t sequence) {
  return answered<int64_t>(-1, [&]() -> int64_t {
    if (!c || sequence < 0) return -1;
    return c->cache.lengths().at(static_cast<size_t>(sequence));
  });
}

pycandle_error* pycandle_cache_truncate(pycandle_cache* c, int64_t sequence, int64_t length) {
  return guarded([&] {
    expect(c != nullptr, "the cache");
    c->cache.truncate(sequence, length);
  });
}

pycandle_error* pycandle_cache_fork(const pycandle_cache* c, const int64_t* sequences, size_t count, pycandle_cache** fork) {
  return guarded([&] {
    expect(c && fork && (sequences || count == 0), "the cache, the sequences or the result");
    *fork = new pycandle_cache{c->cache.fork({sequences, sequences + count})};
  });
}

pycandle_error* pycandle_step(const pycandle_model* m, pycandle_cache* c, const pycandle_tensor* tokens, size_t count,
                              const int64_t* counts, int32_t last, pycandle_tensors** outputs) {
  return guarded([&] {
    expect(m && c && outputs, "the model, the cache or the result");
    std::vector<int64_t> real;
    if (counts) real.assign(counts, counts + c->cache.batch());
    *outputs = ordered(*m, m->model.step(c->cache, arrays_of(tokens, count), real, last != 0));
  });
}
