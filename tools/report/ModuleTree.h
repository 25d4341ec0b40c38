// The modules of a TorchScript file with their contents. No LibTorch header.
#pragma once

#include "ir/support/Error.h"

#include <string>
#include <vector>

namespace pipec {

/// One module, in order of a walk from the top; children follow their parent.
struct ModuleNode {
  std::string path; // "" for the model itself
  std::string type; // "Linear"
  size_t depth = 0;
  int64_t parameters = 0; // elements of its own and its children's parameters; a shared one counts
                          // once
  int64_t parameterBytes = 0;
  int64_t bufferBytes = 0;
  int64_t ownParameters = 0;
  bool training = false;
  std::vector<std::string> methods;
};

struct ModuleTree {
  std::vector<ModuleNode> modules;
  std::vector<std::string> trainingNotes; // name what `method` runs in training mode
};

/// Reads the tree through a mapping; no weight is read. Errors: those of loadMapped.
llvm::Expected<ModuleTree> readModuleTree(const std::string &path, const std::string &method);

} // namespace pipec
