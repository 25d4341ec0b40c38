// How gradients add up.
#pragma once

namespace at {
class Tensor;
}

namespace pipec {

/// The first one is taken over, with its layout and the sign of its zeros; later ones make a new
/// sum. Undefined: no gradient, which changes nothing.
void addGradient(at::Tensor &sum, const at::Tensor &more);

} // namespace pipec
