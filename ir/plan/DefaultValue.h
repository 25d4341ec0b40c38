// Default values of arguments as JSON: exact, and with the difference between 1 and 1.0 kept.
#pragma once

#include "ir/support/Error.h"
#include "llvm/Support/JSON.h"

#include <complex>
#include <optional>

namespace pipec {

/// How a float stands in InputSpec::defaultValue: {"float": "0x1p-1"}, or "inf", "-inf", "nan".
llvm::json::Value floatDefault(double value);
/// The float that such an object means; nullopt for anything else.
std::optional<double> floatFromDefault(const llvm::json::Value &value);

/// How a complex number stands there: {"complex": [real, imaginary]}, both as floats do.
llvm::json::Value complexDefault(std::complex<double> value);
std::optional<std::complex<double>> complexFromDefault(const llvm::json::Value &value);

/// How a device stands there: {"device": "cuda:0"}.
llvm::json::Value deviceDefault(std::string device);
/// The text of such an object; nullopt for anything else, and for what no device is called.
std::optional<llvm::StringRef> deviceFromDefault(const llvm::json::Value &value);

/// How a tuple stands there: {"tuple": [...]}. A JSON list is a list.
llvm::json::Value tupleDefault(llvm::json::Array elements);
/// The elements of such an object; nullptr for anything else.
const llvm::json::Array *tupleFromDefault(const llvm::json::Value &value);

/// null, bool, integer, string, float, complex or device object, or a list or tuple of these.
/// Errors: BadArtifact saying what it is instead.
llvm::Error checkDefault(const llvm::json::Value &value);

} // namespace pipec
