// llvm::StringSwitch with the one form of Cases that LLVM keeps.
#pragma once

#include "llvm/ADT/StringSwitch.h"

#include <initializer_list>

namespace pipec {

/// Cases takes a list, as LLVM's own does from 22 on. LLVM 14 to 21 have it with two to ten names
/// instead, which 22 calls deprecated.
template <typename T> class StringSwitch {
public:
  explicit StringSwitch(llvm::StringRef text) : switch_(text) {}

  StringSwitch &Case(llvm::StringLiteral name, T value) {
    switch_.Case(name, std::move(value));
    return *this;
  }
  StringSwitch &Cases(std::initializer_list<llvm::StringLiteral> names, T value) {
    for (const llvm::StringLiteral &name : names)
      switch_.Case(name, value);
    return *this;
  }
  T Default(T value) { return switch_.Default(std::move(value)); }

private:
  llvm::StringSwitch<T> switch_;
};

} // namespace pipec
