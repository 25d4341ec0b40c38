// Cutting, merging, and the three-size trial.
#include "ir/batch/MicroBatch.h"

#include "ir/batch/BatchSplit.h"
#include "ir/batch/FixedBatch.h"
#include "ir/batch/InputCheck.h"
#include "ir/batch/MergeOutputs.h"
#include "ir/batch/TensorSpecs.h"
#include "tests/support/Discover.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

using namespace pipec;

namespace {

InputSpec input(std::string name, std::optional<int64_t> batchDim = {}) {
  InputSpec spec;
  spec.name = std::move(name);
  spec.batchDim = batchDim;
  return spec;
}

Signature signatureWith(std::vector<InputSpec> inputs, size_t leaves) {
  Signature signature;
  signature.inputs = std::move(inputs);
  signature.leaves.resize(leaves);
  signature.outputs.kind = leaves == 1 ? OutputTree::Kind::Leaf : OutputTree::Kind::Tuple;
  for (size_t l = 0; l < leaves && leaves > 1; ++l) {
    signature.outputs.children.emplace_back();
    signature.outputs.children.back().leaf = l;
  }
  return signature;
}

MergeRule concat(int64_t dim) { return {MergeRule::Kind::Concat, dim}; }
const MergeRule kSame{MergeRule::Kind::Same, 0}, kList{MergeRule::Kind::List, 0},
    kMean{MergeRule::Kind::Mean, 0}, kSum{MergeRule::Kind::Sum, 0}, kJoin{MergeRule::Kind::Join, 0};

/// The rule of each leaf for a model given as a function.
std::vector<MergeRule> rulesOf(Signature &signature, const Values &inputs,
                               llvm::function_ref<Values(Values)> model) {
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    try {
      Values leaves;
      for (Values &call : calls)
        leaves = model(std::move(call));
      return leaves;
    } catch (const std::exception &) {
      return makeError(ExitCode::Other, "refused");
    }
  };
  notCut(signature, inputs, std::vector<bool>(inputs.size(), false), run);
  std::vector<MergeRule> rules;
  for (const OutputLeaf &leaf : signature.leaves)
    rules.push_back(leaf.merge);
  return rules;
}

std::string shapeText(const TensorSpec &spec) {
  std::string text;
  for (const Dim &dim : spec.shape)
    text += (text.empty() ? "" : ",") +
            (dim.dynamic ? "?" : fmt::format("{}B+{}", dim.perBatch, dim.constant));
  return text;
}

} // namespace

TEST(Split, CutsLikeTensorSplit) {
  Signature signature = signatureWith({input("x", 1), input("whole")}, 1);
  at::Tensor x = at::arange(14).view({2, 7}), whole = at::ones({3});
  auto parts = take(splitInputs(signature, {x, whole}, 3));
  auto expected = at::tensor_split(x, 3, 1);
  ASSERT_EQ(parts.size(), 3u);
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_TRUE(at::equal(parts[k][0].toTensor(), expected[k]));
    EXPECT_TRUE(parts[k][0].toTensor().is_alias_of(x)) << "a view, no copy";
    EXPECT_TRUE(parts[k][1].toTensor().is_same(whole));
  }
}

TEST(Split, WrittenInputsAreCopies) {
  Signature signature = signatureWith({input("x", 0), input("state")}, 1);
  signature.inputs[0].written = signature.inputs[1].written = true;
  at::Tensor x = at::zeros({4}), state = at::zeros({2});
  for (int64_t microBatches : {1, 2})
    for (Values &values : take(splitInputs(signature, {x, state}, microBatches)))
      for (c10::IValue &value : values)
        value.toTensor().add_(1);
  EXPECT_EQ(x.sum().item<float>() + state.sum().item<float>(), 0);
}

TEST(Split, CopiesLieInMemoryAsThePartsDo) {
  Signature views = signatureWith({input("x", 0)}, 1), copies = views;
  copies.inputs[0].written = true;
  for (const at::Tensor &x :
       {at::rand({5, 6}), at::rand({6, 5}).t(), at::rand({5, 3, 4}).transpose(1, 2),
        at::rand({5, 9}).slice(1, 1, 7)}) {
    auto parts = take(splitInputs(views, {x}, 2)), copied = take(splitInputs(copies, {x}, 2));
    for (size_t k = 0; k < 2; ++k) {
      at::Tensor part = parts[k][0].toTensor(), copy = copied[k][0].toTensor();
      EXPECT_TRUE(at::equal(part, copy) && !part.is_alias_of(copy));
      EXPECT_EQ(part.strides(), copy.strides());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(part.data_ptr()) % 64,
                reinterpret_cast<uintptr_t>(copy.data_ptr()) % 64)
          << "part " << k;
    }
  }
}

TEST(Split, TreesAreCutTogether) {
  Signature signature = signatureWith({input("xs", 0)}, 1);
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("a", at::arange(4));
  auto parts =
      take(splitInputs(signature, {c10::ivalue::Tuple::create({at::arange(4), dict, 5})}, 2));
  const auto &elements = parts[1][0].toTupleRef().elements();
  EXPECT_EQ(elements[0].toTensor()[0].item<int64_t>(), 2);
  EXPECT_EQ(elements[1].toGenericDict().at("a").toTensor()[0].item<int64_t>(), 2);
  EXPECT_EQ(elements[2].toInt(), 5);
}

