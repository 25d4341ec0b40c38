// Parts of a model that switch gradients off.
#pragma once

#include "ir/Model.h"
#include "llvm/Support/Error.h"

namespace pipec {

/// Removes what sets the grad mode: `with torch.no_grad():` and torch.set_grad_enabled. In a
/// training, the operators of such a part read tensors without their graph instead:
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
/// An operator that returns its argument itself, as contiguous() may, gives PyTorch a tensor with a
/// graph. Only a run shows whether it does, so stages decide it there:
///
///       k = h.contiguous()        =>   %h1 = aten::detach(%h)
///                                      %k1 = aten::contiguous(%h1)
///                                      %k  = %h if %k1 is %h1, else %k1
///
/// Operators of the part read %k1 in both cases.
///
/// Products, recurrent layers and the masks of attention ask what their arguments require, and
/// choose by that how they compute (asksWhatIsRequired). So they read what PyTorch gives them,
/// views of a whole tensor included (WholeForms.h), and their results are detached. The graph of
/// such a result is gone with the next operator:
///
///       t = linear(x, w)          =>   %t1 = aten::linear(%x, %w)
///                                      %t  = aten::detach(%t1)
///
/// Behind the part, PyTorch has such a view as a leaf that requires gradients, which go nowhere.
/// Products there read one.
///
/// An LSTM chooses by the mode (asksForGradMode), and an operator that writes the tensors of a list
/// needs that list, whatever is in it. These alone run with gradients switched off
/// (GradModeSwitch.h).
llvm::Expected<bool> lowerGradRegions(Model &model);

} // namespace pipec
