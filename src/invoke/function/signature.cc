#include "src/invoke/function/signature.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace invoker {
namespace {

using Kind = ValueType::Kind;

constexpr int kDeepest = 16;
constexpr uint32_t kMostDimensions = 8;
constexpr uint32_t kMostExtent = 1 << 16;

struct Number {
  absl::string_view name;
  uint32_t size;
  uint32_t alignment;
};

constexpr Number kNumbers[] = {
    {"bool", 1, 1}, {"i8", 1, 1},  {"i16", 2, 2}, {"i32", 4, 4},   {"i64", 8, 8},
    {"u8", 1, 1},   {"u16", 2, 2}, {"u32", 4, 4}, {"u64", 8, 8},   {"f16", 2, 2},
    {"f32", 4, 4},  {"f64", 8, 8}, {"c64", 8, 4}, {"c128", 16, 8},
};

uint32_t AlignUp(uint32_t value, uint32_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.'; }

// Reads one text from its beginning to its end. After the first error nothing is read any more.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Signature> Run() {
    Signature signature;
    if (text_.size() > Signature::kMostBytes) {
      return absl::InvalidArgumentError(absl::StrCat("a signature of ", text_.size(),
                                                     " bytes is too long: ", Signature::kMostBytes,
                                                     " are the most"));
    }
    Expect("(");
    signature.parameters = Types(")", 0);
    Expect("->");
    if (Skip(); text_.substr(at_, 4) == "None") {
      at_ += 4;
    } else {
      signature.result = Type(0);
    }
    if (Skip(); at_ != text_.size()) Fail("nothing more");
    if (error_.empty()) return signature;
    return absl::InvalidArgumentError(absl::StrCat(
        "the signature \"", absl::CHexEscape(text_), "\" is not one: expected ", error_,
        " at character ", error_at_ + 1, "; an example is \"(f64[:, :], str) -> f64[:]\""));
  }

 private:
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Fail(absl::string_view expected) {
    if (error_.empty()) {
      error_ = std::string(expected);
      error_at_ = at_;
    }
    return false;
  }
  bool Accept(absl::string_view token) {
    Skip();
    if (!error_.empty() || text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool Expect(absl::string_view token) {
    return Accept(token) || Fail(absl::StrCat("\"", token, "\""));
  }
  absl::string_view Word() {
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Types with commas between them, up to `end`. A comma may follow the last.
  std::vector<ValueType> Types(absl::string_view end, int depth) {
    std::vector<ValueType> types;
    while (error_.empty() && !Accept(end)) {
      types.push_back(Type(depth + 1));
      if (!Accept(",")) {
        Expect(end);
        break;
      }
    }
    return types;
  }

  ValueType Type(int depth) {
    ValueType type;
    if (depth > kDeepest) {
      Fail("fewer types inside one another");
      return type;
    }
    if (Accept("(")) {
      type.kind = Kind::kTuple;
      type.parts = Types(")", depth);
      return type;
    }
    if (Accept("{")) {
      Fields(&type);
      return Accept("[") ? Array(std::move(type)) : type;
    }
    const size_t begin = at_;
    const absl::string_view word = Word();
    if (word == "str" || word == "bytes") {
      type.kind = word == "str" ? Kind::kText : Kind::kBytes;
    } else if (word == "list" || word == "optional") {
      type.kind = word == "list" ? Kind::kList : Kind::kOptional;
      if (Expect("[")) type.parts.push_back(Type(depth + 1));
      Expect("]");
    } else if (word == "protobuf") {
      type.kind = Kind::kMessage;
      if (Expect("[")) type.name = std::string(Word());
      if (type.name.empty()) Fail("the full name of a message");
      Expect("]");
    } else if (SetNumber(word, &type)) {
      if (Accept("[")) return Array(std::move(type));
    } else {
      at_ = begin;
      Fail("a type, such as f64, i32[:], str, bytes, list[str] or protobuf[full.name]");
    }
    return type;
  }

  static bool SetNumber(absl::string_view word, ValueType* type) {
    for (const Number& number : kNumbers) {
      if (number.name != word) continue;
      type->kind = Kind::kNumber;
      type->name = std::string(word);
      type->size = number.size;
      type->alignment = number.alignment;
      return true;
    }
    return false;
  }

  // After "[".
  ValueType Array(ValueType element) {
    ValueType array;
    array.kind = Kind::kArray;
    do {
      Expect(":");
      ++array.dimensions;
    } while (error_.empty() && Accept(","));
    Expect("]");
    if (array.dimensions > kMostDimensions) Fail("at most 8 dimensions");
    array.parts.push_back(std::move(element));
    return array;
  }

  // After "{".
  void Fields(ValueType* type) {
    type->kind = Kind::kStruct;
    type->alignment = 1;
    do {
      ValueType field;
      const absl::string_view name = Word();
      if (name.empty() || name.find('.') != absl::string_view::npos) Fail("the name of a field");
      Expect(":");
      if (!SetNumber(Word(), &field)) Fail("a number's type, such as f64");
      if (Accept("[")) {
        if (!absl::SimpleAtoi(Word(), &field.extent) || field.extent == 0 ||
            field.extent > kMostExtent) {
          Fail("how many numbers the field has, up to 65536");
        }
        Expect("]");
      }
      if (!error_.empty()) return;
      field.field = std::string(name);
      const bool twice = std::any_of(type->parts.begin(), type->parts.end(),
                                     [&](const ValueType& other) { return other.field == name; });
      if (twice) Fail("a field of another name");
      field.offset = AlignUp(type->size, field.alignment);
      type->size = field.offset + field.size * std::max(field.extent, 1u);
      type->alignment = std::max(type->alignment, field.alignment);
      type->parts.push_back(std::move(field));
    } while (Accept(","));
    Expect("}");
    type->size = AlignUp(type->size, type->alignment);
  }

  const absl::string_view text_;
  size_t at_ = 0;
  std::string error_;  // what was expected first and not there
  size_t error_at_ = 0;
};

std::string NamesOf(const std::vector<ValueType>& types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const ValueType& type) {
    absl::StrAppend(out, type.ToString());
  });
}

}  // namespace

std::string ValueType::ToString() const {
  switch (kind) {
    case Kind::kNone:
      return "None";
    case Kind::kNumber:
      return name;
    case Kind::kText:
      return "str";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return absl::StrCat("list[", parts.front().ToString(), "]");
    case Kind::kOptional:
      return absl::StrCat("optional[", parts.front().ToString(), "]");
    case Kind::kTuple:
      return absl::StrCat("(", NamesOf(parts), parts.size() == 1 ? ",)" : ")");
    case Kind::kMessage:
      return absl::StrCat("protobuf[", name, "]");
    case Kind::kStruct:
      return absl::StrCat("{",
                          absl::StrJoin(parts, ", ",
                                        [](std::string* out, const auto& part) {
                                          absl::StrAppend(out, part.field, ": ", part.name);
                                          if (part.extent != 0)
                                            absl::StrAppend(out, "[", part.extent, "]");
                                        }),
                          "}");
    case Kind::kArray: {
      std::string text = absl::StrCat(parts.front().ToString(), "[:");
      for (uint32_t i = 1; i < dimensions; ++i) absl::StrAppend(&text, ", :");
      return absl::StrCat(text, "]");
    }
  }
  return "";
}

absl::StatusOr<Signature> Signature::Parse(absl::string_view text) { return Parser(text).Run(); }

std::string Signature::ToString() const {
  return absl::StrCat("(", NamesOf(parameters), ") -> ", result.ToString());
}

}  // namespace invoker
