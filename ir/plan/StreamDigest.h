// The digest of a file while somebody writes it.
#pragma once

#include "ir/plan/PieceThread.h"
#include "ir/plan/Sha256.h"
#include "ir/plan/StableBytes.h"

#include <memory>

namespace pipec {

/// sha256 of bytes that come in pieces, computed on another thread. A piece that is in `stable` is
/// not copied, and its own digest comes out of the same work.
class StreamDigest {
public:
  explicit StreamDigest(std::shared_ptr<StableBytes> stable);

  /// Waits for the other thread only where the bytes are many and not stable, or it is far behind.
  void append(llvm::StringRef bytes);
  /// In hex, when all is hashed; throws what went wrong on the other thread. Once, and nothing
  /// after it.
  std::string finish();

private:
  static void hash(Sha256 &whole, StableBytes &stable, llvm::StringRef bytes);

  std::shared_ptr<StableBytes> stable_;
  Sha256 whole_;
  PieceThread thread_;
};

} // namespace pipec
