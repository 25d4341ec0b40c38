// Text form of programs:
//
//   program ranks=2
//   lane 0: 0 -> 1 window=2
//   rank 0:
//     F 0 mb=0
//     SEND ch=0 mb=0 lane=0
//   rank 1:
//     POST ch=0 mb=0 lane=0
//     TAKE ch=0 mb=0 lane=0
//     F 1 mb=0
#include "ir/schedule/ProgramText.h"

#include "ir/schedule/Program.h"
#include "llvm/ADT/StringExtras.h"

namespace pipec {
namespace {

const char *wordOf(OpKind kind) {
  switch (kind) {
  case OpKind::Forward:
    return "F";
  case OpKind::Post:
    return "POST";
  case OpKind::Send:
    return "SEND";
  case OpKind::Take:
    return "TAKE";
  }
  llvm_unreachable("every kind has a word");
}

/// Takes pieces off the front of one line; the first that does not fit makes the line bad.
class LineReader {
public:
  explicit LineReader(llvm::StringRef line) : rest_(line) {}

  bool word(llvm::StringRef expected) { return rest_.consume_front(expected); }
  size_t number() {
    unsigned long long value = 0;
    size_t end = rest_.find_first_not_of("0123456789");
    llvm::StringRef digits = rest_.substr(0, end);
    if (digits.empty() || (digits.size() > 1 && digits[0] == '0') ||
        digits.getAsInteger(10, value) || value > static_cast<unsigned long long>(INT64_MAX))
      ok_ = false;
    rest_ = rest_.drop_front(digits.size());
    return static_cast<size_t>(value);
  }
  void expect(llvm::StringRef text) { ok_ = ok_ && rest_.consume_front(text); }
  bool done() const { return ok_ && rest_.empty(); }

private:
  llvm::StringRef rest_;
  bool ok_ = true;
};

/// "SEND ch=3 mb=0 lane=1" or "F 2 mb=0".
bool parseOp(llvm::StringRef line, Op &op) {
  LineReader reader(line);
  for (OpKind kind : {OpKind::Forward, OpKind::Post, OpKind::Send, OpKind::Take}) {
    if (!reader.word(wordOf(kind)))
      continue;
    reader.expect(" ");
    op.kind = kind;
    if (kind == OpKind::Forward) {
      op.stage = reader.number();
    } else {
      reader.expect("ch=");
      op.channel = reader.number();
    }
    reader.expect(" mb=");
    op.microBatch = static_cast<int64_t>(reader.number());
    if (kind != OpKind::Forward) {
      reader.expect(" lane=");
      op.lane = reader.number();
    }
    return reader.done();
  }
  return false;
}

bool parseLane(llvm::StringRef line, size_t number, Lane &lane) {
  LineReader reader(line);
  reader.expect(fmt::format("lane {}: ", number));
  lane.from = reader.number();
  reader.expect(" -> ");
  lane.to = reader.number();
  reader.expect(" window=");
  lane.window = reader.number();
  return reader.done();
}

} // namespace

std::string toString(const Op &op) {
  if (op.kind == OpKind::Forward)
    return fmt::format("F {} mb={}", op.stage, op.microBatch);
  return fmt::format("{} ch={} mb={} lane={}", wordOf(op.kind), op.channel, op.microBatch, op.lane);
}

std::string toString(const Program &program) {
  std::string text = fmt::format("program ranks={}\n", program.ranks.size());
  for (size_t l = 0; l < program.lanes.size(); ++l)
    text += fmt::format("lane {}: {} -> {} window={}\n", l, program.lanes[l].from,
                        program.lanes[l].to, program.lanes[l].window);
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    text += fmt::format("rank {}:\n", r);
    for (const Op &op : program.ranks[r])
      text += "  " + toString(op) + "\n";
  }
  return text;
}

llvm::Expected<Program> programFromText(llvm::StringRef text) {
  Program program;
  size_t declaredRanks = 0, lineNumber = 0;
  bool header = false;
  while (!text.empty()) {
    auto [raw, rest] = text.split('\n');
    text = rest;
    ++lineNumber;
    llvm::StringRef line = raw.split('#').first.rtrim();
    if (line.empty())
      continue;
    bool ok;
    if (!header) {
      LineReader reader(line);
      reader.expect("program ranks=");
      declaredRanks = reader.number();
      ok = header = reader.done();
    } else if (line.startswith("lane ")) {
      size_t number = program.lanes.size();
      ok = program.ranks.empty() && parseLane(line, number, program.lanes.emplace_back());
    } else if (line.startswith("rank ")) {
      ok = line == fmt::format("rank {}:", program.ranks.size());
      program.ranks.emplace_back();
    } else {
      ok = !program.ranks.empty() && parseOp(line.ltrim(), program.ranks.back().emplace_back());
    }
    if (!ok)
      return failf(ExitCode::BadArtifact, "program: line {}: not expected here: \"{}\"", lineNumber,
                   line.take_front(80).str());
  }
  if (!header || program.ranks.size() != declaredRanks)
    return failf(ExitCode::BadArtifact, "program: expected {} ranks, got {}", declaredRanks,
                 program.ranks.size());
  return program;
}

} // namespace pipec
