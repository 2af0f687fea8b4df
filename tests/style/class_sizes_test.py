"""That no class of src/ is too large, and that the rule finds one that is."""

import os
import pathlib

import class_sizes
import pytest

# The checkout itself: new files count, whatever Bazel was told of.
ROOT = pathlib.Path(os.path.realpath(class_sizes.__file__)).parents[2]


def test_the_tree_has_no_class_that_is_too_large():
    assert "\n".join(class_sizes.problems(ROOT / "src")) == ""


def test_finds_the_classes_of_the_tree():
    found = {}
    for path in (ROOT / "src/transport").rglob("*.h"):
        for name, plain, members in class_sizes.classes(path.read_text()):
            found[name] = (plain, members)
    assert len(found) > 60
    assert not found["Reactor"][0] and 10 < found["Reactor"][1] <= class_sizes.MAX_MEMBERS
    assert found["RetryQueue"] == (False, 3)
    assert found["ReactorCounters"] == (True, 11)


CLASS = """
// A comment; with a semicolon {
class ABSL_SCOPED_LOCKABLE Sample final : public Base,
                                          private Other<int> {
 public:
  Sample() : first_(1) {}
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;
  ~Sample() override;
  using Task = std::function<void(int)>;
  struct Part {
    int a = 0;
    int b = 0;
  };
  enum class Kind : uint8_t { kOne, kTwo };
  static constexpr int kMost = 3;
  template <typename T>
  bool Run(T run) const {
    int local = 0;
    return local == 0;
  }
  friend class Friend;
  virtual int Pure() = 0;
  int twice() const { return 2 * first_; }

 private:
  int first_ = 1;
  const std::function<void(int, char)> second_;
  std::map<int, std::vector<int>> third_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> fourth_{false};
  char fifth_[16] = {};
  const char* sixth_ = "a text; {";
  mutable absl::Mutex seventh_;
  struct Named* eighth_ = nullptr;
};
"""


def test_counts_data_members_and_nothing_else():
    assert list(class_sizes.classes(CLASS)) == [("Sample", False, 8), ("Part", True, 2)]


def tree(tmp_path, header, **sources):
    (tmp_path / "sample.h").write_text(header)
    for name, text in sources.items():
        (tmp_path / f"{name}.cc").write_text(text)
    return [problem for problem in class_sizes.problems(tmp_path) if "small enough" not in problem]


@pytest.mark.parametrize("members, large", [(20, False), (21, True)])
def test_finds_a_class_with_too_many_members(tmp_path, members, large):
    body = "".join(f"  int member{i}_;\n" for i in range(members))
    found = tree(tmp_path, f"class Sample {{\n private:\n{body}}};\n")
    assert [f"has {members} data members" in problem for problem in found] == [True] * large


def test_options_may_have_any_number_of_members(tmp_path):
    body = "".join(f"  int member{i} = 0;\n" for i in range(40))
    assert tree(tmp_path, f"struct Options {{\n{body}}};\n") == []


@pytest.mark.parametrize("files, large", [(2, False), (3, True)])
def test_finds_a_class_in_too_many_files(tmp_path, files, large):
    sources = {f"part{i}": f"void Sample::Run{i}(int a) {{\n  Other::Call(a);\n}}\n" for i in range(files)}
    found = tree(tmp_path, "class Sample {\n private:\n  int a_;\n};\n", **sources)
    assert ["is defined in 3 files" in problem for problem in found] == [True] * large


def test_a_class_that_has_become_small_leaves_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr(class_sizes, "TOO_LARGE", {"CallDriver"})
    (tmp_path / "sample.h").write_text("class CallDriver {\n private:\n  int a_;\n};\n")
    assert any("CallDriver is small enough" in problem for problem in class_sizes.problems(tmp_path))
