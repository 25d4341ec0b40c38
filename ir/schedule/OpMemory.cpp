#include "ir/schedule/OpMemory.h"

#include "ir/schedule/Program.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>

namespace pipec {

OpMemory::OpMemory(const Plan &plan, const RunShape &shape, const ProgramCosts &costs)
    : shape_(shape), costs_(costs), demands_(plan, shape.train), stages_(plan.stages.size()),
      ranks_(plan.ranks), folded_(plan.stages.size() * shape.replicas) {
  for (size_t c = 0; c < plan.channels.size(); ++c)
    bytes_.push_back(costs.bytesOf(plan, c));
  readers_.assign(demands_.edges().size(), 0);
  for (size_t s = 0; s < stages_.size(); ++s)
    for (const Need &need : demands_.of(s).forward)
      if (need.edge)
        ++readers_[*need.edge];
  localReaders_.assign(bytes_.size(), 0);
  keepers_.assign(bytes_.size(), 0);
  for (size_t s = 0; s < stages_.size(); ++s) {
    for (const Need &need : demands_.of(s).forward) {
      if (!need.edge && plan.channels[need.channel].kind == Channel::Kind::Activation) {
        if (localReaders_[need.channel]++ == 0)
          stages_[need.stage].madeValues += localBytes(need.channel);
        stages_[s].readChannels.push_back(need.channel);
        if (sharedBytes(need.channel) > 0) {
          stages_[s].sharedRead.push_back(need.channel);
          if (keepers_[need.channel]++ == 0) { // the maker, too
            ++keepers_[need.channel];
            stages_[need.stage].sharedMade.push_back(need.channel);
          }
        }
      }
      if (!need.edge || demands_.edges()[*need.edge].perRun())
        continue;
      if (readers_[*need.edge] == 1)
        stages_[s].values += bytes_[need.channel];
      else
        stages_[s].sharedEdges.push_back(*need.edge);
    }
    for (const Need &need : demands_.of(s).backward) {
      stages_[s].gradients += bytes_[need.channel];
      if (!need.edge)
        stages_[need.stage].madeGradients += bytes_[need.channel];
    }
  }
}

int64_t OpMemory::sharedBytes(size_t channel) const {
  // With recompute the tapes are not there at once.
  if (costs_.sentBytes.empty() || costs_.keptByReader.empty() || !shape_.train ||
      llvm::is_contained(shape_.recompute, true))
    return 0;
  return std::min(bytes_[channel] - costs_.sentBytes[channel], costs_.keptByReader[channel]);
}

int64_t OpMemory::sentBytes(const Op &message) const {
  return costs_.sentBytes.empty() || message.payload != Payload::Activation
             ? bytesOf(message)
             : costs_.sentBytes[message.channel];
}

int64_t OpMemory::mostDuring(const Op &op) const {
  if (costs_.room.empty() || !isCompute(op.kind))
    return atStart(op);
  const OpRoom &room = costs_.room[op.stage];
  switch (op.kind) {
  case OpKind::Forward:
    return room.forward;
  case OpKind::Recompute:
    return room.recompute;
  case OpKind::Backward:
    return room.backward;
  case OpKind::InputGrad:
    return room.inputGrad;
  default: // WeightGrad
    return room.weightGrad;
  }
}

int64_t OpMemory::atStart(const Op &op) const {
  if (op.kind == (costs_.takesAllocate ? OpKind::Take : OpKind::Post))
    return bytesOf(op);
  if (op.kind == OpKind::Backward || op.kind == OpKind::InputGrad)
    return stages_[op.stage].madeGradients;
  if (op.kind != OpKind::Forward && op.kind != OpKind::Recompute)
    return 0;
  const int64_t whole = costs_.stages[op.stage].heldByForward;
  if (op.kind == OpKind::Recompute)
    return whole - keptToRecompute(op.stage);
  const int64_t made = stages_[op.stage].madeValues;
  if (!shape_.train)
    return made;
  int64_t shared = 0;
  for (size_t channel : stages_[op.stage].sharedRead)
    shared += sharedBytes(channel);
  return made - shared +
         (shape_.recomputes(op.stage, op.microBatch) ? keptToRecompute(op.stage) : whole);
}

bool OpMemory::isLastRead(size_t rank, size_t place, int64_t microBatch, size_t readers) {
  const auto left = left_.try_emplace({rank, place, microBatch}, readers).first;
  if (--left->second > 0)
    return false;
  left_.erase(left);
  return true;
}

int64_t OpMemory::waitingAfter(size_t rank, const Op &op) {
  if (costs_.gradientBytes.empty())
    return 0;
  const int64_t bytes = costs_.gradientBytes[op.stage];
  Folded &folded = folded_[rank / ranks_ * stages_.size() + op.stage];
  if (op.microBatch != folded.next) {
    folded.early.insert(op.microBatch);
    return bytes;
  }
  int64_t waiting = 0;
  for (++folded.next; folded.early.erase(folded.next); ++folded.next)
    waiting -= bytes;
  return waiting;
}

int64_t OpMemory::stillKept(size_t rank, llvm::ArrayRef<size_t> channels, int64_t microBatch) {
  int64_t bytes = 0;
  for (size_t channel : channels)
    if (!isLastRead(rank, readers_.size() + bytes_.size() + channel, microBatch, keepers_[channel]))
      bytes += sharedBytes(channel);
  return bytes;
}

int64_t OpMemory::atEnd(size_t rank, const Op &op) {
  const Stage &stage = stages_[op.stage];
  const StageCosts &costs = costs_.stages[op.stage];
  switch (op.kind) {
  case OpKind::Forward: {
    int64_t bytes = stage.values;
    for (size_t edge : stage.sharedEdges)
      if (isLastRead(rank, edge, op.microBatch, readers_[edge]))
        bytes += bytes_[demands_.edges()[edge].channel];
    for (size_t channel : stage.readChannels)
      if (isLastRead(rank, readers_.size() + channel, op.microBatch, localReaders_[channel]))
        bytes += localBytes(channel);
    return bytes;
  }
  case OpKind::Backward:
    return costs.heldByForward + stage.gradients -
           stillKept(rank, stage.sharedMade, op.microBatch) -
           stillKept(rank, stage.sharedRead, op.microBatch) - waitingAfter(rank, op);
  case OpKind::InputGrad:
    return costs.freedByInputGrad + stage.gradients -
           stillKept(rank, stage.sharedMade, op.microBatch);
  case OpKind::WeightGrad:
    return costs.freedByWeightGrad() - stillKept(rank, stage.sharedRead, op.microBatch) -
           waitingAfter(rank, op);
  default:
    return 0;
  }
}

std::vector<MemoryPeak> memoryPeaks(const Program &program, const Plan &plan, const RunShape &shape,
                                    const ProgramCosts &costs) {
  OpMemory memory(plan, shape, costs);
  std::vector<MemoryPeak> peaks(program.ranks.size());
  std::vector<std::deque<int64_t>> waiting(program.lanes.size()); // bytes sent, at most a window
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    int64_t held = 0;
    for (size_t i = 0; i < program.ranks[r].size(); ++i) {
      const Op &op = program.ranks[r][i];
      int64_t most = held + memory.mostDuring(op);
      held += memory.atStart(op);
      if (op.kind == OpKind::Send) {
        std::deque<int64_t> &sent = waiting[op.lane];
        if (sent.size() == program.lanes[op.lane].window) { // this one waits until there is room
          held -= sent.front();
          sent.pop_front();
        }
        sent.push_back(memory.sentBytes(op));
        held += sent.back();
        most = held;
      }
      if (most > peaks[r].bytes)
        peaks[r] = {most, i};
      held -= memory.atEnd(r, op);
      if (held > peaks[r].bytes) // it left more than it needed at once
        peaks[r] = {held, i};
    }
  }
  return peaks;
}

} // namespace pipec
