#include "ir/support/StreamDigest.h"

#include <algorithm>
#include <future>

namespace pipec {

StreamDigest::StreamDigest(std::shared_ptr<StableBytes> stable, Also also)
    : stable_(std::move(stable)), also_(std::move(also)),
      thread_([this](llvm::StringRef bytes) { hash(bytes); }) {}

void StreamDigest::append(llvm::StringRef bytes) {
  if (stable_->has(bytes))
    thread_.appendStable(bytes);
  else
    thread_.append(bytes);
}

void StreamDigest::hash(llvm::StringRef bytes) {
  stable_->digestIfFirst(bytes, [&] {
    std::future<std::string> own =
        std::async(std::launch::async, [bytes] { return sha256Hex(bytes); });
    addToWhole(bytes);
    bytes = {};
    return own.get();
  });
  addToWhole(bytes);
}

void StreamDigest::addToWhole(llvm::StringRef bytes) {
  constexpr size_t kStep = size_t(128) << 10; // stays in a core's own cache
  for (; !bytes.empty(); bytes = bytes.drop_front(std::min(bytes.size(), kStep))) {
    const llvm::StringRef step = bytes.take_front(kStep);
    if (also_)
      also_(step);
    whole_.update(step);
  }
}

std::string StreamDigest::finish() {
  thread_.finish();
  return whole_.hex();
}

} // namespace pipec
