// Arguments and results without LibTorch's types: what goes in comes out, and what does not fit is
// refused.
#include "ir/values/ValueTree.h"

#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>

#include <tuple>

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

ValueTree sample() {
  std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> ids = {7, 8};
  ValueTree logits = llvm::cantFail(ValueTree::tensor({"float32", {2, 3}, numbers.data(), 24})),
            key = llvm::cantFail(ValueTree::tensor({"int64", {2}, ids.data(), 16}));
  return ValueTree::dict({{"logits", logits},
                          {"past", ValueTree::list({ValueTree::tuple({key, logits}), key})},
                          {"layer.0.weight", 3},
                          {"on", true},
                          {"scale", 0.5},
                          {"mode", "greedy"},
                          {"none", {}},
                          {"empty", ValueTree::list({})}});
}

TEST(ValueTree, PartsHavePaths) {
  ValueTree tree = sample();
  EXPECT_EQ(tree.paths(),
            (std::vector<std::string>{"logits", "past.0.0", "past.0.1", "past.1", "layer.0.weight",
                                      "on", "scale", "mode", "none", "empty"}));
  for (const std::string &path : tree.paths())
    EXPECT_TRUE(succeeded(tree.at(path))) << path;
  EXPECT_EQ(ValueTree(5).paths(), std::vector<std::string>{""});
  using Kind = ValueTree::Kind;
  for (auto [path, kind, size] : {std::tuple("", Kind::Dict, 8u),
                                  {"past", Kind::List, 2u},
                                  {"past.0", Kind::Tuple, 2u},
                                  {"past.0.1", Kind::Tensor, 0u},
                                  {"layer.0.weight", Kind::Int, 0u},
                                  {"on", Kind::Bool, 0u},
                                  {"scale", Kind::Float, 0u},
                                  {"mode", Kind::String, 0u},
                                  {"none", Kind::None, 0u},
                                  {"empty", Kind::List, 0u}}) {
    auto part = tree.at(path);
    ASSERT_TRUE(succeeded(part)) << path;
    EXPECT_EQ(part->kind(), kind) << path;
    EXPECT_EQ(part->size(), size) << path;
  }
}

TEST(ValueTree, ScalarsAndTensorsAreRead) {
  ValueTree tree = sample();
  EXPECT_EQ(llvm::cantFail(tree.intAt("layer.0.weight")), 3);
  EXPECT_TRUE(llvm::cantFail(tree.boolAt("on")));
  EXPECT_EQ(llvm::cantFail(tree.floatAt("scale")), 0.5);
  EXPECT_EQ(llvm::cantFail(tree.floatAt("layer.0.weight")), 3.0);
  EXPECT_EQ(llvm::cantFail(tree.stringAt("mode")), "greedy");
  EXPECT_EQ(llvm::cantFail(tree.elementsAt<float>("past.0.1")),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(llvm::cantFail(tree.elementsAt<int64_t>("past.1")), (std::vector<int64_t>{7, 8}));
  TensorView view = llvm::cantFail(tree.tensorAt("logits"));
  EXPECT_EQ(view.dtype, "float32");
  EXPECT_EQ(view.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(view.bytes, 24u);
  std::vector<float> copy(6);
  EXPECT_TRUE(succeeded(tree.copyTensor("logits", copy.data(), 24)));
  EXPECT_EQ(copy[5], 6);
  EXPECT_EQ(llvm::cantFail(
                ValueTree::of(at::arange(6, at::kFloat).view({2, 3}).t()).elementsAt<float>("")),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(llvm::cantFail(ValueTree::of(at::ones({2}, at::kBool)).elementsAt<uint8_t>("")),
            (std::vector<uint8_t>{1, 1}));
}

TEST(ValueTree, ErrorsNameThePathWhatIsThereAndWhatWasAskedFor) {
  ValueTree tree = sample();
  ErrorText text = describe(tree.at("logit").takeError());
  EXPECT_EQ(text.message, "value: expected a part \"logit\", got dict of logits, past, "
                          "layer.0.weight, on, scale, mode, none, empty");
  EXPECT_EQ(text.help, "did you mean logits?");
  auto refused = [](auto result, const std::string &message) {
    return failedWith(std::move(result), ExitCode::Usage, message);
  };
  EXPECT_TRUE(refused(tree.at("past.2.0"), "past: expected a part \"2\", got list of 2"));
  EXPECT_TRUE(
      refused(tree.at("past.0.1.0"), "past.0.1: expected a part \"0\", got tensor float32[2,3]"));
  EXPECT_TRUE(refused(tree.intAt("logits"), "logits: expected an int, got tensor float32[2,3]"));
  EXPECT_TRUE(refused(tree.boolAt("mode"), "mode: expected a bool, got string \"greedy\""));
  EXPECT_TRUE(
      refused(tree.stringAt("layer.0.weight"), "layer.0.weight: expected a string, got int 3"));
  EXPECT_TRUE(refused(tree.floatAt("none"), "none: expected a float, got None"));
  EXPECT_TRUE(refused(tree.tensorAt("past"), "past: expected a tensor, got list of 2"));
  EXPECT_TRUE(refused(tree.elementsAt<double>("logits"),
                      "logits: expected a tensor of float64, got float32"));
  float number = 0;
  EXPECT_TRUE(refused(tree.copyTensor("logits", &number, 4),
                      "logits: expected memory of 24 bytes for tensor float32[2,3], got 4"));
  EXPECT_TRUE(
      refused(ValueTree::tensor({"float32", {2}, &number, 4}), "tensor: expected 8 bytes, got 4"));
  EXPECT_TRUE(failedWith(ValueTree::of(at::ones({2}).to_sparse()).tensorAt(""),
                         ExitCode::Unsupported, "Sparse"));
}

TEST(ValueTree, OfEqualKeysTheLastCounts) {
  ValueTree tree = ValueTree::dict({{"a", 1}, {"b", 2}, {"a", 3}});
  EXPECT_EQ(tree.size(), 2u);
  EXPECT_EQ(llvm::cantFail(tree.intAt("a")), 3);
}

TEST(ValueTree, ALongerKeyThatFitsComesFirst) {
  ValueTree tree = ValueTree::dict({{"a", ValueTree::dict({{"b", 1}, {"c", 2}})}, {"a.b", 3}});
  EXPECT_EQ(llvm::cantFail(tree.intAt("a.b")), 3);
  EXPECT_EQ(llvm::cantFail(tree.intAt("a.c")), 2);
}

} // namespace
