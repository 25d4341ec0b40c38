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

/// A record of the normalised source, taken before anything is cut.
struct SourceRecord {
  std::vector<std::string> lines; // canonicalLines
  Signature signature;
  std::vector<Attribute> attributes;
  std::map<std::string, size_t> indexOf;         // of attributes, by name
  std::map<std::string, int64_t> wholeNumberOps; // number of each kind
  std::set<int64_t> onlyAssigned;                // storages, see onlyAssignedStorages
  // Set by finish():
  std::string digest; // contentDigest of the lines and of all weights
  KnownWeights weights;

  /// The large weights. Code that has their bytes in cache may compute their digests; finish()
  /// computes the rest.
  std::shared_ptr<StableBytes> stable;
  std::vector<std::future<void>> digesting; // each fills the content of some of the other weights
};

/// Returns while other threads still hash weights, which must not change.
SourceRecord recordSource(const Model &model);
/// Computes the missing digests.
void finish(SourceRecord &source);

/// The first difference between an artifact and the source.
struct SourceDifference {
  std::string where;          // "weight encoder.weight", "stage 2"; empty: the whole
  std::string message;        // names both sides
  std::optional<size_t> line; // of the record, if an operator differs
};

/// How much is read back of large weights that this process wrote past the kernel's cache and
/// hashed while writing: all, or the first and last 4 KiB of each, because all would be read from
/// the disk once more.
enum class ReadBack { Ends, All };

/// The large weights that were written past the kernel's cache, by name: test runs that read them
/// from memory spare the disk. None with ReadBack::All.
std::map<std::string, at::Tensor> weightsNotReadBack(const SourceRecord &source, ReadBack large);

/// A sentence for a report, once validate() has passed.
std::string whatWasProved(const SourceRecord &source, ReadBack large);

/// Reads every file in `directory`, links the stages and compares them with the record: same
/// operators on the same values in the same order, same outputs and state, every byte of every
/// weight (but see ReadBack). Also compares what the plan says of arguments, results, weights,
/// random operators and effects with source and files, and discharges the plan's obligations.
/// Returns nothing if all of this holds. Errors: those of relink.
llvm::Expected<std::optional<SourceDifference>> compareWithSource(const std::string &directory,
                                                                  const Plan &plan,
                                                                  const SourceRecord &source,
                                                                  ReadBack large = ReadBack::All);

/// The same at the end of a compile, which is at fault for any difference. Errors: Internal naming
/// the first difference.
llvm::Error validate(const std::string &directory, const Plan &plan, const SourceRecord &source,
                     ReadBack large);

} // namespace pipec
