// Copies of a loaded module: what a run of one writes, no other sees.
#include "ir/torchfile/ModuleCopy.h"

#include "compiler/ParallelRuns.h"
#include "ir/InferenceSettings.h"
#include "ir/artifact/StageModule.h"
#include "ir/support/Try.h"
#include "ir/torchfile/SharedCode.h"
#include "ir/torchfile/SourceCopies.h"
#include "ir/torchfile/TorchFile.h"
#include "tests/support/Matchers.h"
#include "tests/unit/TempDir.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cstdio>
#include <sstream>

using namespace pipec;

namespace {

namespace jit = torch::jit;

/// forward(x) writes everything that it can: buffers in place and by assignment, a parameter, an
/// int, a list, a dict and a tensor in it, and the buffer of a submodule.
void saveWriter(const std::string &path) {
  jit::Module inner("__torch__.Inner");
  inner.register_buffer("steps", at::zeros({1}));
  jit::Module module("__torch__.Writer");
  const at::Tensor memory = at::arange(6, at::kFloat);
  const at::Tensor weight = at::full({2}, 3.0f);
  module.register_parameter("weight", weight, false);
  module.register_parameter("tied", weight, false);
  module.register_parameter("trained", at::full({2}, 5.0f).set_requires_grad(true), false);
  module.register_buffer("whole", memory);
  module.register_buffer("part", memory.narrow(0, 2, 2));
  module.register_buffer("assigned", at::zeros({2}));
  module.register_attribute("count", c10::IntType::get(), int64_t(0));
  module.register_attribute("numbers", c10::ListType::ofInts(),
                            c10::List<int64_t>(std::initializer_list<int64_t>{7}));
  c10::Dict<std::string, at::Tensor> table;
  table.insert("a", at::ones({2}));
  module.register_attribute(
      "table", c10::DictType::create(c10::StringType::get(), c10::TensorType::get()), table);
  module.register_module("inner", inner);
  module.define(R"(
def forward(self, x):
    self.weight.add_(1)
    self.part.add_(10)
    self.assigned = self.assigned + x
    self.count = self.count + 1
    self.numbers.append(self.count)
    self.table["a"].mul_(2)
    self.table["b"] = x
    self.inner.steps.add_(1)
    return x + self.count + self.inner.steps
)");
  module.save(path);
}

/// All that a Writer holds.
std::string stateOf(const jit::Module &module) {
  std::ostringstream text;
  for (const auto &[name, value] : module.named_attributes(/*recurse=*/true))
    if (!value.isObject()) // whose text is an address
      text << name << " = " << value << "\n";
  return text.str();
}

at::Tensor runWriter(const jit::Module &module) {
  const InferenceSettings settings(/*intraOpThreads=*/1);
  return runMethod(module, "forward", {at::ones({2})}).toTensor();
}

} // namespace

TEST(ModuleCopy, SharesNothingThatARunWrites) {
  TempDir dir;
  saveWriter(dir.path("m.pt"));
  const jit::Module original = take(loadMapped(dir.path("m.pt")));
  ASSERT_TRUE(canBeCopied(original));
  const std::string before = stateOf(original);
  const jit::Module first = take(copyOf(original)), second = take(copyOf(original));
  EXPECT_EQ(first.type(), second.type()) << "the code is shared";
  EXPECT_EQ(stateOf(first), before);
  for (int k = 1; k <= 3; ++k)
    EXPECT_EQ(runWriter(first)[0].item<float>(), 1.0f + 2.0f * static_cast<float>(k));
  EXPECT_NE(stateOf(first), before);
  EXPECT_EQ(first.attr("numbers").toIntVector(), (std::vector<int64_t>{7, 1, 2, 3}));
  EXPECT_EQ(stateOf(second), before);
  EXPECT_EQ(stateOf(original), before);
  EXPECT_EQ(stateOf(take(copyOf(original))), before) << "later ones start from the file, too";
  EXPECT_EQ(runWriter(second)[0].item<float>(), 3.0f);
}

TEST(ModuleCopy, TiesAndViewsStay) {
  TempDir dir;
  saveWriter(dir.path("m.pt"));
  // The mapped file, and LibTorch's own reader, whose tensors have memory of their own.
  for (const jit::Module &original :
       {take(loadMapped(dir.path("m.pt"))), jit::load(dir.path("m.pt"))}) {
    const bool isOne = original.attr("whole").toTensor().data_ptr<float>() + 2 ==
                       original.attr("part").toTensor().data_ptr<float>();
    const jit::Module copy = take(copyOf(original));
    EXPECT_TRUE(copy.attr("weight").toTensor().is_same(copy.attr("tied").toTensor()));
    EXPECT_FALSE(copy.attr("weight").toTensor().is_same(original.attr("weight").toTensor()));
    EXPECT_TRUE(copy.attr("trained").toTensor().requires_grad());
    EXPECT_TRUE(copy.attr("trained").toTensor().is_leaf());
    EXPECT_FALSE(copy.attr("weight").toTensor().requires_grad());
    runWriter(copy);
    EXPECT_EQ(copy.attr("tied").toTensor()[1].item<float>(), 4.0f);
    EXPECT_EQ(copy.attr("whole").toTensor()[3].item<float>(), isOne ? 13.0f : 3.0f);
    EXPECT_EQ(original.attr("whole").toTensor()[3].item<float>(), 3.0f);
  }
  EXPECT_EQ(take(loadMapped(dir.path("m.pt"))).attr("part").toTensor()[1].item<float>(), 3.0f);
}

