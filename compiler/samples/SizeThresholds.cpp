#include "compiler/samples/SizeThresholds.h"

#include "compiler/samples/SampleOperators.h"
#include "ir/NodeInfo.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

using torch::jit::Node;
using torch::jit::Value;

namespace {

/// Whether the number is computed from sizes and constants alone, not from elements.
bool isMadeOfSizes(const Value *value, int steps = 16) {
  static const llvm::StringSet<> kArithmetic = {
      "add", "sub", "mul", "floordiv",    "remainder",   "neg",        "min",         "max",
      "Int", "int", "abs", "__getitem__", "NumToTensor", "ListUnpack", "floor_divide"};
  const Node *node = value->node();
  if (node->kind() == c10::prim::Constant || givesSize(node))
    return true;
  return steps > 0 && isIn(kArithmetic, node) &&
         llvm::all_of(node->inputs(),
                      [&](const Value *input) { return isMadeOfSizes(input, steps - 1); });
}

std::optional<int64_t> constantOf(Value *value) {
  const std::optional<c10::IValue> constant = torch::jit::toIValue(value);
  return constant && constant->isInt() ? std::optional(constant->toInt()) : std::nullopt;
}

class Collector {
public:
  explicit Collector(const BatchForms &forms) : forms_(forms) {}

  void visit(Node *node) {
    static const llvm::StringSet<> kEqualities = {"eq", "ne"};
    static const llvm::StringSet<> kOthers = {"lt",  "le",  "gt",       "ge",
                                              "min", "max", "floordiv", "remainder"};
    if (node->kind() == c10::aten::slice)
      return visitSlice(node);
    const bool isEquality = isIn(kEqualities, node);
    if (node->inputs().size() != 2 || !(isEquality || isIn(kOthers, node)))
      return;
    for (size_t side : {0, 1}) {
      const std::optional<BatchForm::Number> number = forms_.of(node->input(side)).number;
      const std::optional<int64_t> constant = constantOf(node->input(1 - side));
      if (number && constant && isMadeOfSizes(node->input(side)))
        note(node, *number, *constant, isEquality);
    }
  }

  std::vector<SizeThreshold> take() {
    llvm::stable_sort(found_, [](const auto &a, const auto &b) { return a.samples < b.samples; });
    return std::move(found_);
  }

private:
  void visitSlice(Node *node) {
    const std::optional<int64_t> dim =
        node->inputs().size() > 3 ? constantOf(node->input(1)) : std::nullopt;
    const int64_t rows = dim ? forms_.rowsPerSample(node->input(0), *dim) : 0;
    for (size_t bound : {2, 3})
      if (const std::optional<int64_t> at =
              rows > 0 ? constantOf(node->input(bound)) : std::nullopt;
          at && *at != 0 && std::abs(*at) < kNoBound)
        note(node, {rows, 0}, std::abs(*at), false);
  }

  void note(Node *node, BatchForm::Number number, int64_t constant, bool isEquality) {
    const int64_t beyond = constant - number.constant;
    if (number.perSample < 1 || beyond < 1 || constant >= kNoBound)
      return;
    const int64_t at = beyond / number.perSample; // the most samples that do not exceed it
    if (at < 1)
      return;
    int64_t samples = at + 1;
    if (isEquality && beyond % number.perSample == 0)
      samples = std::max<int64_t>(2, at);
    else if (at >= kSmallSamples && at < kWholeSamples)
      return; // the whole batch of the trial is beyond it, and one of its parts is not
    if (llvm::none_of(found_, [&](const SizeThreshold &one) { return one.samples == samples; }))
      found_.push_back({node, constant, samples});
  }

  static constexpr int64_t kNoBound = int64_t(1) << 31;
  const BatchForms &forms_;
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
