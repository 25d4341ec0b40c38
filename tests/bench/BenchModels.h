// Models of any size for the benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipec::bench {

/// Layers: each is a module of a class of its own with its own code, as a traced model has them.
/// Flat: all the code is in the model's own forward; the weights are in modules all the same.
enum class Code { Layers, Flat };

/// Writes a model of `nodes` operators (a multiple of 100, constants not counted) to `path`: layers
/// of 100 operators with ten weights. Half of the operators write in place, some into views; a
/// tenth stands in branches and loops that depend on arguments. Takes one f32[B,8]. Throws.
void writeNodesModel(const std::string &path, size_t nodes, Code code);

/// Writes a chain of square linear layers whose weights are random bits of `bytes` in all, in
/// tensors of `tensorBytes`, to `path`. Needs as much memory. Throws.
void writeWeightsModel(const std::string &path, int64_t bytes, int64_t tensorBytes);

/// How many of the operators stand in no block, blocks counting as one.
size_t topLevelNodes(size_t nodes);

/// Names of modules before which a model of that many layers is cut into `stages` even parts.
std::vector<std::string> evenLayerCuts(size_t layers, size_t stages);

} // namespace pipec::bench
