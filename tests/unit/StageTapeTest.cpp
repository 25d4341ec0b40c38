// The backward through one stage: the engine's bits, in one walk and in two, and what memory is
// free after the first.
#include "ir/autograd/StageTape.h"

#include "ir/autograd/GradSum.h"
#include "ir/autograd/TapeMemory.h"
#include "ir/autograd/TrainingSettings.h"
#include "tests/support/Matchers.h"

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/core/List.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

using namespace pipec;

namespace {

using Values = std::vector<c10::IValue>;

at::Tensor weight(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

bool sameBits(const at::Tensor &a, const at::Tensor &b) {
  return a.defined() == b.defined() && (!a.defined() || (a.strides() == b.strides() && a.equal(b)));
}

class StageTapeTest : public testing::Test {
protected:
  StageTapeTest() { at::manual_seed(1); }

  static StageTape record(const Values &inputs, std::vector<TapedAttribute> weights,
                          StageTape::Run run) {
    return llvm::cantFail(StageTape::record(inputs, weights, run));
  }

  TrainingSettings settings_;
};

/// y = b(tanh(a(x))) + x, and tanh(a(x)) sent as well.
llvm::Expected<Values> block(Values in, Values w) {
  const at::Tensor x = in[0].toTensor();
  const at::Tensor h = at::tanh(at::matmul(x, w[0].toTensor()));
  return Values{at::matmul(h, w[1].toTensor()).add(x), h};
}

TEST_F(StageTapeTest, givesTheBitsOfTheEngine) {
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), b = weight({4, 4});
  const at::Tensor gy = at::randn({3, 4}), gh = at::randn({3, 4});
  Values plain = llvm::cantFail(block({x}, {a, b}));
  const auto expected =
      torch::autograd::grad({plain[0].toTensor(), plain[1].toTensor()}, {x, a, b}, {gy, gh});

  StageTape whole = record({x}, {{a, 1}, {b, 1}}, block);
  const StageGradients found = llvm::cantFail(whole.backward({{gy}, {gh}}, {{}}));
  EXPECT_TRUE(sameBits(found.inputs[0][0], expected[0]));
  EXPECT_TRUE(sameBits(found.attributes[0][0], expected[1]));
  EXPECT_TRUE(sameBits(found.attributes[1][0], expected[2]));

  StageTape split = record({x}, {{a, 1}, {b, 1}}, block);
  ASSERT_EQ(split.whyWhole(), "");
  const StageGradients first = llvm::cantFail(split.inputGradients({{gy}, {gh}}, {{}}));
  EXPECT_TRUE(sameBits(first.inputs[0][0], expected[0]));
  const std::vector<ValueGradients> later = llvm::cantFail(split.weightGradients());
  EXPECT_TRUE(sameBits(later[0][0], expected[1]));
  EXPECT_TRUE(sameBits(later[1][0], expected[2]));
}

/// One gradient is that of both weights and of x.
llvm::Expected<Values> sumOfThree(Values in, Values w) {
  return Values{at::tanh(in[0].toTensor().add(w[0].toTensor()).add(w[1].toTensor()))};
}

/// A sink gets each gradient when it is complete. The sums that it makes share no memory with what
/// the walk still reads.
TEST_F(StageTapeTest, gradientsMayBeAddedWhileTheWalkGoesOn) {
  const at::Tensor x = weight({3, 4}), a = weight({3, 4}), b = weight({3, 4});
  const at::Tensor gy = at::randn({3, 4});
  const auto expected = torch::autograd::grad({at::tanh(x.add(a).add(b))}, {x, a, b}, {gy});
  for (bool isSplit : {false, true}) {
    std::vector<at::Tensor> sums(2);
    auto sink = [&](size_t attribute, at::Tensor &gradient) {
      EXPECT_FALSE(at::GradMode::is_enabled());
      accumulateGradient(sums[attribute], std::move(gradient), attribute == 0 ? a : b);
      sums[attribute].mul_(2); // others would see it
      return true;
    };
    StageTape tape = record({x}, {{a, 1}, {b, 1}}, sumOfThree);
    StageGradients found;
    if (isSplit) {
      ASSERT_EQ(tape.whyWhole(), "");
      found = llvm::cantFail(tape.inputGradients({{gy}}, {{}}));
      found.attributes = llvm::cantFail(tape.weightGradients(sink));
    } else {
      found = llvm::cantFail(tape.backward({{gy}}, {{}}, sink));
    }
    EXPECT_TRUE(sameBits(found.inputs[0][0], expected[0])) << isSplit;
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_FALSE(found.attributes[k][0].defined()) << isSplit;
      EXPECT_TRUE(sums[k].equal(expected[k + 1].mul(2))) << isSplit;
    }
  }
}

