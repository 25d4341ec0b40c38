// Why no input of a model is cut although it runs: samples are entries of a list, numbers refer to
// samples, or parts of the batch cannot run alone.
#pragma once

#include "ir/batch/ModelRunner.h"
#include "ir/batch/discovery/CutWay.h"

#include <string>
#include <vector>

namespace pipec {

/// Every function returns the reason in words; empty: there is none. They run the model. The
/// signature, the flags and the runner must outlive it.
class WhyUncut {
public:
  /// `untried`: no dimension but those given has been chosen. `named`: the user gave one.
  WhyUncut(const Signature &untried, const std::vector<bool> &batchDimGiven, bool named,
           ModelRunner run)
      : untried_(untried), batchDimGiven_(batchDimGiven), named_(named), run_(run) {}

  /// Of a way to cut whose parts do not run alone.
  std::string ofWay(const CutWay &way);

  /// Of dimensions that do not count the samples of the example, which runs.
  std::string ofDims(const CutDims &dims, const Values &example);

  /// Of samples that are entries of a list among the arguments. If the user named no dimension, a
  /// list with an entry per sample beside the batch is one, too.
  std::string inLists(const Signature &cut, const Values &example);

  /// Of a list with an entry per sample beside the batch.
  std::string besideBatch(const Signature &cut, const Values &example);

  /// Whether the reason asked for last is a list, whose samples have no dimension to name.
  bool samplesInLists() const { return samplesInLists_; }

  /// Whether numbers refer to samples, by the last reason that looked for them. They may also be
  /// rows of a table that is given whole.
  bool mayHaveTable() const { return mayHaveTable_; }

private:
  std::string noteLists(std::string why);

  const Signature &untried_;
  const std::vector<bool> &batchDimGiven_;
  const bool named_;
  ModelRunner run_;
  bool samplesInLists_ = false;
  bool mayHaveTable_ = false;
};

} // namespace pipec
