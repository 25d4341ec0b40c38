// Programs: the ops that ranks execute, lowered from a compute schedule and a plan. Pure data with
// a text form.
#pragma once

#include "ir/plan/Plan.h"
#include "ir/schedule/Schedule.h"

#include <set>
#include <utility>

namespace pipec {

enum class OpKind : uint8_t {
  Forward,    // F: run `stage` on `microBatch`
  Backward,   // B: its whole backward
  InputGrad,  // I: the gradients of its inputs
  WeightGrad, // W: the gradients of its weights, after I
  Recompute,  // R: its forward once more, before its backward
  Post,       // prepare the buffer of a TAKE (for transports that need it first)
  Send,       // send a value on `lane`
  Take,       // wait for it
  Reduce,     // sum the gradients of `stage` over the replicas, with all of `group`
  TieReduce,  // sum the gradients of the copies of tie `tie`, with all of `group`
  Norm,       // the norm of all gradients and whether all are finite, with all of `group`
  Optimize,   // OPT: update the weights of `stage`
};
/// True for ops that run a stage on a micro-batch: F B I W R.
bool isCompute(OpKind kind);
/// The action that such an op carries out.
ActionKind actionOf(OpKind compute);
/// The op that carries out an action, of the actions that occupy a rank.
OpKind opOf(ActionKind compute);
/// True for ops that all ranks of a group run together, in one order.
bool isCollective(OpKind kind);

/// The content of a message: the value of a channel or its gradient. Weights and their gradients
/// are sent once in a run, the others once per micro-batch.
enum class Payload : uint8_t { Activation, Gradient, Weight, WeightGradient };
bool isPerRun(Payload payload);

/// One step of a rank. Text: "F 2 mb=0", "TAKE ch=3 mb=0 lane=1", "SEND grad=3 of=2 mb=0 lane=4"
/// (the gradient as it leaves stage 2), "SEND weight=5 lane=6", "SEND weight-grad=5 lane=7",
/// "REDUCE 2 group=1", "TIE_REDUCE tie=0 group=2", "NORM group=0", "OPT 2". Fields that an op does
/// not use are zero.
struct Op {
  OpKind kind = OpKind::Forward;
  Payload payload = Payload::Activation; // Post, Send, Take
  int32_t microBatch = 0;                // none: weights, collectives, Optimize
  uint32_t stage = 0;   // F B I W R, Reduce, Optimize; of a gradient: whose backward sends it
  uint32_t channel = 0; // Post, Send, Take
  uint32_t lane = 0;    // Post, Send, Take

  Op(OpKind kindOf = OpKind::Forward, size_t of = 0, size_t on = 0, size_t by = 0,
     int64_t micro = 0, Payload carries = Payload::Activation)
      : kind(kindOf), payload(carries), microBatch(static_cast<int32_t>(micro)),
        stage(static_cast<uint32_t>(of)), channel(static_cast<uint32_t>(on)),
        lane(static_cast<uint32_t>(by)) {}

  uint32_t tie() const { return channel; } // TieReduce
  uint32_t group() const { return lane; }  // collectives
  bool operator==(const Op &) const = default;
};
static_assert(sizeof(Op) <= 24, "a program of a thousand ranks has tens of millions of them");

/// An ordered pair of ranks and a class of traffic. Its messages are taken in the order in which
/// they were sent, and at most `window` of them wait.
struct Lane {
  size_t from = 0, to = 0;
  size_t window = 1;
  Payload payload = Payload::Activation;
  bool operator==(const Lane &) const = default;
};

/// `groups`: the ranks, ascending, that run a collective together.
struct Program {
  std::vector<std::vector<Op>> ranks;
  std::vector<Lane> lanes;
  std::vector<std::vector<size_t>> groups;
  bool operator==(const Program &) const = default;
};

/// "F 2 mb=0", "TAKE ch=3 mb=0 lane=1": as in a program's text.
std::string toString(const Op &op);
std::string toString(const Program &program);
llvm::Expected<Program> programFromText(llvm::StringRef text);

/// Settings of a run beside the plan. With replicas the program has plan.ranks * replicas ranks:
/// rank r of replica k is k * plan.ranks + r, and every replica runs its own `microBatches`. The
/// fields below `train` matter in training only.
struct RunShape {
  int64_t microBatches = 1;
  bool train = false;
  size_t replicas = 1;
  std::vector<bool> recompute;               // per stage; empty: no stage
  std::set<std::pair<size_t, int64_t>> kept; // of these stages: (stage, micro-batch) that are not
  bool norm = false, optimizer = true;

  bool recomputes(size_t stage, int64_t microBatch) const {
    return train && stage < recompute.size() && recompute[stage] &&
           !kept.count({stage, microBatch});
  }
};

} // namespace pipec