TEST(Split, PartsOfATree) {
  Signature signature = signatureWith({input("xs")}, 1);
  signature.inputs[0].parts = {{"0.a", 1}, {"1", std::nullopt}, {"2", 0}};
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("a", at::ones({2, 4}));
  auto tree = [&](const at::Tensor &last) {
    return c10::ivalue::Tuple::create({dict, at::ones({4}), at::arange(4), last});
  };
  auto parts = take(splitInputs(signature, {tree(at::ones({3}))}, 2));
  const auto &elements = parts[1][0].toTupleRef().elements();
  EXPECT_EQ(elements[0].toGenericDict().at("a").toTensor().sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(elements[1].toTensor().size(0), 4);
  EXPECT_EQ(elements[2].toTensor()[0].item<int64_t>(), 2);
  EXPECT_EQ(elements[3].toTensor().size(0), 3);
  // The user did not name this part, and it has as many rows as there are samples.
  EXPECT_EQ(errorOf(splitInputs(signature, {tree(at::ones({4}))}, 2)).message,
            "argument xs: expected the parts of the example inputs of the compile (0.a=1, 1=none, "
            "2=0), got 3 with 4 rows for 4 samples");
  dict.insert_or_assign("a", at::ones({2, 3}));
  EXPECT_EQ(errorOf(splitInputs(signature, {tree(at::ones({3}))}, 2)).message,
            "input xs.2: expected a batch of 3, as input xs.0.a has, got 4");
}

TEST(Split, RefusesWhatCannotBeCut) {
  Signature signature = signatureWith({input("x", 0), input("y", 0)}, 1);
  auto message = [&](const Values &inputs, int64_t n) {
    return errorOf(splitInputs(signature, inputs, n)).message;
  };
  EXPECT_EQ(message({at::ones({4}), at::ones({4})}, 0),
            "micro-batches: expected at least 1, got 0");
  EXPECT_EQ(message({at::ones({4}), at::ones({4})}, 5),
            "micro-batches: expected at most 4, the number of samples, got 5");
  EXPECT_EQ(message({at::ones({4}), at::ones({3})}, 2),
            "input y: expected a batch of 4, as input x has, got 3");
  EXPECT_EQ(message({at::ones({4}), at::scalar_tensor(1)}, 2),
            "input y: expected a batch dimension 0, got a tensor of 0 dimensions");
  Signature none = signatureWith({input("x")}, 1);
  EXPECT_EQ(errorOf(splitInputs(none, {at::ones({4})}, 2)).code, ExitCode::Usage);
  EXPECT_EQ(take(splitInputs(none, {at::ones({4})}, 1)).size(), 1u);
}

TEST(Split, WhatTheExampleLeftOutIsNotGuessed) {
  Signature signature = signatureWith({input("x", 0), input("mask")}, 1);
  signature.inputs[1].type = "Optional[Tensor]";
  const at::Tensor x = at::ones({4, 2});
  EXPECT_EQ(errorOf(splitInputs(signature, {x, at::ones({4})}, 2)).message,
            "argument mask: expected None with several micro-batches, as in the example inputs of "
            "the compile, got a tensor with 4 rows for 4 samples");
  EXPECT_EQ(take(splitInputs(signature, {x, at::ones({4})}, 1)).size(), 1u);
  EXPECT_EQ(take(splitInputs(signature, {x, at::ones({3})}, 2)).size(), 2u) << "not by samples";
  EXPECT_EQ(take(splitInputs(signature, {x, c10::IValue()}, 2)).size(), 2u);
  signature.inputs[1].tensor.known = true; // the example showed that it is whole
  EXPECT_EQ(take(splitInputs(signature, {x, at::ones({4})}, 2)).size(), 2u);
}

TEST(Merge, EachRule) {
  Signature signature = signatureWith({}, 4);
  signature.leaves[0].merge = concat(1);
  signature.leaves[1].merge = kSame;
  signature.leaves[2].merge = kList;
  signature.leaves[3].merge = kMean;
  std::vector<Values> leaves = {{at::ones({2, 3}), 7, at::ones({1}), at::scalar_tensor(1.0)},
                                {at::zeros({2, 1}), 7, at::ones({2}), at::scalar_tensor(5.0)}};
  c10::IValue result = take(mergeOutputs(signature, leaves, {3, 1}));
  const auto &elements = result.toTupleRef().elements();
  EXPECT_EQ(elements[0].toTensor().sizes(), (at::IntArrayRef{2, 4}));
  EXPECT_EQ(elements[1].toInt(), 7);
  EXPECT_EQ(elements[2].toTensorVector().size(), 2u);
  EXPECT_EQ(elements[3].toTensor().item<float>(), 2.0f) << "(3 * 1 + 1 * 5) / 4";
}

TEST(Merge, AListHasOneValuePerMicroBatch) {
  Signature signature = signatureWith({}, 1);
  signature.batchSize = 4;
  signature.leaves[0].merge = kList;
  auto merged = [&](const Values &parts) {
    const std::vector<int64_t> samples(parts.size(), 2);
    std::vector<Values> leaves;
    for (const c10::IValue &part : parts)
      leaves.push_back({part});
    return take(mergeOutputs(signature, leaves, samples));
  };
  auto counts = [](const std::string &key, int64_t value) {
    c10::Dict<std::string, int64_t> dict;
    dict.insert(key, value);
    return c10::IValue(dict);
  };
  for (const char *key : {"a", "b"}) {
    const c10::IValue dicts = merged({counts("a", 3), counts(key, 4)});
    ASSERT_EQ(dicts.toListRef().size(), 2u) << "whatever the keys are";
    EXPECT_EQ(dicts.toListRef()[1].toGenericDict().at(key).toInt(), 4);
  }
  const std::vector<int64_t> one = {1}, two = {2, 3};
  for (const std::vector<int64_t> &other : {one, two}) {
    const c10::IValue lists = merged({one, other, one, one});
    ASSERT_EQ(lists.toListRef().size(), 4u) << "whatever the lengths are";
    EXPECT_EQ(lists.toListRef()[1].toIntVector(), other);
  }
}

TEST(Merge, WhatSomeMicroBatchesHave) {
  Signature signature = signatureWith({}, 1);
  signature.leaves[0].merge = concat(0);
  auto merged = [&](const c10::IValue &a, const c10::IValue &b) {
    return take(mergeOutputs(signature, {{a}, {b}}, {1, 1}));
  };
  const c10::IValue none;
  EXPECT_EQ(merged(at::ones({1, 2}), at::ones({1, 2})).toTensor().size(0), 2);
  EXPECT_TRUE(merged(none, none).isNone());
  c10::IValue mixed = merged(none, at::ones({1, 2}));
  ASSERT_TRUE(mixed.isList());
  EXPECT_TRUE(mixed.toListRef()[0].isNone());
  EXPECT_TRUE(mixed.toListRef()[1].isTensor());
  signature.leaves[0].merge = kList;
  EXPECT_TRUE(merged(none, none).isNone());
  EXPECT_TRUE(merged(none, 3).isList());
}

TEST(Split, AListAsLongAsTheWholeBatchIsNotGivenWhole) {
  Signature signature = signatureWith({input("x", 0), input("lengths")}, 1);
  const c10::IValue eight(std::vector<int64_t>(8, 1)), four(std::vector<int64_t>(4, 1));
  const at::Tensor x = at::randn({8, 2});
  signature.batchSize = 4;
  signature.batchSymbolic = false;
  EXPECT_NE(errorOf(splitBatch(signature, {x, eight}, 2))
                .message.find("input lengths: a list of 8 entries for 8 samples, which may be one "
                              "per sample, would be given to every micro-batch whole"),
            std::string::npos);
  EXPECT_EQ(take(splitBatch(signature, {x, four}, 2)).inputs.size(), 2u);
  signature.batchSize = 0; // no example
  EXPECT_EQ(errorOf(splitBatch(signature, {x, eight}, 2)).code, ExitCode::Usage);
  EXPECT_EQ(take(splitBatch(signature, {x, eight}, 1)).inputs.size(), 1u);
  signature.inputs[1].defaultValue = llvm::json::Array{1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(take(splitBatch(signature, {x, eight}, 2)).inputs.size(), 2u);
  signature.inputs[1].defaultValue.reset();
  signature.batchSize = 4; // any size of micro-batch ran with the example's list
  signature.batchSymbolic = true;
  EXPECT_EQ(take(splitBatch(signature, {x, eight}, 2)).inputs.size(), 2u);
}

TEST(Merge, SaysWhatDoesNotFit) {
  Signature signature = signatureWith({}, 1);
  auto message = [&](const MergeRule &rule, const c10::IValue &a, const c10::IValue &b) {
    signature.leaves[0].merge = rule;
    return errorOf(mergeOutputs(signature, {{a}, {b}}, {2, 2})).message;
  };
  EXPECT_EQ(message(kSame, 7, 8),
            "the result: expected the same value from all micro-batches, as on the example inputs, "
            "got 7 from micro-batch 0 and 8 from micro-batch 1");
  EXPECT_EQ(message(kSame, c10::IValue(), 8),
            "the result: expected the same value from all micro-batches, as on the example inputs, "
            "got a value of type None from micro-batch 0 and a value of type Int from micro-batch "
            "1");
  EXPECT_EQ(message(kMean, 0.5, c10::IValue()),
            "the result: the micro-batches returned results of different structure");
  EXPECT_EQ(
      message(concat(0), at::scalar_tensor(1.0), at::scalar_tensor(2.0)),
      "the result: concatenation along dimension 0: expected at least 1 dimension in the result "
      "of each micro-batch, got 0");
}

TEST(Merge, WhatTheRuleDoesNotFitIsAListWithAWarning) {
  Signature signature = signatureWith({}, 1);
  auto warning = [&](const MergeRule &rule, const c10::IValue &a, const c10::IValue &b) {
    signature.leaves[0].merge = rule;
    std::vector<std::string> warnings;
    const c10::IValue merged = take(mergeOutputs(signature, {{a}, {b}}, {2, 2}, &warnings));
    EXPECT_TRUE(merged.isList());
    return warnings.size() == 1 ? warnings.front() : std::to_string(warnings.size()) + " warnings";
  };
  EXPECT_NE(warning(kSame, true, false)
                .find("the result is a list with a value per micro-batch: "
                      "expected the same value from all micro-batches"),
            std::string::npos);
  EXPECT_NE(warning(concat(0), at::ones({2, 4}), at::ones({2, 9})).find("one of [2, 9]"),
            std::string::npos);
  EXPECT_NE(warning(kSum, at::ones({1}), at::ones({3})).find("one of [3]"), std::string::npos)
      << "broadcasting would add up other numbers";
  EXPECT_NE(warning(kMean, at::ones({2, 1}), at::ones({2, 3})).find("one of [2, 3]"),
            std::string::npos);
  const std::vector<int64_t> two = {1, 2}, three = {1, 2, 3};
  EXPECT_NE(warning(kSum, two, three).find("different structure"), std::string::npos);
}

TEST(Merge, ASumOfAnotherSizeThanInTheExampleIsSaid) {
  Signature signature = signatureWith({}, 1);
  OutputLeaf &leaf = signature.leaves[0];
  leaf.merge = kSum;
  leaf.tensor.known = true;
  leaf.tensor.shape = {{.perBatch = 0, .constant = 1, .dynamic = false},
                       {.perBatch = 0, .constant = 2, .dynamic = false}};
  auto warnings = [&](int64_t rows) {
    std::vector<std::string> said;
    const at::Tensor part = at::ones({rows, 2});
    take(mergeOutputs(signature, {{part}, {part}}, {2, 2}, &said));
    return said;
  };
  EXPECT_TRUE(warnings(1).empty());
  ASSERT_EQ(warnings(3).size(), 1u);
  EXPECT_NE(warnings(3)[0].find("has size 3 along dimension 0, in the example 1"),
            std::string::npos);
  leaf.tensor.shape[0] = {.perBatch = 0, .constant = 0, .dynamic = true};
  EXPECT_TRUE(warnings(3).empty());
}

TEST(Merge, WithoutAnExampleLengthsShowListsOfSamples) {
  Signature signature = signatureWith({}, 1);
  signature.leaves[0].merge = kList;
  auto merged = [&](const c10::IValue &a, const c10::IValue &b) {
    return take(mergeOutputs(signature, {{a}, {b}}, {3, 2})).toListRef().size();
  };
  const std::vector<int64_t> three = {1, 2, 3}, two = {4, 5};
  EXPECT_EQ(merged(three, two), 5u) << "an entry per sample";
  EXPECT_EQ(merged(two, two), 2u) << "a list per micro-batch";
  signature.batchSize = 3;
  EXPECT_EQ(merged(three, two), 2u) << "an example has shown that it is none";
}

TEST(Merge, ListsAreJoined) {
  Signature signature = signatureWith({}, 1);
  signature.leaves[0].merge = kJoin;
  const std::vector<int64_t> three = {1, 2, 3}, two = {4, 5};
  EXPECT_EQ(take(mergeOutputs(signature, {{three}, {two}}, {3, 2})).toIntVector(),
            (std::vector<int64_t>{1, 2, 3, 4, 5}));
  signature.leaves[0].merge.dim = 1;
  auto inTuple = [](const std::vector<int64_t> &list) {
    return c10::IValue(c10::ivalue::Tuple::create({list, list}));
  };
  const c10::IValue joined =
      take(mergeOutputs(signature, {{inTuple(three)}, {inTuple(two)}}, {3, 2}));
  EXPECT_EQ(joined.toTupleRef().elements()[1].toIntVector().size(), 5u);
  EXPECT_EQ(errorOf(mergeOutputs(signature, {{three}, {7}}, {3, 2})).code, ExitCode::Other);
}

TEST(Merge, OtherSizesMustAgree) {
  Signature signature = signatureWith({}, 1);
  signature.leaves[0].merge = concat(0);
  const std::string message =
      errorOf(mergeOutputs(signature, {{at::ones({2, 4})}, {at::ones({2, 9})}}, {2, 2})).message;
  EXPECT_EQ(message,
            "the result: concatenation along dimension 0: micro-batch 0 has a tensor of [2, 4], "
            "micro-batch 1 one of [2, 9]");
}

TEST(Merge, Sums) {
  Signature signature = signatureWith({}, 3);
  for (OutputLeaf &leaf : signature.leaves)
    leaf.merge = kSum;
  const c10::IValue result = take(mergeOutputs(
      signature, {{3, 0.5, at::ones({2}, at::kInt)}, {2, 1.5, at::ones({2}, at::kInt)}}, {3, 2}));
  EXPECT_EQ(result.toTupleRef().elements()[0].toInt(), 5);
  EXPECT_EQ(result.toTupleRef().elements()[1].toDouble(), 2.0);
  EXPECT_TRUE(at::equal(result.toTupleRef().elements()[2].toTensor(), at::full({2}, 2, at::kInt)));
}

TEST(Merge, SplitThenMergeIsTheIdentity) {
  Signature signature = signatureWith({input("x", 0)}, 1);
  signature.leaves[0].merge = concat(0);
  at::Tensor x = at::randn({7, 2});
  for (int64_t n = 1; n <= 7; ++n) {
    auto parts = take(splitInputs(signature, {x}, n));
    std::vector<int64_t> samples;
    for (const Values &part : parts)
      samples.push_back(part[0].toTensor().size(0));
    EXPECT_TRUE(at::equal(take(mergeOutputs(signature, parts, samples)).toTensor(), x)) << n;
  }
}

TEST(Merge, ContainersAndNestedTrees) {
  Signature signature;
  signature.leaves.resize(2);
  signature.leaves[0].merge = signature.leaves[1].merge = concat(0);
  signature.outputs.kind = OutputTree::Kind::Dict;
  signature.outputs.keys = {"a", "b"};
  signature.outputs.children.resize(2);
  signature.outputs.children[1].leaf = 1;
  c10::List<at::Tensor> list({at::ones({2}), at::zeros({2, 2})});
  c10::IValue merged =
      take(mergeOutputs(signature, {{list, at::ones({2})}, {list, at::ones({2})}}, {2, 2}));
  auto leaves = take(flattenOutputs(signature, merged));
  EXPECT_EQ(leaves[0].toTensorVector()[1].sizes(), (at::IntArrayRef{4, 2}));
  EXPECT_EQ(leaves[1].toTensor().numel(), 4);

  c10::List<at::Tensor> shorter({at::ones({2})});
  merged = take(mergeOutputs(signature, {{list, at::ones({2})}, {shorter, at::ones({2})}}, {2, 2}));
  leaves = take(flattenOutputs(signature, merged)); // one per micro-batch
  EXPECT_EQ(leaves[0].toListRef().size(), 2u);
  EXPECT_EQ(leaves[0].toListRef()[1].toTensorVector().size(), 1u);
  EXPECT_EQ(leaves[1].toTensor().numel(), 4);
  signature.leaves[0].merge = kMean;
  EXPECT_EQ(
      errorOf(mergeOutputs(signature, {{list, at::ones({2})}, {shorter, at::ones({2})}}, {2, 2}))
          .message,
      "result a: the micro-batches returned results of different structure");
  EXPECT_EQ(errorOf(flattenOutputs(signature, at::ones({1}))).message,
            "the result: expected a dict of 2, got a value of type Tensor");
  EXPECT_EQ(errorOf(flattenOutputs(signature, c10::IValue(list))).message,
            "the result: expected a dict of 2, got a list of 2");
  OutputTree inner = signature.outputs;
  inner.keys = {"x", "y"};
  signature.outputs.children[1] = inner; // b.x, b.y
  signature.outputs.children[1].children[1].leaf = 1;
  c10::impl::GenericDict outer(c10::StringType::get(), c10::AnyType::get());
  outer.insert("a", at::ones({1}));
  outer.insert("b", list);
  EXPECT_EQ(errorOf(flattenOutputs(signature, outer)).message,
            "result b: expected a dict of 2, got a list of 2");
  signature = signatureWith({}, 2);
  signature.outputs.kind = OutputTree::Kind::Dict;
  signature.outputs.keys = {"a", "b"};
  signature.outputs.children.resize(2);
  signature.outputs.children[1].leaf = 1;
  signature.leaves[0].merge = signature.leaves[1].merge = kSame;
  EXPECT_NE(describe(mergeOutputs(signature, {{1, 2}, {1, 3}}, {2, 2}).takeError())
                .help.find("--merge b=list"),
            std::string::npos);
}

TEST(Trial, FindsTheRuleOfEachKindOfLeaf) {
  Signature signature = signatureWith({input("x"), input("table")}, 8);
  at::Tensor table = at::arange(10, at::kFloat);
  auto rules = rulesOf(signature, {at::randn({4, 6}), table}, [](Values in) -> Values {
    at::Tensor x = in[0].toTensor();
    c10::List<at::Tensor> list({x, x.sum(1)});
    return {x.t().contiguous(),
            x.mean(),
            in[1],
            x.mean(0),
            int64_t(3),
            x.size(0),
            list,
            x.repeat_interleave(2, 0).narrow(0, 0, 2 * x.size(0) - 1)};
  });
  EXPECT_EQ(rules, (std::vector<MergeRule>{concat(1), kMean, kSame, kMean, kSame, kSum, concat(0),
                                           kList}));
  EXPECT_TRUE(signature.batchSymbolic);
  EXPECT_EQ(signature.batchSize, 4);
  EXPECT_EQ(signature.inputs[0].batchDim, 0);
  EXPECT_EQ(signature.inputs[1].batchDim, std::nullopt);
  EXPECT_EQ(shapeText(signature.inputs[0].tensor), "1B+0,0B+6");
  EXPECT_EQ(shapeText(signature.leaves[0].tensor), "0B+6,1B+0");
  EXPECT_EQ(signature.leaves[0].tensor.strides[0], (Dim{1, 0, false}));
  EXPECT_EQ(signature.leaves[0].tensor.bytes, 4 * 6 * 4) << "at the example size";
}

TEST(Trial, ATensorOrNoneByTheData) {
  // None for the run whose values are negative; all others show how two tensors become one.
  auto onlyPositive = [](Values in) -> Values {
    if (in[0].toTensor().sum().item<float>() < 0)
      return {c10::IValue()};
    return {in[0].toTensor().neg()};
  };
  Signature signature = signatureWith({input("x")}, 1);
  EXPECT_EQ(rulesOf(signature, {at::ones({4, 2})}, onlyPositive)[0], concat(0));
  EXPECT_FALSE(signature.leaves[0].tensor.known);
  // A tensor at one size only: nothing shows what grows.
  auto atOneSize = [](Values in) -> Values {
    const at::Tensor x = in[0].toTensor();
    return {x.size(0) == 3 ? c10::IValue(x.neg()) : c10::IValue()};
  };
  signature = signatureWith({input("x")}, 1);
  EXPECT_EQ(rulesOf(signature, {at::ones({4, 2})}, atOneSize)[0], kList);
}

TEST(Trial, OneSampleRepeatedDoesNotHideDependence) {
  Signature signature = signatureWith({input("ids")}, 2);
  auto rules = rulesOf(signature, {at::arange(6).view({1, 6})}, [](Values in) -> Values {
    at::Tensor ids = in[0].toTensor();
    return {ids.select(0, 0), ids.select(0, ids.size(0) - 1)};
  });
  EXPECT_EQ(rules, (std::vector<MergeRule>{kList, kList}))
      << "a value of one sample is not the same for all";
}

TEST(Trial, FixedBatchIsAcceptedAtItsSizeOnly) {
  Signature signature = signatureWith({input("x")}, 2);
  auto rules = rulesOf(signature, {at::randn({4, 6})}, [](Values in) -> Values {
    return {in[0].toTensor().view({4, 2, 3}), at::ones({3})};
  });
  EXPECT_EQ(rules, (std::vector<MergeRule>{concat(0), kSame}));
  EXPECT_FALSE(signature.batchSymbolic);
  EXPECT_EQ(signature.batchSize, 4);
  EXPECT_EQ(shapeText(signature.leaves[0].tensor), "0B+4,0B+2,0B+3");
}

/// What is said of a model of one input that refuses `ids` so.
std::string explained(const at::Tensor &ids, llvm::function_ref<std::string(at::Tensor)> refusal) {
  auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    const std::string text = refusal(calls.back()[0].toTensor());
    if (!text.empty())
      return makeError(ExitCode::Usage, text);
    return Values{calls.back()[0]};
  };
  llvm::Error error = run({{ids}}).takeError();
  return describe(explainFixedBatch(std::move(error), signatureWith({input("ids")}, 1), {ids},
                                    {false}, run))
      .message;
}

TEST(FixedBatch, IsBlamedOnlyWhereEverySampleRuns) {
  auto ofThree = [](at::Tensor ids) -> std::string {
    return ids.size(0) == 3 ? "" : fmt::format("shape '[3]' is invalid for {}", ids.size(0));
  };
  EXPECT_EQ(explained(at::arange(7), ofThree),
            "expected a batch of 3 samples (the model's constants fix it), got 7: shape '[3]' is "
            "invalid for 7");
  EXPECT_EQ(explained(at::arange(2), ofThree),
            "expected a batch of 3 samples (the model's constants fix it), got 2: shape '[3]' is "
            "invalid for 2");
  auto ofTwo = [](at::Tensor ids) -> std::string {
    return ids.size(0) == 2 ? "" : "mat1 and mat2 shapes cannot be multiplied (2x128 and 64x64)";
  };
  EXPECT_EQ(explained(at::arange(4), ofTwo),
            "expected a batch of 2 samples (the model's constants fix it), got 4: mat1 and mat2 "
            "shapes cannot be multiplied (2x128 and 64x64)");
  auto inPairs = [](at::Tensor ids) -> std::string {
    return ids.size(0) % 2 == 0 ? ""
                                : fmt::format("shape '[-1, 2]' is invalid for {}", ids.size(0));
  };
  for (int64_t rows : {1, 3, 7})
    EXPECT_EQ(explained(at::arange(rows), inPairs),
              fmt::format("expected a multiple of 2 samples (the model groups rows by 2), got {0}: "
                          "shape '[-1, 2]' is invalid for {0}",
                          rows));
  // The number in the text is the width of a layer.
  auto ofChannels = [](at::Tensor ids) -> std::string {
    return ids.size(0) > 1 ? "" : "Expected more than 1 value per channel, got size [1, 16]";
  };
  EXPECT_EQ(explained(at::arange(1), ofChannels),
            "expected at least 2 samples, got 1: Expected more than 1 value per channel, got size "
            "[1, 16]");
  auto notThree = [](at::Tensor ids) -> std::string {
    return ids.size(0) != 3 ? "" : "no 3, but 16";
  };
  EXPECT_EQ(explained(at::arange(3), notThree), "no 3, but 16");
  // Three of these four samples run.
  auto table = [](at::Tensor ids) -> std::string {
    return ids.max().item<int64_t>() < 3 ? "" : "index 3 is out of bounds with size 3";
  };
  EXPECT_EQ(explained(at::arange(4), table), "index 3 is out of bounds with size 3");
}

TEST(FixedBatch, FewSamplesAreBlamedOnlyIfTheForwardRefusesThem) {
  Signature signature = signatureWith({input("x"), input("table")}, 1);
  signature.inputs[0].batchDim = 0;
  auto explain = [&](int64_t samples, int64_t least, ExitCode code) {
    auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
      EXPECT_EQ(calls.back()[1].toTensor().size(0), 3); // is not cut
      if (calls.back()[0].toTensor().size(0) < least)
        return makeError(ExitCode::Usage, "few");
      return Values{calls.back()[0]};
    };
    return describe(explainFewSamples(makeError(code, "few", "as it was"), signature,
                                      {at::ones({samples, 5}), at::ones({3})}, run));
  };
  const ErrorText found = explain(1, 2, ExitCode::Usage);
  EXPECT_EQ(found.message, "expected at least 2 samples, got 1: few");
  EXPECT_EQ(found.help,
            "choose the batch and --microbatches so that each micro-batch has at least 2 samples");
  EXPECT_EQ(explain(3, 4, ExitCode::Usage).message, "expected at least 4 samples, got 3: few");
  // Too few by more than one; not refused by the forward; another kind of failure.
  for (const ErrorText &other : {explain(1, 4, ExitCode::Usage), explain(1, 0, ExitCode::Usage),
                                 explain(1, 2, ExitCode::Internal)}) {
    EXPECT_EQ(other.message, "few");
    EXPECT_EQ(other.help, "as it was");
  }
}

