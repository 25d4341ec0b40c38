#include "ir/schedule/check/BoundedRun.h"

#include "ir/schedule/RankQueue.h"
#include "ir/schedule/check/RankReader.h"
#include "ir/support/Error.h"
#include "llvm/ADT/STLExtras.h"

#include <optional>

namespace pipec {
namespace {

class BoundedRun {
public:
  explicit BoundedRun(const Program &program)
      : program_(program), waiting_(program.lanes.size(), 0), next_(program.ranks.size(), 0),
        runnable_(program.ranks.size()), groups_(program.groups.size()) {
    for (size_t g = 0; g < groups_.size(); ++g)
      groups_[g].here.assign(program.groups[g].size(), false);
  }

  llvm::Error run() {
    while (!runnable_.empty())
      advance(runnable_.take());
    for (size_t r = 0; r < program_.ranks.size(); ++r)
      if (next_[r] < program_.ranks[r].size())
        return deadlock(r);
    return llvm::Error::success();
  }

private:
  /// A collective under way: who has come.
  struct GroupState {
    std::vector<bool> here;
    size_t count = 0;
  };

  /// The rank that must move before `op` can run, or nothing if it can run.
  std::optional<size_t> waitsFor(const Op &op) const {
    if (op.kind == OpKind::Send || op.kind == OpKind::Take) {
      const Lane &lane = program_.lanes[op.lane];
      const size_t waiting = waiting_[op.lane];
      if (op.kind == OpKind::Send)
        return waiting >= lane.window ? std::optional(lane.to) : std::nullopt;
      return waiting == 0 ? std::optional(lane.from) : std::nullopt;
    }
    if (!isCollective(op.kind))
      return std::nullopt;
    const GroupState &group = groups_[op.group()];
    return program_.groups[op.group()]
                          [static_cast<size_t>(llvm::find(group.here, false) - group.here.begin())];
  }

  void advance(size_t rank) {
    const std::vector<Op> &ops = program_.ranks[rank];
    for (; next_[rank] < ops.size(); ++next_[rank]) {
      const Op &op = ops[next_[rank]];
      if (isCollective(op.kind)) {
        if (!arrive(rank, op))
          return;
        continue;
      }
      if (op.kind != OpKind::Send && op.kind != OpKind::Take)
        continue;
      if (waitsFor(op))
        return;
      waiting_[op.lane] += op.kind == OpKind::Send ? 1 : -1;
      const Lane &lane = program_.lanes[op.lane];
      runnable_.add(op.kind == OpKind::Send ? lane.to : lane.from);
    }
  }

  /// The last member to arrive moves all members past the op.
  bool arrive(size_t rank, const Op &op) {
    GroupState &group = groups_[op.group()];
    const std::vector<size_t> &members = program_.groups[op.group()];
    const auto member = static_cast<size_t>(std::lower_bound(members.begin(), members.end(), rank) -
                                            members.begin());
    if (!group.here[member]) {
      group.here[member] = true;
      ++group.count;
    }
    if (group.count < members.size())
      return false;
    group.count = 0;
    group.here.assign(members.size(), false);
    for (size_t other : members)
      if (other != rank) {
        ++next_[other];
        runnable_.add(other);
      }
    return true;
  }

  /// Every stuck rank waits for one that is stuck as well (lanes and collectives agree end to end),
  /// so following them ends in a cycle.
  llvm::Error deadlock(size_t rank) const {
    std::vector<size_t> way;
    while (!llvm::is_contained(way, rank)) {
      way.push_back(rank);
      rank = *waitsFor(program_.ranks[rank][next_[rank]]);
    }
    std::string cycle;
    for (auto it = llvm::find(way, rank); it != way.end(); ++it)
      cycle += opText(program_, *it, next_[*it]) + " waits for ";
    return failf(ExitCode::BadArtifact, "program: deadlock: {}rank {}", cycle, rank);
  }

  const Program &program_;
  std::vector<size_t> waiting_; // per lane: messages sent and not taken
  std::vector<size_t> next_;    // per rank: the op it is at
  RankQueue runnable_;          // they may have waited for what happened
  std::vector<GroupState> groups_;
};

} // namespace

llvm::Error runBounded(const Program &program) { return BoundedRun(program).run(); }

} // namespace pipec
