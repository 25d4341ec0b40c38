// The author's source lines that a TorchScript archive carries.
#pragma once

#include <memory>
#include <string>

namespace torch::jit {
struct Source;
}

namespace pipec {

/// The TorchScript text of record `path`, with the author's source lines when `debugPickle` (the
/// bytes of PATH.debug_pkl, or empty) can be read. The pickle is decoded when the first line is
/// asked for.
std::shared_ptr<torch::jit::Source> sourceWithLines(std::string text, const std::string &path,
                                                    std::string debugPickle);

} // namespace pipec
