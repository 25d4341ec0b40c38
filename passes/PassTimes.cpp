#include "passes/PassTimes.h"

#include "llvm/ADT/STLExtras.h"

namespace pipec {

void addTimes(std::vector<PassTime> &times, const std::vector<PassTime> &more) {
  for (const PassTime &added : more) {
    auto found = llvm::find_if(times, [&](const PassTime &row) { return row.name == added.name; });
    if (found == times.end())
      found = times.insert(found, PassTime{added.name});
    found->runs += added.runs;
    found->changes += added.changes;
    found->ns += added.ns;
  }
}

} // namespace pipec