TEST_F(StageTapeTest, whatTheSinkLeavesIsInTheResult) {
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), b = weight({4, 4});
  const at::Tensor gy = at::randn({3, 4}), gh = at::randn({3, 4});
  Values plain = llvm::cantFail(block({x}, {a, b}));
  const auto expected =
      torch::autograd::grad({plain[0].toTensor(), plain[1].toTensor()}, {a, b}, {gy, gh});
  StageTape tape = record({x}, {{a, 1}, {b, 1}}, block);
  at::Tensor taken;
  const StageGradients found =
      llvm::cantFail(tape.backward({{gy}, {gh}}, {{}}, [&](size_t attribute, at::Tensor &gradient) {
        if (attribute == 1)
          taken = std::move(gradient);
        return attribute == 1;
      }));
  EXPECT_TRUE(sameBits(found.attributes[0][0], expected[0]));
  EXPECT_FALSE(found.attributes[1][0].defined());
  EXPECT_TRUE(sameBits(taken, expected[1]));
}

/// The memory of one weight's gradient is free before the next one is made.
TEST_F(StageTapeTest, aTakenGradientIsFreeWhileTheWalkGoesOn) {
  constexpr size_t kWeights = 5;
  const at::Tensor x = weight({3, 4});
  std::vector<TapedAttribute> weights;
  for (size_t k = 0; k < kWeights; ++k)
    weights.push_back({weight({4, 4}), 1});
  StageTape tape = record({x}, weights, [](Values in, Values w) -> llvm::Expected<Values> {
    at::Tensor y = in[0].toTensor();
    for (const c10::IValue &each : w)
      y = at::tanh(at::matmul(y, each.toTensor()));
    return Values{y};
  });
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
  size_t given = 0, alive = 0;
  llvm::cantFail(tape.backward({{at::ones({3, 4})}}, {{}}, [&](size_t, at::Tensor &gradient) {
    ++given;
    for (const auto &storage : storages)
      alive += !storage.expired();
    const at::Tensor mine = std::move(gradient);
    storages.emplace_back(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(mine.storage().unsafeGetStorageImpl()));
    return true;
  }));
  EXPECT_EQ(given, kWeights);
  EXPECT_EQ(alive, 0u);
}

/// Sums over broadcast dimensions, a cast, one value with three uses, and two weights of one node.
llvm::Expected<Values> mixed(Values in, Values w) {
  const at::Tensor x = in[0].toTensor();
  const at::Tensor h = at::mul(x, w[0].toTensor());
  const at::Tensor wide = at::add(h, h.to(at::kDouble)).to(at::kFloat);
  return Values{at::layer_norm(wide, {4}, w[1].toTensor(), w[2].toTensor()).add(h)};
}

TEST_F(StageTapeTest, sumsAndCastsAreTheEngines) {
  const at::Tensor x = weight({3, 4}), a = weight({1, 4}), b = weight({4}), c = weight({4});
  const at::Tensor gy = at::randn({3, 4});
  Values plain = llvm::cantFail(mixed({x}, {a, b, c}));
  const auto expected = torch::autograd::grad({plain[0].toTensor()}, {x, a, b, c}, {gy});
  StageTape whole = record({x}, {{a, 1}, {b, 1}, {c, 1}}, mixed);
  const StageGradients found = llvm::cantFail(whole.backward({{gy}}, {{}}));
  StageTape split = record({x}, {{a, 1}, {b, 1}, {c, 1}}, mixed);
  ASSERT_EQ(split.whyWhole(), "");
  const StageGradients first = llvm::cantFail(split.inputGradients({{gy}}, {{}}));
  const std::vector<ValueGradients> later = llvm::cantFail(split.weightGradients());
  EXPECT_TRUE(sameBits(found.inputs[0][0], expected[0]));
  EXPECT_TRUE(sameBits(first.inputs[0][0], expected[0]));
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_TRUE(sameBits(found.attributes[k][0], expected[k + 1])) << k;
    EXPECT_TRUE(sameBits(later[k][0], expected[k + 1])) << k;
  }
}

/// A first stage: the result that is sent early leads on to the last one.
llvm::Expected<Values> twoResults(Values in, Values w) {
  const at::Tensor early = at::add(w[0].toTensor(), w[1].toTensor());
  const at::Tensor h = at::matmul(in[0].toTensor(), at::matmul(early, w[2].toTensor()));
  return Values{early, at::tanh(h)};
}

TEST_F(StageTapeTest, aResultMayLeadToAnotherOne) {
  const at::Tensor x = at::randn({3, 4}), ga = at::randn({4, 4}), gb = at::randn({3, 4});
  const std::vector<at::Tensor> w = {weight({4, 4}), weight({4, 4}), weight({4, 4})};
  Values plain = llvm::cantFail(twoResults({x}, {w[0], w[1], w[2]}));
  const auto expected =
      torch::autograd::grad({plain[0].toTensor(), plain[1].toTensor()}, w, {ga, gb});
  StageTape split = record({x}, {{w[0], 1}, {w[1], 1}, {w[2], 1}}, twoResults);
  ASSERT_EQ(split.whyWhole(), "");
  llvm::cantFail(split.inputGradients({{ga}, {gb}}, {{}}));
  const std::vector<ValueGradients> found = llvm::cantFail(split.weightGradients());
  for (size_t k = 0; k < 3; ++k)
    EXPECT_TRUE(sameBits(found[k][0], expected[k])) << k;
}

