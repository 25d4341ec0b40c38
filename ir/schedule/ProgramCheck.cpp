// Whether a program can run, judged from the program and the plan alone. Shares no code with
// Lower.cpp.
//
// First, every rank's ops are read once in order: each op must be known, and come after its inputs.
// Then both ends of every lane and all members of every collective are compared. Then the ranks run
// together with bounded lanes and without times: if a rank cannot continue, ranks wait in a cycle.
#include "ir/schedule/ProgramCheck.h"

#include "ir/schedule/check/BoundedRun.h"
#include "ir/schedule/check/RankReader.h"
#include "ir/support/Error.h"
#include "ir/support/Try.h"

#include <map>
#include <set>
#include <tuple>

namespace pipec {
namespace {

class Checker {
public:
  Checker(const Program &program, const Plan &plan, const RunShape &shape)
      : program_(program), plan_(plan), shape_(shape), demands_(plan, shape.train) {}

  llvm::Error run() {
    TRY(ranksLanesGroups());
    makeRoom();
    for (size_t r = 0; r < program_.ranks.size(); ++r)
      TRY(RankReader(program_, plan_, shape_, demands_, records_, r).run());
    TRY(laneOrders());
    TRY(collectiveOrders());
    records_ = {};
    return runBounded(program_);
  }

private:
  static llvm::Error bad(const std::string &message) {
    return makeError(ExitCode::BadArtifact, "program: " + message);
  }

  llvm::Error ranksLanesGroups() {
    const size_t ranks = plan_.ranks * shape_.replicas;
    if (program_.ranks.size() != ranks)
      return bad(shape_.replicas == 1
                     ? fmt::format("expected {} ranks as the plan has, got {}", ranks,
                                   program_.ranks.size())
                     : fmt::format("expected {} ranks ({} replicas of the plan's {}), got {}",
                                   ranks, shape_.replicas, plan_.ranks, program_.ranks.size()));
    std::set<std::tuple<Payload, size_t, size_t>> known;
    for (size_t l = 0; l < program_.lanes.size(); ++l) {
      const Lane &lane = program_.lanes[l];
      const bool ends = lane.from < ranks && lane.to < ranks && lane.from != lane.to;
      if (!ends || lane.window < 1 || !known.insert({lane.payload, lane.from, lane.to}).second)
        return bad(fmt::format("lane {}: expected two ranks of its own and a window of at least 1, "
                               "got {} -> {} window={}",
                               l, lane.from, lane.to, lane.window));
      if (lane.from / plan_.ranks != lane.to / plan_.ranks)
        return bad(fmt::format("lane {}: ranks {} and {} are in different replicas", l, lane.from,
                               lane.to));
    }
    for (size_t g = 0; g < program_.groups.size(); ++g) {
      const std::vector<size_t> &group = program_.groups[g];
      for (size_t i = 0; i < std::max<size_t>(group.size(), 1); ++i)
        if (group.empty() || group[i] >= ranks || (i > 0 && group[i] <= group[i - 1]))
          return bad(fmt::format("group {}: expected ranks below {}, ascending", g, ranks));
    }
    return llvm::Error::success();
  }

  void makeRoom() {
    const auto m = static_cast<size_t>(shape_.microBatches);
    const size_t cells = shape_.replicas * demands_.edges().size() * m;
    records_.sent.assign(cells, 0);
    records_.taken.assign(cells, 0);
    records_.lanes.resize(program_.lanes.size());
    std::map<std::tuple<Payload, size_t, size_t>, size_t> messages; // of one replica
    for (const Edge &edge : demands_.edges())
      messages[{edge.payload, edge.from, edge.to}] += edge.perRun() ? 1 : m;
    for (size_t l = 0; l < program_.lanes.size(); ++l) {
      const Lane &lane = program_.lanes[l];
      const auto found =
          messages.find({lane.payload, lane.from % plan_.ranks, lane.to % plan_.ranks});
      const size_t count = found == messages.end() ? 0 : found->second;
      for (auto *list :
           {&records_.lanes[l].sent, &records_.lanes[l].taken, &records_.lanes[l].posted})
        list->reserve(count);
    }
    records_.collectives.resize(program_.groups.size());
    for (size_t g = 0; g < program_.groups.size(); ++g)
      records_.collectives[g].resize(program_.groups[g].size());
  }

  llvm::Error laneOrders() const {
    for (size_t l = 0; l < program_.lanes.size(); ++l) {
      const LaneRecord &record = records_.lanes[l];
      const Lane &lane = program_.lanes[l];
      auto name = [&](const LaneMessage &message) {
        return messageText(demands_.edges()[message.edge], message);
      };
      const size_t common = std::min(record.sent.size(), record.taken.size());
      for (size_t k = 0; k < common; ++k)
        if (record.sent[k] != record.taken[k])
          return bad(fmt::format("lane {}: message {}: rank {} sends {}, but rank {} takes {}", l,
                                 k, lane.from, name(record.sent[k]), lane.to,
                                 name(record.taken[k])));
      if (record.sent.size() > common)
        return bad(fmt::format("lane {}: rank {} sends {}, which rank {} never takes", l, lane.from,
                               name(record.sent[common]), lane.to));
      if (record.taken.size() > common)
        return bad(fmt::format("lane {}: rank {} takes {}, which rank {} never sends", l, lane.to,
                               name(record.taken[common]), lane.from));
      if (record.posted.size() > record.taken.size())
        return bad(fmt::format("lane {}: rank {} posts {}, but never takes it", l, lane.to,
                               name(record.posted[record.taken.size()])));
    }
    return llvm::Error::success();
  }

  /// All members of a group run the same collectives in the same order.
  llvm::Error collectiveOrders() const {
    for (size_t g = 0; g < program_.groups.size(); ++g) {
      const std::vector<std::vector<Op>> &members = records_.collectives[g];
      for (size_t i = 1; i < members.size(); ++i)
        for (size_t k = 0; k < std::max(members[0].size(), members[i].size()); ++k) {
          auto text = [&](size_t member) {
            return k < members[member].size() ? toString(members[member][k]) : "nothing more";
          };
          if (k < std::min(members[0].size(), members[i].size()) && members[0][k] == members[i][k])
            continue;
          return bad(fmt::format("group {}: collective {}: rank {} runs {}, but rank {} runs {}", g,
                                 k, program_.groups[g][0], text(0), program_.groups[g][i],
                                 text(i)));
        }
    }
    return llvm::Error::success();
  }

  const Program &program_;
  const Plan &plan_;
  const RunShape &shape_;
  Demands demands_;
  Records records_;
};

} // namespace

llvm::Error check(const Program &program, const Plan &plan, const RunShape &shape) {
  return Checker(program, plan, shape).run();
}

} // namespace pipec
