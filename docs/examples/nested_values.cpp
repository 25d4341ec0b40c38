// Nested arguments and results in a C++ program without LibTorch's headers: a decoder with a
// key-value cache, which takes tensors, a list of pairs of tensors, a number and a string, and
// gives a dict with the like. Three steps, each with the cache that the step before gave.
//
//   nested_values DECODER.pipe
//
// Its forward(ids, past, scale, mode) returns {"logits": Tensor, "past": [(Tensor, Tensor), ...],
// "length": int, "mode": str}.
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <pipec/Pipeline.h>
#include <pipec/ValueTree.h>

using namespace pipec;

namespace {

constexpr int64_t kSamples = 2, kWidth = 4;

/// A cache that holds nothing yet: a pair of tensors of no rows per layer.
llvm::Expected<ValueTree> emptyCache(size_t layers) {
  llvm::Expected<ValueTree> none = ValueTree::tensor({"float32", {kSamples, 0, kWidth}, "", 0});
  if (!none)
    return none.takeError();
  return ValueTree::list(std::vector<ValueTree>(layers, ValueTree::tuple({*none, *none})));
}

llvm::Error decode(const std::string &artifact) {
  llvm::Expected<Pipeline> pipeline = Pipeline::load(artifact, {});
  if (!pipeline)
    return pipeline.takeError();
  llvm::Expected<ValueTree> past = emptyCache(2);
  if (!past)
    return past.takeError();
  std::vector<int64_t> ids = {1, 5}; // of one token for each sample
  for (int step = 0; step < 3; ++step) {
    llvm::Expected<ValueTree> tokens =
        ValueTree::tensor({"int64", {kSamples, 1}, ids.data(), ids.size() * sizeof(int64_t)});
    if (!tokens)
      return tokens.takeError();
    // A dict is the keyword arguments; a tuple or list would be the positional ones.
    llvm::Expected<ValueTree> result = pipeline->infer(
        ValueTree::dict({{"ids", *tokens}, {"past", *past}, {"scale", 0.5}, {"mode", "greedy"}}));
    if (!result)
      return result.takeError();

    llvm::Expected<std::vector<float>> logits = result->elementsAt<float>("logits");
    llvm::Expected<TensorView> key = result->tensorAt("past.0.1");
    llvm::Expected<int64_t> length = result->intAt("length");
    llvm::Expected<std::string> mode = result->stringAt("mode");
    if (llvm::Error error =
            llvm::joinErrors(llvm::joinErrors(logits.takeError(), key.takeError()),
                             llvm::joinErrors(length.takeError(), mode.takeError())))
      return error;
    llvm::outs() << *mode << ", length " << *length << ": " << logits->size()
                 << " logits, past.0.1 is " << key->dtype << " with " << key->shape[1] << " rows\n";

    // The whole part, handed on without a copy.
    past = result->at("past");
    if (!past)
      return past.takeError();
    const size_t words = logits->size() / kSamples;
    for (int64_t s = 0; s < kSamples; ++s) {
      auto row = logits->begin() + s * static_cast<int64_t>(words);
      ids[s] = std::max_element(row, row + static_cast<int64_t>(words)) - row;
    }
    if (step == 2)
      for (const std::string &path : result->paths())
        llvm::outs() << "result: " << path << '\n';
  }
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "usage: nested_values DECODER.pipe\n";
    return static_cast<int>(ExitCode::Usage);
  }
  llvm::Error error = decode(argv[1]);
  if (!error)
    return 0;
  ErrorText text = describe(std::move(error));
  llvm::errs() << "error: " << text.message << '\n';
  return static_cast<int>(text.code);
}
