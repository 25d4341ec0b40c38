// The one table of passes, in order of the pipeline. Declarations and the convention:
// passes/Passes.h.
#include "llvm/ADT/StringExtras.h"
#include "passes/Passes.h"

#include <limits>

namespace pipec {

llvm::ArrayRef<PassInfo> allPasses() {
  // Built on first use: no static constructors.
  static const std::vector<PassInfo> table = {
      inlineCalls(),   resolveMarkers(),  lowerAttributes(), splitOutputs(), simplify(),
      foldConstants(), lowerTuples(),     unrollLoops(),     fixLists(),     commonSubexpression(),
      removeInplace(), deadCode(),        printAlias(),      chooseCuts(),   legaliseCuts(),
      rematerialise(), insertTransfers(), resolveTies(),
  };
  return table;
}

const PassInfo *findPass(llvm::ArrayRef<PassInfo> table, llvm::StringRef name,
                         std::string *nearest) {
  unsigned best = std::numeric_limits<unsigned>::max();
  for (const PassInfo &info : table) {
    if (info.name == name)
      return &info;
    const unsigned distance = name.edit_distance(info.name);
    if (distance < best && nearest) {
      best = distance;
      *nearest = info.name.str();
    }
  }
  return nullptr;
}

const PassInfo *findPass(llvm::StringRef name, std::string *nearest) {
  return findPass(allPasses(), name, nearest);
}

} // namespace pipec
