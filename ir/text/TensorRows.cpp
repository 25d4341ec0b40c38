#include "ir/text/TensorRows.h"

#include "ir/TensorBytes.h"
#include "ir/TorchError.h"
#include "ir/support/CannotRead.h"
#include "ir/support/Llvm.h"
#include "ir/support/Try.h"
#include "llvm/Support/MemoryBuffer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>

#include <algorithm>

namespace pipec {
namespace {

/// Bytes from the start of the storage to one past the last element; checked, because sizes come
/// from a file.
llvm::Expected<int64_t> extentOfRow(const TensorRow &row, const std::vector<int64_t> &strides) {
  const std::vector<int64_t> &sizes = row.head.sizes;
  if (strides.size() != sizes.size() || row.offset < 0)
    return failf(ExitCode::Unreadable, "expected {} strides and no negative offset, got {} and {}",
                 sizes.size(), strides.size(), row.offset);
  int64_t end = row.offset, bytes = 0;
  bool overflow = __builtin_add_overflow(end, 1, &end);
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t reach = 0;
    overflow |= sizes[d] > 0 && (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
                                 __builtin_add_overflow(end, reach, &end));
  }
  overflow |=
      __builtin_mul_overflow(end, static_cast<int64_t>(c10::elementSize(row.head.dtype)), &bytes);
  if (overflow)
    return failf(ExitCode::Unreadable, "its sizes and strides reach beyond the address space");
  return bytes;
}

} // namespace

llvm::Error inAttribute(llvm::Error error, const std::string &name, size_t line) {
  return withContext(std::move(error), fmt::format("line {}: attribute {}", line, name));
}

llvm::Expected<at::Tensor> TensorRows::add(TensorRow row) {
  std::vector<int64_t> strides =
      row.strides ? *row.strides : at::IntArrayRef(c10::contiguous_strides(row.head.sizes)).vec();
  int64_t extent = TRY(extentOfRow(row, strides));
  at::Tensor tensor = at::empty({0}, at::TensorOptions(row.head.dtype));
  entries_.push_back({std::move(row), std::move(strides), extent, -1, tensor});
  return tensor;
}

/// Numbers in the text are labels; a row without a label shares no memory.
void TensorRows::numberStorages() {
  std::map<int64_t, int64_t> labels;
  int64_t next = 0;
  for (Entry &entry : entries_) {
    const bool fresh = entry.row.storage < 0 || labels.try_emplace(entry.row.storage, next).second;
    entry.storage = fresh ? next++ : labels[entry.row.storage];
  }
}

llvm::Error TensorRows::build() {
  numberStorages();
  std::map<int64_t, int64_t> bytes; // of each storage
  for (const Entry &entry : entries_)
    bytes[entry.storage] = std::max(bytes[entry.storage], entry.extent);
  std::map<int64_t, at::Tensor> storages; // one row of bytes each
  for (const auto &[number, size] : bytes)
    TRY(guardTorchVoid(ExitCode::Unreadable, fmt::format("storage {} of {} bytes", number, size),
                       [&] { storages[number] = at::zeros({size}, at::kByte); }));
  for (Entry &entry : entries_) {
    llvm::Error filled = llvm::Error::success();
    llvm::Error built = guardTorchVoid(ExitCode::Unreadable, "building the tensor", [&] {
      // In place, because the requester of the tensor already has it.
      entry.tensor.set_(storages[entry.storage].storage(), entry.row.offset, entry.row.head.sizes,
                        entry.strides);
      filled = fill(entry);
    });
    if (llvm::Error error = llvm::joinErrors(std::move(built), std::move(filled)))
      return inAttribute(std::move(error), entry.row.name, entry.row.line);
  }
  return llvm::Error::success();
}

llvm::Error TensorRows::fill(Entry &entry) {
  const TensorRow &row = entry.row;
  llvm::StringRef data = row.data;
  uint64_t seed = 0;
  if (data.consume_front("seed(") && data.consume_back(")") && !data.getAsInteger(10, seed)) {
    fillFromSeed(entry.tensor, seed);
  } else if (data = row.data; data.consume_front("bytes(") && data.consume_back(")")) {
    const std::optional<std::string> bytes = parseHex(data);
    if (!bytes)
      return failf(ExitCode::Unreadable, "data: expected hex digits, got {}", data.str());
    TRY(setElements(entry.tensor, *bytes));
  } else if (data = row.data; data.consume_front("@")) {
    if (data.contains('/') || data.empty() || startsWith(data, "."))
      return failf(ExitCode::Unreadable,
                   "data: expected the name of a file beside the text, got {}", data.str());
    const std::string path = directory_ + "/" + data.str();
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return cannotRead(path, buffer.getError());
    TRY(setElements(entry.tensor, (*buffer)->getBuffer()));
  } else if (row.data != "none") {
    return failf(ExitCode::Unreadable, "data: expected seed(N), bytes(HEX), @FILE or none, got {}",
                 row.data);
  }
  const std::string digest = tensorDigest(entry.tensor);
  if (row.data != "none" && !row.sha256.empty() && row.sha256 != digest)
    return failf(ExitCode::Unreadable, "sha256: expected {}, got {}", row.sha256, digest);
  notes_[row.name] = {digest, row.sha256.empty() ? digest : row.sha256, row.data};
  if (row.requiresGrad && (entry.tensor.is_floating_point() || entry.tensor.is_complex()))
    entry.tensor.set_requires_grad(true);
  return llvm::Error::success();
}

} // namespace pipec
