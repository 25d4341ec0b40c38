#include "ir/batch/discovery/WhyUncut.h"

#include "ir/batch/discovery/SamplesByNumber.h"
#include "ir/batch/discovery/SamplesInLists.h"

#include <fmt/format.h>

namespace pipec {

std::string WhyUncut::ofWay(const CutWay &way) {
  const CutTrial &trial = way.trial;
  const Values &example = trial.example.calls.front();
  if (!trial.runs())
    return ofDims(trial.candidate.dims, example);
  std::string why = besideBatch(way.signature, example);
  return why.empty() ? fmt::format("the model fails when it gets only the later samples of the "
                                   "example ({})",
                                   trial.partsRefusal)
                     : why;
}

std::string WhyUncut::ofDims(const CutDims &dims, const Values &example) {
  Signature cut = untried_;
  setCut(cut, dims);
  if (std::string why = inLists(cut, example); !why.empty())
    return why;
  std::string why = samplesByNumber(cut, example, kTrialSizes, run_);
  mayHaveTable_ = !why.empty();
  return why;
}

std::string WhyUncut::inLists(const Signature &cut, const Values &example) {
  std::string why = pipec::samplesInLists(cut, example, batchDimGiven_, run_);
  return noteLists(why.empty() && !named_ ? listsBesideBatch(cut, example, run_) : why);
}

std::string WhyUncut::besideBatch(const Signature &cut, const Values &example) {
  return noteLists(listsBesideBatch(cut, example, run_));
}

std::string WhyUncut::noteLists(std::string why) {
  samplesInLists_ = !why.empty();
  return why;
}

} // namespace pipec
