// The costs of every operator of a model, as --cost reads them, --emit-costs writes them, and an
// artifact's costs.json holds them.
#pragma once

#include "ir/support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

/// An operator of the flat graph's top level, in program order. Times are for one micro-batch.
/// Fields that were not requested are 0: a table of an inference has no backward.
struct CostRow {
  std::string op, module;     // "aten::linear", "encoder.fc1": for people, and to detect a table of
                              // another model
  int64_t forwardNs = 0;      // while CostTable::atOnce ranks run; plans use this time
  int64_t outputBytes = 0;    // of the tensors it makes
  int64_t forwardAloneNs = 0; // while no other rank runs; 0: the same
  int64_t inputGradNs = 0, weightGradNs = 0; // of its backward
  int64_t keptBytes = 0;                     // results and inputs that the backward reads
  int64_t weightBytes = 0;                   // weights that this operator is the first to read
  // For the joint search over pipelines of a training:
  int64_t trainedBytes = 0;         // the part of weightBytes that has gradients
  std::vector<uint32_t> reads = {}; // earlier operators whose results it reads, ascending
  bool withPrevious = false;        // no cut may stand before it
  /// What its weights' gradients need after its input's, unless an earlier operator's need it: part
  /// of what was kept, and the gradients that they start from.
  int64_t pendingBytes = 0;
  bool operator==(const CostRow &) const = default;

  int64_t aloneNs() const { return forwardAloneNs ? forwardAloneNs : forwardNs; }
  CostRow &operator+=(const CostRow &other); // all but the names and the wiring
};

/// A weight that several operators read. The first of them counts it in its `weightBytes`.
struct SharedWeight {
  std::string name;
  int64_t bytes = 0;
  bool trained = false;
  std::vector<uint32_t> readers; // ascending, at least two
  bool operator==(const SharedWeight &) const = default;
};

struct CostTable {
  std::vector<CostRow> rows;
  int64_t atOnce = 1;    // ranks that ran on one machine while forwardNs was measured
  bool training = false; // backward, wiring and shared weights are known
  bool pending = false;  // pendingBytes is known; older tables do not have it
  int64_t batch = 0;     // samples of the micro-batch that it is of; 0: not known
  std::vector<SharedWeight> shared{};
  bool operator==(const CostTable &) const = default;

  /// The operators [begin, end) added up: a stage.
  CostRow sum(size_t begin, size_t end) const;
};

/// parse(print(x)) == x. Beyond op, module, forward_ns and output_bytes, a row has only the keys
/// whose values differ from the default.
std::string toJson(const CostTable &table);
/// `name` names the file in messages. Errors: Usage with the place in the document.
llvm::Expected<CostTable> costTableFromJson(llvm::StringRef text, const std::string &name);

} // namespace pipec
