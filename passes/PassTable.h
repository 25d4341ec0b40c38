// The registry for people: what pipe-opt --list-passes and docs/passes.md show.
#pragma once

#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
}

namespace pipec {

std::vector<std::string> passNames();
/// One line per pass: name and description.
void printPassList(llvm::raw_ostream &os);
/// A section of docs/passes.md for each.
void printPassesMarkdown(llvm::raw_ostream &os);

} // namespace pipec
