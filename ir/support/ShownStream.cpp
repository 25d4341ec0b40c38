#include "ir/support/ShownStream.h"

#include "ir/support/ShownText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <string>
#include <vector>

namespace pipec {

namespace {

/// Pieces of the command line with line ends in them, longest first.
std::vector<std::string> piecesWithLineEnds;

std::string withoutTheirLineEnds(std::string text) {
  for (const std::string &piece : piecesWithLineEnds) {
    const std::string instead = shown(piece);
    for (size_t at = text.find(piece); at != std::string::npos;
         at = text.find(piece, at + instead.size()))
      text.replace(at, piece.size(), instead);
  }
  return text;
}

/// Unbuffered: each printed piece of text arrives whole.
class ShownStream final : public llvm::raw_ostream {
public:
  explicit ShownStream(llvm::raw_fd_ostream &to) : raw_ostream(/*unbuffered=*/true), to_(to) {}

  bool is_displayed() const override { return to_.is_displayed(); }
  bool has_colors() const override { return to_.has_colors(); }

  void painted(llvm::StringRef text) {
    finish();
    to_ << text;
  }
  /// Bytes that began a letter and were the last.
  void finish() {
    to_ << shownLines(begun_);
    begun_.clear();
  }

private:
  void write_impl(const char *data, size_t size) override {
    std::string text = begun_ + std::string(data, size);
    begun_ = text.substr(text.size() - unfinishedBytes(text)); // JSON arrives byte by byte
    text.resize(text.size() - begun_.size());
    to_ << shownLines(withoutTheirLineEnds(std::move(text)));
  }
  uint64_t current_pos() const override { return to_.tell(); }

  llvm::raw_fd_ostream &to_;
  std::string begun_;
};

ShownStream &shownStdout() {
  static ShownStream stream(llvm::outs());
  return stream;
}

ShownStream &shownStderr() {
  static ShownStream stream(llvm::errs());
  return stream;
}

} // namespace

llvm::raw_ostream &toStdout() { return shownStdout(); }
llvm::raw_ostream &toStderr() { return shownStderr(); }

void flushStdout() {
  shownStdout().finish();
  llvm::outs().flush();
}

void printPainted(llvm::raw_ostream &out, llvm::StringRef text) {
  for (ShownStream *stream : {&shownStdout(), &shownStderr()})
    if (&out == stream)
      return stream->painted(text);
  out << text;
}

void escapeLineEndsOf(llvm::ArrayRef<const char *> arguments) {
  piecesWithLineEnds.clear();
  auto keep = [&](llvm::StringRef piece) {
    if (piece.contains('\n') && piece != "\n")
      piecesWithLineEnds.push_back(piece.str());
  };
  for (llvm::StringRef argument : arguments) {
    keep(argument);
    llvm::SmallVector<llvm::StringRef> parts;
    argument.split(parts, ',');
    for (llvm::StringRef part : parts) {
      keep(part);
      keep(part.split('=').first);
      keep(part.split('=').second);
    }
  }
  llvm::stable_sort(piecesWithLineEnds,
                    [](const auto &a, const auto &b) { return a.size() > b.size(); });
}

} // namespace pipec
