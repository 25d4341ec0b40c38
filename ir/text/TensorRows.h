// The tensors of a text. Tensors with one storage number share memory, so all of them are described
// first and built together.
#pragma once

#include "ir/text/TensorText.h"

#include <map>

namespace pipec {

/// The description of a tensor's elements in the text. A later print repeats it as long as the
/// elements have not changed.
struct AttributeNote {
  std::string digest;   // of the elements as built
  std::string recorded; // sha256 in the text; differs from digest if the weights were left out
  std::string data;     // "seed(1)", "none", ...
};
/// By the name of the attribute; "name[2]" is the third tensor inside its value.
using AttributeNotes = std::map<std::string, AttributeNote>;

/// One tensor of the text.
struct TensorRow {
  std::string name; // as in AttributeNotes
  size_t line = 0;
  TensorHead head;
  std::optional<std::vector<int64_t>> strides; // absent: contiguous
  int64_t storage = -1;                        // a label of the text; -1: shares no memory
  int64_t offset = 0;                          // in elements, from the start of the storage
  bool requiresGrad = false;
  std::string sha256;        // "": not checked
  std::string data = "none"; // seed(N), bytes(HEX), @FILE or none
};

class TensorRows {
public:
  /// `directory` holds the files of data=@NAME.
  explicit TensorRows(std::string directory) : directory_(std::move(directory)) {}

  /// Returns the tensor that build() fills; it is empty until then. Errors: Unreadable (sizes and
  /// strides that do not fit).
  llvm::Expected<at::Tensor> add(TensorRow row);

  /// Errors: Unreadable (bad data, digest differs), IO, each naming the attribute and its line.
  llvm::Error build();

  /// The number of the i-th tensor's storage, by first encounter. After build().
  int64_t storageOf(size_t row) const { return entries_[row].storage; }
  size_t size() const { return entries_.size(); }
  AttributeNotes takeNotes() { return std::move(notes_); }

private:
  struct Entry {
    TensorRow row;
    std::vector<int64_t> strides;
    int64_t extent;  // bytes from the start of the storage
    int64_t storage; // numbered by first encounter
    at::Tensor tensor;
  };
  void numberStorages();
  llvm::Error fill(Entry &entry);

  std::string directory_;
  std::vector<Entry> entries_;
  AttributeNotes notes_;
};

/// The error of a tensor or value, naming its attribute and line.
llvm::Error inAttribute(llvm::Error error, const std::string &name, size_t line);

} // namespace pipec
