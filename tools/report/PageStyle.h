// The look of HTML pages: on light and dark screens, and on paper.
#pragma once

namespace pipec {

/// A style sheet without references to anything outside the page.
const char *pageStyle();

} // namespace pipec
