#include "compiler/TrainingMode.h"

#include "ir/NodeInfo.h"
#include "ir/support/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

namespace pipec {

namespace {

using torch::jit::Block;
using torch::jit::Node;

constexpr size_t kMostNames = 4;

std::optional<c10::IValue> constantArgument(Node *node, llvm::StringRef name) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  const std::optional<int> at =
      schema ? schema->argumentIndexWithName(name.str()) : std::optional<int>();
  return at && static_cast<size_t>(*at) < node->inputs().size()
             ? torch::jit::toIValue(node->input(static_cast<size_t>(*at)))
             : std::nullopt;
}

bool isTrue(const std::optional<c10::IValue> &value) {
  return value && value->isBool() && value->toBool();
}

/// Whether a flag puts the operator into training mode. Recurrent layers without dropout compute
/// the same in both modes, and normalisation without running statistics uses those of the batch in
/// eval mode too.
bool trains(Node *node) {
  if (!isTrue(constantArgument(node, "train")) && !isTrue(constantArgument(node, "training")))
    return false;
  for (const char *rate : {"dropout", "p", "dropout_p"})
    if (const auto value = constantArgument(node, rate);
        value && value->isDouble() && value->toDouble() == 0)
      return false;
  const std::optional<c10::IValue> statistics = constantArgument(node, "running_mean");
  return !(statistics && statistics->isNone());
}

void collect(Block &block, std::vector<std::string> &modules, std::vector<std::string> &operators) {
  for (Node *node : block.nodes()) {
    if (trains(node)) {
      const std::string path = modulePathOf(node);
      const std::string module = path.empty() ? "the model itself" : path;
      if (!llvm::is_contained(modules, module))
        modules.push_back(module);
      const std::string name = node->kind().toUnqualString();
      if (!llvm::is_contained(operators, name))
        operators.push_back(name);
    }
    for (Block *inner : node->blocks())
      collect(*inner, modules, operators);
  }
}

} // namespace

std::string noteOnTrainingMode(const Model &model, bool infer) {
  std::vector<std::string> modules, operators;
  collect(*model.graph->block(), modules, operators);
  if (modules.empty())
    return "";
  const size_t others = modules.size() > kMostNames ? modules.size() - kMostNames : 0;
  modules.resize(modules.size() - others);
  return fmt::format("{}{} {} in training mode ({}): dropout draws random numbers, batch norm uses "
                     "and updates the "
                     "statistics of each micro-batch; {}",
                     llvm::join(modules, ", "), others ? fmt::format(" and {} others", others) : "",
                     modules.size() + others == 1 ? "is" : "are", llvm::join(operators, ", "),
                     infer ? "the file stores the mode as a constant, which --infer does not "
                             "change; save the model after model.eval()"
                           : "--infer compiles them in eval mode");
}

} // namespace pipec
