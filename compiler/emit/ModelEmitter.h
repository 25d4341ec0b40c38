// A whole flat model as a module with its own method again.
#pragma once

namespace torch::jit {
struct Module;
}

namespace pipec {

struct Model;

/// The arguments, defaults and result tree of the signature; state is stored where the source keeps
/// it.
torch::jit::Module moduleOf(const Model &model);

} // namespace pipec