TEST(FixedBatch, InputsThatContradictEachOtherAreNamed) {
  auto explain = [](const Values &inputs, llvm::function_ref<bool(const Values &)> accepts) {
    auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
      if (!accepts(calls.back()))
        return makeError(ExitCode::Usage, "size 2 must match 3 or 5");
      return Values{calls.back()[0]};
    };
    llvm::Error error = run({inputs}).takeError();
    return describe(explainFixedBatch(std::move(error),
                                      signatureWith({input("ids"), input("w")}, 1), inputs,
                                      {false, false}, run))
        .message;
  };
  auto agree = [](const Values &in) {
    return in[0].toTensor().size(0) == in[1].toTensor().size(0);
  };
  EXPECT_EQ(explain({at::ones({2, 5}), at::ones({3, 1})}, agree),
            "ids has 2 samples, w has 3: size 2 must match 3 or 5");
  auto turned = [](const Values &in) {
    return in[0].toTensor().size(1) == in[1].toTensor().size(0);
  };
  EXPECT_EQ(explain({at::ones({2, 5}), at::ones({2, 1})}, turned),
            "dimension 0 of ids and w has size 2, dimension 1 of ids has size 5, and the model "
            "runs only if they agree: size 2 must match 3 or 5");
  // A constant, although another input has that size.
  auto constant = [](const Values &in) { return in[0].toTensor().size(0) == 3; };
  EXPECT_EQ(explain({at::ones({2, 5}), at::ones({3, 1})}, constant),
            "expected a batch of 3 samples (the model's constants fix it), got 2: size 2 must "
            "match 3 or 5");
}

