#include "ir/torchfile/SourceLines.h"

#include "ir/TorchError.h"

#include <torch/csrc/jit/serialization/source_range_serialization.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace pipec {

namespace jit = torch::jit;

namespace {

/// The origin of lines of serialized TorchScript in the author's files: the .debug_pkl records of
/// an archive. LibTorch's own decoder is not exported. Format: ("FORMAT_WITH_STRING_TABLE",
/// (text...), ((byte offset, range, tag)...)), or only the last tuple in files of older versions.
/// range = (source, start, end); source = (text, file name, first line), where with a table text is
/// a list of indices and the file name is an index.
class DebugLines final : public jit::SourceRangeUnpickler {
public:
  explicit DebugLines(std::string pickle) : pickle_(std::move(pickle)) {}

  std::optional<jit::SourceRange>
  findSourceRangeThatGenerated(const jit::SourceRange &range) override {
    std::call_once(decoded_, [&] { decode(); });
    auto after = std::upper_bound(
        records_.begin(), records_.end(), range.start(),
        [](size_t start, const jit::TaggedRange &record) { return start < record.bytes; });
    if (after == records_.begin())
      return std::nullopt;
    return std::prev(after)->range;
  }

private:
  void decode() {
    // Lines are a help for the reader of a message: a damaged record costs the lines, not the
    // model.
    llvm::Error error = guardTorchVoid(ExitCode::Unreadable, "reading source lines",
                                       [&] { decodeRecords(unpickle()); });
    if (error)
      records_.clear();
    llvm::consumeError(std::move(error));
    pickle_.clear();
  }

  c10::IValue unpickle() const {
    size_t at = 0;
    jit::Unpickler unpickler(
        [&](char *buffer, size_t n) {
          n = std::min(n, pickle_.size() - at);
          std::memcpy(buffer, pickle_.data() + at, n);
          at += n;
          return n;
        },
        nullptr, c10::ArrayRef<at::Tensor>());
    return unpickler.parse_ivalue();
  }

  void decodeRecords(const c10::IValue &value) {
    auto tuple = value.toTuple();
    const auto &top = tuple->elements();
    bool hasTable =
        top.size() == 3 && top[0].isString() && top[0].toStringRef() == jit::kFormatWithStringTable;
    if (hasTable)
      for (const c10::IValue &text : top[1].toTuple()->elements())
        table_.push_back(std::make_shared<std::string>(text.toStringRef()));
    auto records = hasTable ? top[2].toTuple() : tuple;
    for (const c10::IValue &record : records->elements()) {
      const auto &fields = record.toTupleRef().elements();
      // The oldest files have (offset, tag, range).
      const c10::IValue &range = fields.at(1).isTuple() ? fields.at(1) : fields.at(2);
      records_.emplace_back(fields.at(0).toInt(), decodeRange(range));
    }
  }

  jit::SourceRange decodeRange(const c10::IValue &value) {
    const auto &fields = value.toTupleRef().elements();
    return {decodeSource(fields.at(0)), static_cast<size_t>(fields.at(1).toInt()),
            static_cast<size_t>(fields.at(2).toInt())};
  }

  std::shared_ptr<jit::Source> decodeSource(const c10::IValue &value) {
    auto tuple = value.toTuple();
    std::shared_ptr<jit::Source> &source = sources_[tuple.get()];
    if (source)
      return source;
    kept_.push_back(tuple);
    const auto &fields = tuple->elements();
    size_t line = fields.at(2).toInt();
    if (fields.at(0).isString()) {
      source = std::make_shared<jit::Source>(fields.at(0).toStringRef(),
                                             fields.at(1).toOptional<std::string>(), line);
      return source;
    }
    std::string text;
    for (const c10::IValue &index : fields.at(0).toListRef())
      text += *table_.at(index.toInt());
    source = std::make_shared<jit::Source>(text, *table_.at(fields.at(1).toInt()), line);
    return source;
  }

  std::string pickle_;
  std::once_flag decoded_;
  jit::SourceRangeRecords records_; // ascending by byte offset
  std::vector<std::shared_ptr<std::string>> table_;
  // One Source per tuple of the pickle; only looked up, never iterated. kept_ keeps the keys alive.
  std::map<const void *, std::shared_ptr<jit::Source>> sources_;
  std::vector<c10::intrusive_ptr<c10::ivalue::Tuple>> kept_;
};

} // namespace

std::shared_ptr<jit::Source> sourceWithLines(std::string text, const std::string &path,
                                             std::string debugPickle) {
  std::shared_ptr<DebugLines> lines;
  if (!debugPickle.empty())
    lines = std::make_shared<DebugLines>(std::move(debugPickle));
  return std::make_shared<jit::Source>(text, path, 1, lines);
}

} // namespace pipec
