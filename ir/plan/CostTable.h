// What every operator of a model costs, as --cost and --emit-costs have it, and an artifact's
// costs.json.
#pragma once

#include "ir/plan/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipec {

/// An operator of the flat graph's top level, in program order.
struct CostRow {
  std::string op, module; // "aten::linear", "encoder.fc1": for people, and to find a foreign table
  int64_t forwardNs = 0;
  int64_t outputBytes = 0; // of the tensors it makes, for one micro-batch
  bool operator==(const CostRow &) const = default;
};

struct CostTable {
  std::vector<CostRow> rows;
  bool operator==(const CostTable &) const = default;
  int64_t totalNs() const;
};

/// parse(print(x)) == x.
std::string toJson(const CostTable &table);
/// `name` is how messages call it. Errors: Usage with the place in the document.
llvm::Expected<CostTable> costTableFromJson(llvm::StringRef text, const std::string &name);

} // namespace pipec