TEST(FixedBatch, AnInputOfThatSizeThatIsWholeMayFixIt) {
  Signature signature = signatureWith({input("x"), input("h")}, 1);
  signature.batchSize = 2;
  signature.inputs[0].batchDim = 0;
  const at::Tensor x = at::ones({2, 6, 8}), other = at::ones({1, 3, 8}), h = at::ones({1, 2, 8});
  EXPECT_EQ(whatFixesBatch(signature, {x, other}), "the model's constants");
  for (const c10::IValue &state : {c10::IValue(h), c10::IValue(std::vector<at::Tensor>{h, h})})
    EXPECT_EQ(whatFixesBatch(signature, {x, state}),
              "the model's constants, or the size of h, which every micro-batch gets whole,");
}

/// Of a model that runs without a compile, the first batch shows the sizes.
TEST(InputCheck, TheHelpNamesACompileOnlyIfThereWasOne) {
  Signature signature = signatureWith({input("x"), input("flag"), input("y")}, 1);
  for (InputSpec &spec : signature.inputs) {
    spec.tensor.known = true;
    spec.tensor.dtype = "float32";
    spec.tensor.shape = {{.perBatch = 0, .constant = 8, .dynamic = false}};
  }
  signature.batchSymbolic = true;
  signature.inputs[0].batchDim = signature.inputs[2].batchDim = 0;
  const at::Tensor rows = at::ones({8});
  auto helpFor = [&](const Values &inputs, SizesFrom from) {
    return describe(checkMicroBatch(signature, inputs, 0, 8, from)).help;
  };
  auto expectHelp = [&](const Values &inputs, const std::string &help) {
    EXPECT_NE(helpFor(inputs, SizesFrom::Compile).find("compile again"), std::string::npos);
    EXPECT_EQ(helpFor(inputs, SizesFrom::FirstBatch), help);
  };
  expectHelp({rows, at::ones({7}), rows},
             "every micro-batch gets the whole of flag, as the first batch suggests: if each row "
             "of it belongs to a sample, pass --batch-dim x=0,flag=0,y=0; otherwise --batch-dim "
             "flag=none, for any size; of --data, --drop-last leaves out a smaller last batch");
  expectHelp({at::ones({7}), rows, rows},
             "the first batch shows the sizes: pass inputs of this size");
  expectHelp({rows, at::ones({8, 1}), rows},
             "pass inputs with as many dimensions as in the first batch");
  expectHelp({rows, rows.to(at::kDouble), rows},
             "convert the input to the dtype of the first batch");
}

