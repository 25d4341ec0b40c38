// Arguments and results without LibTorch's types: what goes in comes out, and what does not fit is
// refused.
#include "ir/ValueTree.h"

#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>

using namespace pipec;

namespace {

struct Seen {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
  bool operator==(const Seen &) const = default;
};

llvm::Expected<std::vector<Seen>> tensorsOf(const ValueTree &tree) {
  std::vector<Seen> seen;
  llvm::Error error = tree.forEachTensor([&](const TensorView &view) {
    seen.push_back(
        {view.dtype, view.shape, std::string(static_cast<const char *>(view.data), view.bytes)});
  });
  if (error)
    return std::move(error);
  return seen;
}

std::string bytesOf(std::vector<float> numbers) {
  return {reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(float)};
}

TEST(ValueTree, TensorsGoInAndComeOut) {
  std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  int64_t whole = 7;
  auto tree = ValueTree::ofTensors(
      {{"float32", {2, 3}, numbers.data(), 24}, {"int64", {}, &whole, 8}, {"bool", {0}, "", 0}});
  ASSERT_TRUE(succeeded(tree));
  numbers[0] = 99; // the tree has a copy
  auto seen = tensorsOf(*tree);
  ASSERT_TRUE(succeeded(seen));
  EXPECT_EQ(*seen, (std::vector<Seen>{{"float32", {2, 3}, bytesOf({1, 2, 3, 4, 5, 6})},
                                      {"int64", {}, std::string("\7\0\0\0\0\0\0\0", 8)},
                                      {"bool", {0}, ""}}));
}

TEST(ValueTree, ViewsAreDenseAndRowMajor) {
  at::Tensor base = at::arange(6, at::kFloat).view({2, 3});
  auto seen = tensorsOf(ValueTree::of(base.t()));
  ASSERT_TRUE(succeeded(seen));
  EXPECT_EQ(*seen, (std::vector<Seen>{{"float32", {3, 2}, bytesOf({0, 3, 1, 4, 2, 5})}}));
}

TEST(ValueTree, TensorsWithoutAViewAreRefused) {
  at::Tensor sparse = at::ones({2}).to_sparse();
  EXPECT_TRUE(failedWith(tensorsOf(ValueTree::of(sparse)), ExitCode::Unsupported, "Sparse"));
  at::Tensor quantised = at::quantize_per_tensor(at::ones({2}), 0.5, 0, at::kQInt8);
  EXPECT_TRUE(failedWith(tensorsOf(ValueTree::of(quantised)), ExitCode::Unsupported, ""));
}

TEST(ValueTree, BadTensorsAreRefused) {
  float number = 1;
  auto refused = [&](TensorView view, const std::string &what) {
    return failedWith(ValueTree::ofTensors({{"float32", {}, &number, 4}, view}), ExitCode::Usage,
                      "tensor 1: expected " + what);
  };
  EXPECT_TRUE(refused({"float", {1}, &number, 4}, "a dtype as float32, got \"float\""));
  EXPECT_TRUE(refused({"float32", {2}, &number, 4}, "8 bytes, got 4"));
  EXPECT_TRUE(refused({"float32", {-1}, &number, 4}, "sizes that memory can hold, got -1"));
  EXPECT_TRUE(refused({"float32", {int64_t(1) << 40, int64_t(1) << 40}, &number, 4},
                      "sizes that memory can hold"));
}

TEST(ValueTree, ReadsWhatItWrote) {
  TempDir directory;
  std::string path = directory.path("values.pt");
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("x", at::ones({2}));
  ASSERT_TRUE(succeeded(ValueTree::of(dict).write(path)));
  auto read = ValueTree::read(path);
  ASSERT_TRUE(succeeded(read));
  ASSERT_TRUE(read->ivalue().isGenericDict());
  auto seen = tensorsOf(*read);
  ASSERT_TRUE(succeeded(seen));
  EXPECT_EQ(*seen, (std::vector<Seen>{{"float32", {2}, bytesOf({1, 1})}}));
  EXPECT_TRUE(failedWith(ValueTree::read(directory.path("none.pt")), ExitCode::IO, "none.pt"));
}

TEST(ValueTree, ReadsADescription) {
  auto tree = ValueTree::read("f32[2,3],i64[4]<10");
  ASSERT_TRUE(succeeded(tree));
  auto seen = tensorsOf(*tree);
  ASSERT_TRUE(succeeded(seen));
  ASSERT_EQ(seen->size(), 2u);
  EXPECT_EQ((*seen)[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*seen)[1].dtype, "int64");
}

} // namespace
