// The proof at the end of every compile: the files as read back are the normalised source.
#pragma once

#include "ir/Model.h"

#include <map>

namespace pipec {

/// What the source looked like when it was normalised; taken before anything is cut.
struct SourceRecord {
  std::vector<std::string> lines; // canonicalLines
  std::string digest;             // contentDigest of them and of all weights
  Signature signature;
  std::vector<Attribute> attributes;             // without their values
  std::map<std::string, int64_t> wholeNumberOps; // how many of each kind
};
SourceRecord recordSource(const Model &model);

/// Reads every file in `directory`, links the stages and compares with the record: same operators
/// on the same values in the same order, same outputs and state, every weight byte there; and that
/// the plan says of arguments, results, weights, random operators and effects what source and files
/// show; and discharges the plan's obligations. Errors: Internal naming the first difference.
llvm::Error validate(const std::string &directory, const Plan &plan, const SourceRecord &source);

} // namespace pipec
