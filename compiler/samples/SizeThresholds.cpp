#include "compiler/samples/SizeThresholds.h"

#include "compiler/samples/FixedNumbers.h"
#include "compiler/samples/SampleOperators.h"
#include "compiler/samples/SizeValues.h"
#include "ir/NodeInfo.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cmath>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

namespace {

constexpr int64_t kNoBound = int64_t(1) << 31;
/// The batch of every trial (CutTrial), which was compared with its parts.
constexpr int64_t kShown = kWholeSamples;

/// Every number up to 256, further ones up to 4096 with gaps of 3 %, then powers of two.
const std::vector<int64_t> &numbersToLookAt() {
  static const std::vector<int64_t> all = [] {
    std::vector<int64_t> numbers;
    for (int64_t n = 1; n <= 4096; n += std::max<int64_t>(1, n > 256 ? n / 32 : 1))
      numbers.push_back(n);
    for (int64_t n = 8192; n < kNoBound; n *= 2)
      numbers.push_back(n);
    return numbers;
  }();
  return all;
}

/// Numbers in a value: a bool is 0 or 1.
std::vector<double> numbersIn(const c10::IValue &value) {
  if (value.isBool())
    return {value.toBool() ? 1.0 : 0.0};
  if (value.isInt())
    return {static_cast<double>(value.toInt())};
  if (value.isDouble())
    return {value.toDouble()};
  std::vector<double> all;
  if (value.isTensor() && !value.toTensor().is_complex()) {
    const at::Tensor numbers = value.toTensor().to(at::kDouble).contiguous();
    all.assign(numbers.const_data_ptr<double>(),
               numbers.const_data_ptr<double>() + numbers.numel());
  }
  if (value.isList())
    for (const c10::IValue &one : value.toListRef())
      llvm::append_range(all, numbersIn(one));
  return all;
}

class Collector {
public:
  explicit Collector(const BatchForms &forms) : forms_(forms), sizes_(forms) {}

  void visit(Node *node) {
    visitParts(node);
    for (Value *output : node->outputs())
      if (sizes_.follows(output) && sizes_.bends(output) && isUsedOutside(output))
        visitValue(output);
  }

  std::vector<SizeThreshold> take() {
    llvm::stable_sort(found_, [](const auto &a, const auto &b) { return a.samples < b.samples; });
    return std::move(found_);
  }

private:
  /// Whether the value has users that are not themselves values made of sizes: a branch, a loop, an
  /// operator on elements.
  bool isUsedOutside(Value *value) {
    return llvm::any_of(value->uses(), [&](const torch::jit::Use &use) {
      return use.user->outputs().empty() || !sizes_.follows(use.user->output(0));
    });
  }

  void visitValue(Value *value) {
    const std::optional<int64_t> at =
        isCondition(value) || sizes_.hasRows(value) ? whereItChanges(value) : whereItBends(value);
    if (!at)
      return;
    Node *decides = decisive(value->node());
    add(decides, constantIn(decides), *at,
        isCondition(decides->outputs()[0]) || sizes_.hasRows(value));
  }

  static bool isCondition(Value *value) { return value->type()->kind() == c10::TypeKind::BoolType; }

  std::vector<double> numbersAt(Value *value, int64_t samples) {
    const std::optional<c10::IValue> content = sizes_.at(value, samples);
    return content ? numbersIn(*content) : std::vector<double>();
  }

  /// Those of a tensor with rows per sample, row after row.
  std::vector<double> rowsAt(Value *value, int64_t samples) {
    const std::optional<c10::IValue> content = sizes_.at(value, samples);
    const std::optional<int64_t> along = sizes_.rowsAlong(value);
    if (!content || !along || !content->isTensor() || *along >= content->toTensor().dim())
      return {};
    return numbersIn(content->toTensor().movedim(*along, 0));
  }

  /// The fewest samples whose condition differs from that of a half, or whose rows differ from
  /// those of the halves. nullopt: none, or the trial shows one.
  std::optional<int64_t> whereItChanges(Value *value) {
    auto differs = [&](int64_t samples) {
      if (sizes_.hasRows(value)) {
        std::vector<double> parts = rowsAt(value, samples - samples / 2);
        llvm::append_range(parts, rowsAt(value, samples / 2));
        return rowsAt(value, samples) != parts;
      }
      const std::vector<double> whole = numbersAt(value, samples);
      return whole != numbersAt(value, samples - samples / 2) ||
             whole != numbersAt(value, samples / 2);
    };
    if (differs(kShown))
      return std::nullopt;
    std::optional<int64_t> first;
    int64_t before = 1;
    const bool isLimited = sizes_.isMadeOfRows(value);
    for (int64_t samples : numbersToLookAt()) {
      if (isLimited && samples > SizeValues::kMostRows)
        break;
      if (samples > 1 && differs(samples)) {
        first = samples;
        break;
      }
      before = samples;
    }
    for (int64_t low = before + 1; first && *first - low > 0 && *first <= 4096; ++low)
      if (differs(low))
        first = low;
    for (int64_t samples : whereEqual(value->node()))
      if (samples > 1 && (!first || samples < *first) &&
          !(isLimited && samples > SizeValues::kMostRows) && differs(samples))
        first = samples;
    return first;
  }

