// Models of any size for the benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipec::bench {

/// Writes a model of `nodes` operators (a multiple of 100, constants not counted) to `path`: layers
/// of 100 operators, each a module of a class of its own with ten weights. Half of the operators
/// write in place, some into views; a tenth stands in branches and loops that depend on arguments.
/// Takes one f32[B,8]. Throws.
void writeNodesModel(const std::string &path, size_t nodes);

/// Names of modules before which the model of that size is cut into `stages` even parts.
std::vector<std::string> evenCuts(size_t nodes, size_t stages);

/// Writes a chain of square linear layers whose weights are random bits of `bytes` in all, in
/// tensors of `tensorBytes`, to `path`. Needs as much memory. Throws.
void writeWeightsModel(const std::string &path, int64_t bytes, int64_t tensorBytes);

/// Names of modules before which a weights model of that many layers is cut.
std::vector<std::string> evenLayerCuts(size_t layers, size_t stages);

} // namespace pipec::bench
