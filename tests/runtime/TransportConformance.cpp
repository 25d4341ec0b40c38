// What every transport must do. A new one adds a factory to the list at the end.
#include "runtime/Device.h"
#include "runtime/transport/InProcess.h"
#include "tests/support/Matchers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace pipec {
namespace {

using Factory = std::function<std::unique_ptr<Transport>(const std::vector<Lane> &, size_t ranks)>;

struct NamedTransport {
  std::string name;
  Factory make;
};

class TransportConformance : public testing::TestWithParam<NamedTransport> {
protected:
  std::unique_ptr<Transport> make(const std::vector<Lane> &lanes, size_t ranks = 2) {
    return GetParam().make(lanes, ranks);
  }
  /// Sends from a thread of its own and takes here.
  c10::IValue passThrough(const c10::IValue &value) {
    auto transport = make({{0, 1, 1}});
    std::thread sender([&] { EXPECT_TRUE(succeeded(transport->send(0, 0, 0, value))); });
    EXPECT_TRUE(succeeded(transport->post(0, 0, 0)));
    auto taken = transport->take(0, 0, 0);
    sender.join();
    EXPECT_TRUE(succeeded(taken));
    return taken ? *taken : c10::IValue();
  }
  void expectSameTensor(const at::Tensor &sent) {
    at::Tensor taken = passThrough(sent).toTensor();
    EXPECT_EQ(taken.sizes(), sent.sizes());
    EXPECT_EQ(taken.strides(), sent.strides());
    EXPECT_EQ(taken.dtype(), sent.dtype());
    EXPECT_EQ(taken.requires_grad(), sent.requires_grad());
    EXPECT_TRUE(at::equal(taken, sent));
  }
};

TEST_P(TransportConformance, KeepsOrder) {
  auto transport = make({{0, 1, 3}});
  constexpr int64_t kMessages = 500;
  std::thread sender([&] {
    for (int64_t k = 0; k < kMessages; ++k)
      EXPECT_TRUE(succeeded(transport->send(0, k % 2, k, c10::IValue(k * 7))));
  });
  for (int64_t k = 0; k < kMessages; ++k) {
    auto value = transport->take(0, k % 2, k);
    ASSERT_TRUE(succeeded(value));
    ASSERT_EQ(value->toInt(), k * 7);
  }
  sender.join();
}

TEST_P(TransportConformance, LanesAreIndependent) {
  auto transport = make({{0, 1, 2}, {1, 0, 2}});
  ASSERT_TRUE(succeeded(transport->send(0, 0, 0, c10::IValue(1))));
  ASSERT_TRUE(succeeded(transport->send(1, 1, 0, c10::IValue(2))));
  auto second = transport->take(1, 1, 0);
  auto first = transport->take(0, 0, 0);
  ASSERT_TRUE(succeeded(first) && succeeded(second));
  EXPECT_EQ(first->toInt(), 1);
  EXPECT_EQ(second->toInt(), 2);
}

TEST_P(TransportConformance, SendWaitsWhenTheWindowIsFull) {
  auto transport = make({{0, 1, 2}});
  std::atomic<int> sent = 0;
  std::thread sender([&] {
    for (int64_t k = 0; k < 3; ++k) {
      EXPECT_TRUE(succeeded(transport->send(0, 0, k, c10::IValue(k))));
      ++sent;
    }
  });
  while (sent < 2)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(sent, 2);
  for (int64_t k = 0; k < 3; ++k)
    EXPECT_TRUE(succeeded(transport->take(0, 0, k)));
  sender.join();
  EXPECT_EQ(sent, 3);
}

TEST_P(TransportConformance, TransposedTensorKeepsStridesAndBits) {
  expectSameTensor(at::arange(12, at::kFloat).view({3, 4}).t());
}

TEST_P(TransportConformance, ChannelsLastTensorKeepsStridesAndBits) {
  expectSameTensor(
      at::arange(120, at::kFloat).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_P(TransportConformance, BroadcastTensorKeepsZeroStride) {
  expectSameTensor(at::arange(3, at::kDouble).view({3, 1}).expand({3, 4}));
}

TEST_P(TransportConformance, ZeroSizeTensor) { expectSameTensor(at::empty({0, 5}, at::kFloat)); }

TEST_P(TransportConformance, BoolTensor) {
  expectSameTensor(at::arange(9, at::kLong).remainder(2).to(at::kBool));
}

TEST_P(TransportConformance, KeepsRequiresGrad) {
  expectSameTensor(at::ones({2, 2}).set_requires_grad(true));
}

TEST_P(TransportConformance, PlainValuesAndTrees) {
  EXPECT_EQ(passThrough(c10::IValue(int64_t(-5))).toInt(), -5);
  EXPECT_EQ(passThrough(c10::IValue(2.5)).toDouble(), 2.5);
  EXPECT_EQ(passThrough(c10::IValue(true)).toBool(), true);
  EXPECT_TRUE(passThrough(c10::IValue()).isNone());
  c10::List<at::Tensor> list({at::ones({2}), at::ones({3})});
  c10::IValue taken = passThrough(list);
  ASSERT_TRUE(taken.isTensorList());
  EXPECT_EQ(taken.toTensorVector()[1].size(0), 3);
}

TEST_P(TransportConformance, MessageOutOfOrderIsAnInternalError) {
  auto transport = make({{0, 1, 2}});
  ASSERT_TRUE(succeeded(transport->send(0, 4, 1, c10::IValue(1))));
  EXPECT_TRUE(
      failedWith(transport->take(0, 4, 2), ExitCode::Internal, "message 4 of micro-batch 2"));
  EXPECT_TRUE(
      failedWith(transport->take(0, 3, 1), ExitCode::Internal, "message 4 of micro-batch 1"));
  EXPECT_TRUE(succeeded(transport->take(0, 4, 1)));
}

TEST_P(TransportConformance, AResetEmptiesTheLanesAndEndsAnAbort) {
  auto transport = make({{0, 1, 2}});
  for (int64_t k = 0; k < 2; ++k)
    ASSERT_TRUE(succeeded(transport->send(0, 0, k, c10::IValue(k))));
  ASSERT_TRUE(succeeded(transport->take(0, 0, 0)));
  transport->abort({ExitCode::Usage, "stage 3 broke", ""});
  transport->reset();
  for (int64_t k = 0; k < 2; ++k) // there is room for both
    ASSERT_TRUE(succeeded(transport->send(0, 0, k, c10::IValue(k + 10))));
  for (int64_t k = 0; k < 2; ++k) {
    auto value = transport->take(0, 0, k);
    ASSERT_TRUE(succeeded(value));
    EXPECT_EQ(value->toInt(), k + 10);
  }
  transport->abort({ExitCode::Usage, "stage 4 broke", ""});
  EXPECT_TRUE(failedWith(transport->take(0, 0, 0), ExitCode::Usage, "stage 4 broke"));
}

TEST_P(TransportConformance, AbortWakesATaker) {
  auto transport = make({{0, 1, 1}});
  std::thread taker([&] {
    EXPECT_TRUE(failedWith(transport->take(0, 0, 0), ExitCode::Unsupported, "stage 3 broke"));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  transport->abort({ExitCode::Unsupported, "stage 3 broke", "mend it"});
  taker.join();
}

TEST_P(TransportConformance, AbortWakesASender) {
  auto transport = make({{0, 1, 1}});
  ASSERT_TRUE(succeeded(transport->send(0, 0, 0, c10::IValue(1))));
  std::thread sender([&] {
    EXPECT_TRUE(failedWith(transport->send(0, 0, 1, c10::IValue(2)), ExitCode::Other, "first"));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  transport->abort({ExitCode::Other, "first", ""});
  sender.join();
}

TEST_P(TransportConformance, TheFirstAbortWinsAndLasts) {
  auto transport = make({{0, 1, 1}});
  transport->abort({ExitCode::Other, "first", ""});
  transport->abort({ExitCode::IO, "second", ""});
  EXPECT_TRUE(failedWith(transport->post(0, 0, 0), ExitCode::Other, "first"));
  EXPECT_TRUE(failedWith(transport->send(0, 0, 0, c10::IValue(1)), ExitCode::Other, "first"));
  EXPECT_TRUE(failedWith(transport->take(0, 0, 0), ExitCode::Other, "first"));
}

std::unique_ptr<Transport> inProcess(const std::vector<Lane> &lanes, size_t ranks) {
  std::vector<std::shared_ptr<Device>> devices;
  for (size_t rank = 0; rank < ranks; ++rank)
    devices.push_back(llvm::cantFail(makeDevice("cpu")));
  return makeInProcessTransport(lanes, devices);
}

INSTANTIATE_TEST_SUITE_P(All, TransportConformance,
                         testing::Values(NamedTransport{"InProcess", inProcess}),
                         [](const auto &instance) { return instance.param.name; });

} // namespace
} // namespace pipec
