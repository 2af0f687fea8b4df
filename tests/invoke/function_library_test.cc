#include "src/invoke/function/function_library.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"

namespace invoker {
namespace {

const char kDirectory[] = "tests/functions/";

std::string Library(const std::string& name) { return kDirectory + name; }

// Loads, which must fail, and returns the error.
absl::Status LoadError(const std::string& path) {
  auto library = FunctionLibrary::Load(path);
  if (library.ok()) return absl::OkStatus();
  return library.status();
}

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& part : parts) {
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << part << " is not in: " << status;
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::string WriteFile(const std::string& name, const std::string& contents) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
  return path;
}

// Runs a function of a registry and returns its answer, or its error in brackets.
std::string Call(const FunctionRegistry& registry, const std::string& name,
                 const std::string& input, std::size_t capacity = 256) {
  const auto id = registry.FindId(name);
  if (!id.has_value()) return "(not registered)";
  std::vector<std::uint8_t> in(input.begin(), input.end()), out(capacity + 1);
  in.push_back(0);
  char error[256];
  const CallOutcome outcome =
      RunFunction(*registry.Find(*id), absl::MakeConstSpan(in).first(input.size()),
                  absl::MakeSpan(out).first(capacity), absl::MakeSpan(error));
  switch (outcome.kind) {
    case CallOutcome::Kind::kOk:
      return std::string(out.begin(), out.begin() + static_cast<long>(outcome.output_size));
    case CallOutcome::Kind::kOutputTooSmall:
      return "(needs " + std::to_string(outcome.output_needed) + ")";
    case CallOutcome::Kind::kFailed:
    case CallOutcome::Kind::kDeferred:
    case CallOutcome::Kind::kNoRoom:
      break;
  }
  return "(" + std::to_string(outcome.code) + ": " + error + ")";
}

TEST(FunctionLibraryTest, CppLibraryOfSeveralFilesLoads) {
  auto library = FunctionLibrary::Load(Library("test_functions.so"));
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ((*library)->name(), Library("test_functions.so"));
  FunctionRegistry registry;
  ASSERT_TRUE((*library)->RegisterAll(&registry).ok());
  EXPECT_EQ(registry.size(), (*library)->functions().size());
  EXPECT_EQ(registry.Find(0)->library, Library("test_functions.so"));

  EXPECT_EQ(Call(registry, "test.echo", "hello"), "hello");
  EXPECT_EQ(Call(registry, "test.twice", "hello", 9), "(needs 10)");
  EXPECT_EQ(Call(registry, "test.fail", "as told"), "(-1: as told)");
  EXPECT_EQ(Call(registry, "test.throw", "thrown"), "(-1: thrown)");
  EXPECT_NE(Call(registry, "test.throw_int", ""), "");
  EXPECT_EQ(Call(registry, "test.fail_with_code", std::string("\x18\xFC\xFF\xFF", 4) + "coded"),
            "(-1000: coded)");
  EXPECT_EQ(Call(registry, "test.too_small", "", 10), "(needs 11)");
  EXPECT_EQ(Call(registry, "test.sleep", std::string("\1\0\0\0", 4)), "");
}

TEST(FunctionLibraryTest, TestFunctionsComputeWhatTheirCommentsSay) {
  auto library = FunctionLibrary::Load(Library("test_functions.so"));
  ASSERT_TRUE(library.ok()) << library.status();
  FunctionRegistry registry;
  ASSERT_TRUE((*library)->RegisterAll(&registry).ok());
  // The FNV-1a hash of "a" and splitmix64's first value from seed 0, from their specifications.
  EXPECT_EQ(Call(registry, "test.checksum", "a"),
            std::string("\x61\0\0\0\0\0\0\0\x8c\xec\x01\x86\x4c\xdc\x63\xaf", 16));
  const std::string five_bytes("\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
  EXPECT_EQ(Call(registry, "test.fill", five_bytes), "\xAF\xCD\x1D\x7B\x39");
  EXPECT_EQ(Call(registry, "test.fill", five_bytes, 4), "(needs 5)");
}

TEST(FunctionLibraryTest, BrokenContractsAreNoticed) {
  auto library = FunctionLibrary::Load(Library("test_functions.so"));
  ASSERT_TRUE(library.ok()) << library.status();
  FunctionRegistry registry;
  ASSERT_TRUE((*library)->RegisterAll(&registry).ok());
  EXPECT_TRUE(absl::StrContains(Call(registry, "broken.overclaim", "", 7), "claims"));
  EXPECT_TRUE(absl::StrContains(Call(registry, "broken.reserved_code", ""), "-500"));
  EXPECT_TRUE(absl::StrContains(Call(registry, "broken.too_small_without_size", ""), "needs 0"));
  EXPECT_TRUE(absl::StrContains(Call(registry, "broken.silent", ""), "without a message"));
  EXPECT_EQ(Call(registry, "broken.unterminated", ""), "(-1: " + std::string(255, 'x') + ")");
  EXPECT_TRUE(absl::StrContains(Call(registry, "broken.throw_through", ""), "not caught"));
}

TEST(FunctionLibraryTest, CLibraryLoads) {
  auto library = FunctionLibrary::Load(Library("c_functions.so"));
  ASSERT_TRUE(library.ok()) << library.status();
  FunctionRegistry registry;
  ASSERT_TRUE((*library)->RegisterAll(&registry).ok());
  EXPECT_EQ(Call(registry, "c.reverse", "abc"), "cba");
  EXPECT_EQ(Call(registry, "c.reverse", "abc", 2), "(needs 3)");
  EXPECT_EQ(Call(registry, "c.refuse", "abc"), "(-1007: refused 3 bytes)");
  EXPECT_EQ(Call(registry, "c.greet.en", ""), "hello");
  EXPECT_EQ(Call(registry, "c.greet.de", ""), "hallo");
  EXPECT_EQ((*library)->functions()[0].doc, "the input's bytes in the opposite order");
  EXPECT_EQ((*library)->functions()[1].doc, "");
}

// A copy is another library to the loader: if the lists of functions were shared, the second one
// would show the functions of both.
TEST(FunctionLibraryTest, LibrariesLoadedAtTheSameTimeDoNotShareTheirLists) {
  const std::string copy = WriteFile("copy.so", ReadFile(Library("test_functions.so")));
  auto first = FunctionLibrary::Load(Library("test_functions.so"));
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = FunctionLibrary::Load(copy);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ((*first)->functions().size(), (*second)->functions().size());
  for (std::size_t i = 0; i < (*first)->functions().size(); ++i) {
    EXPECT_EQ((*first)->functions()[i].name, (*second)->functions()[i].name);
    EXPECT_NE((*first)->functions()[i].function, (*second)->functions()[i].function);
  }
}

TEST(FunctionLibraryTest, RegisterAllAddsAllOrNothing) {
  const std::string copy = WriteFile("twin.so", ReadFile(Library("c_functions.so")));
  auto first = FunctionLibrary::Load(Library("c_functions.so"));
  auto second = FunctionLibrary::Load(copy);
  ASSERT_TRUE(first.ok() && second.ok());
  FunctionRegistry registry;
  FunctionEntry taken = (*second)->functions().back();
  taken.library = "elsewhere.so";
  ASSERT_TRUE(registry.Add(taken).ok());
  ExpectError((*first)->RegisterAll(&registry), absl::StatusCode::kAlreadyExists,
              {taken.name, "elsewhere.so", "c_functions.so"});
  EXPECT_EQ(registry.size(), 1u);
}

TEST(FunctionLibraryTest, LibraryCanBeUnloadedAndLoadedAgain) {
  for (int round = 0; round < 3; ++round) {
    auto library = FunctionLibrary::Load(Library("test_functions.so"));
    ASSERT_TRUE(library.ok()) << library.status();
    EXPECT_EQ((*library)->functions().size(), 17u);
  }
}

TEST(FunctionLibraryTest, MissingFileIsNotFound) {
  ExpectError(LoadError("tests/functions/missing.so"), absl::StatusCode::kNotFound,
              {"tests/functions/missing.so", "No such file"});
  ExpectError(LoadError(Library("test_functions.so") + "/x.so"), absl::StatusCode::kNotFound,
              {"Not a directory"});
  ExpectError(LoadError(""), absl::StatusCode::kInvalidArgument, {"empty"});
}

TEST(FunctionLibraryTest, PathWithoutSlashIsInTheCurrentDirectoryOnly) {
  // The dynamic loader would find this one.
  ExpectError(LoadError("libc.so.6"), absl::StatusCode::kNotFound, {"./libc.so.6"});

  char* before = get_current_dir_name();
  const absl::Cleanup back = [before] {
    EXPECT_EQ(chdir(before), 0);
    std::free(before);
  };
  ASSERT_EQ(chdir(kDirectory), 0);
  auto library = FunctionLibrary::Load("c_functions.so");
  EXPECT_TRUE(library.ok()) << library.status();
}

TEST(FunctionLibraryTest, DirectoryIsRefused) {
  ExpectError(LoadError("tests/functions"), absl::StatusCode::kInvalidArgument, {"is a directory"});
}

TEST(FunctionLibraryTest, PipeIsRefusedInsteadOfWaitedFor) {
  const std::string path = ::testing::TempDir() + "/pipe.so";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ExpectError(LoadError(path), absl::StatusCode::kInvalidArgument, {"not a regular file"});
  unlink(path.c_str());
}

TEST(FunctionLibraryTest, UnreadableFileIsPermissionDenied) {
  const std::string path = WriteFile("unreadable.so", ReadFile(Library("c_functions.so")));
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Root reads everything, so be nobody meanwhile.
  const bool root = geteuid() == 0;
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const absl::Status status = LoadError(path);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  ExpectError(status, absl::StatusCode::kPermissionDenied, {"Permission denied"});
}

TEST(FunctionLibraryTest, FilesThatAreNoSharedLibrariesAreRefused) {
  ExpectError(LoadError(WriteFile("empty.so", "")), absl::StatusCode::kInvalidArgument,
              {"not a shared library"});
  ExpectError(LoadError(WriteFile("text.so", "#!/bin/sh\necho this is no library at all\n")),
              absl::StatusCode::kInvalidArgument, {"not a shared library", "-shared"});
}

TEST(FunctionLibraryTest, LibrariesForOtherMachinesAreRefused) {
  const std::string good = ReadFile(Library("c_functions.so"));
  std::string narrow = good;
  narrow[4] = 1;  // EI_CLASS: ELFCLASS32
  ExpectError(LoadError(WriteFile("narrow.so", narrow)), absl::StatusCode::kInvalidArgument,
              {"32-bit"});
  std::string other = good;
  other[18] = 8;  // e_machine: EM_MIPS
  ExpectError(LoadError(WriteFile("mips.so", other)), absl::StatusCode::kInvalidArgument,
              {"another processor", "ELF machine 8"});
  std::string object = good;
  object[16] = 1;  // e_type: ET_REL
  ExpectError(LoadError(WriteFile("object.so", object)), absl::StatusCode::kInvalidArgument,
              {"not a shared library", "-shared"});
}

TEST(FunctionLibraryTest, TruncatedLibraryIsRefused) {
  const std::string good = ReadFile(Library("c_functions.so"));
  ExpectError(LoadError(WriteFile("cut20.so", good.substr(0, 20))),
              absl::StatusCode::kInvalidArgument, {"truncated"});
  ExpectError(LoadError(WriteFile("cut80.so", good.substr(0, 80))),
              absl::StatusCode::kFailedPrecondition, {"cannot load"});
}

TEST(FunctionLibraryTest, UnresolvedSymbolIsNamed) {
  ExpectError(LoadError(Library("unresolved_symbol.so")), absl::StatusCode::kFailedPrecondition,
              {"undefined symbol: invoker_test_symbol_that_nobody_defines", "link it with"});
}

TEST(FunctionLibraryTest, MissingEntryPointSaysHowToAddIt) {
  ExpectError(LoadError(Library("no_entry_point.so")), absl::StatusCode::kFailedPrecondition,
              {"no_entry_point.so", "invoker_get_module", "INVOKER_FUNCTION"});
}

TEST(FunctionLibraryTest, OtherAbiVersionIsRefusedWithBothVersions) {
  ExpectError(LoadError(Library("wrong_abi.so")), absl::StatusCode::kFailedPrecondition,
              {"version 42", "version 1"});
}

TEST(FunctionLibraryTest, EmptyTableIsRefused) {
  ExpectError(LoadError(Library("empty_module.so")), absl::StatusCode::kInvalidArgument,
              {"no functions"});
}

TEST(FunctionLibraryTest, DuplicateNameWithinALibraryIsRefused) {
  ExpectError(LoadError(Library("duplicate_names.so")), absl::StatusCode::kInvalidArgument,
              {"\"twin\" twice"});
}

TEST(FunctionLibraryTest, MoreSaidOfAFunctionThatIsNotThereYetIsRefused) {
  ExpectError(LoadError(Library("named_before.so")), absl::StatusCode::kInvalidArgument,
              {"\"later\"", "INVOKER_CONCURRENCY", "nothing before that defines it"});
}

TEST(FunctionLibraryTest, BadNameIsRefusedAndPrintedSafely) {
  ExpectError(LoadError(Library("bad_name.so")), absl::StatusCode::kInvalidArgument,
              {"no spaces\\n", "bad_name.so"});
}

}  // namespace
}  // namespace invoker
