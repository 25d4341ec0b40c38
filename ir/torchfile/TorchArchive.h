// PyTorch's zip archives on top of a mapping: which records there are, and their bytes without a
// copy where possible.
#pragma once

#include "ir/support/FileKind.h"
#include "ir/support/MappedFile.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <caffe2/serialize/inline_container.h>

#include <optional>

namespace pipec {

/// An opened archive. One thread at a time. Methods throw LibTorch's exceptions: call them under
/// guardTorch.
class TorchArchive {
public:
  /// Errors: those of MappedFile, and Unreadable when the file is no zip archive of PyTorch, saying
  /// what it is instead, and what to do where `wanted` is. fewReads: most of its bytes will not be
  /// read.
  static llvm::Expected<std::unique_ptr<TorchArchive>>
  open(const std::string &path, Wanted wanted = Wanted::Model, bool fewReads = false);

  const std::string &path() const { return path_; }
  llvm::StringRef bytes() const { return {file_->data(), file_->size()}; } // of the whole file
  caffe2::serialize::PyTorchStreamReader &reader() { return *reader_; }
  bool has(const std::string &record) { return reader_->hasRecord(record); }
  std::string text(const std::string &record);
  /// The bytes of a record: a view of the mapping, which then lives as long as the pointer; a copy
  /// when the record is compressed or badly aligned.
  at::DataPtr view(const std::string &record);

private:
  TorchArchive(std::string path, std::shared_ptr<MappedFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;
  std::shared_ptr<MappedFile> file_;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
};

/// The mapping that an archive gave a view of; null: the storage has memory of its own.
std::shared_ptr<MappedFile> mappingOf(const c10::Storage &storage);
/// A view of the bytes of a mapping from `offset` on, as TorchArchive::view() gives.
at::DataPtr viewOfMapping(std::shared_ptr<MappedFile> file, size_t offset);

/// `what` names the numbers in errors. Errors: Unreadable if a big-endian machine wrote them.
llvm::Error checkByteOrder(TorchArchive &archive, llvm::StringRef what);

/// The place in a file at which the bytes of a tensor begin.
struct FilePlace {
  FileId file;
  uint64_t offset = 0;
};
/// The place of a tensor in a view that an archive gave; nullopt for a tensor with own memory.
std::optional<FilePlace> placeInFile(const at::Tensor &tensor);
/// All of such a tensor will be read, though few reads were expected.
void expectReadOf(const at::Tensor &tensor);

} // namespace pipec