// Graphs that only LibTorch's engine walks.
TEST_F(StageTapeTest, hooksOfTheModelRun) {
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), gy = at::ones({3, 4});
  size_t calls = 0;
  auto hooked = [&](Values in, Values w) -> llvm::Expected<Values> {
    at::Tensor h = at::matmul(in[0].toTensor(), w[0].toTensor());
    h.register_hook([&](const at::Tensor &gradient) {
      ++calls;
      return gradient.mul(2);
    });
    return Values{at::tanh(h)};
  };
  StageTape whole = record({x}, {{a, 1}}, hooked);
  const StageGradients found = llvm::cantFail(whole.backward({{gy}}, {{}}));
  EXPECT_EQ(calls, 1u);
  const at::Tensor h = at::tanh(at::matmul(x, a));
  const at::Tensor expected = torch::autograd::grad({h}, {x}, {gy})[0].mul(2);
  EXPECT_TRUE(found.inputs[0][0].allclose(expected, 1e-6));
}

TEST_F(StageTapeTest, aTensorOfTheStagesOwnGetsNoGradient) {
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), own = weight({3, 4});
  StageTape tape = record({x}, {{a, 1}}, [&](Values in, Values w) -> llvm::Expected<Values> {
    return Values{at::matmul(in[0].toTensor(), w[0].toTensor()).mul(own)};
  });
  const StageGradients found = llvm::cantFail(tape.backward({{at::ones({3, 4})}}, {{}}));
  EXPECT_TRUE(found.attributes[0][0].defined());
  EXPECT_FALSE(own.grad().defined());
}

TEST_F(StageTapeTest, aliasesServeManyTapesUntilOneIsWritten) {
  const at::Tensor x = weight({3, 4}), gy = at::ones({3, 4});
  at::Tensor a = weight({4, 4}), b = weight({4, 4});
  const std::vector<TapedAttribute> weights = {{a, 1}, {b, 1}};
  const auto entered = std::make_shared<const EnteredWeights>(weights);
  StageTape first = llvm::cantFail(StageTape::record({x}, weights, entered, block));
  llvm::cantFail(first.backward({{gy}, {}}, {{}}));
  {
    at::NoGradGuard noGrad;
    a.mul_(0.5); // as an optimizer does
  }
  ASSERT_TRUE(entered->fits(weights));
  EXPECT_FALSE(entered->fits({{a, 1}, {a.detach(), 1}}));
  StageTape again = llvm::cantFail(StageTape::record({x}, weights, entered, block));
  StageTape fresh = record({x}, weights, block);
  const StageGradients one = llvm::cantFail(again.backward({{gy}, {}}, {{}}));
  const StageGradients other = llvm::cantFail(fresh.backward({{gy}, {}}, {{}}));
  EXPECT_TRUE(sameBits(one.attributes[0][0], other.attributes[0][0]));
  EXPECT_TRUE(sameBits(one.inputs[0][0], other.inputs[0][0]));

  auto writes = [](Values in, Values w) -> llvm::Expected<Values> {
    return Values{at::matmul(in[0].toTensor(), w[0].toTensor().mul_(2))};
  };
  const std::vector<TapedAttribute> written = {{a, 1}};
  const auto once = std::make_shared<const EnteredWeights>(written);
  ASSERT_TRUE(once->fits(written));
  llvm::cantFail(StageTape::record({x}, written, once, writes).takeError());
  EXPECT_FALSE(once->fits(written));
}

TEST_F(StageTapeTest, whatIsSentKeepsNoGraph) {
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), b = weight({4, 4}).detach();
  const StageTape tape = record({x}, {{a, 1}, {b, 1}}, block);
  EXPECT_TRUE(tape.outputs()[0].toTensor().is_leaf());
  EXPECT_TRUE(tape.outputs()[0].toTensor().requires_grad());
}

TEST_F(StageTapeTest, aFrozenWeightHasNoGradient) {
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), b = at::randn({4, 4});
  StageTape tape = record({x}, {{a, 1}, {b, 1}}, block);
  const StageGradients found = llvm::cantFail(tape.backward({{at::ones({3, 4})}, {}}, {{}}));
  EXPECT_TRUE(found.attributes[0][0].defined());
  EXPECT_FALSE(found.attributes[1][0].defined());
}

/// Three stages read one value: ((third + second) + first), and not in another order.
TEST_F(StageTapeTest, laterStagesGradientsAreTheFirstSummand) {
  const at::Tensor x = weight({1000});
  const at::Tensor third = at::randn({1000}), scale = at::randn({1000});
  StageTape tape = record({x}, {}, [&](Values in, Values) {
    const at::Tensor v = in[0].toTensor();
    return llvm::Expected<Values>(Values{v.mul(scale), v.sin()});
  });
  const at::Tensor g1 = at::randn({1000}), g2 = at::randn({1000});
  const StageGradients found = llvm::cantFail(tape.backward({{g1}, {g2}}, {{third.clone()}}));
  const at::Tensor expected = third.add(g2.mul(x.detach().cos())).add(g1.mul(scale));
  EXPECT_TRUE(sameBits(found.inputs[0][0], expected));
}

