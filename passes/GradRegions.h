// Parts of a model that switch gradients off.
#pragma once

#include "ir/Model.h"
#include "llvm/Support/Error.h"

namespace pipec {

/// Removes what sets the grad mode: `with torch.no_grad():` and torch.set_grad_enabled, for an
/// inference also requires_grad_ of weights. In a training, the operators of such a part read
/// tensors without their graph instead:
///
///   with torch.no_grad():            %w1 = aten::detach(%w)
///       t = maximum(x, w)     =>     %x1 = aten::detach(%x)
///       x.mul_(t)                    %t  = aten::maximum(%x1, %w1)
///   y = x + t                        %m  = aten::mul_(%x1, %t)
///                                    %y  = aten::add(%x, %t)
///
/// Gradients are the same: no operator of the part has a graph, a write changes the elements and
/// not the graph of x, and a value that a part only forwards keeps its graph. Passes and cuts need
/// not know of modes. True if it changed anything. Errors: the refusals grad-mode and
/// hidden-tensors.
///
/// BareOperators.h says how each operator of a part is treated.
llvm::Expected<bool> lowerGradRegions(Model &model);

} // namespace pipec
