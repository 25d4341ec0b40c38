#include "ir/schedule/TableCheck.h"

#include "ir/support/Error.h"
#include "ir/support/Try.h"

#include <array>
#include <map>
#include <optional>
#include <set>

namespace pipec {
namespace {

constexpr size_t kNoRank = static_cast<size_t>(-1);

bool isBackward(ActionKind kind) {
  return kind == ActionKind::FullBackward || kind == ActionKind::InputGrad ||
         kind == ActionKind::WeightGrad;
}

bool isTransfer(ActionKind kind) {
  return kind == ActionKind::SendForward || kind == ActionKind::ReceiveForward ||
         kind == ActionKind::SendBackward || kind == ActionKind::ReceiveBackward;
}

class TableChecker {
public:
  explicit TableChecker(const Schedule &schedule) : schedule_(schedule) {}

  llvm::Expected<TableShape> run(std::vector<std::string> *warnings) {
    TRY(measure());
    TRY(readActions());
    TRY(complete());
    if (transfers_)
      TRY(checkTransfers(warnings));
    return shape_;
  }

private:
  // The pieces of a stage's work on a micro-batch that the table has.
  enum Piece : uint8_t { F = 1, B = 2, I = 4, W = 8, R = 16 };
  static Piece pieceOf(ActionKind kind) {
    constexpr std::array<Piece, 5> pieces = {F, B, I, W, R};
    return pieces[static_cast<size_t>(kind)];
  }

  static llvm::Error bad(const std::string &message) {
    return makeError(ExitCode::BadArtifact, "schedule: " + message);
  }

  llvm::Error measure() {
    size_t actions = 0;
    for (const std::vector<Action> &rank : schedule_.ranks)
      for (const Action &action : rank)
        if (isCompute(action.kind)) {
          if (action.stage >= static_cast<size_t>(kMostInTable) || action.microBatch < 0 ||
              action.microBatch >= kMostInTable)
            return bad(fmt::format("{}: expected a stage and a micro-batch below {}",
                                   toString(action), kMostInTable));
          ++actions;
          shape_.stages = std::max(shape_.stages, action.stage + 1);
          shape_.microBatches = std::max(shape_.microBatches, action.microBatch + 1);
          shape_.backward |= isBackward(action.kind);
        } else {
          transfers_ |= isTransfer(action.kind);
        }
    if (actions == 0)
      return bad("expected actions, got none");
    // A table with so few actions cannot be complete. Checked before memory for it is allocated.
    if (shape_.stages > actions || shape_.microBatches > static_cast<int64_t>(actions))
      return bad(fmt::format("{} stages and {} micro-batches: expected at least as many actions, "
                             "got {}",
                             shape_.stages, shape_.microBatches, actions));
    if (shape_.stages * static_cast<size_t>(shape_.microBatches) > actions)
      return bad(fmt::format("{} stages and {} micro-batches: expected at least {} actions, got {}",
                             shape_.stages, shape_.microBatches,
                             shape_.stages * static_cast<size_t>(shape_.microBatches), actions));
    shape_.rankOfStage.assign(shape_.stages, kNoRank);
    pieces_.assign(shape_.stages * static_cast<size_t>(shape_.microBatches), 0);
    return llvm::Error::success();
  }

  uint8_t &piecesOf(size_t stage, int64_t microBatch) {
    return pieces_[stage * static_cast<size_t>(shape_.microBatches) +
                   static_cast<size_t>(microBatch)];
  }

  llvm::Error readActions() {
    for (size_t r = 0; r < schedule_.ranks.size(); ++r)
      for (size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
        const Action &action = schedule_.ranks[r][i];
        if (!isCompute(action.kind))
          continue;
        auto here = [&] { return fmt::format("rank {}, action {}: {}", r, i, toString(action)); };
        size_t &rank = shape_.rankOfStage[action.stage];
        if (rank == kNoRank)
          rank = r;
        if (rank != r)
          return bad(fmt::format("{}: stage {} is on rank {}", here(), action.stage, rank));
        uint8_t &pieces = piecesOf(action.stage, action.microBatch);
        const Piece piece = pieceOf(action.kind);
        if (pieces & piece)
          return bad(here() + " appears twice");
        if (piece != F && !(pieces & F))
          return bad(here() + " precedes its forward");
        if (piece == W && !(pieces & I))
          return bad(here() + " precedes its input gradient");
        if (piece == R && (pieces & (B | I)))
          return bad(here() + " follows its backward");
        if ((piece == B && (pieces & (I | W))) || ((piece & (I | W)) && (pieces & B)))
          return bad(here() + ": the backward is whole (B) or in two pieces (I, W), got both");
        pieces |= piece;
      }
    return llvm::Error::success();
  }

  llvm::Error complete() {
    for (size_t s = 0; s < shape_.stages; ++s)
      for (int64_t m = 0; m < shape_.microBatches; ++m) {
        const uint8_t pieces = piecesOf(s, m);
        if (!(pieces & F))
          return bad(fmt::format("{}F{} is missing", s, m));
        if (!shape_.backward || (pieces & B) || ((pieces & I) && (pieces & W)))
          continue;
        return bad(fmt::format("{} is missing", pieces & I
                                                    ? fmt::format("{}W{}", s, m)
                                                    : fmt::format("{}B{} (or I and W)", s, m)));
      }
    return llvm::Error::success();
  }