/// A gradient that was handed over keeps its strides in the sum, as in the unsplit model.
TEST_F(StageTapeTest, sumsHaveTheStridesOfTheFirstSummand) {
  const at::Tensor x = weight({3, 4});
  StageTape tape = record({x}, {}, [](Values in, Values) {
    return llvm::Expected<Values>(Values{in[0].toTensor().mul(2)});
  });
  std::vector<ValueGradients> later = {{at::randn({4, 3}).t()}};
  const std::vector<int64_t> strides = later[0][0].strides().vec();
  const StageGradients found =
      llvm::cantFail(tape.backward({{at::ones({3, 4})}}, std::move(later)));
  EXPECT_EQ(found.inputs[0][0].strides().vec(), strides);
}

TEST_F(StageTapeTest, oneTensorThroughTwoPortsStaysOne) {
  const at::Tensor x = weight({3});
  bool isOne = false;
  StageTape tape = record({x, x}, {}, [&](Values in, Values) {
    isOne = in[0].toTensor().is_same(in[1].toTensor());
    return llvm::Expected<Values>(Values{in[0].toTensor().mul(in[1].toTensor())});
  });
  EXPECT_TRUE(isOne);
  const StageGradients found = llvm::cantFail(tape.backward({{at::ones({3})}}, {{}, {}}));
  EXPECT_TRUE(sameBits(found.inputs[0][0], x.detach().add(x.detach())));
  EXPECT_FALSE(found.inputs[1][0].defined()); // it is in the first
}

TEST_F(StageTapeTest, whatPassesThroughIsTheTensorThatCame) {
  const at::Tensor x = weight({1000});
  StageTape tape = record({x}, {}, [](Values in, Values) {
    const at::Tensor v = in[0].toTensor();
    return llvm::Expected<Values>(Values{v.contiguous(), v.view({10, 100}), v.sin()});
  });
  EXPECT_TRUE(tape.outputs()[0].toTensor().is_same(x));
  EXPECT_FALSE(tape.outputs()[1].toTensor().is_same(x));
  const at::Tensor later = at::randn({1000}), g = at::randn({1000}), ofSin = at::randn({1000});
  const StageGradients found =
      llvm::cantFail(tape.backward({{g}, {at::Tensor()}, {ofSin}}, {{later.clone()}}));
  const at::Tensor expected = later.add(g).add(ofSin.mul(x.detach().cos()));
  EXPECT_TRUE(sameBits(found.inputs[0][0], expected));
}

TEST_F(StageTapeTest, whatIsWrittenIsNotTheTensorThatCame) {
  const at::Tensor x = weight({3});
  StageTape tape = record({x}, {}, [](Values in, Values) {
    return llvm::Expected<Values>(Values{in[0].toTensor().mul_(2)});
  });
  EXPECT_FALSE(tape.outputs()[0].toTensor().is_same(x));
  const StageGradients found = llvm::cantFail(tape.backward({{at::ones({3})}}, {{}}));
  EXPECT_TRUE(sameBits(found.inputs[0][0], at::full({3}, 2.0f)));
}

TEST_F(StageTapeTest, whatNobodyElseHoldsLeavesAsAnotherTensor) {
  Values inputs;
  inputs.emplace_back(weight({3}));
  const c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> came(
      inputs[0].toTensor().getIntrusivePtr());
  StageTape tape = llvm::cantFail(StageTape::record(std::move(inputs), {}, [](Values in, Values) {
    return llvm::Expected<Values>(std::move(in));
  }));
  EXPECT_TRUE(came.expired());
  EXPECT_TRUE(tape.outputs()[0].toTensor().requires_grad());
  EXPECT_EQ(tape.outputs()[0].toTensor().grad_fn(), nullptr);
}

TEST_F(StageTapeTest, aListOfWeightsIsTheWeights) {
  const at::Tensor a = weight({4, 4}), x = at::randn({2, 4});
  const c10::List<at::Tensor> list({a, a});
  StageTape tape = record({x}, {{a, 0}, {list, 1}}, [](Values in, Values w) {
    const at::Tensor h = at::matmul(in[0].toTensor(), w[0].toTensorVector()[0]);
    return llvm::Expected<Values>(Values{at::matmul(h, w[0].toTensorVector()[1])});
  });
  const StageGradients found = llvm::cantFail(tape.backward({{at::ones({2, 4})}}, {{}}));
  EXPECT_TRUE(found.attributes[0][0].defined());
  EXPECT_FALSE(found.attributes[1][0].defined());
  EXPECT_FALSE(found.attributes[1][1].defined());
}

