// One protobuf message, field by field. A field with another wire type than it should have is an error: protozero only asserts
// it.
#pragma once

#include <fmt/format.h>

#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace pycandle::onnx {

class Message {
 public:
  Message(std::string_view bytes, const char* what) : reader_(bytes.data(), bytes.size()), what_(what) {}

  bool next() { return reader_.next(); }
  uint32_t field() const { return reader_.tag(); }
  void skip() { reader_.skip(); }

  std::string_view bytes() {
    expect(protozero::pbf_wire_type::length_delimited, "bytes");
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  }
  int64_t integer() {
    expect(protozero::pbf_wire_type::varint, "an integer");
    return reader_.get_int64();
  }
  float number() {
    expect(protozero::pbf_wire_type::fixed32, "a float");
    return reader_.get_float();
  }
  // Repeated numbers, packed or one by one.
  void integers(std::vector<int64_t>& into) {
    if (reader_.wire_type() != protozero::pbf_wire_type::length_delimited) {
      into.push_back(integer());
      return;
    }
    for (const int64_t value : reader_.get_packed_int64()) into.push_back(value);
  }
  void floats(std::vector<float>& into) {
    if (reader_.wire_type() != protozero::pbf_wire_type::length_delimited) {
      into.push_back(number());
      return;
    }
    for (const float value : reader_.get_packed_float()) into.push_back(value);
  }
  void doubles(std::vector<double>& into) {
    if (reader_.wire_type() != protozero::pbf_wire_type::length_delimited) {
      expect(protozero::pbf_wire_type::fixed64, "a double");
      into.push_back(reader_.get_double());
      return;
    }
    for (const double value : reader_.get_packed_double()) into.push_back(value);
  }

 private:
  void expect(protozero::pbf_wire_type type, const char* expected) const {
    if (reader_.wire_type() == type) return;
    throw Error(ErrorCode::bad_input, fmt::format("field {} of {} is not {}", reader_.tag(), what_, expected));
  }

  protozero::pbf_reader reader_;
  const char* what_;
};

}  // namespace pycandle::onnx
