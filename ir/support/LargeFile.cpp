#include "ir/support/LargeFile.h"

#include <cstring>

namespace pipec {

struct LargeFile::Buffer {
  static constexpr size_t kSize = size_t(2) << 20;

  alignas(4096) char bytes[kSize]; // the alignment that any disk needs
  size_t size = 0;
};

LargeFile::LargeFile(NewFile &file, bool pastCache)
    : file_(file),
      thread_([this](llvm::StringRef bytes) { file_.write(bytes.data(), bytes.size()); },
              /*mostPieces=*/kBuffers - 1) {
  for (std::unique_ptr<Buffer> &buffer : buffers_)
    buffer.reset(new Buffer);
  if (pastCache)
    file_.goPastCache(); // a refusal costs only time
}

LargeFile::~LargeFile() = default;

void LargeFile::write(llvm::StringRef bytes) {
  while (!bytes.empty()) {
    Buffer &filling = *buffers_[filling_];
    const llvm::StringRef part = bytes.take_front(Buffer::kSize - filling.size);
    std::memcpy(filling.bytes + filling.size, part.data(), part.size());
    filling.size += part.size();
    bytes = bytes.drop_front(part.size());
    if (filling.size == Buffer::kSize)
      writeBuffer();
  }
}

void LargeFile::writeBuffer() {
  // All buffers but one fit into the queue, so after the push the oldest buffer is written.
  thread_.appendStable({buffers_[filling_]->bytes, Buffer::kSize});
  filling_ = (filling_ + 1) % kBuffers;
  buffers_[filling_]->size = 0;
}

void LargeFile::finish() {
  thread_.finish();
  // Not a full buffer, so not a multiple of the disk's unit.
  file_.goThroughCache();
  file_.write(buffers_[filling_]->bytes, buffers_[filling_]->size);
}

} // namespace pipec
