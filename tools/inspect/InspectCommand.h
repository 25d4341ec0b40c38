// The options of pipe-inspect as they were given.
#pragma once

#include "tools/cli/ToolMain.h"

namespace pipec {

struct InspectCommand {
  const StringOption &model, &html, &trace, &comms, &inputs, &method;
  const StringListOption &libraries;
  bool schedule, json, force;
};

} // namespace pipec
