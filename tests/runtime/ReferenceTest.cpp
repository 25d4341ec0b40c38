// The reference runs a plain file like torch.jit.load, micro-batch by micro-batch, and never
// touches what it was given.
#include "runtime/Reference.h"

#include "ir/batch/ResultTree.h"
#include "tests/runtime/SmallPipeline.h"
#include "tests/support/Matchers.h"
#include "tests/support/TestModels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <fstream>

namespace pipec {
namespace {

std::string saved(const std::string &source, const std::string &name = "model.pt") {
  std::string path = scratchPath(name);
  test::SavedModule module{.name = "Tiny",
                           .parameters = {{"w", at::ones({4, 4})}},
                           .buffers = {{"count", at::zeros({1})}},
                           .source = source};
  std::ofstream(path, std::ios::binary) << bytesOf(module);
  return path;
}

llvm::Expected<Reference> loadReference(const std::string &path, int64_t microBatches) {
  ReferenceOptions options;
  options.microBatches = microBatches;
  options.threads = 1;
  return Reference::load(path, options);
}

TEST(Reference, MergesByTheRulesOfTheTrial) {
  auto reference = loadReference(saved(R"(
def forward(self, x, table):
    return torch.matmul(x, self.w), table.sum(), x.t()
)"),
                                 3);
  ASSERT_TRUE(succeeded(reference));
  at::Tensor x = at::arange(28, at::kFloat).view({7, 4}), table = at::ones({9});
  auto result = reference->infer({x, table});
  ASSERT_TRUE(succeeded(result));
  const auto &elements = result->toTupleRef().elements();
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_TRUE(at::equal(elements[0].toTensor(), at::matmul(x, at::ones({4, 4}))));
  EXPECT_EQ(elements[1].toTensor().item<float>(), 9);
  EXPECT_TRUE(at::equal(elements[2].toTensor(), x.t()));
  EXPECT_EQ(reference->signature().inputs[0].batchDim, 0);
  EXPECT_FALSE(reference->signature().inputs[1].batchDim);
}

TEST(Reference, StateStartsAsSavedAndFollowsTheMicroBatches) {
  auto reference = loadReference(saved(R"(
def forward(self, x):
    self.count.add_(1)
    return x + self.count
)"),
                                 2);
  ASSERT_TRUE(succeeded(reference));
  at::Tensor x = at::zeros({4, 1});
  for (float first : {1.f, 3.f}) { // the trial on copies did not count
    auto result = reference->infer({x});
    ASSERT_TRUE(succeeded(result));
    EXPECT_EQ(result->toTensor()[0].item<float>(), first);
    EXPECT_EQ(result->toTensor()[3].item<float>(), first + 1);
  }
}

TEST(Reference, InputsThatTheModelWritesAreCopied) {
  auto reference =
      loadReference(saved("def forward(self, x):\n    x.add_(1)\n    return x * 2\n"), 2);
  ASSERT_TRUE(succeeded(reference));
  at::Tensor x = at::zeros({4, 2});
  for (int call = 0; call < 2; ++call) {
    auto result = reference->infer({x});
    ASSERT_TRUE(succeeded(result));
    EXPECT_EQ(result->toTensor().sum().item<float>(), 16);
  }
  EXPECT_TRUE(at::equal(x, at::zeros({4, 2})));
  EXPECT_TRUE(reference->signature().inputs[0].written);
}

TEST(Reference, AFailureNamesTheMicroBatch) {
  auto reference = loadReference(
      saved("def forward(self, x):\n    assert int(x.max()) < 5, 'too large'\n    return x\n"), 4);
  ASSERT_TRUE(succeeded(reference));
  ASSERT_TRUE(succeeded(reference->infer({at::zeros({4, 1})})));
  at::Tensor x = at::zeros({4, 1});
  x[2].fill_(9);
  EXPECT_TRUE(failedWith(reference->infer({x}), ExitCode::Usage, "micro-batch 2"));
}

TEST(Reference, UnknownMethodNamesThoseThatExist) {
  ReferenceOptions options;
  options.method = "encode";
  EXPECT_TRUE(failedWith(Reference::load(saved("def forward(self, x):\n    return x\n"), options),
                         ExitCode::Usage, "no method encode"));
}

TEST(Reference, GradModeAndThreadsOfTheCallerStay) {
  auto reference =
      loadReference(saved("def forward(self, x):\n    return torch.matmul(x, self.w)\n"), 1);
  ASSERT_TRUE(succeeded(reference));
  at::AutoGradMode grad(true);
  int threads = at::get_num_threads();
  auto result = reference->infer({at::ones({2, 4})});
  ASSERT_TRUE(succeeded(result));
  EXPECT_FALSE(result->toTensor().requires_grad());
  EXPECT_TRUE(at::GradMode::is_enabled());
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST(ResultTree, LeavesAreNumberedDepthFirst) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  dict.insert("a", at::ones({1}));
  dict.insert("b", c10::ivalue::Tuple::create({at::ones({2}), 3}));
  Signature signature;
  describeResult(signature, c10::ivalue::Tuple::create(
                                {dict, c10::List<at::Tensor>({at::ones({4})}), c10::IValue()}));
  ASSERT_EQ(signature.leaves.size(), 5u);
  ASSERT_EQ(signature.outputs.children.size(), 3u);
  EXPECT_EQ(signature.outputs.children[0].keys, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(signature.outputs.children[0].children[1].children[1].leaf, 2u);
  EXPECT_EQ(signature.outputs.children[1].kind, OutputTree::Kind::List);
  EXPECT_EQ(signature.outputs.children[2].leaf, 4u);
  EXPECT_EQ(signature.leaves[2].type, "int");
}

TEST(ResultTree, ListsOfAnotherLengthBecomeOneLeaf) {
  c10::List<at::Tensor> one({at::ones({1})}), two({at::ones({1}), at::ones({1})});
  Signature signature;
  describeResult(signature, c10::ivalue::Tuple::create({one, two, at::ones({1})}));
  ASSERT_EQ(signature.leaves.size(), 4u);
  signature.leaves[3].merge = {.kind = MergeRule::Kind::Mean, .dim = 0};
  EXPECT_FALSE(agreeWithResult(signature, c10::ivalue::Tuple::create({one, two, at::ones({1})})));
  EXPECT_TRUE(agreeWithResult(signature, c10::ivalue::Tuple::create({one, one, at::ones({1})})));
  ASSERT_EQ(signature.leaves.size(), 3u);
  EXPECT_EQ(signature.outputs.children[0].kind, OutputTree::Kind::List);
  EXPECT_EQ(signature.outputs.children[1].leaf, 1u);
  EXPECT_EQ(signature.leaves[1].type, "List[Tensor]");
  EXPECT_EQ(signature.leaves[1].merge.kind, MergeRule::Kind::List);
  EXPECT_EQ(signature.leaves[2].merge.kind, MergeRule::Kind::Mean);
}

} // namespace
} // namespace pipec
