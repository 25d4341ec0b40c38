// Modules that run in training mode, of a model saved without eval(): dropout, batch norm, and code
// that reads the flag `training`.
#pragma once

#include "llvm/ADT/ArrayRef.h"
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

/// Whether the operator runs in training mode: by its flag, or as attention with a dropout rate.
/// Recurrent layers without dropout compute the same in both modes, and normalisation without
/// running statistics uses those of the batch in eval mode too.
bool isInTrainingMode(torch::jit::Node *node, KnownValue valueOf);

/// Whether it is a batch norm that computes with the statistics of the batch and keeps none.
bool isNormWithoutState(torch::jit::Node *node, KnownValue valueOf);

/// Names of modules in training mode and of what runs in them, each once, in program order.
class TrainingModules {
public:
  /// Why training mode runs.
  enum class Cause {
    Flag,     // the module's code reads the flag `training` of a module, and would do something
              // else in eval mode
    Constant, // an operator has the mode as a constant
    Trace,    // a trace in training mode draws; whether eval mode would is not in it
    AnyMode   // no training mode: a batch norm without running statistics, which computes with
              // those of the batch in both modes
  };
  /// `name`: of the operator; empty: other code that reads the flag.
  void add(const std::string &path, const std::string &name, Cause cause);
  /// Those of another method.
  void add(const TrainingModules &other);
  /// Modules whose batch norms use the statistics of each micro-batch, "1, 4"; empty: none.
  std::string norms() const;

  /// "norm, drop are in training mode (batch_norm, dropout): ...; HELP", and a sentence for traces.
  /// `help` says how to run in eval mode those that read their flag. Empty if there are none.
  std::vector<std::string> notes(const std::string &help) const;

private:
  struct Found {
    std::string module, name;
    Cause cause;
    bool operator==(const Found &) const = default;
  };
  std::vector<std::string> modulesOf(llvm::ArrayRef<Cause> causes) const;
  std::vector<std::string> operatorsOf(llvm::ArrayRef<Cause> causes) const;

  std::vector<Found> found_;
};

/// Those whose code does something else in training mode in this method, by the flags that the
/// module has now. Branches that constants and attributes switch off do not count, nor does code
/// that reads a flag and computes the same in both modes. See TrainingWalk. `path`: the module's
/// name in the model, if it is a part of one. A joined loss has a function of its own, see
/// ir/torchfile/JoinLoss.h.
TrainingModules trainingModules(const torch::jit::Module &module, const std::string &method,
                                const std::string &path = "");

} // namespace pipec
