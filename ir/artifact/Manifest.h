// MANIFEST: sha256sum's own format, one line per file, sorted by name.
#pragma once

#include "ir/support/Error.h"

#include <map>
#include <string>

namespace pipec {

constexpr const char *kManifestName = "MANIFEST";
constexpr uint64_t kMaxManifestBytes = uint64_t(1) << 20;

/// File name to 64 lower-case hex digits.
using Manifest = std::map<std::string, std::string>;

/// "<64 hex>  <name>\n" per file.
std::string toString(const Manifest &manifest);
/// Only what toString() prints is accepted. Errors: BadArtifact naming the line (form, order,
/// duplicate, a name that is a path).
llvm::Expected<Manifest> manifestFromText(llvm::StringRef text);

/// Whether a file of an artifact may have this name: no path, no control character, not MANIFEST
/// itself.
bool isArtifactFileName(llvm::StringRef name);

} // namespace pipec
