// Files, JSON and safetensors: what comes from outside.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "base/safetensors_stream.h"
#include "error_of.h"
#include "temporary_folder.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }

 private:
  TemporaryFolder made_;

 protected:
  const fs::path& folder_ = made_.path();
};

using Files = Folder;

TEST_F(Files, AreReadAsTheyWereWritten) {
  const fs::path path = folder_ / "a.txt";
  const std::string text("one\0two\n", 8);
  write_text(path, text);
  EXPECT_EQ(read_text(path), text);
  write_text(path, "");
  EXPECT_EQ(read_text(path), "");
  EXPECT_EQ(MappedFile::open(path)->size(), 0u);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, ThatCannotBeReadNameThePathAndTheReason) {
  const Error missing = error_of([&] { MappedFile::open(folder_ / "none.json"); });
  EXPECT_EQ(missing.code(), ErrorCode::bad_input);
  EXPECT_NE(missing.message().find("none.json: No such file or directory"), std::string::npos) << missing.message();
  EXPECT_NE(error_of([&] { MappedFile::open(folder_); }).message().find("Is a directory"), std::string::npos);
  EXPECT_EQ(error_of([&] { MappedFile::open("/dev/zero"); }).code(), ErrorCode::bad_input);
  write_text(folder_ / "big", "12345");
  EXPECT_EQ(error_of([&] { read_text(folder_ / "big", 4); }).expected(), "at most 4 bytes");
}

TEST_F(Files, AppearWholeOrNotAtAll) {
  const fs::path path = folder_ / "a.txt";
  write_text(path, "old");
  {
    AtomicFile file(path);
    file.write("half of the ne");
    EXPECT_EQ(read_text(path), "old");
  }
  EXPECT_EQ(read_text(path), "old");
  EXPECT_EQ(entries(), 1u);
  {
    AtomicFile first(path), second(path);
    first.write("first");
    second.write("second");
    second.commit();
    first.commit();
    EXPECT_THROW(first.write("more"), Error);
  }
  EXPECT_EQ(read_text(path), "first");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, APipeIsWrittenAndNotReplaced) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int pipe = ::open(path.c_str(), O_RDWR | O_NONBLOCK);
  write_text(path, "some text");
  std::array<char, 64> read{};
  EXPECT_EQ(::read(pipe, read.data(), read.size()), 9);
  EXPECT_STREQ(read.data(), "some text");
  SafetensorsWriter weights(path, {{"w", DType::i8, {3}}}, {});
  weights.write("abc", 3);
  weights.finish();
  weights.commit();
  EXPECT_GT(::read(pipe, read.data(), read.size()), 8);
  ::close(pipe);
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, InFoldersThatCannotBeWrittenAreClearErrors) {
  const Error missing = error_of([&] { write_text(folder_ / "no" / "a.txt", "x"); });
  EXPECT_EQ(missing.code(), ErrorCode::bad_input);
  EXPECT_NE(missing.message().find("a.txt: No such file or directory"), std::string::npos) << missing.message();
  // A folder under a file, and one nobody may write to (root included).
  write_text(folder_ / "file", "x");
  EXPECT_NE(error_of([&] { write_text(folder_ / "file" / "a.txt", "x"); }).message().find("Not a directory"), std::string::npos);
  EXPECT_EQ(error_of([&] { write_text("/proc/a.txt", "x"); }).code(), ErrorCode::bad_input);
  // A target that is a folder: nothing is left behind.
  fs::create_directory(folder_ / "target");
  EXPECT_NE(error_of([&] { write_text(folder_ / "target", "x"); }).message().find("Is a directory"), std::string::npos);
  EXPECT_EQ(entries(), 2u);
}

// ---- JSON

TEST(JsonTexts, KeepTheOrderOfKeysAndTheKindsOfNumbers) {
  const Json j = parse_json(R"( {"b": [1, -2, 1.5, 1.0, true, null, "é\n"], "a": {"x": {}, "y": []}} )", "test");
  EXPECT_EQ(j.dump(), R"({"b":[1,-2,1.5,1.0,true,null,"é\n"],"a":{"x":{},"y":[]}})");
  EXPECT_TRUE(j["b"][0].is_number_integer() && !j["b"][3].is_number_integer());
  EXPECT_EQ(parse_json("18446744073709551615", "test").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("\"x\"", "test").get<std::string>(), "x");
}