/// Each weight has at least three uses, of which one depends on another: in a row, of a value that
/// is derived from it, in a loop and behind it, by several arguments of one operator.
TEST_F(StageTapeTest, usesOfAWeightContributeAsInTheUnsplitModel) {
  const auto run = [](Values in, Values w) -> llvm::Expected<Values> {
    auto use = [&](size_t i) { return w[i].toTensor(); };
    at::Tensor h = at::matmul(in[0].toTensor(), use(0));
    h = at::tanh(at::matmul(h, use(1))).add(at::matmul(h, use(2)));
    const at::Tensor half = use(3).mul(0.5);
    for (int round = 0; round < 3; ++round)
      h = at::tanh(at::matmul(h, half));
    h = at::matmul(h, use(4));
    for (int round = 0; round < 2; ++round)
      h = at::tanh(at::matmul(h, use(5)));
    h = at::tanh(at::matmul(h, use(6)));
    return Values{at::addcmul(use(7), use(8), use(9)).mul(h).add(use(9))};
  };
  const at::Tensor a = weight({4, 4}), b = weight({4, 4}), c = weight({4, 4}), d = weight({4, 4});
  const Values plain = {a, a, a, b, b, c, c, d, d, d};
  const std::vector<TapedAttribute> attributes = {{a, 3}, {b, 2}, {c, 2}, {d, 3}};
  for (const at::Tensor &x : {weight({4, 4}), at::randn({4, 4})}) {
    const at::Tensor g = at::randn({4, 4});
    const auto expected = torch::autograd::grad({llvm::cantFail(run({x}, plain))[0].toTensor()},
                                                {a, b, c, d}, {g.clone()});
    StageTape whole = record({x}, attributes, run), split = record({x}, attributes, run);
    ASSERT_EQ(split.whyWhole(), "");
    const StageGradients atOnce = llvm::cantFail(whole.backward({{g.clone()}}, {{}}));
    llvm::cantFail(split.inputGradients({{g.clone()}}, {{}}).takeError());
    const auto later = llvm::cantFail(split.weightGradients());
    for (size_t k = 0; k < expected.size(); ++k) {
      EXPECT_TRUE(sameBits(atOnce.attributes[k][0], expected[k])) << k;
      EXPECT_TRUE(sameBits(later[k][0], expected[k])) << k;
    }
  }
}

TEST_F(StageTapeTest, withoutGradientsOfInputsWIsTheWholeBackward) {
  // Each weight leads to both results, and one result to the other.
  const at::Tensor x = at::randn({4, 4}), a = weight({4, 4}), b = weight({4, 4});
  const at::Tensor g0 = at::randn({4, 4}), g1 = at::randn({4, 4});
  auto fork = [](Values in, Values w) {
    const at::Tensor h = at::tanh(at::matmul(in[0].toTensor(), w[0].toTensor()));
    const at::Tensor u = at::matmul(h, w[1].toTensor());
    return llvm::Expected<Values>(Values{u, at::sin(h).add(u)});
  };
  StageTape whole = record({x}, {{a, 1}, {b, 1}}, fork);
  StageTape split = record({x}, {{a, 1}, {b, 1}}, fork);
  ASSERT_EQ(split.whyWhole(), "");
  const StageGradients expected = llvm::cantFail(whole.backward({{g0}, {g1}}, {{}}));
  const StageGradients first = llvm::cantFail(split.inputGradients({{g0}, {g1}}, {{}}));
  EXPECT_FALSE(first.inputs[0][0].defined());
  const auto second = llvm::cantFail(split.weightGradients());
  EXPECT_TRUE(sameBits(second[0][0], expected.attributes[0][0]));
  EXPECT_TRUE(sameBits(second[1][0], expected.attributes[1][0]));
}

/// Two names of one tensor, in turns, and a use that is a result.
TEST_F(StageTapeTest, namesOfOneWeightContributeAsInTheUnsplitModel) {
  const at::Tensor a = weight({4, 4}), b = weight({4, 4});
  const auto run = [](Values in, Values w) -> llvm::Expected<Values> {
    at::Tensor h = at::matmul(in[0].toTensor(), w[2].toTensor());
    for (size_t i : {0, 3, 1, 4})
      h = at::tanh(at::matmul(h, w[i].toTensor()));
    return Values{h, w[5]};
  };
  const std::vector<TapedAttribute> attributes = {{a, 2}, {b, 1}, {a, 3}};
  const at::Tensor g0 = at::randn({4, 4}), g1 = at::randn({4, 4});
  for (const at::Tensor &x : {weight({4, 4}), at::randn({4, 4})}) {
    const Values plain = llvm::cantFail(run({x}, {a, a, b, a, a, a}));
    const auto expected = torch::autograd::grad({plain[0].toTensor(), plain[1].toTensor()}, {a, b},
                                                {g0.clone(), g1.clone()});
    StageTape whole = record({x}, attributes, run), split = record({x}, attributes, run);
    const StageGradients atOnce =
        llvm::cantFail(whole.backward({{g0.clone()}, {g1.clone()}}, {{}}));
    EXPECT_TRUE(sameBits(atOnce.attributes[0][0], expected[0]));
    EXPECT_TRUE(sameBits(atOnce.attributes[1][0], expected[1]));
    ASSERT_EQ(split.whyWhole(), "");
    llvm::cantFail(split.inputGradients({{g0.clone()}, {g1.clone()}}, {{}}).takeError());
    const auto later = llvm::cantFail(split.weightGradients());
    EXPECT_TRUE(sameBits(later[0][0], expected[0]));
    EXPECT_TRUE(sameBits(later[1][0], expected[1]));
  }
}

