#include "ir/schedule/check/RankReader.h"

#include "ir/schedule/PlanGradients.h"
#include "ir/schedule/Program.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"
#include "llvm/ADT/STLExtras.h"

namespace pipec {

std::string messageText(const Edge &edge, const LaneMessage &message) {
  switch (edge.payload) {
  case Payload::Activation:
    return fmt::format("ch={} mb={}", edge.channel, message.microBatch);
  case Payload::Gradient:
    return fmt::format("grad={} of={} mb={}", edge.channel, edge.maker, message.microBatch);
  case Payload::Weight:
    return fmt::format("weight={}", edge.channel);
  case Payload::WeightGradient:
    return fmt::format("weight-grad={}", edge.channel);
  }
  llvm_unreachable("every payload has a text");
}

std::string opText(const Program &program, size_t rank, size_t index) {
  return fmt::format("rank {}, op {} ({})", rank, index, toString(program.ranks[rank][index]));
}

RankReader::RankReader(const Program &program, const Plan &plan, const RunShape &shape,
                       const Demands &demands, Records &records, size_t rank)
    : program_(program), plan_(plan), shape_(shape), demands_(demands), records_(records),
      rank_(rank) {
  const size_t stages = demands.stagesOn(planRank(rank)).size();
  done_.assign(stages * static_cast<size_t>(shape.microBatches), 0);
  finished_.assign(stages, 0);
  reduced_.assign(stages, false);
  optimized_.assign(stages, false);
  tieReduced_.assign(plan.ties.size(), false);
}

llvm::Error RankReader::bad(size_t index, const std::string &message) const {
  return makeError(ExitCode::BadArtifact,
                   "program: " + opText(program_, rank_, index) + ": " + message);
}

llvm::Error RankReader::run() {
  for (size_t i = 0; i < program_.ranks[rank_].size(); ++i)
    TRY(read(i));
  return complete();
}

llvm::Error RankReader::read(size_t index) {
  const Op &op = program_.ranks[rank_][index];
  if (op.microBatch < 0 || op.microBatch >= shape_.microBatches)
    return bad(index, fmt::format("there are {} micro-batches", shape_.microBatches));
  switch (op.kind) {
  case OpKind::Forward:
  case OpKind::Backward:
  case OpKind::InputGrad:
  case OpKind::WeightGrad:
  case OpKind::Recompute:
    return readCompute(index);
  case OpKind::Post:
  case OpKind::Send:
  case OpKind::Take:
    return readMessage(index);
  case OpKind::Reduce:
  case OpKind::TieReduce:
  case OpKind::Norm:
    return readCollective(index);
  case OpKind::Optimize:
    return readOptimize(index);
  }
  llvm_unreachable("every kind is read");
}

llvm::Error RankReader::readNeeds(size_t index, const std::vector<Need> &needs,
                                  bool backward) const {
  const Op &op = program_.ranks[rank_][index];
  for (const Need &need : needs) {
    bool there;
    if (!need.edge)
      there = bits(need.stage, op.microBatch) & (backward ? B | I : F);
    else
      there =
          records_
              .taken[record(*need.edge, demands_.edges()[*need.edge].perRun() ? 0 : op.microBatch)];
    if (there)
      continue;
    if (backward)
      return bad(index, fmt::format("the gradient of channel {} is not there yet", need.channel));
    if (plan_.channels[need.channel].kind == Channel::Kind::Weight)
      return bad(index, fmt::format("weight {} (channel {}) is not there yet",
                                    plan_.channels[need.channel].name, need.channel));
    for (const StageInput &input : plan_.stages[op.stage].inputs)
      if (input.kind == StageInput::Kind::Channel && input.index == need.channel)
        return bad(index,
                   fmt::format("input {} (channel {}) is not there yet", input.name, need.channel));
  }
  return llvm::Error::success();
}

llvm::Error RankReader::readCompute(size_t index) {
  const Op &op = program_.ranks[rank_][index];
  if (op.stage >= plan_.stages.size())
    return bad(index, fmt::format("the plan has {} stages", plan_.stages.size()));
  if (!isHere(op.stage))
    return bad(index, fmt::format("the plan has stage {} on rank {}", op.stage,
                                  plan_.stages[op.stage].rank));
  if (!shape_.train && op.kind != OpKind::Forward)
    return bad(index, "an inference has forwards only");
  uint8_t &done = bits(op.stage, op.microBatch);
  auto again = [&](uint8_t bit) { return (done & bit) != 0; };
  constexpr const char *kAgain = "runs a second time";
  switch (op.kind) {
  case OpKind::Forward:
    TRY(readNeeds(index, demands_.of(op.stage).forward, false));
    if (again(F))
      return bad(index, kAgain);
    done |= F;
    return llvm::Error::success();
  case OpKind::Recompute:
    if (!shape_.recomputes(op.stage, op.microBatch))
      return bad(index, fmt::format("stage {} is not recomputed", op.stage));
    if (again(R))
      return bad(index, kAgain);
    if (!(done & F) || (done & (B | I)))
      return bad(index, "is not between its forward and its backward");
    done |= R;
    return llvm::Error::success();
  case OpKind::WeightGrad:
    if (again(W))
      return bad(index, kAgain);
    if (!(done & I))
      return bad(index, "its input gradient has not run yet");
    done |= W;
    ++finished_[demands_.slotOf(op.stage)];
    return llvm::Error::success();
  default: // B and I
    if (done & (B | I))
      return bad(index, "its backward has run already");
    if (!(done & F))
      return bad(index, "its forward has not run yet");
    if (shape_.recomputes(op.stage, op.microBatch) && !(done & R))
      return bad(index, "its forward has not been recomputed yet");
    TRY(readNeeds(index, demands_.of(op.stage).backward, true));
    done |= op.kind == OpKind::Backward ? B : I;
    finished_[demands_.slotOf(op.stage)] += op.kind == OpKind::Backward;
    return llvm::Error::success();
  }
}

llvm::Error RankReader::readMessage(size_t index) {
  const Op &op = program_.ranks[rank_][index];
  if (op.lane >= program_.lanes.size())
    return bad(index, fmt::format("there are {} lanes", program_.lanes.size()));
  const Lane &lane = program_.lanes[op.lane];
  const bool weight = op.payload == Payload::Weight || op.payload == Payload::WeightGradient;
  const Channel::Kind kind = weight ? Channel::Kind::Weight : Channel::Kind::Activation;
  if (op.channel >= plan_.channels.size() || plan_.channels[op.channel].kind != kind)
    return bad(index, fmt::format("the plan has no {} channel {}", weight ? "weight" : "activation",
                                  op.channel));
  if (lane.payload != op.payload)
    return bad(index, "the lane carries other messages");
  const std::optional<size_t> edge =
      demands_.find(op.payload, op.channel, op.stage, planRank(lane.from), planRank(lane.to));
  const bool back = op.payload == Payload::Gradient || op.payload == Payload::WeightGradient;
  if (!edge && back && !carriesGradient(plan_, plan_.channels[op.channel]))
    return bad(index, "the channel has no gradient");
  if (!edge)
    return bad(index,
               fmt::format("the channel does not go from rank {} to rank {}", lane.from, lane.to));
  const size_t end = op.kind == OpKind::Send ? lane.from : lane.to;
  if (rank_ != end)
    return bad(index, fmt::format("this end of the lane is on rank {}", end));
  if (weight && op.microBatch != 0)
    return bad(index, "weights have no micro-batch");
  if (!weight && op.payload == Payload::Activation && op.stage != 0)
    return bad(index, "activations name no stage");
  LaneRecord &ends = records_.lanes[op.lane];
  if (op.kind == OpKind::Send)
    return readSend(index, *edge, ends);
  return readTake(index, *edge, ends);
}

llvm::Error RankReader::readSend(size_t index, size_t edge, LaneRecord &lane) {
  const Op &op = program_.ranks[rank_][index];
  const size_t maker = plan_.channels[op.channel].from.stage;
  switch (op.payload) {
  case Payload::Activation:
    if (!(bits(maker, op.microBatch) & F))
      return bad(index, fmt::format("stage {} has not made it yet", maker));
    break;
  case Payload::Gradient:
    if (!(bits(op.stage, op.microBatch) & (B | I)))
      return bad(index, fmt::format("stage {} has not made it yet", op.stage));
    break;
  case Payload::Weight:
    if (optimized_[demands_.slotOf(maker)])
      return bad(index, fmt::format("stage {} has updated it already", maker));
    break;
  case Payload::WeightGradient:
    for (size_t reader : demands_.weightReaders(op.channel, planRank(rank_)))
      if (!finished(reader))
        return bad(index, fmt::format("stage {} has not finished it yet", reader));
    break;
  }
  uint8_t &sent = records_.sent[record(edge, op.microBatch)];
  if (sent)
    return bad(index, "is sent a second time");
  sent = 1;
  lane.sent.push_back({static_cast<uint32_t>(edge), op.microBatch});
  return llvm::Error::success();
}

llvm::Error RankReader::readTake(size_t index, size_t edge, LaneRecord &lane) {
  const Op &op = program_.ranks[rank_][index];
  const LaneMessage message{static_cast<uint32_t>(edge), op.microBatch};
  if (op.kind == OpKind::Post) {
    const size_t window = program_.lanes[op.lane].window;
    lane.posted.push_back(message);
    if (lane.posted.size() - lane.taken.size() > window)
      return bad(index, fmt::format("more than {} messages posted ahead", window));
    return llvm::Error::success();
  }
  if (lane.taken.size() >= lane.posted.size() || lane.posted[lane.taken.size()] != message)
    return bad(index, "was not posted before, in this order");
  lane.taken.push_back(message);
  records_.taken[record(edge, op.microBatch)] = 1;
  return llvm::Error::success();
}

std::string RankReader::notFinal(size_t stage, bool reduced) const {
  auto unfinished = [&](size_t s) { return fmt::format("stage {} has backwards left", s); };
  const StageDemands &demands = demands_.of(stage);
  if (!finished(stage))
    return unfinished(stage);
  for (size_t other : demands.alsoDone)
    if (!finished(other))
      return unfinished(other);
  for (size_t edge : demands.gradientEdges)
    if (!records_.taken[record(edge, 0)])
      return fmt::format("the gradient of channel {} has not returned from rank {} yet",
                         demands_.edges()[edge].channel,
                         demands_.edges()[edge].from + rank_ / plan_.ranks * plan_.ranks);
  for (size_t tie : demands.ties)
    if (!tieReduced_[tie])
      return fmt::format("tie {} has not been summed yet", tie);
  if (reduced && shape_.replicas > 1 && !reduced_[demands_.slotOf(stage)])
    return fmt::format("stage {} has not been reduced yet", stage);
  return "";
}

llvm::Error RankReader::readCollective(size_t index) {
  const Op &op = program_.ranks[rank_][index];
  if (!shape_.train)
    return bad(index, "an inference has no gradients");
  if (op.group() >= program_.groups.size())
    return bad(index, fmt::format("there are {} groups", program_.groups.size()));
  const size_t first = rank_ / plan_.ranks * plan_.ranks; // of the replica
  std::vector<size_t> members;
  std::string early;
  constexpr const char *kAgain = "runs a second time";
  switch (op.kind) {
  case OpKind::Reduce: {
    if (!isHere(op.stage))
      return bad(index, "the stage is not on this rank");
    if (shape_.replicas < 2)
      return bad(index, "there are no replicas to reduce over");
    for (size_t k = 0; k < shape_.replicas; ++k)
      members.push_back(k * plan_.ranks + planRank(rank_));
    early = notFinal(op.stage, false);
    std::vector<bool>::reference done = reduced_[demands_.slotOf(op.stage)];
    if (done)
      return bad(index, kAgain);
    done = true;
    break;
  }
  case OpKind::TieReduce: {
    if (op.tie() >= plan_.ties.size() || demands_.ranksOfTie(op.tie()).empty())
      return bad(index, fmt::format("the plan sums no tie {}", op.tie()));
    for (size_t member : demands_.ranksOfTie(op.tie()))
      members.push_back(first + member);
    for (size_t stage : plan_.ties[op.tie()].stages)
      if (isHere(stage) && !finished(stage))
        early = fmt::format("stage {} has backwards left", stage);
    if (tieReduced_[op.tie()])
      return bad(index, kAgain);
    tieReduced_[op.tie()] = true;
    break;
  }
  default: { // Norm
    if (!shape_.norm)
      return bad(index, "is not asked for");
    for (size_t r = 0; r < plan_.ranks; ++r)
      members.push_back(first + r);
    for (size_t stage : demands_.stagesOn(planRank(rank_)))
      if (early.empty())
        early = notFinal(stage, true);
    if (norm_)
      return bad(index, kAgain);
    norm_ = true;
    break;
  }
  }
  const std::vector<size_t> &group = program_.groups[op.group()];
  if (group != members)
    return bad(index, fmt::format("expected a group of {} ranks from rank {} on, got other ranks",
                                  members.size(), members.front()));
  if (!early.empty())
    return bad(index, early);
  const auto member = static_cast<size_t>(llvm::find(group, rank_) - group.begin());
  if (member == group.size())
    return bad(index, "the rank is not in the group");
  records_.collectives[op.group()][member].push_back(op);
  return llvm::Error::success();
}

llvm::Error RankReader::readOptimize(size_t index) {
  const Op &op = program_.ranks[rank_][index];
  if (!shape_.train || !shape_.optimizer)
    return bad(index, "is not asked for");
  if (!isHere(op.stage))
    return bad(index, "the stage is not on this rank");
  if (optimized_[demands_.slotOf(op.stage)])
    return bad(index, "runs a second time");
  if (std::string early = notFinal(op.stage, true); !early.empty())
    return bad(index, early);
  if (shape_.norm && !norm_)
    return bad(index, "the norm is not known yet");
  optimized_[demands_.slotOf(op.stage)] = true;
  return llvm::Error::success();
}

llvm::Error RankReader::complete() const {
  auto missing = [&](const Op &op) {
    return failf(ExitCode::BadArtifact, "program: rank {}: {} is missing", rank_, toString(op));
  };
  for (size_t s : demands_.stagesOn(planRank(rank_)))
    for (int64_t m = 0; m < shape_.microBatches; ++m) {
      const uint8_t done = bits(s, m);
      if (!(done & F))
        return missing({OpKind::Forward, s, 0, 0, m});
      if (!shape_.train || (done & (B | W)))
        continue;
      return missing({done & I ? OpKind::WeightGrad : OpKind::Backward, s, 0, 0, m});
    }
  if (!shape_.train)
    return llvm::Error::success();
  for (size_t s : demands_.stagesOn(planRank(rank_))) {
    if (std::string early = notFinal(s, true); !early.empty())
      return failf(ExitCode::BadArtifact, "program: rank {}: at the end {}", rank_, early);
    if (shape_.optimizer && !optimized_[demands_.slotOf(s)])
      return missing({OpKind::Optimize, s});
  }
  if (shape_.norm && !norm_)
    return failf(ExitCode::BadArtifact, "program: rank {}: NORM is missing", rank_);
  return llvm::Error::success();
}

} // namespace pipec
