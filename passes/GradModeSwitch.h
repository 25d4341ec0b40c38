// An operator that runs with gradients switched off, in a stage that has them on.
#pragma once

namespace torch::jit {
struct Node;
} // namespace torch::jit

namespace pipec {

/// Replaces the operator by
///
///   %on = aten::is_grad_enabled()
///   %y  = prim::If(%on)
///     block0():
///       aten::set_grad_enabled(false)
///       %y1 = OPERATOR
///       aten::set_grad_enabled(true)
///       -> (%y1)
///     block1():
///       %y2 = OPERATOR
///       -> (%y2)
///
/// and returns the If. All of it is one operator, so that no cut is in its middle. The second block
/// is for runs of forwards alone.
torch::jit::Node *switchGradientsOff(torch::jit::Node *node);

/// Whether switchGradientsOff made the node.
bool switchesGradientsOff(const torch::jit::Node *node);

} // namespace pipec
