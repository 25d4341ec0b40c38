#include "ir/support/Words.h"

#include "ir/support/Llvm.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace pipec {

std::string nearestName(llvm::StringRef name, llvm::ArrayRef<std::string> names) {
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  std::string nearest;
  for (llvm::StringRef candidate : names) {
    bool lastPart = !name.empty() && endsWith(candidate, "." + name.str());
    size_t distance = lastPart ? 1 : name.edit_distance(candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate.str();
    }
  }
  return nearest;
}

std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<std::string> names,
                       const std::string &otherwise) {
  std::string nearest = nearestName(name, names);
  return nearest.empty() ? otherwise : "did you mean " + nearest + "?";
}

std::string counted(size_t number, const std::string &noun) {
  std::string plural = endsWith(noun, "ch") ? "es" : "s"; // micro-batches
  return std::to_string(number) + " " + noun + (number == 1 ? "" : plural);
}

std::string someOf(llvm::ArrayRef<std::string> names, size_t most) {
  const size_t others = names.size() > most ? names.size() - most : 0;
  return llvm::join(names.drop_back(others), ", ") +
         (others ? " and " + counted(others, "other") : "");
}

} // namespace pipec
