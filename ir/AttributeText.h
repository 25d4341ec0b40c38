// Attributes of a model as lines of text. Weights are named, typed and digested; their elements
// come from a seed, hex digits, a file beside the text, or are left out.
#pragma once

#include "ir/Model.h"
#include "ir/TextLine.h"

#include <map>

namespace pipec {

/// What the text said about a tensor's elements: lets a later print say the same again, as long as
/// the elements are still these.
struct AttributeNote {
  std::string digest; // of the elements as built
  std::string
      recorded; // sha256 as the text had it; differs from digest where the weights were left out
  std::string data; // "seed(1)", "none", ...
};
/// By the name of the attribute.
using AttributeNotes = std::map<std::string, AttributeNote>;

struct TextOptions {
  enum class Data { None, Small, Directory };
  /// Where elements go. None: nowhere. Small: up to 256 bytes as hex digits, else nowhere.
  /// Directory: larger ones into `directory`.
  Data data = Data::Small;
  std::string directory; // Data::Directory, and where a parser finds data=@NAME
  bool digests = true;   // false: no sha256, for prints of large models between passes
  bool scopes = false;   // nodes end in a comment with their module path
  const AttributeNotes *notes = nullptr;
};

/// "attribute enc.weight parameter float32[8,16] strides=[16,1] requires_grad storage=0 sha256=...
/// data=seed(1) also=[a.b]". Errors: Unsupported (a value without text form), IO (data directory).
llvm::Expected<std::string> attributeText(const Attribute &attribute, const TextOptions &options);

/// Collects attribute lines and builds their tensors together, because attributes with one storage
/// number share memory.
class AttributeReader {
public:
  explicit AttributeReader(std::string directory) : directory_(std::move(directory)) {}

  /// `line`: after the word "attribute". Complaints go to the line.
  void add(TextLine &line);
  /// Errors: Unreadable (bad data, digest differs), IO, Unsupported (an object), each naming the
  /// attribute and its line.
  llvm::Expected<std::vector<Attribute>> build();
  /// Filled by build().
  AttributeNotes takeNotes() { return std::move(notes_); }

private:
  struct Row {
    Attribute attribute;
    size_t line = 0;
    std::string type; // "float32[8,16]" or a TorchScript type
    std::optional<std::vector<std::string>> strides;
    int64_t offset = 0; // in elements, from the start of the storage
    std::string sha256, data, value;
  };
  struct View {
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype;
    int64_t extent; // bytes from the start of the storage
  };
  static llvm::Expected<View> viewOf(const Row &row);
  llvm::Error build(Row &row);
  llvm::Error buildTensors();
  llvm::Error fill(Row &row);

  std::string directory_;
  std::vector<Row> rows_;
  AttributeNotes notes_;
};

} // namespace pipec
