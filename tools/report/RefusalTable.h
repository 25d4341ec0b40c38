// The table of refusals for people and tests: what pipe-opt --list-refusals and docs/refusals.md
// show.
#pragma once

namespace llvm {
class raw_ostream;
}

namespace pipec {

/// {"refusals": [{name, message, help, meaning}, ...]}; {} in a message stands for the model's
/// words.
void printRefusalsJson(llvm::raw_ostream &os);
/// docs/refusals.md.
void printRefusalsMarkdown(llvm::raw_ostream &os);

} // namespace pipec
