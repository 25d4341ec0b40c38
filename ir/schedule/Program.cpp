// Text form of programs:
//
//   program ranks=2
//   lane 0: 0 -> 1 window=2
//   lane 1: 1 -> 0 window=2 gradients
//   group 0: 0 1
//   rank 0:
//     F 0 mb=0
//     SEND ch=0 mb=0 lane=0
//     ...
//     NORM group=0
//     OPT 0
//   rank 1:
//     POST ch=0 mb=0 lane=0
//     TAKE ch=0 mb=0 lane=0
//     F 1 mb=0
#include "ir/schedule/Program.h"

#include "ir/support/Check.h"
#include "ir/support/Error.h"
#include "ir/support/Llvm.h"
#include "ir/support/Words.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/ranges.h>

namespace pipec {
namespace {

/// How an op is written after its word.
enum class OpForm { Compute, Message, Reduce, TieReduce, Group, Stage };

struct OpWord {
  OpKind kind;
  llvm::StringLiteral word;
  OpForm form;
  ActionKind action = ActionKind::Forward; // of OpForm::Compute
};
constexpr OpWord kOpWords[] = {
    {OpKind::Forward, "F", OpForm::Compute, ActionKind::Forward},
    {OpKind::Backward, "B", OpForm::Compute, ActionKind::FullBackward},
    {OpKind::InputGrad, "I", OpForm::Compute, ActionKind::InputGrad},
    {OpKind::WeightGrad, "W", OpForm::Compute, ActionKind::WeightGrad},
    {OpKind::Recompute, "R", OpForm::Compute, ActionKind::Recompute},
    {OpKind::Post, "POST", OpForm::Message},
    {OpKind::Send, "SEND", OpForm::Message},
    {OpKind::Take, "TAKE", OpForm::Message},
    {OpKind::Reduce, "REDUCE", OpForm::Reduce},
    {OpKind::TieReduce, "TIE_REDUCE", OpForm::TieReduce},
    {OpKind::Norm, "NORM", OpForm::Group},
    {OpKind::Optimize, "OPT", OpForm::Stage},
};

struct PayloadWord {
  Payload payload;
  llvm::StringLiteral inOp;   // "TAKE ch=3"
  llvm::StringLiteral ofLane; // "lane 1: 0 -> 1 window=2 gradients"
};
constexpr PayloadWord kPayloadWords[] = {
    {Payload::Activation, "ch", ""},
    {Payload::Gradient, "grad", " gradients"},
    {Payload::Weight, "weight", " weights"},
    {Payload::WeightGradient, "weight-grad", " weight-gradients"},
};

const OpWord &wordOf(OpKind kind) { return kOpWords[static_cast<size_t>(kind)]; }
const PayloadWord &wordOf(Payload payload) { return kPayloadWords[static_cast<size_t>(payload)]; }

/// Takes pieces off the front of one line; the first that does not fit makes the line bad.
class LineReader {
public:
  explicit LineReader(llvm::StringRef line) : rest_(line) {}

