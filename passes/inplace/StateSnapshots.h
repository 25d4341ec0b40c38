// Readers of state after its last write get a copy that is made right after that write. A cut may
// then stand between the two: the copy travels, and the state stays with its writer.
//
//   %w = aten::add_(%seen, %n, %one)       %w = aten::add_(%seen, %n, %one)
//   %y = aten::linear(%x, %a, %b)          %c = aten::clone(%seen, %none)
//   %z = aten::mul(%y, %seen)         =>   %y = aten::linear(%x, %a, %b)
//                                          %z = aten::mul(%y, %c)
//
// The copy has the strides of the state, which the source's tensor shows. State stays as it is if
// it leaves the model, is assigned, is large, or is kept in something that outlives the run: in
// these cases the identity of the tensor matters. `self.seen += n` assigns the tensor that is
// already there and does not count as an assignment.
#pragma once

#include <cstddef>
#include <vector>

namespace pipec {

class AliasAnalysis;
struct Model;

/// For one run of remove-inplace in which nothing else has changed. `heldBy`: by memory, the
/// memories that may hold it. Returns true if it made copies.
bool makeStateSnapshots(Model &model, const AliasAnalysis &alias,
                        const std::vector<std::vector<size_t>> &heldBy);

} // namespace pipec
