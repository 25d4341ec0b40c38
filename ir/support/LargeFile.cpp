#include "ir/support/LargeFile.h"

#include <algorithm>
#include <cstring>

namespace pipec {

struct LargeFile::Buffer {
  static constexpr size_t kSize = size_t(2) << 20;

  alignas(4096) char bytes[kSize]; // the alignment that any disk needs
  size_t size = 0;
};

LargeFile::LargeFile(NewFile &file, bool pastCache)
    : file_(file), filling_(new Buffer), writing_(new Buffer) {
  if (pastCache)
    file_.goPastCache(); // a refusal costs only time
}

LargeFile::~LargeFile() {
  if (underWay_.valid())
    underWay_.wait();
}

void LargeFile::write(llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const llvm::StringRef part = bytes.take_front(Buffer::kSize - filling_->size);
    std::memcpy(filling_->bytes + filling_->size, part.data(), part.size());
    filling_->size += part.size();
    bytes = bytes.drop_front(part.size());
    if (filling_->size == Buffer::kSize)
      writeBuffer();
  }
}

void LargeFile::writeBuffer() {
  wait();
  std::swap(filling_, writing_);
  filling_->size = 0;
  underWay_ =
      std::async(std::launch::async, [this] { file_.write(writing_->bytes, writing_->size); });
}

void LargeFile::wait() {
  if (underWay_.valid())
    underWay_.get();
}

void LargeFile::finish() {
  wait();
  // Not a full buffer, so not a multiple of the disk's unit.
  file_.goThroughCache();
  file_.write(filling_->bytes, filling_->size);
}

} // namespace pipec