TEST(JsonTexts, ThatAreHostileAreRefused) {
  const std::string deep = std::string(100000, '[');
  const std::string deep_objects = [] {
    std::string s;
    for (int i = 0; i < 70; ++i) s += "{\"a\":";
    return s;
  }();
  std::string many = "{";  // many keys, the last one twice
  for (int i = 0; i < 1000; ++i) many += "\"k" + std::to_string(i) + "\":1,";
  many += "\"k500\":2}";
  for (const std::string& text : {std::string(),
                                  std::string(" "),
                                  std::string("{"),
                                  std::string("[1,]"),
                                  std::string("{\"a\":1,}"),
                                  std::string("[1] 2"),
                                  std::string("[1]]"),
                                  std::string("NaN"),
                                  std::string("[Infinity]"),
                                  std::string("[-Infinity]"),
                                  std::string("[1e999]"),
                                  std::string("[01]"),
                                  std::string("[1.]"),
                                  std::string("'a'"),
                                  std::string("{a:1}"),
                                  std::string("// c\n1"),
                                  std::string("\"\xff\""),
                                  std::string("\"\\ud800\""),
                                  std::string("\"a\nb\""),
                                  std::string("[\"a"),
                                  std::string("[1]\0", 4),
                                  std::string("{\"a\":1,\"a\":1}"),
                                  std::string("[{\"a\":{\"b\":1,\"c\":2,\"b\":3}}]"),
                                  deep,
                                  deep_objects,
                                  many}) {
    const Error error = error_of([&] { parse_json(text, "manifest m.json"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << text.substr(0, 50);
    EXPECT_NE(error.message().find("manifest m.json"), std::string::npos);
    EXPECT_NE(error.found().find("byte "), std::string::npos) << error.found();
    EXPECT_LT(error.text().size(), 500u);
  }
}

TEST(JsonTexts, ErrorsSayWhere) {
  EXPECT_NE(error_of([] { parse_json("[1, 2, x]", "t"); }).found().find("line 1, column 8"), std::string::npos);
  EXPECT_NE(error_of([] { parse_json(R"({"key": 1, "key": 2} )", "t"); }).found().find("the key \"key\" stands twice"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_json("[[[]]]", "t", 2); }).found().find("more than 2 levels deep (byte 3 of 6)"),
            std::string::npos);
  EXPECT_NO_THROW(parse_json("[[[]]]", "t", 3));
}

// ---- safetensors

Safetensors parse_bytes(const std::string& bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  const auto owner = std::make_shared<std::vector<std::byte>>(begin, begin + bytes.size());
  const std::byte* data = owner->data();
  return Safetensors::parse(data, bytes.size(), owner, "test.safetensors");
}

std::string file_of(const std::string& header, const std::string& data, uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(length >> (8 * i));
  return out + header + data;
}
std::string file_of(const std::string& header, const std::string& data = "") { return file_of(header, data, header.size()); }

using SafetensorsFiles = Folder;

TEST_F(SafetensorsFiles, HoldEveryDType) {
  std::map<std::string, Array> arrays;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto d = static_cast<DType>(i);
    arrays.emplace("t." + std::string(name_of(d)), store(d, {3, 1}, std::vector<double>{0, 1, 1}));
  }
  arrays.emplace("empty", Array(DType::f32, {0, 4}));
  arrays.emplace("scalar", Array::scalar(DType::f16, 0.5));
  arrays.emplace("odd \"name\" é", Array(DType::i8, {1}));
  const fs::path path = folder_ / "a.safetensors";
  write_safetensors(path, arrays, {{"format", "pt"}, {"note", "a\nb"}});

  const Safetensors file = Safetensors::open(path);
  EXPECT_EQ(file.entries().size(), arrays.size());
  EXPECT_EQ(file.metadata().at("note"), "a\nb");
  for (const auto& [name, array] : arrays) {
    EXPECT_TRUE(file.get(name).same_bytes(array)) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.get(name).data()) % size_of(real_of(array.dtype())), 0u) << name;
  }
  EXPECT_FALSE(file.contains("other"));
  const Error error = error_of([&] { file.get("other"); });
  EXPECT_NE(error.message().find("'other' is not in the file"), std::string::npos);
  // The same again, byte for byte.
  write_safetensors(folder_ / "b.safetensors", arrays, {{"format", "pt"}, {"note", "a\nb"}});
  EXPECT_EQ(read_text(path), read_text(folder_ / "b.safetensors"));
}

TEST_F(SafetensorsFiles, AreWrittenAsTheirTensorsCome) {
  const fs::path path = folder_ / "a.safetensors";
  const std::string odd = "odd \"name\" é";
  const Array flags = store(DType::boolean, {3}, std::vector<double>{1, 0, 1}),
              x = store(DType::f32, {2}, std::vector<double>{1, 2});
  SafetensorsStream stream(path, {odd, "x", "never"});
  stream.add(odd, flags);
  stream.add("x", x);
  stream.add("x", flags);  // the first one counts
  EXPECT_THROW(Safetensors::open(path), Error) << "not yet finished";
  stream.finish();
  const Safetensors file = Safetensors::open(path);
  EXPECT_EQ(file.entries().size(), 2u);
  EXPECT_TRUE(file.get(odd).same_bytes(flags));
  EXPECT_TRUE(file.get("x").same_bytes(x)) << "though nothing aligns it";
}

TEST_F(SafetensorsFiles, OutliveTheirReader) {
  const fs::path path = folder_ / "a.safetensors";
  write_safetensors(path, {{"x", store(DType::f32, {2}, std::vector<double>{1, 2})}});
  const Array x = Safetensors::open(path).get("x");
  fs::remove(path);
  EXPECT_EQ(load_double(x), (std::vector<double>{1, 2}));
}

