// The registry for people: the output of pipe-opt --list-passes and the text of docs/passes.md.
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
/// A section of docs/passes.md per pass.
void printPassesMarkdown(llvm::raw_ostream &os);

} // namespace pipec
