#include "tests/bench/BenchModels.h"

#include "tests/support/TestModels.h"

#include <fmt/format.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>

#include <fstream>
#include <random>
#include <stdexcept>

namespace pipec::bench {

namespace {

constexpr size_t kLayerNodes = 100;
constexpr int64_t kWidth = 8;

/// 10 operators, 5 of them in place: two on results without other users, two on a value with a
/// view, one on the view.
const char *kStraight = R"(    a = torch.linear(x, {0}w{1}, {0}b)
    a = torch.relu_(a)
    b = torch.add(a, x)
    b = b.add_({0}b)
    b = b.mul_(0.5)
    c = torch.narrow(b, 1, 0, 4)
    c = c.add_(1.0)
    d = torch.tanh(b)
    d = torch.sigmoid_(d)
    x = torch.add(x, d)
)";

/// 10 operators in blocks, 5 of them in place.
const char *kBlocks = R"(    if flag:
      e = torch.mul(x, 2.0)
      e = e.add_({0}b)
      e = torch.relu_(e)
      e = e.mul_(0.5)
      x = torch.add(x, e)
    for i in range(n):
      f = torch.tanh(x)
      f = f.mul_(0.5)
      f = f.add_({0}b)
      g = torch.sub(x, f)
      x = torch.relu(g)
)";

std::string layerName(size_t index) { return fmt::format("layer{}", index); }

/// `self`: what weights are reached by, as "self.".
std::string layerCode(const std::string &self) {
  std::string code;
  for (size_t group = 0; group < kLayerNodes / 10 - 1; ++group)
    code += fmt::format(fmt::runtime(kStraight), self, group);
  return code + fmt::format(fmt::runtime(kBlocks), self);
}

void addWeights(test::SavedModule &module, const std::string &prefix) {
  for (size_t group = 0; group < kLayerNodes / 10 - 1; ++group)
    module.parameters.emplace_back(fmt::format("{}w{}", prefix, group),
                                   at::randn({kWidth, kWidth}));
  module.parameters.emplace_back(prefix + "b", at::randn({kWidth}));
}

const char *kHead = "def forward(self, x, n: int = 2, flag: bool = True):\n";
const char *kTail = "    return x\n";

test::SavedModule layer(size_t index) {
  test::SavedModule module{.name = layerName(index) + ".Layer"};
  module.source = kHead + layerCode("self.") + kTail;
  addWeights(module, "");
  return module;
}

/// Calls of the layers one after the other; `arguments`: what each gets besides x.
std::string calls(size_t layers, const std::string &arguments) {
  std::string source;
  for (size_t i = 0; i < layers; ++i)
    source += fmt::format("    x = self.{}.forward(x{})\n", layerName(i), arguments);
  return source;
}

void save(const std::string &path, const test::SavedModule &module) {
  std::ofstream out(path, std::ios::binary);
  test::saveTo(out, module);
  out.close();
  if (!out)
    throw std::runtime_error("cannot write " + path);
}

at::Tensor randomBits(int64_t rows, int64_t columns, int64_t seed) {
  at::Tensor tensor = at::empty({rows, columns});
  std::mt19937_64 bits(static_cast<uint64_t>(seed));
  auto *words = static_cast<uint64_t *>(tensor.data_ptr());
  for (int64_t i = 0; i < rows * columns / 2; ++i)
    words[i] = bits();
  return tensor;
}

} // namespace

void writeNodesModel(const std::string &path, size_t nodes, Code code) {
  const size_t layers = nodes / kLayerNodes;
  test::SavedModule model{.name = "Nodes"};
  std::string body;
  for (size_t i = 0; i < layers; ++i) {
    if (code == Code::Layers) {
      model.modules.emplace_back(layerName(i), layer(i));
      continue;
    }
    addWeights(model, layerName(i) + ".");
    body += layerCode("self." + layerName(i) + ".");
  }
  if (code == Code::Layers)
    body = calls(layers, ", n, flag");
  model.source = kHead + body + kTail;
  save(path, model);
}

size_t topLevelNodes(size_t nodes) { return nodes / kLayerNodes * (kLayerNodes - 10 + 2); }

std::vector<std::string> evenLayerCuts(size_t layers, size_t stages) {
  std::vector<std::string> names;
  for (size_t stage = 1; stage < stages; ++stage)
    names.push_back(layerName(layers * stage / stages));
  return names;
}

void writeWeightsModel(const std::string &path, int64_t bytes, int64_t tensorBytes) {
  constexpr int64_t kColumns = 1024;
  test::SavedModule model{.name = "Weights"};
  const int64_t rows = tensorBytes / 4 / kColumns;
  for (int64_t i = 0; i < bytes / tensorBytes; ++i) {
    test::SavedModule linear{.name = fmt::format("linear{}.Linear", i)};
    linear.parameters.emplace_back("weight", randomBits(rows, kColumns, i));
    linear.source = "def forward(self, x):\n    return torch.narrow(torch.linear(x, self.weight), "
                    "1, 0, 1024)\n";
    model.modules.emplace_back(layerName(static_cast<size_t>(i)), linear);
  }
  model.source =
      "def forward(self, x):\n" + calls(static_cast<size_t>(bytes / tensorBytes), "") + kTail;
  save(path, model);
}

} // namespace pipec::bench
