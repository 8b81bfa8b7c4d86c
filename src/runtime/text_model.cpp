#include "runtime/text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "passes/constants.h"

namespace pycandle {
namespace {

bool is_sequence_of_integers(const Program& p, const Input& input) {
  const Type& type = p.graph.type(input.value);
  return is_integral(type.dtype) && type.rank() == 2;
}

// The table that is read with this input, if there is one.
std::optional<TokenInput> table_of(const Program& p, const Input& input) {
  std::optional<TokenInput> largest;
  for (const Node& node : p.graph.nodes) {
    const bool is_embedding = node.op->name == "embedding", is_take = node.op->name == "take";
    if (!is_embedding && !is_take) continue;
    const Call c = call_of(p.graph, node);
    if (is_take && c.integer("axis") != 0) continue;
    const ValueId table = c.value(is_embedding ? "weight" : "x"), indices = c.value("indices");
    const Shape& shape = p.graph.type(table).shape;
    if (indices != input.value || shape.size() != 2 || !all_numbers(shape)) continue;
    if (!largest || shape[0].number() > largest->rows) largest = TokenInput{input.name, shape[0].number(), shape[1].number()};
  }
  return largest;
}

bool is_mask(const Program& p, const Input& input) {
  const Type& type = p.graph.type(input.value);
  const bool is_small = is_integral(type.dtype) && input.range && input.range->first >= 0 && input.range->second <= 1;
  return type.rank() == 2 && !table_of(p, input) && (is_small || type.dtype == DType::boolean);
}

// Equal token counts side by side where there is a mask, otherwise one text after the other.
struct Batch {
  std::vector<size_t> texts;
  size_t length = 0;
};

std::vector<Batch> batches_of(const std::vector<Encoding>& texts, bool has_mask) {
  constexpr size_t kMost = 32;
  std::vector<size_t> order(texts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return texts[a].size() < texts[b].size(); });
  std::vector<Batch> batches;
  for (const size_t i : order) {
    const bool fits = !batches.empty() && batches.back().texts.size() < kMost &&
                      (has_mask || batches.back().length == texts[i].size());
    if (!fits) batches.emplace_back();
    batches.back().texts.push_back(i);
    batches.back().length = texts[i].size();
  }
  return batches;
}

Array integers(const Program& p, const std::string& input, Sizes shape, const std::vector<int64_t>& values) {
  for (const Input& i : p.inputs) {
    if (i.name == input) return store(p.graph.type(i.value).dtype, std::move(shape), values);
  }
  internal_error("the program has no such input");
}

// What the program gives for sequences of tokens, as [batch, length, width] or [batch, width].
Array run(const Model& model, const EmbeddingModel& m, const std::vector<std::vector<int64_t>>& tokens,
          const std::vector<std::vector<int64_t>>& types, size_t length) {
  const Sizes shape{static_cast<int64_t>(tokens.size()), static_cast<int64_t>(length)};
  std::vector<int64_t> ids, mask, kinds;
  for (size_t row = 0; row < tokens.size(); ++row) {
    for (size_t i = 0; i < length; ++i) {
      const bool is_real = i < tokens[row].size();
      ids.push_back(is_real ? tokens[row][i] : 0);
      mask.push_back(is_real ? 1 : 0);
      kinds.push_back(is_real && !types.empty() ? types[row][i] : 0);
    }
  }
  const Program& p = model.program();
  Model::Tensors inputs{{m.tokens, integers(p, m.tokens, shape, ids)}};
  if (!m.mask.empty()) inputs[m.mask] = integers(p, m.mask, shape, mask);
  if (!m.types.empty()) inputs[m.types] = integers(p, m.types, shape, kinds);
  return model.forward(inputs).at(m.output);
}

// One row of what the program gave, pooled over its first `count` tokens.
std::vector<double> pooled(const Array& values, const EmbeddingModel& m, size_t row, size_t count, Pooling pooling) {
  const Array floats = values.dtype() == DType::f32 ? values : cast(values, DType::f32);
  const auto width = static_cast<size_t>(m.width), length = m.is_pooled ? 1 : static_cast<size_t>(values.shape()[1]);
  const float* from = floats.as<float>() + row * length * width;
  std::vector<double> sum(from, from + width);
  if (m.is_pooled || pooling == Pooling::cls) return sum;
  for (size_t i = 1; i < count; ++i) {
    for (size_t k = 0; k < width; ++k) sum[k] += static_cast<double>(from[i * width + k]);
  }
  for (double& v : sum) v /= std::max(static_cast<double>(count), 1e-9);
  return sum;
}

}  // namespace

std::optional<TokenInput> token_input(const Program& p) {
  std::optional<TokenInput> largest;
  for (const Input& input : p.inputs) {
    if (!is_sequence_of_integers(p, input)) continue;
    const auto table = table_of(p, input);
    if (table && (!largest || table->rows > largest->rows)) largest = table;
  }
  return largest;
}

