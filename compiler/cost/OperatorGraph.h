// Which operator of a flat model reads which results and weights.
#pragma once

#include "ir/Model.h"

namespace pipec {

/// The top level as numbers: which operator reads which results.
struct OperatorGraph {
  struct Operator {
    std::string op, module; // "aten::linear", "encoder.fc1"
  };
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  std::vector<Operator> operators; // in program order
  Pairs reads;                     // maker, reader; each once
  Pairs weights;                   // attribute, operator that reads it; each once
};
OperatorGraph operatorGraph(const Model &model);

} // namespace pipec