  bool word(llvm::StringRef expected) { return rest_.consume_front(expected); }
  /// At most 32 bits less one: ops keep their numbers so.
  size_t number() {
    unsigned long long value = 0;
    size_t end = rest_.find_first_not_of("0123456789");
    llvm::StringRef digits = rest_.substr(0, end);
    if (digits.empty() || (digits.size() > 1 && digits[0] == '0') ||
        digits.getAsInteger(10, value) || value > INT32_MAX)
      ok_ = false;
    rest_ = rest_.drop_front(digits.size());
    return static_cast<size_t>(value);
  }
  void expect(llvm::StringRef text) { ok_ = ok_ && rest_.consume_front(text); }
  void fail() { ok_ = false; }
  bool done() const { return ok_ && rest_.empty(); }

private:
  llvm::StringRef rest_;
  bool ok_ = true;
};

void parseMessage(LineReader &reader, Op &op) {
  for (const PayloadWord &row : kPayloadWords)
    if (reader.word((row.inOp + "=").str())) {
      op.payload = row.payload;
      op.channel = static_cast<uint32_t>(reader.number());
      if (op.payload == Payload::Gradient) {
        reader.expect(" of=");
        op.stage = static_cast<uint32_t>(reader.number());
      }
      if (!isPerRun(op.payload)) {
        reader.expect(" mb=");
        op.microBatch = static_cast<int32_t>(reader.number());
      }
      reader.expect(" lane=");
      op.lane = static_cast<uint32_t>(reader.number());
      return;
    }
  reader.fail();
}

void parseFields(LineReader &reader, OpForm form, Op &op) {
  auto field = [&](llvm::StringRef before, uint32_t &value) {
    reader.expect(before);
    value = static_cast<uint32_t>(reader.number());
  };
  switch (form) {
  case OpForm::Compute:
    field("", op.stage);
    reader.expect(" mb=");
    op.microBatch = static_cast<int32_t>(reader.number());
    break;
  case OpForm::Message:
    parseMessage(reader, op);
    break;
  case OpForm::Reduce:
    field("", op.stage);
    field(" group=", op.lane);
    break;
  case OpForm::TieReduce:
    field("tie=", op.channel);
    field(" group=", op.lane);
    break;
  case OpForm::Group:
    field("group=", op.lane);
    break;
  case OpForm::Stage:
    field("", op.stage);
    break;
  }
}

/// "SEND ch=3 mb=0 lane=1" or "F 2 mb=0".
bool parseOp(llvm::StringRef line, Op &op) {
  for (const OpWord &row : kOpWords) {
    LineReader reader(line);
    if (!reader.word((row.word + " ").str()))
      continue;
    op.kind = row.kind;
    parseFields(reader, row.form, op);
    return reader.done();
  }
  return false;
}

/// "group 1: 0 4"
bool parseGroup(llvm::StringRef line, size_t number, std::vector<size_t> &ranks) {
  LineReader reader(line);
  reader.expect(fmt::format("group {}:", number));
  while (reader.word(" "))
    ranks.push_back(reader.number());
  return reader.done();
}

bool parseLane(llvm::StringRef line, size_t number, Lane &lane) {
  LineReader reader(line);
  reader.expect(fmt::format("lane {}: ", number));
  lane.from = reader.number();
  reader.expect(" -> ");
  lane.to = reader.number();
  reader.expect(" window=");
  lane.window = reader.number();
  for (const PayloadWord &row : kPayloadWords)
    if (!row.ofLane.empty() && reader.word(row.ofLane)) {
      lane.payload = row.payload;
      break;
    }
  return reader.done();
}

} // namespace

bool isCompute(OpKind kind) { return wordOf(kind).form == OpForm::Compute; }

ActionKind actionOf(OpKind compute) {
  PIPEC_ASSERT(isCompute(compute), "the op runs a stage");
  return wordOf(compute).action;
}

OpKind opOf(ActionKind compute) {
  for (const OpWord &row : kOpWords)
    if (row.form == OpForm::Compute && row.action == compute)
      return row.kind;
  llvm_unreachable("the action runs a stage");
}

bool isPerRun(Payload payload) {
  return payload == Payload::Weight || payload == Payload::WeightGradient;
}

bool isCollective(OpKind kind) {
  return kind == OpKind::Reduce || kind == OpKind::TieReduce || kind == OpKind::Norm;
}

std::string toString(const Op &op) {
  const OpWord &row = wordOf(op.kind);
  const std::string word = row.word.str();
  switch (row.form) {
  case OpForm::Compute:
    return fmt::format("{} {} mb={}", word, op.stage, op.microBatch);
  case OpForm::Message:
    return fmt::format("{} {}={}{}{} lane={}", word, wordOf(op.payload).inOp.str(), op.channel,
                       op.payload == Payload::Gradient ? fmt::format(" of={}", op.stage) : "",
                       isPerRun(op.payload) ? "" : fmt::format(" mb={}", op.microBatch), op.lane);
  case OpForm::Reduce:
    return fmt::format("{} {} group={}", word, op.stage, op.group());
  case OpForm::TieReduce:
    return fmt::format("{} tie={} group={}", word, op.tie(), op.group());
  case OpForm::Group:
    return fmt::format("{} group={}", word, op.group());
  case OpForm::Stage:
    return fmt::format("{} {}", word, op.stage);
  }
  llvm_unreachable("every form is written");
}

std::string toString(const Program &program) {
  std::string text = fmt::format("program ranks={}\n", program.ranks.size());
  for (size_t l = 0; l < program.lanes.size(); ++l)
    text += fmt::format("lane {}: {} -> {} window={}{}\n", l, program.lanes[l].from,
                        program.lanes[l].to, program.lanes[l].window,
                        wordOf(program.lanes[l].payload).ofLane.str());
  for (size_t g = 0; g < program.groups.size(); ++g)
    text += fmt::format("group {}: {}\n", g, fmt::join(program.groups[g], " "));
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    text += fmt::format("rank {}:\n", r);
    for (const Op &op : program.ranks[r])
      text += "  " + toString(op) + "\n";
  }
  return text;
}

/// Of a line that does not fit where it is. In a rank (`isOp`) its first word should be an op.
static llvm::Error unexpectedLine(llvm::StringRef line, size_t lineNumber, bool isOp) {
  const std::string word = line.ltrim().split(' ').first.str();
  const std::string got = line.ltrim().take_front(80).str();
  if (isOp && word == "FINITE")
    return makeError(ExitCode::BadArtifact,
                     fmt::format("program: line {}: expected no FINITE, an op of earlier "
                                 "versions, got \"{}\"",
                                 lineNumber, got),
                     "remove the line: NORM tells whether all gradients are finite, too");
  std::vector<std::string> words;
  for (const OpWord &row : kOpWords)
    words.push_back(row.word.str());
  if (isOp && !llvm::is_contained(words, word))
    return makeError(
        ExitCode::BadArtifact,
        fmt::format("program: line {}: expected an op, got \"{}\"", lineNumber, got),
        didYouMean(word, words, fmt::format("the ops are {}", llvm::join(words, ", "))));
  return failf(ExitCode::BadArtifact, "program: line {}: not expected here: \"{}\"", lineNumber,
               line.take_front(80).str());
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
    bool ok, isOp = false;
    if (!header) {
      LineReader reader(line);
      reader.expect("program ranks=");
      declaredRanks = reader.number();
      ok = header = reader.done();
    } else if (startsWith(line, "lane ")) {
      size_t number = program.lanes.size();
      ok = program.ranks.empty() && parseLane(line, number, program.lanes.emplace_back());
    } else if (startsWith(line, "group ")) {
      size_t number = program.groups.size();
      ok = program.ranks.empty() && parseGroup(line, number, program.groups.emplace_back());
    } else if (startsWith(line, "rank ")) {
      ok = line == fmt::format("rank {}:", program.ranks.size());
      program.ranks.emplace_back();
    } else {
      isOp = !program.ranks.empty();
      ok = isOp && parseOp(line.ltrim(), program.ranks.back().emplace_back());
    }
    if (!ok)
      return unexpectedLine(line, lineNumber, isOp);
  }
  if (!header || program.ranks.size() != declaredRanks)
    return failf(ExitCode::BadArtifact, "program: expected {} ranks, got {}", declaredRanks,
                 program.ranks.size());
  return program;
}

} // namespace pipec