/// What later stages found for an input that this stage hands on arrives there in I.
TEST_F(StageTapeTest, anInputThatIsOnlyHandedOnHasItsGradientAfterI) {
  const at::Tensor x = weight({4, 4}), a = weight({4, 4});
  const at::Tensor ofResult = at::randn({4, 4}), ofInput = at::randn({4, 4});
  auto detached = [](Values in, Values w) {
    return llvm::Expected<Values>(
        Values{at::matmul(in[0].toTensor().detach(), w[0].toTensor()).sin()});
  };
  StageTape whole = record({x}, {{a, 1}}, detached);
  StageTape split = record({x}, {{a, 1}}, detached);
  ASSERT_EQ(split.whyWhole(), "");
  const StageGradients expected = llvm::cantFail(whole.backward({{ofResult}}, {{ofInput}}));
  const StageGradients first = llvm::cantFail(split.inputGradients({{ofResult}}, {{ofInput}}));
  ASSERT_TRUE(first.inputs[0][0].defined());
  EXPECT_TRUE(sameBits(first.inputs[0][0], ofInput));
  EXPECT_TRUE(sameBits(expected.inputs[0][0], ofInput));
  const auto second = llvm::cantFail(split.weightGradients());
  EXPECT_TRUE(sameBits(second[0][0], expected.attributes[0][0]));
}

TEST_F(StageTapeTest, gradientsOfSeveralResultsStayApart) {
  // The operator where the weight meets the way has two results of one shape.
  const at::Tensor x = weight({4, 4}), a = weight({4, 4});
  const at::Tensor gs = at::randn({4, 4}), gm = at::randn({4, 4});
  auto solve = [](Values in, Values w) {
    const auto [solution, matrix] = at::triangular_solve(in[0].toTensor(), w[0].toTensor());
    return llvm::Expected<Values>(Values{at::tanh(solution), at::sin(matrix)});
  };
  StageTape whole = record({x}, {{a, 1}}, solve);
  StageTape split = record({x}, {{a, 1}}, solve);
  ASSERT_EQ(split.whyWhole(), "");
  const StageGradients expected = llvm::cantFail(whole.backward({{gs}, {gm}}, {{}}));
  const StageGradients first = llvm::cantFail(split.inputGradients({{gs}, {gm}}, {{}}));
  EXPECT_TRUE(sameBits(first.inputs[0][0], expected.inputs[0][0]));
  EXPECT_TRUE(sameBits(llvm::cantFail(split.weightGradients())[0][0], expected.attributes[0][0]));
}

/// A product, as a library of operators writes it. Its backward counts its runs.
struct LibraryProduct : torch::autograd::Function<LibraryProduct> {
  static inline int backwards = 0;

  static at::Tensor forward(torch::autograd::AutogradContext *context, const at::Tensor &x,
                            const at::Tensor &w) {
    context->save_for_backward({x, w});
    return at::matmul(x, w);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 torch::autograd::variable_list gradients) {
    ++backwards;
    const torch::autograd::variable_list saved = context->get_saved_variables();
    return {at::matmul(gradients[0], saved[1].t()), at::matmul(saved[0].t(), gradients[0])};
  }
};

TEST_F(StageTapeTest, aFunctionOfALibraryRunsItsBackwardOnce) {
  const auto product = [](Values in, Values w) -> llvm::Expected<Values> {
    return Values{LibraryProduct::apply(in[0].toTensor(), w[0].toTensor())};
  };
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), gy = at::randn({3, 4});
  StageTape tape = record({x}, {{a, 1}}, product);
  EXPECT_NE(tape.whyWhole().find("LibraryProduct, an autograd function of a library"),
            std::string::npos);
  LibraryProduct::backwards = 0;
  const StageGradients found = llvm::cantFail(tape.backward({{gy}}, {{}}));
  EXPECT_EQ(LibraryProduct::backwards, 1);
  EXPECT_TRUE(sameBits(found.attributes[0][0], at::matmul(x.t(), gy).detach()));
}

/// A write in place into a part of a value is one node around the written operator's.
TEST_F(StageTapeTest, aWriteOfAWeightIntoAPartOfAValueIsWhole) {
  const auto scaled = [](Values in, Values w) -> llvm::Expected<Values> {
    const at::Tensor h = at::tanh(at::matmul(in[0].toTensor(), w[0].toTensor())).mul(1.5);
    h.narrow(1, 0, 2).mul_(w[1].toTensor());
    return Values{h.sin()};
  };
  const auto replaced = [](Values in, Values w) -> llvm::Expected<Values> {
    const at::Tensor h = at::matmul(w[0].toTensor(), w[0].toTensor().t()).narrow(0, 0, 3).mul(2);
    h.narrow(1, 0, 2).copy_(in[0].toTensor().narrow(1, 1, 2).mul(w[1].toTensor()));
    return Values{h.sin()};
  };
  const at::Tensor x = weight({3, 4}), a = weight({4, 4}), b = weight({2}), gy = at::randn({3, 4});
  for (const StageTape::Run run : {StageTape::Run(scaled), StageTape::Run(replaced)}) {
    const Values plain = llvm::cantFail(run({x}, {a, b}));
    const auto expected = torch::autograd::grad({plain[0].toTensor()}, {x, a, b}, {gy});
    StageTape tape = record({x}, {{a, 1}, {b, 1}}, run);
    EXPECT_EQ(tape.whyWhole(), "a write in place into a part of a value gives the gradients of "
                               "weights and of inputs together");
    const StageGradients found = llvm::cantFail(tape.backward({{gy}}, {{}}));
    EXPECT_TRUE(sameBits(found.inputs[0][0], expected[0]));
    EXPECT_TRUE(sameBits(found.attributes[0][0], expected[1]));
    EXPECT_TRUE(sameBits(found.attributes[1][0], expected[2]));
  }
}

