#include "passes/Registry.h"

#include "ir/support/Words.h"
#include "passes/Passes.h"

namespace pipec {

llvm::ArrayRef<PassInfo> allPasses() {
  // Built on first use: no static constructors.
  static const std::vector<PassInfo> table = {
#define PASS(function) function(),
#include "passes/Passes.def"
#undef PASS
  };
  return table;
}

const PassInfo *findPass(llvm::ArrayRef<PassInfo> table, llvm::StringRef name,
                         std::string *nearest) {
  std::vector<std::string> names;
  for (const PassInfo &info : table) {
    if (info.name == name)
      return &info;
    names.push_back(info.name.str());
  }
  if (nearest)
    *nearest = nearestName(name, names);
  return nullptr;
}

const PassInfo *findPass(llvm::StringRef name, std::string *nearest) {
  return findPass(allPasses(), name, nearest);
}

} // namespace pipec
