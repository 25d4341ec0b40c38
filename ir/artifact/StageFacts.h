// Facts about a stage file, read from its code and attributes without running it.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <optional>

namespace torch::jit {
struct Module;
}

namespace pipec {

/// The value at a path such as "encoder.layers.0.weight" of a module, or nothing.
std::optional<c10::IValue> attributeAt(const torch::jit::Module &module, llvm::StringRef path);
/// Whether a tensor is at such a path that is neither a parameter nor a buffer of its module. In
/// the stage files of earlier pipecs every tensor is one of the two.
bool isPlainTensor(const torch::jit::Module &module, llvm::StringRef path);
/// The declared type at such a path, or null.
c10::TypePtr typeAt(const torch::jit::Module &module, llvm::StringRef path);

/// Types are those of StageInput and StageOutput, without the numbers that LibTorch adds to names
/// of loaded classes.
struct StageFacts {
  struct Argument {
    std::string name, type;
  };
  struct Attribute {
    AttributeKind kind = AttributeKind::Value;
    bool requiresGrad = false;
    int64_t bytes = 0;
    std::string dtype; // of a tensor that requires a gradient, as its sizes and strides
    std::vector<int64_t> shape, strides;
  };
  std::vector<Argument> arguments;  // of pipec_forward, without self
  std::vector<std::string> results; // types of what it returns
  std::vector<std::optional<Attribute>>
      attributes;                // one per attribute of the plan; nothing: it is not in the file
  std::vector<int64_t> storages; // per attribute of the plan, equal where memory is shared in the
                                 // file; -1: no tensor, or sent by another stage
  int64_t randomOps = 0;         // operators that draw random numbers, those in blocks included
  bool prints = false, raises = false;
  std::map<std::string, int64_t> wholeNumberOps; // of pipec_forward, by kind: those that may be
                                                 // repeated in several stages
};

/// Errors: BadArtifact when there is no pipec_forward, or none with the plan's number of results.
llvm::Expected<StageFacts> stageFacts(const torch::jit::Module &module, const StagePlan &plan);

} // namespace pipec
