// The bytes of every type that travels: docs/reference/typed_calls.md has the table.

#include "invoker/values.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tests/invoke/values_test.pb.h"

namespace values_test {

struct Sample {
  bool valid[2];
  int32_t id;
  double weight;
};
INVOKER_STRUCT(Sample, valid, id, weight);

struct Wide {
  int8_t a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
};
INVOKER_STRUCT(Wide, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);

}  // namespace values_test

namespace invoker {
namespace {

using values_test::Sample;
using values_test::Wide;

template <typename T>
std::string Written(const T& value) {
  // What a writer leaves alone shows.
  std::string bytes(Value<T>::Size(value), '\xaa');
  auto* const begin = reinterpret_cast<std::byte*>(bytes.data());
  EXPECT_EQ(Value<T>::Write(value, begin), begin + bytes.size());
  return bytes;
}

// Bytes in hexadecimal, with blanks.
std::string Hex(absl::string_view digits) {
  return absl::HexStringToBytes(absl::StrReplaceAll(digits, {{" ", ""}}));
}

template <typename T>
std::optional<T> ReadAll(const std::string& bytes) {
  // The worker has them so, too: at a multiple of 8.
  std::vector<uint64_t> words(bytes.size() / 8 + 1);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(words.data()));
  ValueReader reader(words.data(), bytes.size());
  T value = T();
  if (!Value<T>::Read(&reader, &value) || reader.left() != 0) return std::nullopt;
  return value;
}

// The value has this type and these bytes, which are read as something with the same bytes; and no
// beginning of them is a value.
template <typename T>
void ExpectBytes(const T& value, const std::string& name, absl::string_view digits) {
  SCOPED_TRACE(name);
  EXPECT_EQ(Value<T>::Name(), name);
  const std::string bytes = Hex(digits);
  EXPECT_EQ(absl::BytesToHexString(Written(value)), absl::BytesToHexString(bytes));
  if constexpr (!Value<T>::kIsView) {
    const std::optional<T> read = ReadAll<T>(bytes);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(Written(*read), bytes);
  }
  for (size_t size = 0; size < bytes.size(); size += 8) {
    EXPECT_FALSE(ReadAll<T>(bytes.substr(0, size)).has_value()) << size;
  }
}

TEST(ValuesTest, Numbers) {
  ExpectBytes(true, "bool", "01 00000000000000");
  ExpectBytes(int8_t{-2}, "i8", "fe 00000000000000");
  ExpectBytes(int16_t{-2}, "i16", "feff 000000000000");
  ExpectBytes(int32_t{-2}, "i32", "feffffff 00000000");
  ExpectBytes(int64_t{-2}, "i64", "feffffff ffffffff");
  ExpectBytes(uint8_t{200}, "u8", "c8 00000000000000");
  ExpectBytes(uint16_t{0x1234}, "u16", "3412 000000000000");
  ExpectBytes(uint32_t{0x12345678}, "u32", "78563412 00000000");
  ExpectBytes(uint64_t{1} << 63, "u64", "0000000000000080");
  ExpectBytes(1.5f, "f32", "0000c03f 00000000");
  ExpectBytes(-2.0, "f64", "00000000000000c0");
  ExpectBytes(std::complex<float>(1, 2), "c64", "0000803f 00000040");
  ExpectBytes(std::complex<double>(1, 2), "c128", "000000000000f03f 0000000000000040");
}

TEST(ValuesTest, TextAndBytes) {
  ExpectBytes(std::string("abc"), "str", "0300000000000000 616263 0000000000");
  ExpectBytes(std::string_view("12345678"), "str", "0800000000000000 3132333435363738");
  ExpectBytes(std::string(), "str", "0000000000000000");
  ExpectBytes(std::vector<std::byte>{std::byte{7}}, "bytes", "0100000000000000 07 00000000000000");
}

TEST(ValuesTest, Arrays) {
  const std::vector<int16_t> numbers = {1, 2, 3, 4, 5, 6};
  ExpectBytes(std::vector<int16_t>{1, 2}, "i16[:]", "0200000000000000 01000200 00000000");
  ExpectBytes(absl::Span<const int16_t>(numbers.data(), 1), "i16[:]",
              "0100000000000000 0100 000000000000");
  ExpectBytes(ArrayView<const int16_t, 2>(numbers.data(), {2, 3}), "i16[:, :]",
              "0200000000000000 0300000000000000 0100020003000400 05000600 00000000");
  ExpectBytes(ArrayView<const int16_t, 2>(numbers.data(), {0, 3}), "i16[:, :]",
              "0000000000000000 0300000000000000");
}

TEST(ValuesTest, Structs) {
  const Sample sample = {{true, false}, 5, 1.0};
  EXPECT_EQ(Value<Sample>::Name(), "{valid: bool[2], id: i32, weight: f64}");
  const std::string bytes = Written(sample);
  ASSERT_EQ(bytes.size(), sizeof(Sample));
  EXPECT_EQ(ReadAll<Sample>(bytes)->id, 5);
  EXPECT_EQ(ReadAll<std::vector<Sample>>(Written(std::vector<Sample>(3, sample)))->size(), 3u);
  ExpectBytes(Wide{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
              "{a: i8, b: i8, c: i8, d: i8, e: i8, f: i8, g: i8, h: i8, i: i8, j: i8, k: i8, "
              "l: i8, m: i8, n: i8, o: i8, p: i8}",
              "0102030405060708 090a0b0c0d0e0f10");
}

TEST(ValuesTest, ValuesOfValues) {
  ExpectBytes(std::vector<std::string>{"a", ""}, "list[str]",
              "0200000000000000 0100000000000000 6100000000000000 0000000000000000");
  ExpectBytes(std::vector<std::vector<std::string>>{{"a"}, {}}, "list[list[str]]",
              "0200000000000000 0100000000000000 0100000000000000 6100000000000000 "
              "0000000000000000");
  ExpectBytes(std::optional<int32_t>(7), "optional[i32]", "0100000000000000 07000000 00000000");
  ExpectBytes(std::optional<std::vector<double>>(), "optional[f64[:]]", "0000000000000000");
  ExpectBytes(std::optional<std::vector<double>>(std::in_place), "optional[f64[:]]",
              "0100000000000000 0000000000000000");
  ExpectBytes(std::tuple(true, std::string("b")), "(bool, str)",
              "0100000000000000 0100000000000000 6200000000000000");
}

TEST(ValuesTest, Messages) {
  values_test::Note note;
  note.set_text("hi");
  ExpectBytes(note, "protobuf[values_test.Note]", "0400000000000000 0a026869 00000000");
  // The message's own bytes end within its text.
  EXPECT_FALSE(ReadAll<values_test::Note>(Hex("0300000000000000 0a0268 0000000000")).has_value());
}

// The bytes are a peer's, and C++ knows no other bool.
TEST(ValuesTest, ABoolIsZeroOrOne) {
  EXPECT_FALSE(ReadAll<bool>(Hex("0200000000000000")).has_value());
  using Flags = ArrayView<const bool>;
  EXPECT_TRUE(ReadAll<Flags>(Hex("0200000000000000 0100000000000000")).has_value());
  EXPECT_FALSE(ReadAll<Flags>(Hex("0200000000000000 0102000000000000")).has_value());
  EXPECT_FALSE(
      ReadAll<std::optional<Flags>>(Hex("0100000000000000 0200000000000000 01ff000000000000"))
          .has_value());
  std::vector<Sample> samples(2, Sample{{true, false}, 5, 1.0});
  std::string bytes = Written(samples);
  bytes[8 + sizeof(Sample) + 1] = 2;
  EXPECT_FALSE(ReadAll<std::vector<Sample>>(bytes).has_value());
  std::string one = Written(samples[0]);
  one[0] = 3;
  EXPECT_FALSE(ReadAll<Sample>(one).has_value());
}

}  // namespace
}  // namespace invoker