/// Such a node has only inputs behind it in the first, only weights in the others.
TEST_F(StageTapeTest, aWriteIntoAPartThatNeedNotBeDividedIsSplit) {
  const auto run = [](Values in, Values w) -> llvm::Expected<Values> {
    const at::Tensor h = at::matmul(in[0].toTensor(), w[0].toTensor());
    h.narrow(1, 0, 2).mul_(in[0].toTensor().narrow(1, 1, 2));
    const at::Tensor derived = w[1].toTensor().mul(0.5);
    derived.narrow(1, 0, 2).add_(w[2].toTensor());
    const at::Tensor result = w[3].toTensor().mul(0.5);
    result.narrow(1, 0, 2).mul_(w[4].toTensor());
    return Values{at::matmul(h, derived), result};
  };
  const at::Tensor x = weight({3, 4}), gy = at::randn({3, 4}), gr = at::randn({4, 4});
  const std::vector<at::Tensor> w = {weight({4, 4}), weight({4, 4}), weight({2}), weight({4, 4}),
                                     weight({2})};
  const Values plain = llvm::cantFail(run({x}, {w[0], w[1], w[2], w[3], w[4]}));
  std::vector<at::Tensor> wanted = {x};
  llvm::append_range(wanted, w);
  const auto expected =
      torch::autograd::grad({plain[0].toTensor(), plain[1].toTensor()}, wanted, {gy, gr});
  std::vector<TapedAttribute> attributes;
  for (const at::Tensor &each : w)
    attributes.push_back({each, 1});
  StageTape tape = record({x}, attributes, run);
  ASSERT_EQ(tape.whyWhole(), "");
  const StageGradients first = llvm::cantFail(tape.inputGradients({{gy}, {gr}}, {{}}));
  EXPECT_TRUE(sameBits(first.inputs[0][0], expected[0]));
  const std::vector<ValueGradients> later = llvm::cantFail(tape.weightGradients());
  for (size_t k = 0; k < w.size(); ++k)
    EXPECT_TRUE(sameBits(later[k][0], expected[k + 1])) << k;
}

/// What only I needs is free after I; what W needs is not.
TEST_F(StageTapeTest, inputGradientsFreeWhatWeightGradientsDoNotNeed) {
  const at::Tensor x = weight({3, 4}), a = weight({4, 4});
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> ofI, ofW;
  StageTape tape = record({x}, {{a, 1}}, [&](Values in, Values w) {
    const at::Tensor h = at::tanh(in[0].toTensor()); // the weight's gradient reads it
    const at::Tensor y = at::matmul(h, w[0].toTensor());
    const at::Tensor s = at::sigmoid(y); // only the way to the input reads it
    ofW.emplace(h.storage().getWeakStorageImpl());
    ofI.emplace(s.storage().getWeakStorageImpl());
    return llvm::Expected<Values>(Values{s.mul(2)});
  });
  EXPECT_FALSE(ofI->expired());
  llvm::cantFail(tape.inputGradients({{at::ones({3, 4})}}, {{}}).takeError());
  EXPECT_TRUE(ofI->expired());
  EXPECT_FALSE(ofW->expired());
  llvm::cantFail(tape.weightGradients().takeError());
  EXPECT_TRUE(ofW->expired());
}

TEST_F(StageTapeTest, aStageMayWriteIntoWhatItReceives) {
  const at::Tensor x = weight({3});
  const at::Tensor sent = x.detach().clone().requires_grad_();
  StageTape tape = record({sent}, {}, [](Values in, Values) {
    return llvm::Expected<Values>(Values{in[0].toTensor().mul_(3)});
  });
  const StageGradients found = llvm::cantFail(tape.backward({{at::ones({3})}}, {{}}));
  EXPECT_TRUE(sameBits(found.inputs[0][0], at::full({3}, 3.0)));
}