TEST(FixedBatch, ASecondDimensionOfThatSizeMayFixIt) {
  Signature signature = signatureWith({input("x"), input("adj")}, 1);
  signature.batchSize = 4;
  signature.batchSymbolic = false;
  for (InputSpec &spec : signature.inputs) {
    spec.batchDim = 0;
    spec.tensor.known = true;
    spec.tensor.dtype = "float32";
    spec.tensor.shape = {{.perBatch = 0, .constant = 4, .dynamic = false},
                         {.perBatch = 0, .constant = 8, .dynamic = false}};
  }
  const Values part = {at::ones({3, 8}), at::ones({3, 7})};
  EXPECT_EQ(whatFixesBatch(signature, part), "the model's constants");
  EXPECT_EQ(howToFreeBatch(signature), howToFreeBatch());
  signature.inputs[1].tensor.shape[1].constant = 4;
  EXPECT_EQ(whatFixesBatch(signature, part),
            "dimension 1 of adj, which no cut makes smaller, or the model's constants");
  const ErrorText refused = describe(checkMicroBatch(signature, part, 0, 3));
  EXPECT_NE(refused.message.find("expected 4 samples (dimension 1 of adj, which"),
            std::string::npos)
      << refused.message;
  EXPECT_NE(refused.help.find("compute adj in the model if both of its sizes follow the batch"),
            std::string::npos)
      << refused.help;
}