  /// Numbers of samples at which a size is equal to a constant.
  std::vector<int64_t> whereEqual(Node *node) const {
    std::vector<int64_t> found;
    for (size_t side = 0; node->inputs().size() == 2 && side < 2; ++side) {
      const auto &number = forms_.of(node->input(side)).number;
      const std::optional<int64_t> constant = fixedInt(node->input(1 - side), forms_);
      if (number && number->perBatch > 0 && constant &&
          (*constant - number->constant) % number->perBatch == 0)
        found.push_back((*constant - number->constant) / number->perBatch);
    }
    return found;
  }

  /// The fewest samples at which a number is off the line through its values at 2 and 3 samples.
  /// nullopt: there are none, or the trial shows them.
  std::optional<int64_t> whereItBends(Value *value) {
    const std::vector<double> two = numbersAt(value, 2), three = numbersAt(value, 3);
    auto isOff = [&](int64_t samples) {
      const std::vector<double> seen = numbersAt(value, samples);
      bool off = seen.size() != two.size() || seen.size() != three.size();
      for (size_t k = 0; k < seen.size() && !off; ++k) {
        const double expected = two[k] + double(samples - 2) * (three[k] - two[k]);
        off = std::abs(seen[k] - expected) > 1e-9 * std::max(1.0, std::abs(expected));
      }
      return off;
    };
    if (isOff(kShown))
      return std::nullopt;
    if (isOff(1))
      return 2; // its halves have 1 sample
    int64_t before = 1;
    for (int64_t samples : numbersToLookAt()) {
      if (samples > 4096)
        break;
      if (!isOff(samples)) {
        before = samples;
        continue;
      }
      while (before + 1 < samples && !isOff(before + 1))
        ++before;
      return before + 1;
    }
    return std::nullopt;
  }

  /// The first operator on the way to a value that is more than a sum of multiples of sizes.
  Node *decisive(Node *node) {
    for (Value *input : node->inputs())
      if (sizes_.follows(input) && sizes_.bends(input))
        return decisive(input->node());
    return node;
  }

  static std::optional<int64_t> constantIn(Node *node) {
    for (Value *input : node->inputs())
      if (const std::optional<int64_t> constant = constantInt(input))
        return constant;
    return std::nullopt;
  }

  /// Slices and parts of fixed sizes, and what differs for a single sample.
  void visitParts(Node *node) {
    static const llvm::StringSet<> kSplits = {"split", "unsafe_split"};
    static const llvm::StringSet<> kSqueezes = {"squeeze"};
    if (node->inputs().empty())
      return;
    if (isIn(kSqueezes, node) && forms_.of(node->input(0)).any() && dropsSamples(node))
      add(node, 1, 2, false);
    const bool isSlice = node->kind() == c10::aten::slice, isSplit = isIn(kSplits, node);
    Value *dim = isSlice || isSplit ? inputNamed(node, "dim") : nullptr;
    const std::optional<int64_t> along = dim ? constantInt(dim) : std::nullopt;
    const int64_t rows = along ? forms_.rowsPerSample(node->input(0), *along) : 0;
    for (const char *name : {"start", "end", "split_size"})
      if (Value *bound = rows > 0 ? inputNamed(node, name) : nullptr)
        if (const std::optional<int64_t> at = fixedInt(bound, forms_);
            at && *at != 0 && std::abs(*at) < kNoBound)
          addBeyond(node, rows, constantInt(bound), std::abs(*at));
  }

  /// A dimension of one sample would be squeezed.
  bool dropsSamples(Node *node) const {
    Value *dim = inputNamed(node, "dim");
    const std::optional<int64_t> along = dim ? constantInt(dim) : std::nullopt;
    return !along || forms_.rowsPerSample(node->input(0), *along) > 0;
  }

  /// The most samples that do not exceed the bound lie between a batch and its halves.
  void addBeyond(Node *node, int64_t rows, std::optional<int64_t> constant, int64_t bound) {
    const int64_t most = bound / rows;
    const bool shows = most >= kSmallSamples && most < kWholeSamples;
    if (most >= 1 && !shows)
      add(node, constant ? std::optional(bound) : std::nullopt, most + 1, false);
  }

  void add(Node *node, std::optional<int64_t> constant, int64_t samples, bool isCondition) {
    if (llvm::none_of(found_, [&](const SizeThreshold &one) { return one.samples == samples; }))
      found_.push_back({node, constant, samples, isCondition});
  }

  const BatchForms &forms_;
  SizeValues sizes_;
  std::vector<SizeThreshold> found_;
};

} // namespace

std::vector<SizeThreshold> sizeThresholds(const Model &model, const BatchForms &forms) {
  Collector collector(forms);
  anyNodeInside(model.graph->block(), [&](Node *node) {
    collector.visit(node);
    return false;
  });
  return collector.take();
}

} // namespace pipec
