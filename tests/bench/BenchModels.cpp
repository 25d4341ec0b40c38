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

/// 10 operators, 5 of them in place: two on results that nobody else sees, two on a value with a
/// view, one on the view.
const char *kStraight = R"(    a = torch.linear(x, self.w{0}, self.b)
    a = torch.relu_(a)
    b = torch.add(a, x)
    b = b.add_(self.b)
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
      e = e.add_(self.b)
      e = torch.relu_(e)
      e = e.mul_(0.5)
      x = torch.add(x, e)
    for i in range(n):
      f = torch.tanh(x)
      f = f.mul_(0.5)
      f = f.add_(self.b)
      g = torch.sub(x, f)
      x = torch.relu(g)
)";

test::SavedModule layer(size_t index) {
  test::SavedModule module{.name = fmt::format("layer{}.Layer", index)};
  module.source = "def forward(self, x, n: int, flag: bool):\n";
  for (size_t group = 0; group < kLayerNodes / 10 - 1; ++group) {
    module.source += fmt::format(fmt::runtime(kStraight), group);
    module.parameters.emplace_back(fmt::format("w{}", group), at::randn({kWidth, kWidth}));
  }
  module.source += kBlocks;
  module.source += "    return x\n";
  module.parameters.emplace_back("b", at::randn({kWidth}));
  return module;
}

std::string layerName(size_t index) { return fmt::format("layer{}", index); }

/// Layers called one after the other; `arguments`: what each gets besides x.
std::string chain(size_t layers, const std::string &signature, const std::string &arguments) {
  std::string source = "def forward(self, x" + signature + "):\n";
  for (size_t i = 0; i < layers; ++i)
    source += fmt::format("    x = self.{}.forward(x{})\n", layerName(i), arguments);
  return source + "    return x\n";
}

void save(const std::string &path, const test::SavedModule &module) {
  std::ofstream out(path, std::ios::binary);
  test::saveTo(out, module);
  out.close();
  if (!out)
    throw std::runtime_error("cannot write " + path);
}

at::Tensor randomBits(int64_t rows, int64_t columns) {
  at::Tensor tensor = at::empty({rows, columns});
  std::mt19937_64 bits(static_cast<uint64_t>(rows));
  auto *words = static_cast<uint64_t *>(tensor.data_ptr());
  for (int64_t i = 0; i < rows * columns / 2; ++i)
    words[i] = bits();
  return tensor;
}

} // namespace

void writeNodesModel(const std::string &path, size_t nodes) {
  const size_t layers = nodes / kLayerNodes;
  test::SavedModule model{.name = "Nodes"};
  for (size_t i = 0; i < layers; ++i)
    model.modules.emplace_back(layerName(i), layer(i));
  model.source = chain(layers, ", n: int = 2, flag: bool = True", ", n, flag");
  save(path, model);
}

std::vector<std::string> evenLayerCuts(size_t layers, size_t stages) {
  std::vector<std::string> names;
  for (size_t stage = 1; stage < stages; ++stage)
    names.push_back(layerName(layers * stage / stages));
  return names;
}

std::vector<std::string> evenCuts(size_t nodes, size_t stages) {
  return evenLayerCuts(nodes / kLayerNodes, stages);
}

void writeWeightsModel(const std::string &path, int64_t bytes, int64_t tensorBytes) {
  constexpr int64_t kColumns = 1024;
  test::SavedModule model{.name = "Weights"};
  const int64_t rows = tensorBytes / 4 / kColumns;
  for (int64_t i = 0; i < bytes / tensorBytes; ++i) {
    test::SavedModule linear{.name = fmt::format("linear{}.Linear", i)};
    linear.parameters.emplace_back("weight", randomBits(rows, kColumns));
    linear.source = "def forward(self, x):\n    return torch.narrow(torch.linear(x, self.weight), "
                    "1, 0, 1024)\n";
    model.modules.emplace_back(layerName(static_cast<size_t>(i)), linear);
  }
  model.source = chain(static_cast<size_t>(bytes / tensorBytes), "", "");
  save(path, model);
}

} // namespace pipec::bench
