// bench-actions: what an action of the runtime costs beyond LibTorch's own calls.
//
//   bench-actions DIRECTORY [--actions N] [--device NAME]
//
// A stage with one weight, sum(x * w), is compiled in DIRECTORY. Each action runs N times (default
// 100,000) on one thread; a line has medians in microseconds. "bare": the same operators called as
// LibTorch allows it (InterpreterState on ready Code, the autograd engine). "more": the action less
// the bare call. "news": calls of operator new in one action less those of the bare call, median.
// "own": those of the action that come from pipec's code, with the templates that it instantiates;
// the others are LibTorch's. "step": a whole call of the pipeline with one rank, divided by its
// micro-batches, so with splitting and merging of the batch; "own" of all threads. On a GPU
// (--device cuda:0) the times are the host's: the device does the work later.
#include "compiler/Compiler.h"
#include "ir/artifact/ArtifactReader.h"
#include "ir/autograd/TrainingSettings.h"
#include "ir/support/Median.h"
#include "llvm/Support/Error.h"
#include "runtime/Device.h"
#include "runtime/Pipeline.h"
#include "runtime/StageTraining.h"
#include "runtime/transport/InProcess.h"
#include "tests/support/CountedNews.h"
#include "tests/support/TestModels.h"

#include <fmt/format.h>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace pipec;

llvm::ExitOnError must; // a benchmark that fails says why

namespace ag = torch::autograd;
namespace jit = torch::jit;

namespace {

/// The median time and number of calls of operator new of one kind of action.
class Meter {
public:
  template <typename Body> auto run(Body &&body) {
    const size_t before = test::newsOfThread(), ownBefore = test::ownNews();
    const auto start = std::chrono::steady_clock::now();
    auto result = body();
    const auto end = std::chrono::steady_clock::now();
    const auto calls = static_cast<double>(test::newsOfThread() - before);
    own_.push_back(static_cast<double>(test::ownNews() - ownBefore));
    times_.push_back(static_cast<double>((end - start) / std::chrono::nanoseconds(1)) / 1e3);
    news_.push_back(calls);
    return result;
  }
  double time() { return medianOf(times_); }
  double calls() { return medianOf(news_); }
  double own() { return medianOf(own_); }

private:
  std::vector<double> times_, news_, own_;
};

void print(const char *name, Meter &bare, Meter &action) {
  fmt::print("{:<12}{:>8.2f}{:>10.2f}{:>10.2f}{:>8.0f}{:>8.0f}\n", name, bare.time(), action.time(),
             action.time() - bare.time(), action.calls() - bare.calls(), action.own());
  std::fflush(stdout);
}

/// Compiles the model in one stage.
std::string compiled(const std::string &directory, Mode mode) {
  const std::string model = directory + "/model.pt";
  std::ofstream(model, std::ios::binary)
      << test::bytesOf({.name = "Model",
                        .parameters = {{"w", at::ones({1, 1}).set_requires_grad(true)}},
                        .source = "def forward(self, x):\n    return torch.sum(x * self.w)\n"});
  CompileOptions options;
  options.mode = mode;
  options.stages = 1;
  options.cost = AnalyticCosts();
  options.inputs = "f32[1,1]";
  options.recompute = RecomputeChoice::Never;
  options.microBatches = 1;
  const std::string artifact = directory + (mode == Mode::Train ? "/train.pipe" : "/infer.pipe");
  Compiler compiler = must(Compiler::load(model));
  must(compiler.compile(options, artifact, /*force=*/true));
  return artifact;
}

/// Where the stage runs, and how often.
struct How {
  std::string device = "cpu";
  size_t actions = 100000;

  at::Tensor ones(at::IntArrayRef sizes) const { return at::ones(sizes, at::Device(device)); }
  /// Now and then the host waits for the device, outside of what is timed: a full queue of launches
  /// would make it wait inside.
  static void finish(size_t action, Device &device) {
    constexpr size_t kMostInQueue = 32;
    if (action % kMostInQueue == 0)
      device.finish();
  }
};

struct Stage {
  Stage(const std::string &artifact, const std::string &device)
      : opened(must(openArtifact(artifact))),
        executor(must(StageExecutor::load(artifact + "/" + plan().file, plan(), 0,
                                          must(makeDevice(device))))),
        code(jit::load(artifact + "/" + plan().file).get_method("pipec_forward").graph(), "bare") {}
  const StagePlan &plan() const { return opened.plan.stages[0]; }

  /// The bare call of the forward.
  at::Tensor call(const at::Tensor &x, const at::Tensor &w) {
    jit::Stack stack{executor->module().attribute(0), x, w};
    stack.front() = c10::IValue();
    jit::InterpreterState(code).run(stack);
    return stack.front().toTensor();
  }

