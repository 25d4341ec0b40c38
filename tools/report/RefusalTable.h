// The table of refusals for people and tests: the output of pipe-opt --list-refusals, and
// docs/refusals.md.
#pragma once

namespace llvm {
class raw_ostream;
}

namespace pipec {

/// {"refusals": [{name, message, help, meaning}, ...]}; {} in a message stands for details of the
/// model.
void printRefusalsJson(llvm::raw_ostream &os);
/// docs/refusals.md.
void printRefusalsMarkdown(llvm::raw_ostream &os);

} // namespace pipec