TEST(Trial, InputThatHasTheBatchSizeByChanceStaysWhole) {
  Signature signature = signatureWith({input("x"), input("weights")}, 1);
  auto rules = rulesOf(signature, {at::randn({4, 6}), at::randn({4})}, [](Values in) -> Values {
    return {in[0].toTensor().unsqueeze(1).mul(in[1].toTensor().view({1, 4, 1}))};
  });
  EXPECT_EQ(rules[0], concat(0));
  EXPECT_TRUE(signature.batchSymbolic);
  EXPECT_EQ(signature.inputs[1].batchDim, std::nullopt);
}

TEST(Trial, WhatHangsOnEarlierSamplesStaysWhole) {
  // Offsets into `rows`, of which the first must be 0: the samples of a second micro-batch have
  // none.
  Signature signature = signatureWith({input("x"), input("rows"), input("offsets")}, 1);
  at::Tensor offsets = at::arange(0, 12, 3);
  auto run = [](std::vector<Values> calls) -> llvm::Expected<Values> {
    const Values &in = calls.back();
    const at::Tensor begins = in[2].toTensor();
    if (begins.size(0) != in[0].toTensor().size(0))
      return makeError(ExitCode::Other, "as many offsets as samples");
    if (begins[0].item<int64_t>() != 0 || !begins.equal(std::get<0>(begins.sort())))
      return makeError(ExitCode::Other, "offsets begin at 0");
    return Values{at::add(in[0].toTensor(), begins.unsqueeze(1))};
  };
  std::string whole;
  whole =
      notCut(signature, {at::randn({4, 2}), at::randn({12}), offsets}, {false, false, false}, run);
  EXPECT_EQ(
      whole,
      "the model fails when it gets only the later samples of the example (offsets begin at 0)");
  EXPECT_FALSE(signature.batchSymbolic);
  for (const InputSpec &spec : signature.inputs)
    EXPECT_EQ(spec.batchDim, std::nullopt) << spec.name;
  EXPECT_EQ(shapeText(signature.inputs[0].tensor), "?,0B+2")
      << "other sizes run as one micro-batch";
  EXPECT_EQ(shapeText(signature.inputs[1].tensor), "0B+12");
  EXPECT_EQ(shapeText(signature.leaves[0].tensor), "?,0B+2");

  // Who names the dimensions gets them.
  whole.clear();
  signature.inputs[0].batchDim = 0;
  whole =
      notCut(signature, {at::randn({4, 2}), at::randn({12}), offsets}, {true, false, false}, run);
  EXPECT_EQ(whole, "");
}

