// How gradients add up.
#pragma once

namespace at {
class Tensor;
}

namespace pipec {

/// The first one is taken over, with its layout and the sign of its zeros; later ones make a new
/// sum. Undefined: no gradient, which changes nothing.
void addGradient(at::Tensor &sum, const at::Tensor &more);

/// Whether no other tensor uses the memory of this one.
bool isOwn(const at::Tensor &gradient);

/// Adds up the gradients of micro-batches as PyTorch adds to `grad` of a leaf: the first one is
/// taken over, or copied where others still hold it or where its strides are not those of
/// `parameter`; later ones are added in place. Undefined: changes nothing. Grad mode must be off.
void accumulateGradient(at::Tensor &sum, at::Tensor more, const at::Tensor &parameter);

/// The form for users: a sparse gradient, as that of an embedding, has no form in a file.
at::Tensor denseGradient(const at::Tensor &gradient);

} // namespace pipec
