// The proof at the end of every compile, and later: the files as read back are the normalised
// source.
#pragma once

#include "ir/Model.h"
#include "ir/artifact/Relink.h"
#include "ir/support/StableBytes.h"

#include <future>
#include <map>
#include <optional>
#include <set>

namespace pipec {

/// What the source looked like when it was normalised; taken before anything is cut.
struct SourceRecord {
  std::vector<std::string> lines; // canonicalLines
  Signature signature;
  std::vector<Attribute> attributes;
  std::map<std::string, size_t> indexOf;         // of attributes, by name
  std::map<std::string, int64_t> wholeNumberOps; // how many of each kind
  std::set<int64_t> onlyAssigned;                // storages, see onlyAssignedStorages
  // Only after finish():
  std::string digest; // contentDigest of the lines and of all weights
  KnownWeights weights;

  /// The weights that are large. Whoever has their bytes at hand may digest them, and finish() does
  /// what is left.
  std::shared_ptr<StableBytes> stable;
  std::vector<std::future<void>> digesting; // each fills the content of some of the others
};

/// Returns while other threads still digest weights, which must not change.
SourceRecord recordSource(const Model &model);
/// Digests what has no digest yet.
void finish(SourceRecord &source);

/// The first thing in which an artifact is not the source.
struct SourceDifference {
  std::string where;          // "weight encoder.weight", "stage 2"; empty: the whole
  std::string message;        // names both sides
  std::optional<size_t> line; // of the record, when an operator differs
};

/// What is read back of large weights that this process wrote past the kernel's cache, from the
/// source's memory and digested on the way: all, or the first and last 4 KiB of each, as all would
/// come from the disk once more.
enum class ReadBack { Ends, All };

/// For a report, once validate() has passed.
std::string whatWasProved(const SourceRecord &source, ReadBack large);

/// Reads every file in `directory`, links the stages and compares with the record: same operators
/// on the same values in the same order, same outputs and state, every weight byte there (but see
/// ReadBack); and that the plan says of arguments, results, weights, random operators and effects
/// what source and files show; and discharges the plan's obligations. Nothing when all that holds.
/// Errors: those of relink.
llvm::Expected<std::optional<SourceDifference>> compareWithSource(const std::string &directory,
                                                                  const Plan &plan,
                                                                  const SourceRecord &source,
                                                                  ReadBack large = ReadBack::All);

/// The same at the end of a compile, whose fault any difference is. Errors: Internal naming the
/// first difference.
llvm::Error validate(const std::string &directory, const Plan &plan, const SourceRecord &source,
                     ReadBack large);

} // namespace pipec