TEST(Trial, SamplesThatNameEachOtherStayWhole) {
  // Nodes of a graph, and its edges: no constant of the model says how many nodes there are.
  Signature signature = signatureWith({input("nodes"), input("edges")}, 1);
  const Values example = {at::randn({10, 2}), at::arange(20).remainder(10).view({2, 10})};
  auto run = [](std::vector<Values> calls) -> llvm::Expected<Values> {
    const at::Tensor nodes = calls.back()[0].toTensor(), edges = calls.back()[1].toTensor();
    if (edges.max().item<int64_t>() >= nodes.size(0))
      return makeError(ExitCode::Other, "no such node");
    return Values{at::zeros_like(nodes).index_add(0, edges[1], nodes.index_select(0, edges[0]))};
  };
  std::string whole;
  whole = notCut(signature, example, {false, false}, run);
  EXPECT_EQ(whole, "edges refers to samples by index, and a part of the batch lacks some of them");
  EXPECT_FALSE(signature.batchSymbolic);
  EXPECT_EQ(signature.inputs[0].batchDim, std::nullopt);

  // A constant that says so is told from that.
  auto fixed = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    if (calls.back()[0].toTensor().size(0) != 10)
      return makeError(ExitCode::Other, "ten nodes");
    return run(std::move(calls));
  };
  whole = notCut(signature, example, {false, false}, fixed);
  EXPECT_EQ(whole, "");
  EXPECT_EQ(signature.inputs[0].batchDim, 0);
}

TEST(Trial, ListsWithAnEntryPerSampleStayWhole) {
  // Pictures of three colours each: 3 is no batch.
  auto run = [](std::vector<Values> calls) -> llvm::Expected<Values> {
    std::vector<at::Tensor> sums;
    for (const c10::IValue &picture : calls.back()[0].toListRef()) {
      if (picture.toTensor().size(0) != 3)
        return makeError(ExitCode::Other, "three colours");
      sums.push_back(picture.toTensor().sum());
    }
    return Values{sums};
  };
  const c10::IValue pictures(std::vector<at::Tensor>{at::randn({3, 4, 5}), at::randn({3, 6, 5})});
  Signature signature = signatureWith({input("pictures")}, 1);
  std::string whole;
  whole = notCut(signature, {pictures}, {false}, run);
  EXPECT_EQ(whole.find("pictures is a list with an entry per sample"), 0u) << whole;
  EXPECT_EQ(signature.inputs[0].batchDim, std::nullopt);

  // A model that takes two of them, no more: as far as it shows, they follow a batch of 3.
  auto takesTwo = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
    if (calls.back()[0].toListRef().size() != 2)
      return makeError(ExitCode::Other, "two pictures");
    return run(std::move(calls));
  };
  whole = notCut(signature, {pictures}, {false}, takesTwo);
  EXPECT_EQ(whole, "");
  EXPECT_EQ(signature.inputs[0].batchDim, 0);
}