std::optional<std::string> logits_output(const Program& p) {
  const auto tokens = token_input(p);
  if (!tokens) return std::nullopt;
  int64_t largest = 0;
  for (const Input& input : p.inputs) {
    if (input.name == tokens->name && input.range) largest = input.range->second;
  }
  for (const Output& output : p.outputs) {
    const Type& type = p.graph.type(output.value);
    if (!is_floating(type.dtype) || type.rank() != 3 || !type.shape[2].is_number()) continue;
    const int64_t columns = type.shape[2].number();
    // A table may have rows that stand for nothing, so that their number is round.
    if (columns == tokens->rows || (columns < tokens->rows && columns > largest && columns != tokens->width)) return output.name;
  }
  return std::nullopt;
}

std::optional<EmbeddingModel> embedding_model(const Program& p) {
  const auto tokens = token_input(p);
  if (!tokens || !p.states.empty()) return std::nullopt;
  EmbeddingModel m;
  m.tokens = tokens->name;
  Shape shape;
  for (const Input& input : p.inputs) {
    if (input.name == m.tokens) {
      shape = p.graph.type(input.value).shape;
    } else if (is_mask(p, input) && m.mask.empty()) {
      m.mask = input.name;
    } else if (is_sequence_of_integers(p, input) && table_of(p, input) && input.range && input.range->second <= 1 &&
               m.types.empty()) {
      m.types = input.name;
    } else if (input.used) {
      return std::nullopt;
    }
  }
  for (const Symbol& s : p.symbols) {
    if (shape[1] == Dim::symbol(s.name)) m.longest = s.range.max;
  }
  if (shape[1].is_number()) return std::nullopt;  // one length alone
  for (const Output& output : p.outputs) {
    const Type& type = p.graph.type(output.value);
    if (!is_floating(type.dtype) || type.rank() < 2 || type.rank() > 3 || type.shape[0] != shape[0] ||
        !type.shape.back().is_number())
      continue;
    if (type.rank() == 3 && type.shape[1] != shape[1]) continue;
    m.output = output.name;
    m.is_pooled = type.rank() == 2;
    m.width = type.shape.back().number();
    return m;
  }
  return std::nullopt;
}

Pooling parse_pooling(std::string_view name) {
  if (name == "mean") return Pooling::mean;
  if (name == "cls") return Pooling::cls;
  throw Error(ErrorCode::usage, "this is no way of pooling").expected("mean or cls").found(std::string(name));
}

Array embed(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& texts, const EmbedOptions& options) {
  const auto m = embedding_model(model.program());
  if (!m)
    throw Error(ErrorCode::usage, fmt::format("{} is not an embedding model", model.program().name))
        .expected("a program from tokens [batch, length], with a mask and types at most, to vectors");
  Tokenizer plain = tokenizer;
  plain.padding.reset();
  if (m->longest && (!plain.truncation || plain.truncation->max_length > static_cast<size_t>(*m->longest))) {
    if (!plain.truncation) plain.truncation = Truncation{};
    plain.truncation->max_length = static_cast<size_t>(*m->longest);
  }
  const std::vector<Encoding> encodings = plain.encode_batch(texts);
  Array out(DType::f32, {static_cast<int64_t>(texts.size()), m->width});
  for (const Batch& batch : batches_of(encodings, !m->mask.empty())) {
    if (batch.length == 0) throw Error(ErrorCode::usage, "a text without tokens has no embedding");
    std::vector<std::vector<int64_t>> tokens, types;
    for (const size_t i : batch.texts) {
      tokens.emplace_back(encodings[i].ids.begin(), encodings[i].ids.end());
      types.emplace_back(encodings[i].type_ids.begin(), encodings[i].type_ids.end());
    }
    const Array values = run(model, *m, tokens, types, batch.length);
    for (size_t row = 0; row < batch.texts.size(); ++row) {
      std::vector<double> vector = pooled(values, *m, row, tokens[row].size(), options.pooling);
      double length = 0;
      for (const double v : vector) length += v * v;
      const double scale = options.normalize ? 1 / std::max(std::sqrt(length), 1e-12) : 1;
      float* to = out.mutable_as<float>() + batch.texts[row] * static_cast<size_t>(m->width);
      for (size_t k = 0; k < vector.size(); ++k) to[k] = static_cast<float>(vector[k] * scale);
    }
  }
  return out;
}

double padding_error(const Model& model, const EmbeddingModel& m) {
  if (m.mask.empty()) return 0;
  const int64_t rows = token_input(model.program())->rows;
  std::mt19937_64 random(7);
  const auto sequence = [&](size_t length) {
    std::vector<int64_t> tokens(length);
    for (int64_t& t : tokens) t = static_cast<int64_t>(random() % static_cast<uint64_t>(rows));
    return tokens;
  };
  const std::vector<int64_t> shorter = sequence(5), longer = sequence(11);
  const std::vector<double> alone = pooled(run(model, m, {shorter}, {}, 5), m, 0, 5, Pooling::mean);
  const std::vector<double> padded = pooled(run(model, m, {shorter, longer}, {}, 11), m, 0, 5, Pooling::mean);
  double error = 0, size = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    error += (alone[i] - padded[i]) * (alone[i] - padded[i]);
    size += alone[i] * alone[i];
  }
  return std::sqrt(error / std::max(size, 1e-30));
}

}  // namespace pycandle
