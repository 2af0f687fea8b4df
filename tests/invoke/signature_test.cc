// The texts of signatures, and what they say.

#include "src/invoke/function/signature.h"

#include <gmock/gmock.h>

#include <complex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "invoker/values.h"

namespace invoker {
namespace {

using ::testing::HasSubstr;

struct Mixed {
  int8_t tag;
  double position[3];
  float mass;
};
INVOKER_STRUCT(Mixed, tag, position, mass);

std::string Canonical(absl::string_view text) {
  const absl::StatusOr<Signature> signature = Signature::Parse(text);
  return signature.ok() ? signature->ToString() : std::string(signature.status().message());
}

TEST(SignatureTest, BlanksAndLastCommasDoNotCount) {
  EXPECT_EQ(Canonical("()->None"), "() -> None");
  EXPECT_EQ(Canonical(" ( f64[:,:] ,str, )  ->  f64[ : ] "), "(f64[:, :], str) -> f64[:]");
  EXPECT_EQ(Canonical("({a:i32,b:f64[3]}[:])->(bool,)"), "({a: i32, b: f64[3]}[:]) -> (bool,)");
  EXPECT_EQ(Canonical("(list[optional[(u8, bytes)]], protobuf[a.b.C]) -> c128"),
            "(list[optional[(u8, bytes)]], protobuf[a.b.C]) -> c128");
}

// The canonical text of a type of C++ is the one that values.h gives it.
TEST(SignatureTest, TypesOfCppHaveTheCanonicalNames) {
  using Parameters =
      std::tuple<bool, int8_t, uint64_t, float, std::complex<double>, std::string, Mixed,
                 std::vector<Mixed>, ArrayView<const double, 3>, std::vector<std::string>,
                 std::optional<std::tuple<int32_t>>, std::vector<std::byte>>;
  const std::string text = values_internal::SignatureOf<void, Parameters>();
  EXPECT_EQ(Canonical(text), text);
  const absl::StatusOr<Signature> signature = Signature::Parse(text);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->parameters[6].size, sizeof(Mixed));
  EXPECT_EQ(signature->parameters[6].parts[1].offset, offsetof(Mixed, position));
  EXPECT_EQ(signature->parameters[6].parts[2].offset, offsetof(Mixed, mass));
}

TEST(SignatureTest, WhatIsWrongIsSaidWithItsPlace) {
  for (const auto& [text, problem] : std::vector<std::pair<std::string, std::string>>{
           {"", "expected \"(\" at character 1"},
           {"(f64", "expected \")\" at character 5"},
           {"(f64) f64", "expected \"->\" at character 7"},
           {"(float) -> f64", "expected a type, such as f64"},
           {"(f64[]) -> f64", "expected \":\" at character 6"},
           {"(None) -> f64", "expected a type"},
           {"() -> f64 f64", "expected nothing more at character 11"},
           {"({a: str}) -> f64", "expected a number's type"},
           {"({a: i8, a: i8}) -> f64", "expected a field of another name"},
           {"({a: i8[0]}) -> f64", "expected how many numbers"},
           {"(f64[:, :, :, :, :, :, :, :, :]) -> f64", "expected at most 8 dimensions"},
           {"(protobuf[]) -> f64", "expected the full name of a message"},
           {std::string("(\0) -> f64", 10), "(\\x00) -> f64"},
       }) {
    const absl::Status status = Signature::Parse(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(status.message(), HasSubstr(problem)) << text;
  }
}

TEST(SignatureTest, DepthAndLengthAreBounded) {
  const auto nested = [](int depth) {
    std::string text = "(";
    for (int i = 0; i < depth; ++i) text += "list[";
    text += "i8" + std::string(static_cast<size_t>(depth), ']') + ") -> None";
    return Signature::Parse(text).status();
  };
  EXPECT_TRUE(nested(10).ok());
  EXPECT_THAT(nested(100).message(), HasSubstr("fewer types inside one another"));
  const std::string blanks(Signature::kMostBytes, ' ');
  EXPECT_THAT(Signature::Parse("()" + blanks + "-> None").status().message(),
              HasSubstr("too long"));
}

}  // namespace
}  // namespace invoker
