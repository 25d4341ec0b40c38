#include "ir/torchfile/TorchArchive.h"

#include "ir/TorchError.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"

#include <caffe2/serialize/read_adapter_interface.h>

#include <algorithm>
#include <cstring>

namespace pipec {

namespace {

/// Reads from the mapping within its bounds: offsets in a damaged zip may point anywhere.
class MappedAdapter final : public caffe2::serialize::ReadAdapterInterface {
public:
  explicit MappedAdapter(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {}
  size_t size() const override { return file_->size(); }
  size_t read(uint64_t pos, void *buf, size_t n, const char * /*what*/) const override {
    if (pos >= file_->size())
      return 0;
    n = std::min<size_t>(n, file_->size() - pos);
    std::memcpy(buf, file_->data() + pos, n);
    return n;
  }

private:
  std::shared_ptr<MappedFile> file_;
};

llvm::Error notAnArchive(const std::string &path, Wanted wanted, llvm::StringRef bytes) {
  if (startsWith(bytes, "PK\x03\x04"))
    return notWanted(path, wanted, bytes,
                     "is a zip archive that is truncated, damaged or not written by PyTorch");
  return notWanted(path, wanted, bytes, "is not a zip archive, so not a file that PyTorch saved");
}

/// Compression method of the zip entry whose local header is at `header`: 0 is "stored".
unsigned compressionMethod(const MappedFile &file, size_t header) {
  if (header + 30 > file.size())
    return ~0u;
  const auto *at = reinterpret_cast<const unsigned char *>(file.data() + header + 8);
  return at[0] | at[1] << 8;
}

void releaseMapping(void *context) { delete static_cast<std::shared_ptr<MappedFile> *>(context); }

} // namespace

llvm::Expected<std::unique_ptr<TorchArchive>> TorchArchive::open(const std::string &path,
                                                                 Wanted wanted, bool fewReads) {
  TRY(refuseDirectory(path, wanted));
  auto file = TRY(MappedFile::open(path));
  if (fewReads)
    file->expectFewReads();
  std::unique_ptr<TorchArchive> archive(new TorchArchive(path, file));
  llvm::Error error = guardTorchVoid(ExitCode::Unreadable, "reading the archive", [&] {
    archive->reader_ = std::make_unique<caffe2::serialize::PyTorchStreamReader>(
        std::make_shared<MappedAdapter>(file));
  });
  if (!error)
    return archive;
  llvm::consumeError(std::move(error)); // its message names parts of a zip, not the user's file
  return notAnArchive(path, wanted, archive->bytes());
}

std::string TorchArchive::text(const std::string &record) {
  auto [data, size] = reader_->getRecord(record);
  return {static_cast<const char *>(data.get()), size};
}

at::DataPtr TorchArchive::view(const std::string &record) {
  constexpr size_t kAlignment = 16; // of the widest dtype, complex128
  size_t offset = reader_->getRecordOffset(record);
  size_t size = reader_->getRecordSize(record);
  bool stored = compressionMethod(*file_, reader_->getRecordHeaderOffset(record)) == 0;
  bool inside = offset <= file_->size() && size <= file_->size() - offset;
  if (!stored || !inside || offset % kAlignment != 0)
    return std::get<0>(reader_->getRecord(record));
  return viewOfMapping(file_, offset);
}

std::shared_ptr<MappedFile> mappingOf(const c10::Storage &storage) {
  const auto *file = storage.data_ptr().cast_context<std::shared_ptr<MappedFile>>(&releaseMapping);
  return file ? *file : nullptr;
}

at::DataPtr viewOfMapping(std::shared_ptr<MappedFile> file, size_t offset) {
  char *data = file->data() + offset;
  return {data, new std::shared_ptr<MappedFile>(std::move(file)), &releaseMapping, at::kCPU};
}

/// The mapping that a tensor is a view of; null: it has memory of its own.
static std::shared_ptr<MappedFile> mappingOf(const at::Tensor &tensor) {
  if (!tensor.defined() || !tensor.has_storage())
    return nullptr;
  return mappingOf(tensor.storage());
}

std::optional<FilePlace> placeInFile(const at::Tensor &tensor) {
  const std::shared_ptr<MappedFile> file = mappingOf(tensor);
  if (!file)
    return std::nullopt;
  const auto *data = static_cast<const char *>(tensor.const_data_ptr());
  return FilePlace{file->id(), static_cast<uint64_t>(data - file->data())};
}

void expectReadOf(const at::Tensor &tensor) {
  if (const std::shared_ptr<MappedFile> file = mappingOf(tensor))
    file->expectReadOf(static_cast<const char *>(tensor.const_data_ptr()),
                       tensor.storage().nbytes() -
                           static_cast<size_t>(tensor.storage_offset() * tensor.element_size()));
}

llvm::Error checkByteOrder(TorchArchive &archive, llvm::StringRef what) {
  return guardTorchError(
      ExitCode::Unreadable, archive.path() + ": reading the byte order", [&]() -> llvm::Error {
        if (!archive.has("byteorder") || archive.text("byteorder") == "little")
          return llvm::Error::success();
        return failf(ExitCode::Unreadable, "{}: expected little-endian {}, got big-endian",
                     archive.path(), what.str());
      });
}

} // namespace pipec
