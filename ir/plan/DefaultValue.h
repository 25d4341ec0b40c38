// Default values of arguments as JSON. The form is exact and distinguishes 1 from 1.0.
#pragma once

#include "ir/support/Error.h"
#include "llvm/Support/JSON.h"

#include <complex>
#include <optional>

namespace pipec {

/// The form of a float in InputSpec::defaultValue: {"float": "0x1p-1"}, or "inf", "-inf", "nan".
llvm::json::Value floatDefault(double value);
/// The float of such an object; nullopt for anything else.
std::optional<double> floatFromDefault(const llvm::json::Value &value);

/// The form of a complex number: {"complex": [real, imaginary]}, both as in floatDefault.
llvm::json::Value complexDefault(std::complex<double> value);
std::optional<std::complex<double>> complexFromDefault(const llvm::json::Value &value);

/// The form of a device: {"device": "cuda:0"}.
llvm::json::Value deviceDefault(std::string device);
/// The text of such an object; nullopt for anything else, and for a text that names no device.
std::optional<llvm::StringRef> deviceFromDefault(const llvm::json::Value &value);

/// The form of a tuple: {"tuple": [...]}. A JSON list is a list.
llvm::json::Value tupleDefault(llvm::json::Array elements);
/// The elements of such an object; nullptr for anything else.
const llvm::json::Array *tupleFromDefault(const llvm::json::Value &value);

/// Accepts null, bool, integer, string, float, complex or device object, or a list or tuple of
/// these. Errors: BadArtifact naming what it is instead.
llvm::Error checkDefault(const llvm::json::Value &value);

} // namespace pipec