TEST_F(SafetensorsFiles, AreNotWrittenWithNamesNobodyCanRead) {
  EXPECT_THROW(write_safetensors(folder_ / "a", {{"__metadata__", Array()}}), Error);
  EXPECT_THROW(write_safetensors(folder_ / "a", {{"\xff", Array()}}), Error);
  EXPECT_EQ(entries(), 0u);
}

TEST(SafetensorsTexts, OfOtherWritersAreRead) {
  // Unaligned data (the header is not padded) and spaces after the header.
  const Safetensors file = parse_bytes(
      file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}  )",
              std::string("\7\0\0\200\77", 5)));
  EXPECT_EQ(load_int(file.get("a")), std::vector<int64_t>{7});
  EXPECT_EQ(load_double(file.get("b")), std::vector<double>{1});
  EXPECT_TRUE(parse_bytes(file_of("{}")).entries().empty());
  EXPECT_EQ(load_complex(parse_bytes(file_of(R"({"z":{"dtype":"C64","shape":[],"data_offsets":[0,8]}})",
                                             std::string("\0\0\200\77\0\0\0\100", 8)))
                             .get("z")),
            (std::vector<std::complex<double>>{{1, 2}}));
}

TEST(SafetensorsTexts, ThatAreHostileAreRefused) {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string good = tensor("\"F32\"", "[2]", "[0,8]");
  const std::string data(8, '\0');
  ASSERT_NO_THROW(parse_bytes(file_of(good, data)));
  std::string rank = "[1";
  for (int i = 0; i < 100; ++i) rank += ",1";
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"", "too short"},
      {"1234567", "too short"},
      {file_of(good, data, 1000), "longer than the file"},
      {file_of(good, data, 200'000'000), "too large"},
      {file_of(good, data, UINT64_MAX), "too large"},
      {file_of(good, data, good.size() - 1), "not JSON"},
      {file_of(good, data, 0), "not JSON"},
      {file_of("[]"), "not an object"},
      {file_of("{\"t\":1}"), "has no dtype"},
      {file_of("{\"t\":{}}"), "has no dtype"},
      {file_of(std::string(20, '[')), "not JSON"},
      {file_of(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "not JSON"},
      {file_of(tensor("\"F8_E3M4\"", "[8]", "[0,8]"), data), "'t' has a dtype that is not supported"},
      {file_of(tensor("\"f32\"", "[2]", "[0,8]"), data), "dtype that is not supported"},
      {file_of(tensor("4", "[2]", "[0,8]"), data), "dtype that is not supported"},
      {file_of(tensor("\"F32\"", "2", "[0,8]"), data), "not a list"},
      {file_of(tensor("\"F32\"", "[-2]", "[0,8]"), data), "bad shape"},
      {file_of(tensor("\"F32\"", "[2.0]", "[0,8]"), data), "bad shape"},
      {file_of(tensor("\"F32\"", "[\"2\"]", "[0,8]"), data), "bad shape"},
      {file_of(tensor("\"F32\"", "[18446744073709551615]", "[0,8]"), data), "bad shape"},
      {file_of(tensor("\"F32\"", "[4294967296,4294967296]", "[0,8]"), data), "too many elements"},
      {file_of(tensor("\"F32\"", "[4611686018427387906]", "[0,8]"), data), "too many elements"},
      {file_of(tensor("\"F32\"", "[0,9223372036854775807,2]", "[0,0]")), "too many elements"},
      {file_of(tensor("\"F32\"", rank + "]", "[0,4]"), data), "too many axes"},
      {file_of(tensor("\"F32\"", "[2]", "[0]"), data), "bad data_offsets"},
      {file_of(tensor("\"F32\"", "[2]", "[-8,0]"), data), "bad data_offsets"},
      {file_of(tensor("\"F32\"", "[2]", "[8,0]"), data), "ends before it begins"},
      {file_of(tensor("\"F32\"", "[2]", "[8,16]"), data), "outside the file"},
      {file_of(tensor("\"F32\"", "[2]", "[0,9223372036854775807]"), data), "outside the file"},
      {file_of(tensor("\"F32\"", "[2]", "[0,8]"), std::string(7, '\0')), "outside the file"},
      {file_of(tensor("\"F32\"", "[2]", "[0,4]"), data), "does not fit its dtype"},
      {file_of(tensor("\"F64\"", "[2]", "[0,8]"), data), "does not fit its dtype"},
      {file_of(good, data + "x"), "belong to no tensor"},
      {file_of(tensor("\"F32\"", "[1]", "[4,8]"), data), "leaves a hole"},
      {file_of(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
               data),
       "'b' overlaps"},
      {file_of(R"({"__metadata__":[]})"), "__metadata__ is not an object"},
      {file_of(R"({"__metadata__":{"a":1}})"), "'a' is not a string"},
  };
  for (const auto& [bytes, words] : cases) {
    const Error error = error_of([&] { parse_bytes(bytes); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(error.message().find(words), std::string::npos) << "expected " << words << ", got " << error.message();
    EXPECT_NE(error.message().find("test.safetensors"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace pycandle