  // --- sends and receives
  // ---------------------------------------------------------------------------
  struct Message {
    bool forward;
    size_t stage; // of the receiver
    int64_t microBatch;
    auto operator<=>(const Message &) const = default;
  };
  static std::string text(const Message &message, bool send) {
    // A send is written at the sender's stage.
    const size_t stage = !send             ? message.stage
                         : message.forward ? message.stage - 1
                                           : message.stage + 1;
    return fmt::format("{}{}_{}{}", stage, send ? "SEND" : "RECV", message.forward ? "F" : "B",
                       message.microBatch);
  }
  using Lanes = std::map<std::pair<size_t, size_t>, std::vector<Message>>;

  llvm::Error checkTransfers(std::vector<std::string> *warnings) {
    Lanes sent, received;
    for (size_t r = 0; r < schedule_.ranks.size(); ++r)
      TRY(readTransfers(r, sent, received));
    for (const auto &[ends, messages] : received)
      sent.try_emplace(ends);
    for (const auto &[ends, messages] : sent) {
      const std::vector<Message> &others = received[ends];
      std::set<Message> there(others.begin(), others.end()), here(messages.begin(), messages.end());
      for (const Message &message : messages)
        if (!there.count(message))
          return bad(fmt::format("rank {}: {} has no {} on rank {}", ends.first,
                                 text(message, true), text(message, false), ends.second));
      for (const Message &message : others)
        if (!here.count(message))
          return bad(fmt::format("rank {}: {} has no {} on rank {}", ends.second,
                                 text(message, false), text(message, true), ends.first));
      if (messages.size() != here.size() || others.size() != there.size())
        return bad(fmt::format("ranks {} to {}: a message is sent or received twice", ends.first,
                               ends.second));
      if (messages != others && warnings)
        warnings->push_back(
            fmt::format("rank {} sends to rank {} in a different order than it receives",
                        ends.first, ends.second));
    }
    return llvm::Error::success();
  }

  /// Reads one rank in order: sent values must be made before, and values from other ranks received
  /// before they are used.
  llvm::Error readTransfers(size_t rank, Lanes &sent, Lanes &received) {
    std::set<Message> made, got; // by stage of the maker; by stage of the receiver
    for (const Action &action : schedule_.ranks[rank]) {
      const bool forward = action.kind == ActionKind::Forward ||
                           action.kind == ActionKind::SendForward ||
                           action.kind == ActionKind::ReceiveForward;
      const Message own{forward, action.stage, action.microBatch};
      auto missing = [&](const std::string &what) {
        return bad(fmt::format("rank {}: {} precedes {}", rank, toString(action), what));
      };
      auto neighbour = [&](bool before) -> std::optional<size_t> {
        if (before ? action.stage == 0 : action.stage + 1 >= shape_.stages)
          return std::nullopt;
        return before ? action.stage - 1 : action.stage + 1;
      };
      switch (action.kind) {
      case ActionKind::Forward:
      case ActionKind::FullBackward:
      case ActionKind::InputGrad:
        if (std::optional<size_t> from = neighbour(forward);
            from && shape_.rankOfStage[*from] != rank && !got.count(own))
          return missing(text(own, false));
        made.insert(own);
        break;
      case ActionKind::SendForward:
      case ActionKind::SendBackward: {
        std::optional<size_t> to = neighbour(!forward);
        if (!to || action.stage >= shape_.stages)
          return bad(fmt::format("rank {}: {} goes to no stage", rank, toString(action)));
        if (!made.count(own))
          return missing("it is computed");
        sent[{rank, shape_.rankOfStage[*to]}].push_back({forward, *to, action.microBatch});
        break;
      }
      case ActionKind::ReceiveForward:
      case ActionKind::ReceiveBackward: {
        std::optional<size_t> from = neighbour(forward);
        if (!from || action.stage >= shape_.stages)
          return bad(fmt::format("rank {}: {} comes from no stage", rank, toString(action)));
        got.insert(own);
        received[{shape_.rankOfStage[*from], rank}].push_back(own);
        break;
      }
      default:
        break;
      }
    }
    return llvm::Error::success();
  }

  const Schedule &schedule_;
  TableShape shape_;
  std::vector<uint8_t> pieces_;
  bool transfers_ = false;
};

} // namespace

llvm::Expected<TableShape> checkTable(const Schedule &schedule,
                                      std::vector<std::string> *warnings) {
  return TableChecker(schedule).run(warnings);
}

llvm::Expected<TableShape> checkGivenTable(const Schedule &schedule) {
  llvm::Expected<TableShape> shape = checkTable(schedule, nullptr);
  if (shape)
    return shape;
  ErrorText text = describe(shape.takeError());
  return makeError(ExitCode::Usage, "--schedule: " + text.message, text.help);
}

} // namespace pipec