TEST(ModuleCopy, MappedMemoryIsMappedAgain) {
  TempDir dir;
  saveWriter(dir.path("m.pt"));
  const jit::Module original = take(loadMapped(dir.path("m.pt")));
  const jit::Module copy = take(copyOf(original));
  const auto *before = original.attr("whole").toTensor().data_ptr<float>();
  const auto *after = copy.attr("whole").toTensor().data_ptr<float>();
  EXPECT_NE(before, after);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(before) % 4096, reinterpret_cast<uintptr_t>(after) % 4096);
  EXPECT_EQ(copy.attr("part").toTensor().data_ptr<float>(), after + 2) << "views of one memory";
}

TEST(ModuleCopy, FileThatWasReplaced) {
  TempDir dir;
  saveWriter(dir.path("m.pt"));
  saveWriter(dir.path("other.pt"));
  const jit::Module original = take(loadMapped(dir.path("m.pt")));
  ASSERT_EQ(std::rename(dir.path("other.pt").c_str(), dir.path("m.pt").c_str()), 0);
  llvm::Expected<jit::Module> copy = copyOf(original);
  ASSERT_FALSE(static_cast<bool>(copy));
  const ErrorText error = describe(copy.takeError());
  EXPECT_EQ(error.code, ExitCode::IO);
  EXPECT_EQ(error.message, dir.path("m.pt") + ": was replaced by another file while it was in use");
}

TEST(ModuleCopy, RunsOfSeveralThreads) {
  TempDir dir;
  saveWriter(dir.path("m.pt"));
  SourceCopies copies(dir.path("m.pt"), {});
  std::vector<float> results(4);
  const std::vector<int64_t> weights(4, 1);
  llvm::Error error = forEachParallel(weights, /*threads=*/4, [&](size_t i) -> llvm::Error {
    const jit::Module module = TRY(copies.next(Prints::Removed));
    for (int k = 0; k < 50; ++k)
      results[i] = runWriter(module)[0].item<float>();
    return llvm::Error::success();
  });
  EXPECT_FALSE(static_cast<bool>(error));
  EXPECT_EQ(results, std::vector<float>(4, 101.0f));
}

TEST(ModuleCopy, CodeThatHoldsWhatARunMayWriteIsReadAnew) {
  auto canShare = [](const char *source, auto edit) {
    jit::Module module("__torch__.Shared");
    module.define(source);
    edit(*module.get_method("forward").graph());
    return canShareCode(module);
  };
  auto asItIs = [](jit::Graph &) {};
  EXPECT_TRUE(canShare("def forward(self, x, w):\n    return torch.conv2d(x, w) * 2\n", asItIs))
      << "the default stride is a list that the operator only reads";
  EXPECT_TRUE(canShare("def forward(self, x, k: int=3):\n    return x * k\n", asItIs));
  EXPECT_FALSE(canShare("def forward(self, x, sizes: List[int]=[1, 2]):\n    sizes.append(3)\n"
                        "    return x * len(sizes)\n",
                        asItIs))
      << "the default is one list for all calls";
  auto withList = [](jit::Graph &graph) {
    jit::WithInsertPoint guard(graph.block()->nodes().front());
    jit::Value *list = graph.insertConstant(c10::List<int64_t>({1, 2}));
    for (jit::Node *node : graph.nodes())
      if (node->kind() == c10::aten::append)
        node->replaceInput(0, list);
  };
  EXPECT_FALSE(canShare("def forward(self, x):\n    sizes = [1]\n    sizes.append(3)\n"
                        "    return x * len(sizes)\n",
                        withList));
  auto withTensor = [](jit::Graph &graph) { graph.insertConstant(at::ones({2})); };
  EXPECT_FALSE(canShare("def forward(self, x):\n    return x\n", withTensor));
}

TEST(ModuleCopy, DefaultsOfInnerCallsAreNoMatter) {
  TempDir dir;
  jit::Module inner("__torch__.Inner"), module("__torch__.Outer");
  inner.define("def forward(self, x, sizes: List[int]=[1, 2]):\n    sizes.append(3)\n"
               "    return x * len(sizes)\n");
  module.register_module("inner", inner);
  module.define("def forward(self, x):\n    return self.inner.forward(x, [7])\n");
  module.save(dir.path("m.pt"));
  EXPECT_TRUE(canBeCopied(take(loadMapped(dir.path("m.pt")))));
}

TEST(ModuleCopy, OnlyTheFirstPrints) {
  TempDir dir;
  jit::Module module("__torch__.Printing");
  module.define("def forward(self, x):\n    print(x)\n    return x\n");
  module.save(dir.path("m.pt"));
  auto prints = [](const jit::Module &read) {
    for (const jit::Node *node : read.get_method("forward").graph()->nodes())
      if (isPrint(node))
        return true;
    return false;
  };
  SourceCopies copies(dir.path("m.pt"), {});
  EXPECT_TRUE(prints(take(copies.next(Prints::Kept))));
  const jit::Module second = take(copies.next(Prints::Removed));
  const jit::Module third = take(copies.next(Prints::Removed));
  EXPECT_FALSE(prints(second));
  EXPECT_EQ(second.type(), third.type());
}
