// An artifact as one page of HTML: pictures and tables, self-contained, without scripts.
#pragma once

#include "ir/artifact/ArtifactCheck.h"
#include "tools/report/MeasuredRun.h"
#include "tools/report/PlanTiming.h"
#include "tools/report/WholeTree.h"

namespace pipec {

struct PlanPage {
  std::string name; // of the artifact, for people
  const Artifact &artifact;
  const Schedule &rows; // the artifact's
  const ArtifactCheck &check;
  const PlanTiming &timing;
  const WholeModule &modules;
  const MeasuredRun *measured = nullptr; // a trace of it; null: none
};

/// The bytes depend only on `page`.
std::string htmlPage(const PlanPage &page);

} // namespace pipec
