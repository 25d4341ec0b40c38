// Modules that run in training mode: dropout, batch norm and the like of a model saved without
// eval().
#pragma once

#include "llvm/ADT/STLExtras.h"

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
struct Node;
struct Value;
} // namespace torch::jit

namespace pipec {

/// The value that is known without running anything; nothing if it depends on a run.
using KnownValue = llvm::function_ref<std::optional<c10::IValue>(torch::jit::Value *)>;

/// Whether a flag puts the operator into training mode. Recurrent layers without dropout compute
/// the same in both modes, and normalisation without running statistics uses those of the batch in
/// eval mode too.
bool isInTrainingMode(torch::jit::Node *node, KnownValue valueOf);

/// What --infer does not change, and what it leaves out.
inline const std::string kConstantMode =
    "the code has the mode as a constant, which --infer does not change; save the model after "
    "model.eval(), or trace it then; dropout(x, training=True) draws in any mode";
inline const std::string kUnlessConstant =
    ", but not where the code has the mode as a constant, as traces and dropout(x, training=True) "
    "do";

/// Names of modules and operators in training mode, each once, in program order.
class TrainingModules {
public:
  /// An operator isInTrainingMode() of the module at `path`.
  void add(const std::string &path, torch::jit::Node *node);
  /// Those of another method.
  void add(const TrainingModules &other);
  /// Modules whose batch norms use the statistics of each micro-batch, "1, 4"; empty: none.
  std::string norms() const;
  bool empty() const { return modules_.empty(); }

  /// "norm, drop are in training mode (batch_norm, dropout): ...; HELP". Empty if there are none.
  std::string note(const std::string &help) const;

private:
  std::vector<std::string> modules_, operators_;
  std::vector<std::string> norms_; // those of modules_ that have a norm
};

/// Those that a method reaches, by the flags that the module has now. Branches that flags switch
/// off do not count. A module that only a run chooses is not found.
TrainingModules trainingModules(const torch::jit::Module &module, const std::string &method);

} // namespace pipec
