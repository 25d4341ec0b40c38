// How pages of HTML look: on light and dark screens, and on paper.
#pragma once

namespace pipec {

/// A style sheet. It asks for nothing from outside the page.
const char *pageStyle();

} // namespace pipec
