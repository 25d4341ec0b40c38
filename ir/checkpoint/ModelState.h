// The parameters, buffers and other state of an unsplit model, by name.
#pragma once

#include "ir/plan/Plan.h"

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace pipec {

struct ModelValue {
  std::vector<std::string> names; // all that the module has for this tensor
  AttributeKind kind = AttributeKind::Value;
  c10::IValue value;
};

/// Every tensor once, and every other attribute that can be written to a file, without training
/// flags. `objects` gets the names of attributes that cannot be written.
std::vector<ModelValue> modelState(const torch::jit::Module &module,
                                   std::vector<std::string> &objects);

/// The declared type at a path, and the attribute's replacement. Throw LibTorch's exceptions for a
/// path that does not exist.
c10::TypePtr typeOfAttribute(const torch::jit::Module &module, const std::string &path);
void setAttribute(const torch::jit::Module &module, const std::string &path, c10::IValue value);

} // namespace pipec