TEST(Trial, ListsOfFeaturesFollowAFixedBatch) {
  // Any number of features, each of 4 samples, which a constant of the model fixes.
  const c10::IValue features(std::vector<at::Tensor>{at::randn({4, 2}), at::randn({4, 2})});
  auto batchOf = [&](llvm::function_ref<c10::IValue(std::vector<at::Tensor>)> result) {
    auto run = [&](std::vector<Values> calls) -> llvm::Expected<Values> {
      std::vector<at::Tensor> entries;
      for (const c10::IValue &entry : calls.back()[0].toListRef()) {
        if (entry.toTensor().size(0) != 4)
          return makeError(ExitCode::Other, "four samples");
        entries.push_back(entry.toTensor());
      }
      return Values{result(std::move(entries))};
    };
    Signature signature = signatureWith({input("xs")}, 1);
    std::string whole;
    whole = notCut(signature, {features}, {false}, run);
    EXPECT_EQ(whole, "");
    EXPECT_FALSE(signature.batchSymbolic);
    return signature.inputs[0].batchDim;
  };
  using Entries = std::vector<at::Tensor>;
  EXPECT_EQ(batchOf([](Entries xs) { return at::stack(xs).sum(0); }), 0);
  EXPECT_EQ(batchOf([](Entries xs) { return at::stack(xs).sum(); }), 0) << "says nothing";
  EXPECT_EQ(batchOf([](Entries xs) { return at::cat(xs, 1); }), 0) << "more, of the same samples";
  EXPECT_EQ(batchOf([](Entries xs) { return c10::IValue(xs); }), 0) << "the samples of each";
  EXPECT_EQ(batchOf([](Entries xs) {
              const at::Tensor sizes = at::zeros({static_cast<int64_t>(xs.size())});
              return c10::ivalue::Tuple::create(at::stack(xs).sum(0), sizes);
            }),
            0)
      << "one result has the samples";
}

TEST(Trial, GivenDimensionsWin) {
  Signature signature = signatureWith({input("x", 1), input("mask")}, 1);
  Values inputs = {at::randn({6, 4}), at::ones({4, 2})};
  auto run = [](std::vector<Values> calls) -> llvm::Expected<Values> {
    return Values{calls.back()[0]};
  };
  notCut(signature, inputs, {true, false}, run);
  EXPECT_EQ(signature.inputs[0].batchDim, 1);
  EXPECT_EQ(signature.inputs[1].batchDim, 0);
  EXPECT_EQ(signature.leaves[0].merge, concat(1));
  EXPECT_EQ(signature.batchSize, 4);

  signature = signatureWith({input("x", 0), input("y")}, 1);
  notCut(signature, {at::randn({6}), at::randn({6})}, {true, true}, run);
  EXPECT_EQ(signature.inputs[1].batchDim, std::nullopt) << "none was given";
}

TEST(Trial, ModelsThatWriteIntoTheirInputsLeaveTheExampleAlone) {
  Signature signature = signatureWith({input("x")}, 1);
  at::Tensor x = at::zeros({3, 2});
  rulesOf(signature, {x}, [](Values in) -> Values { return {in[0].toTensor().add_(1)}; });
  EXPECT_EQ(x.sum().item<float>(), 0);
}

TEST(Trial, WhatFollowsEarlierCallsIsAList) {
  Signature signature = signatureWith({input("x")}, 2);
  auto run = [](std::vector<Values> calls) -> llvm::Expected<Values> {
    return Values{calls.back()[0], static_cast<int64_t>(calls.size())}; // a counter of calls
  };
  notCut(signature, {at::randn({4, 2})}, {false}, run);
  EXPECT_EQ(signature.leaves[0].merge, concat(0));
  EXPECT_EQ(signature.leaves[1].merge, MergeRule{});
}

TEST(Trial, AnExampleThatFailsIsTheUsersError) {
  Signature signature = signatureWith({input("x")}, 1);
  auto run = [](std::vector<Values>) -> llvm::Expected<Values> {
    return makeError(ExitCode::Usage, "bad shape");
  };
  ErrorText text = describe(discover(signature, {at::ones({2})}, {false}, run).takeError());
  EXPECT_EQ(text.code, ExitCode::Usage);
  EXPECT_EQ(text.message, "bad shape\n  called with x: float32[2]");
}

TEST(Resize, RepeatsAndDropsInMemoryOrder) {
  at::Tensor x = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  at::Tensor five = resizeBatch(x, 0, 5).toTensor();
  EXPECT_TRUE(five.is_contiguous(at::MemoryFormat::ChannelsLast));
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_TRUE(at::equal(five[i], x[i * 2 / 5])) << "in order";
  EXPECT_EQ(resizeBatch(x, 0, 1).toTensor().size(0), 1);
  EXPECT_TRUE(resizeBatch(x, ArgumentCut(), 5).toTensor().is_same(x));
}

TEST(Resize, AnExpandedTensorIsLikeItsCopy) {
  const at::Tensor x = at::randn({1, 7}).expand({4, 7});
  EXPECT_EQ(resizeBatch(x, 0, 2).toTensor().strides(), at::IntArrayRef({7, 1}));
  EXPECT_EQ(ownCopies({x}).front().toTensor().strides(), at::IntArrayRef({7, 1}));
}

TEST(Copies, PartsOfEqualSamplesMayBeAlignedOtherwise) {
  const at::Tensor x = at::ones({4, 7});
  const Values first = ownCopies({x.narrow(0, 0, 2)}), last = ownCopies({x.narrow(0, 1, 2)});
  EXPECT_TRUE(areAlignedAlike(first, ownCopies({at::ones({2, 7})})));
  EXPECT_FALSE(areAlignedAlike(first, last));
}

TEST(FitSpec, LinesAndUnknowns) {
  auto at = [](int64_t batch, int64_t other) {
    return std::pair(batch, specOf(at::ones({batch, 3 * batch + 1, other})));
  };
  EXPECT_EQ(shapeText(fitSpec({at(2, 7), at(3, 7), at(5, 7)})), "1B+0,3B+1,0B+7");
  EXPECT_EQ(shapeText(fitSpec({at(2, 7), at(3, 9), at(5, 10)})), "1B+0,3B+1,?");
  EXPECT_EQ(shapeText(fitSpec({at(4, 7)})), "0B+4,0B+13,0B+7");
  EXPECT_FALSE(fitSpec({{2, specOf(at::ones({2}))}, {3, specOf(at::ones({3}, at::kLong))}}).known);
  EXPECT_FALSE(fitSpec({}).known);
}