/// Tapes of one stage, which share their memory: several alive, whole and split, ended in any
/// order.
TEST_F(StageTapeTest, tapesWithTheMemoryOfEndedOnesGiveTheSameBits) {
  const at::Tensor a = weight({4, 4}), b = weight({4, 4}), gy = at::randn({3, 4});
  const std::vector<TapedAttribute> weights = {{a, 1}, {b, 1}};
  const auto memory = std::make_shared<TapeMemory>();
  auto shared = [&](const at::Tensor &x) {
    const auto entered = std::make_shared<const EnteredWeights>(weights);
    return llvm::cantFail(StageTape::record({x}, weights, entered, block, memory));
  };
  for (int round = 0; round < 3; ++round) {
    const at::Tensor x = weight({3, 4}), y = weight({3, 4}), z = at::randn({3, 4});
    StageTape whole = shared(x);
    std::optional<StageTape> split = shared(y);
    StageTape frozen = shared(z); // its input has no gradient
    ASSERT_EQ(split->whyWhole(), "");
    const StageGradients toInput = llvm::cantFail(split->inputGradients({{gy}, {}}, {{}}));
    const StageGradients ofFrozen = llvm::cantFail(frozen.backward({{gy}, {}}, {{}}));
    const std::vector<ValueGradients> toWeights = llvm::cantFail(split->weightGradients());
    split.reset();
    const StageGradients ofWhole = llvm::cantFail(whole.backward({{gy}, {}}, {{}}));
    auto expected = [&](const at::Tensor &input) {
      StageTape fresh = record({input}, weights, block);
      return llvm::cantFail(fresh.backward({{gy}, {}}, {{}}));
    };
    const StageGradients ofX = expected(x), ofY = expected(y), ofZ = expected(z);
    EXPECT_TRUE(sameBits(ofWhole.inputs[0][0], ofX.inputs[0][0])) << round;
    EXPECT_TRUE(sameBits(toInput.inputs[0][0], ofY.inputs[0][0])) << round;
    EXPECT_FALSE(ofFrozen.inputs[0][0].defined()) << round;
    for (size_t k = 0; k < 2; ++k) {
      EXPECT_TRUE(sameBits(ofWhole.attributes[k][0], ofX.attributes[k][0])) << round;
      EXPECT_TRUE(sameBits(toWeights[k][0], ofY.attributes[k][0])) << round;
      EXPECT_TRUE(sameBits(ofFrozen.attributes[k][0], ofZ.attributes[k][0])) << round;
    }
  }
}

TEST_F(StageTapeTest, theMemoryOfEndedTapesHoldsNoTensor) {
  const at::Tensor a = weight({4, 4});
  const std::vector<TapedAttribute> weights = {{a, 1}};
  const auto entered = std::make_shared<const EnteredWeights>(weights);
  const auto memory = std::make_shared<TapeMemory>();
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;
  auto note = [&](const at::Tensor &tensor) {
    made.push_back(tensor.storage().getWeakStorageImpl());
    return tensor;
  };
  auto run = [&](Values in, Values w) -> llvm::Expected<Values> {
    const at::Tensor h = note(at::tanh(in[0].toTensor()));
    return Values{note(at::matmul(h, w[0].toTensor()))};
  };
  auto fails = [&](Values in, Values) -> llvm::Expected<Values> {
    note(at::tanh(in[0].toTensor()));
    return makeError(ExitCode::Usage, "the stage fails");
  };
  auto recorded = [&](StageTape::Run body) {
    const at::Tensor x = note(weight({3, 4}));
    return StageTape::record({x}, weights, entered, body, memory);
  };
  {
    StageTape dropped = llvm::cantFail(recorded(run));
    StageTape whole = llvm::cantFail(recorded(run)), split = llvm::cantFail(recorded(run));
    ASSERT_EQ(split.whyWhole(), "");
    llvm::cantFail(whole.backward({{note(at::ones({3, 4}))}}, {{note(at::ones({3, 4}))}}));
    llvm::cantFail(split.inputGradients({{note(at::ones({3, 4}))}}, {{}}));
    llvm::cantFail(split.weightGradients());
    // A gradient of another shape.
    StageTape refused = llvm::cantFail(recorded(run));
    llvm::consumeError(refused.backward({{note(at::ones({7, 4}))}}, {{}}).takeError());
    llvm::consumeError(recorded(fails).takeError());
  }
  for (size_t i = 0; i < made.size(); ++i)
    EXPECT_TRUE(made[i].expired()) << i;
}

TEST_F(StageTapeTest, aHookOnAnInputEndsWithItsTape) {
  const at::Tensor a = weight({4, 4}), gy = at::ones({3, 4});
  const std::vector<TapedAttribute> weights = {{a, 1}};
  const auto entered = std::make_shared<const EnteredWeights>(weights);
  const auto memory = std::make_shared<TapeMemory>();
  size_t calls = 0;
  auto backwardOf = [&](bool hooks) {
    auto run = [&](Values in, Values w) -> llvm::Expected<Values> {
      if (hooks)
        in[0].toTensor().register_hook([&](const at::Tensor &) { ++calls; });
      return Values{at::matmul(in[0].toTensor(), w[0].toTensor())};
    };
    const at::Tensor x = weight({3, 4});
    StageTape tape = llvm::cantFail(StageTape::record({x}, weights, entered, run, memory));
    llvm::cantFail(tape.backward({{gy}}, {{}}));
  };
  backwardOf(/*hooks=*/true);
  const size_t once = calls;
  EXPECT_GT(once, 0u);
  backwardOf(/*hooks=*/false);
  EXPECT_EQ(calls, once);
}

} // namespace
