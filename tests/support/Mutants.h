// Programs with one small mistake, or none: what a bad lowering or a damaged file could contain.
#pragma once

#include "ir/schedule/Lower.h"
#include "tests/support/RandomPrograms.h"

namespace pipec {

enum class Mutation { Drop, Duplicate, Swap, Move, MicroBatch, ReverseLane };
inline constexpr const char *kMutationNames[] = {"drop", "duplicate",   "swap",
                                                 "move", "micro-batch", "reverse lane"};

/// Three in four are swaps: they are what often leaves a program valid.
inline Mutation randomMutation(std::mt19937 &random) {
  constexpr Mutation rare[] = {Mutation::Drop, Mutation::Duplicate, Mutation::Move,
                               Mutation::MicroBatch, Mutation::ReverseLane};
  return below(random, 4) < 3 ? Mutation::Swap : rare[below(random, 5)];
}

/// False: the program has nothing that could be changed so.
inline bool mutate(Program &program, Mutation mutation, const RunShape &shape,
                   std::mt19937 &random) {
  const size_t rank = below(random, program.ranks.size());
  std::vector<Op> &ops = program.ranks[rank];
  if (ops.empty())
    return false;
  const size_t at = below(random, ops.size());
  auto place = [](std::vector<Op> &list, size_t i) {
    return list.begin() + static_cast<std::ptrdiff_t>(i);
  };
  switch (mutation) {
  case Mutation::Drop:
    ops.erase(place(ops, at));
    return true;
  case Mutation::Duplicate: {
    const Op op = ops[at];
    ops.insert(place(ops, below(random, ops.size() + 1)), op);
    return true;
  }
  case Mutation::Swap:
    if (at + 1 == ops.size() || ops[at] == ops[at + 1])
      return false;
    std::swap(ops[at], ops[at + 1]);
    return true;
  case Mutation::Move: {
    if (program.ranks.size() == 1)
      return false;
    const Op op = ops[at];
    ops.erase(place(ops, at));
    std::vector<Op> &others =
        program.ranks[(rank + 1 + below(random, program.ranks.size() - 1)) % program.ranks.size()];
    others.insert(place(others, below(random, others.size() + 1)), op);
    return true;
  }
  case Mutation::MicroBatch: {
    const bool weight =
        ops[at].payload == Payload::Weight || ops[at].payload == Payload::WeightGradient;
    if (weight || ops[at].kind >= OpKind::Reduce || shape.microBatches == 1)
      return false;
    const auto other = 1 + below(random, static_cast<size_t>(shape.microBatches) - 1);
    ops[at].microBatch = static_cast<int32_t>((static_cast<size_t>(ops[at].microBatch) + other) %
                                              static_cast<size_t>(shape.microBatches));
    return true;
  }
  case Mutation::ReverseLane: {
    if (program.lanes.empty())
      return false;
    const size_t lane = below(random, program.lanes.size());
    const bool bothEnds = below(random, 2);
    for (const OpKind kind : {OpKind::Send, OpKind::Post, OpKind::Take}) {
      if (kind != OpKind::Send && !bothEnds)
        break;
      std::vector<Op *> found;
      for (std::vector<Op> &list : program.ranks)
        for (Op &op : list)
          if (op.kind == kind && op.lane == lane)
            found.push_back(&op);
      for (size_t i = 0; i < found.size() / 2; ++i)
        std::swap(*found[i], *found[found.size() - 1 - i]);
    }
    return true;
  }
  }
  return false;
}

/// What came of many mutants.
struct MutantCount {
  size_t mutants = 0, valid = 0;
  std::string difference; // the first mutant that checker and executor judge differently
};

/// `judge(program, plan, shape)`: "" when the two agree; sets `valid`.
template <typename Judge> MutantCount countMutants(size_t wanted, unsigned seed, Judge judge) {
  std::mt19937 random(seed);
  MutantCount count;
  while (count.mutants < wanted && count.difference.empty()) {
    Plan plan = below(random, 4) ? randomTrainingPlan(random) : randomPlan(random);
    RunShape shape = randomShape(random, plan);
    Program program = llvm::cantFail(
        lower(randomSchedule(random, plan, shape), plan, shape, 1 + below(random, 2)));
    for (size_t i = 0; i < 40 && count.mutants < wanted && count.difference.empty(); ++i) {
      Program mutant = program;
      const Mutation mutation = randomMutation(random);
      if (!mutate(mutant, mutation, shape, random))
        continue;
      ++count.mutants;
      bool valid = false;
      count.difference = judge(mutant, plan, shape, valid);
      if (!count.difference.empty())
        count.difference =
            kMutationNames[static_cast<size_t>(mutation)] + (": " + count.difference);
      count.valid += valid;
    }
  }
  return count;
}

} // namespace pipec
