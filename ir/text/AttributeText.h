// Attributes of a model as lines of text. Weights are named, typed and digested; their elements
// come from a seed, hex digits, a file beside the text, or are left out.
#pragma once

#include "ir/Model.h"
#include "ir/NodeCost.h"
#include "ir/TensorKey.h"
#include "ir/text/TensorRows.h"
#include "ir/text/TextLine.h"
#include "llvm/Support/JSON.h"

namespace pipec {

struct TextOptions {
  enum class Data { None, Small, Directory };
  /// The place of the elements. None: nowhere. Small: up to 256 bytes as hex digits, larger ones
  /// nowhere. Directory: larger ones as files in `directory`.
  Data data = Data::Small;
  std::string directory; // of Data::Directory; a parser looks for data=@NAME there
  bool digests = true;   // false: no sha256, for prints of large models between passes
  bool scopes = false;   // true: nodes end in a comment with their module path
  const AttributeNotes *notes = nullptr;
  const std::vector<NodeCost> *costs = nullptr; // of a model, for its line `costs`
};

/// Prints the attributes of one model. Tensors inside lists, tuples and dicts have storage numbers
/// too, which show the memory that they share with all other tensors.
class AttributePrinter {
public:
  /// Both must live as long as the printer.
  AttributePrinter(const std::vector<Attribute> &attributes, const TextOptions &options);

  /// "attribute enc.weight parameter float32[8,16] strides=[16,1] requires_grad storage=0
  /// sha256=... data=seed(1) also=[a.b]". An object without text form is shown as value=object.
  /// Errors: IO (data directory).
  llvm::Expected<std::string> text(const Attribute &attribute) const;

private:
  struct Elements {
    std::string sha256, data; // both empty: left out
  };
  llvm::Expected<Elements> elementsOf(const at::Tensor &tensor, const std::string &name) const;
  llvm::Expected<std::string> tensorText(const Attribute &attribute) const;
  llvm::Expected<std::string> valueText(const Attribute &attribute) const;
  llvm::Expected<llvm::json::Value> innerTensor(const at::Tensor &tensor,
                                                const std::string &name) const;

  const TextOptions &options_;
  std::map<TensorKey, int64_t> innerStorages_; // of tensors inside values
};

/// Collects attribute lines and builds all their tensors together, because attributes with one
/// storage number share memory.
class AttributeReader {
public:
  explicit AttributeReader(std::string directory) : tensors_(std::move(directory)) {}

  /// Reads `line` after the word "attribute". The line keeps the errors.
  void add(TextLine &line);
  /// Errors: Unreadable (bad data, digest differs), IO, Unsupported (an object), each naming the
  /// attribute and its line.
  llvm::Expected<std::vector<Attribute>> build();
  /// Filled by build().
  AttributeNotes takeNotes() { return tensors_.takeNotes(); }

private:
  struct Row {
    Attribute attribute;
    std::string type; // "float32[8,16]" or a TorchScript type
    std::optional<std::vector<std::string>> strides;
    std::string value;
    TensorRow tensor; // of the keys of the line; other values use only its line number
  };
  llvm::Error addTensor(Row &row);
  llvm::Error addValue(Row &row);
  llvm::Expected<at::Tensor> addInner(const llvm::json::Value &json, const std::string &name,
                                      size_t line);

  std::vector<Row> rows_;
  TensorRows tensors_;
};

} // namespace pipec