  Artifact opened;
  std::unique_ptr<StageExecutor> executor;
  jit::Code code;
};

void inference(const std::string &artifact, const How &how) {
  InferenceSettings settings(1);
  Stage stage(artifact, how.device);
  const at::Tensor x = how.ones({1, 1}), w = how.ones({1, 1});
  Meter bare, action;
  std::pair<Fence, Fence> busy;
  for (size_t i = 0; i < how.actions; ++i) {
    How::finish(i, stage.executor->device());
    bare.run([&] { return stage.call(x, w); });
    ReadyValue input{x, {}};
    std::vector<c10::IValue> outputs = action.run([&] {
      return must(stage.executor->forward({0, 0, i}, input, busy));
    });
    stage.executor->reuse(std::move(outputs));
  }
  print("F", bare, action);
}

/// The bare calls of one micro-batch: forward, whole backward or its two parts.
struct BareMeters {
  Meter forward, backward, toInput, toWeight;
};

void bareTraining(Stage &stage, const at::Tensor &x, const at::Tensor &w, bool split,
                  BareMeters &meters) {
  ag::Engine &engine = ag::Engine::get_default_engine();
  at::Tensor in = x.detach().requires_grad_(), leaf = w.detach().requires_grad_();
  const at::Tensor y = meters.forward.run([&] { return stage.call(in, leaf); });
  const ag::variable_list seed = {at::ones_like(y)};
  const ag::edge_list root = {ag::impl::gradient_edge(y)};
  const ag::Edge toInput = ag::impl::gradient_edge(in), toWeight = ag::impl::gradient_edge(leaf);
  if (!split) {
    meters.backward.run([&] {
      return engine.execute(root, seed, false, false, false, {toInput, toWeight});
    });
    return;
  }
  const ag::Edge middle(y.grad_fn()->next_edge(0).function, 0); // the product
  const ag::variable_list found = meters.toInput.run([&] {
    return engine.execute(root, seed, true, false, false, {toInput, middle});
  });
  meters.toWeight.run(
      [&] { return engine.execute({middle}, {found[1]}, false, false, false, {toWeight}); });
}

void training(const std::string &artifact, const How &how) {
  TrainingSettings settings(1);
  Stage stage(artifact, how.device);
  StageTraining trained(*stage.executor, stage.plan(), /*canSplit=*/true);
  const at::Tensor x = how.ones({1, 1}).set_requires_grad(true), w = how.ones({1, 1});
  const at::Tensor one = how.ones({});
  BareMeters bare;
  Meter forward, backward, toInput, toWeight;
  std::pair<Fence, Fence> busy;
  std::vector<ValueGradients> ofOutputs(1), ofInputs(1); // a rank keeps these lists
  for (bool split : {false, true}) {
    trained.begin();
    for (size_t i = 0; i < how.actions; ++i) {
      How::finish(i, stage.executor->device());
      bareTraining(stage, x, w, split, bare);
      const auto k = static_cast<int64_t>(i);
      ReadyValue input{x, {}};
      stage.executor->reuse(forward.run([&] {
        return must(trained.forward({0, 0, i}, input, false, busy));
      }));
      ofOutputs[0].assign(1, one);
      ofInputs[0].clear();
      ofInputs = (split ? toInput : backward).run([&] {
        return must(trained.backward(k, split, std::move(ofOutputs), std::move(ofInputs), busy));
      });
      if (split)
        toWeight.run([&] {
          must(trained.weightGradients(k, busy));
          return 0;
        });
    }
  }
  print("F, training", bare.forward, forward);
  print("B", bare.backward, backward);
  print("I", bare.toInput, toInput);
  print("W", bare.toWeight, toWeight);
}

void handOver(const How &how) {
  const std::vector<std::shared_ptr<Device>> devices(2, must(makeDevice(how.device)));
  std::unique_ptr<Transport> transport =
      makeInProcessTransport({{.from = 0, .to = 1, .window = 2}}, devices);
  const at::Tensor x = how.ones({1, 1});
  Meter nothing, both;
  for (size_t i = 0; i < how.actions; ++i) {
    How::finish(i, *devices.front());
    nothing.run([&] { return c10::IValue(x); });
    both.run([&] {
      must(transport->send(0, 0, 0, x));
      return must(transport->take(0, 0, 0));
    });
  }
  print("send, take", nothing, both);
}

void steps(const std::string &artifact, bool train, const How &how) {
  for (const size_t microBatches : {size_t(1), size_t(100)}) {
    PipelineOptions options;
    options.threads = 1;
    options.devices = {how.device};
    options.microBatches = static_cast<int64_t>(microBatches);
    if (train) {
      options.training.emplace();
      options.scheduleName = "1f1b";
    }
    Pipeline pipeline = must(Pipeline::load(artifact, options));
    const std::vector<c10::IValue> batch = {how.ones({static_cast<int64_t>(microBatches), 1})};
    Meter step;
    for (size_t i = 0; i < std::max<size_t>(how.actions / 100, 100); ++i)
      step.run([&] {
        if (train)
          must(pipeline.step(batch));
        else
          must(pipeline.infer(batch));
        return 0;
      });
    const auto each = static_cast<double>(microBatches);
    fmt::print("step, {}, {:>3} micro-batches: {:>8.1f} us in all, {:.2f} and {:.1f} own calls of "
               "operator new per micro-batch\n",
               train ? "F B" : "F  ", microBatches, step.time(), step.time() / each,
               step.own() / each);
  }
}

} // namespace

int main(int argc, char **argv) {
  How how;
  bool isUsage = argc < 2 || argc % 2 != 0;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--actions")
      how.actions = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--device")
      how.device = argv[i + 1];
    else
      isUsage = true;
  }
  if (isUsage || how.actions == 0) {
    fmt::print(stderr, "usage: bench-actions DIRECTORY [--actions N] [--device NAME]\n");
    return 2;
  }
  must(makeDevice(how.device)); // before LibTorch looks for its GPU library
  std::filesystem::create_directories(argv[1]);
  const std::string infer = compiled(argv[1], Mode::Infer), train = compiled(argv[1], Mode::Train);
  fmt::print("us on {}, medians of {}\n{:<12}{:>8}{:>10}{:>10}{:>8}{:>8}\n", how.device,
             how.actions, "action", "bare", "action", "more", "news", "own");
  inference(infer, how);
  training(train, how);
  handOver(how);
  steps(infer, false, how);
  steps(train, true, how);
}
