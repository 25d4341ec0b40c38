#include "ir/plan/StreamDigest.h"

namespace pipec {

StreamDigest::StreamDigest(std::shared_ptr<StableBytes> stable)
    : stable_(std::move(stable)),
      thread_([this](llvm::StringRef bytes) { hash(whole_, *stable_, bytes); }) {}

void StreamDigest::append(llvm::StringRef bytes) {
  if (stable_->has(bytes))
    thread_.appendStable(bytes);
  else
    thread_.append(bytes);
}

void StreamDigest::hash(Sha256 &whole, StableBytes &stable, llvm::StringRef bytes) {
  const bool both = stable.digestIfFirst(bytes, [&] {
    Sha256 own;
    Sha256::updateBoth(whole, own, bytes);
    return own.hex();
  });
  if (!both)
    whole.update(bytes);
}

std::string StreamDigest::finish() {
  thread_.finish();
  return whole_.hex();
}

} // namespace pipec
