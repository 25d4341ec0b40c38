#include "ir/schedule/SeparateLanes.h"

namespace pipec {

Program separateLanes(const Program &program) {
  std::vector<size_t> sent(program.lanes.size()); // messages of each lane
  for (const std::vector<Op> &ops : program.ranks)
    for (const Op &op : ops)
      if (op.kind == OpKind::Send)
        ++sent[op.lane];
  Program result;
  result.groups = program.groups;
  std::vector<uint32_t> first; // by lane: the new lane of its first message
  for (size_t lane = 0; lane < sent.size(); ++lane) {
    first.push_back(static_cast<uint32_t>(result.lanes.size()));
    Lane one = program.lanes[lane];
    one.window = 1;
    result.lanes.insert(result.lanes.end(), sent[lane], one);
  }
  // The n-th SEND, POST and TAKE of a lane are of one message.
  std::vector<uint32_t> sends = first, posts = first, takes = first;
  result.ranks = program.ranks;
  for (std::vector<Op> &ops : result.ranks)
    for (Op &op : ops) {
      if (op.kind == OpKind::Send)
        op.lane = sends[op.lane]++;
      else if (op.kind == OpKind::Post)
        op.lane = posts[op.lane]++;
      else if (op.kind == OpKind::Take)
        op.lane = takes[op.lane]++;
    }
  return result;
}

} // namespace pipec
