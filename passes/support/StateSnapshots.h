// Whoever reads state behind its last write reads a copy that is made right behind that write, so
// that a cut may go between the two: the copy travels, the state stays with its writer.
//
//   %w = aten::add_(%seen, %n, %one)       %w = aten::add_(%seen, %n, %one)
//   %y = aten::linear(%x, %a, %b)          %c = aten::clone(%seen, %none)
//   %z = aten::mul(%y, %seen)         =>   %y = aten::linear(%x, %a, %b)
//                                          %z = aten::mul(%y, %c)
//
// The copy has the strides of the state, which the source's tensor tells. State that leaves the
// model, is assigned, is large, or is kept in something that outlives the run stays as it is: there
// it is the very tensor that counts. `self.seen += n` assigns what is there already: that is no
// assignment.
#pragma once

#include <cstddef>
#include <vector>

namespace pipec {

class AliasAnalysis;
struct Model;

/// Of one run of remove-inplace in which nothing else has changed. heldBy: by memory, those that
/// may hold it. True when there are new ones.
bool makeStateSnapshots(Model &model, const AliasAnalysis &alias,
                        const std::vector<std::vector<size_t>> &heldBy);

} // namespace pipec
