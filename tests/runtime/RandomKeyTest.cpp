// Keyed random operators: the same key, the same bits, whatever thread, neighbours and order.
#include "runtime/RandomKey.h"

#include "ir/RandomOps.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <map>
#include <thread>

namespace pipec {
namespace {

using Draw = std::function<at::Tensor()>;

at::Tensor keyed(const RandomKey &key, const std::vector<int64_t> &ordinals, const Draw &draw) {
  RandomScope scope(key, ordinals);
  return draw();
}

const std::vector<int64_t> kFromZero;

struct NamedOp {
  std::string name;
  Draw draw;
};

/// The operators of everyday models, as a model calls them: without a generator.
std::vector<NamedOp> everyday() {
  auto x = [] { return at::ones({64, 32}); };
  return {
      {"dropout", [=] { return at::dropout(x(), 0.5, true); }},
      {"native_dropout", [=] { return std::get<0>(at::native_dropout(x(), 0.5, true)); }},
      {"feature_dropout",
       [=] {
         return at::feature_dropout(at::ones({32, 16, 4, 4}), 0.5, true);
       }},
      {"alpha_dropout", [=] { return at::alpha_dropout(x(), 0.5, true); }},
      {"bernoulli", [=] { return at::bernoulli(x() * 0.5); }},
      {"bernoulli_p", [=] { return at::bernoulli(x(), 0.25); }},
      {"rand",
       [=] {
         return at::rand({64, 32});
       }},
      {"rand_like", [=] { return at::rand_like(x()); }},
      {"randn",
       [=] {
         return at::randn({64, 32});
       }},
      {"randn_like", [=] { return at::randn_like(x()); }},
      {"randint", [=] { return at::randint(0, 1000000, {64}); }},
      {"randperm", [=] { return at::randperm(500); }},
      {"normal_", [=] { return x().normal_(1, 3); }},
      {"uniform_", [=] { return x().uniform_(-1, 1); }},
      {"exponential_", [=] { return x().exponential_(2); }},
      {"random_", [=] { return x().random_(); }},
      {"multinomial", [=] { return at::multinomial(x(), 5, true); }},
      {"poisson", [=] { return at::poisson(x() * 30); }},
      {"rrelu", [=] { return at::rrelu(-x(), 0.1, 0.9, true); }},
      {"sdpa",
       [] {
         at::Tensor q = at::ones({2, 4, 16, 8});
         return at::scaled_dot_product_attention(q, q, q, {}, 0.5);
       }},
  };
}

class KeyedOps : public testing::TestWithParam<NamedOp> {};

TEST_P(KeyedOps, TheKeyDecides) {
  const Draw &draw = GetParam().draw;
  at::Tensor first = keyed({1, 2, 3}, kFromZero, draw);
  at::manual_seed(99); // the default generator plays no part
  EXPECT_TRUE(at::equal(first, keyed({1, 2, 3}, kFromZero, draw)));
  EXPECT_FALSE(at::equal(first, keyed({2, 2, 3}, kFromZero, draw))) << "seed";
  EXPECT_FALSE(at::equal(first, keyed({1, 3, 3}, kFromZero, draw))) << "step";
  EXPECT_FALSE(at::equal(first, keyed({1, 2, 4}, kFromZero, draw))) << "micro-batch";
  EXPECT_FALSE(at::equal(first, keyed({1, 2, 3}, {7}, draw))) << "ordinal";
}

TEST_P(KeyedOps, TakesOneOrdinal) {
  RandomScope scope({1, 2, 3}, kFromZero);
  GetParam().draw();
  EXPECT_EQ(scope.taken(), 1u);
}

TEST_P(KeyedOps, LeavesTheDefaultGeneratorAlone) {
  at::manual_seed(5);
  at::Tensor before = at::rand({8});
  at::manual_seed(5);
  keyed({1, 2, 3}, kFromZero, GetParam().draw);
  EXPECT_TRUE(at::equal(before, at::rand({8})));
}

TEST_P(KeyedOps, SameBitsInFourThreads) {
  at::Tensor expected = keyed({1, 2, 3}, kFromZero, GetParam().draw);
  std::vector<int> same(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < same.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i)
        same[t] += at::equal(expected, keyed({1, 2, 3}, kFromZero, GetParam().draw));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(same, std::vector<int>(4, 10));
}

INSTANTIATE_TEST_SUITE_P(All, KeyedOps, testing::ValuesIn(everyday()),
                         [](const auto &instance) { return instance.param.name; });

TEST(RandomKey, ADropoutThatIsOffIsAnOperatorLikeAllOthers) {
  at::Tensor x = at::ones({64});
  at::Tensor withOff = keyed({1, 0, 0}, kFromZero, [&] {
    EXPECT_TRUE(at::equal(at::dropout(x, 0.5, /*train=*/false), x));
    return at::rand({8});
  });
  EXPECT_FALSE(at::equal(withOff, keyed({1, 0, 0}, {1}, [] { return at::rand({8}); })));
  EXPECT_TRUE(at::equal(withOff, keyed({1, 0, 0}, {0}, [] { return at::rand({8}); })));
}

TEST(RandomOps, SwitchesAreReadFromArguments) {
  auto with = [](const char *op, std::map<std::string, Argument> given) {
    return drawsWith(op, [&](llvm::StringRef name) {
      auto found = given.find(name.str());
      return found == given.end() ? Argument{} : found->second;
    });
  };
  const Argument off{Argument::State::Known, 0}, on{Argument::State::Known, 1},
      unknown{Argument::State::Unknown, 0};
  EXPECT_EQ(with("aten::relu", {{"p", off}}), Draws::Never);
  EXPECT_EQ(with("aten::dropout", {{"p", on}, {"train", on}}), Draws::Always);
  EXPECT_EQ(with("aten::dropout", {{"p", on}, {"train", off}}), Draws::Never);
  EXPECT_EQ(with("aten::dropout", {{"p", off}, {"train", unknown}}), Draws::Never);
  EXPECT_EQ(with("aten::dropout", {{"p", unknown}, {"train", on}}), Draws::Unknown);
  EXPECT_EQ(with("aten::bernoulli", {{"p", off}}), Draws::Always) << "zeros, but drawn";
  EXPECT_EQ(with("aten::native_dropout", {{"p", off}, {"train", on}}), Draws::Always);
  EXPECT_EQ(with("aten::scaled_dot_product_attention", {{"dropout_p", off}}), Draws::Never);
  EXPECT_EQ(with("aten::lstm", {{"dropout", off}, {"train", on}}), Draws::Never);
}

TEST(RandomKey, AStageDrawsLikeTheWholeModel) {
  auto op = [] { return at::rand({8}); };
  std::vector<at::Tensor> whole, stage;
  {
    RandomScope scope({1, 0, 0}, kFromZero);
    for (int i = 0; i < 6; ++i)
      whole.push_back(op());
  }
  {
    // The second and fourth operator, then a loop's repetitions.
    const std::vector<int64_t> ordinals{1, 3};
    RandomScope scope({1, 0, 0}, ordinals);
    for (int i = 0; i < 4; ++i)
      stage.push_back(op());
  }
  EXPECT_TRUE(at::equal(stage[0], whole[1]));
  EXPECT_TRUE(at::equal(stage[1], whole[3]));
  EXPECT_TRUE(at::equal(stage[2], whole[4]));
  EXPECT_TRUE(at::equal(stage[3], whole[5]));
}

TEST(RandomKey, TheUsersOwnGeneratorStays) {
  auto own = [] { return at::detail::createCPUGenerator(3); };
  at::Tensor x = at::zeros({16});
  at::Tensor expected = at::zeros({16}).normal_(0, 1, own());
  RandomScope scope({1, 0, 0}, kFromZero);
  EXPECT_TRUE(at::equal(x.normal_(0, 1, own()), expected));
  EXPECT_EQ(scope.taken(), 1u);
}

TEST(RandomKey, ScopesEndCleanlyAfterAnError) {
  EXPECT_THROW(keyed({1, 0, 0}, kFromZero,
                     [] {
                       return at::multinomial(at::ones({2, 2, 2}), 1);
                     }),
               c10::Error);
  at::Tensor first = keyed({1, 0, 0}, kFromZero, [] { return at::rand({8}); });
  {
    RandomScope scope({1, 0, 0}, kFromZero);
    EXPECT_ANY_THROW(at::multinomial(at::ones({2, 2, 2}), 1));
    at::rand({8});
    EXPECT_EQ(scope.taken(), 2u); // the depth went back to the outside
  }
  EXPECT_TRUE(at::equal(first, keyed({1, 0, 0}, kFromZero, [] { return at::rand({8}); })));
}

TEST(RandomOps, EverythingThatTakesAGeneratorIsInTheTable) {
  for (const c10::OperatorName &op : c10::Dispatcher::singleton().getAllOpNames()) {
    auto handle = c10::Dispatcher::singleton().findSchema(op);
    if (!handle || op.name.rfind("aten::", 0) != 0)
      continue;
    for (const c10::Argument &argument : handle->schema().arguments()) {
      if (argument.name() != "generator")
        continue;
      EXPECT_TRUE(isRandomOp(op.name)) << op.name << " is missing in ir/RandomOps.cpp";
    }
  }
}

} // namespace
} // namespace pipec
