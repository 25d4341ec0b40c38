// What every operator of a model costs, as --cost and --emit-costs have it, and an artifact's
// costs.json.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

/// An operator of the flat graph's top level, in program order. Times are of one micro-batch. What
/// was not asked for is 0: a table of an inference has no backward.
struct CostRow {
  std::string op, module;  // "aten::linear", "encoder.fc1": for people, and to find a foreign table
  int64_t forwardNs = 0;   // while CostTable::atOnce ranks are at work: what plans count with
  int64_t outputBytes = 0; // of the tensors it makes
  int64_t forwardAloneNs = 0;                // while no other rank is; 0: no different
  int64_t inputGradNs = 0, weightGradNs = 0; // of its backward
  int64_t keptBytes = 0;                     // of results and inputs that the backward reads
  int64_t weightBytes = 0;                   // that it is the first to read
  // For the joint search over pipelines of a training:
  int64_t trainedBytes = 0;         // of weightBytes: those that have gradients
  std::vector<uint32_t> reads = {}; // operators before it whose results it reads, ascending
  bool withPrevious = false;        // no cut may be before it
  bool operator==(const CostRow &) const = default;

  int64_t aloneNs() const { return forwardAloneNs ? forwardAloneNs : forwardNs; }
  CostRow &operator+=(const CostRow &other); // all but the names and the wiring
};

/// A weight that several operators read; `weightBytes` of the first of them has it.
struct SharedWeight {
  std::string name;
  int64_t bytes = 0;
  bool trained = false;
  std::vector<uint32_t> readers; // ascending, at least two
  bool operator==(const SharedWeight &) const = default;
};

struct CostTable {
  std::vector<CostRow> rows;
  int64_t atOnce = 1;    // ranks at work on one machine while forwardNs was taken
  bool training = false; // backward, wiring and shared weights are known
  int64_t batch = 0;     // samples of the micro-batch that it is of; 0: not known
  std::vector<SharedWeight> shared{};
  bool operator==(const CostTable &) const = default;

  /// Of the operators [begin, end) as one: a stage.
  CostRow sum(size_t begin, size_t end) const;
  int64_t totalNs() const { return sum(0, rows.size()).forwardNs; }
};

/// parse(print(x)) == x. Keys of a row beyond op, module, forward_ns and output_bytes stand there
/// only where they say something.
std::string toJson(const CostTable &table);
/// `name` is how messages call it. Errors: Usage with the place in the document.
llvm::Expected<CostTable> costTableFromJson(llvm::StringRef text, const std::string &name);

} // namespace pipec
