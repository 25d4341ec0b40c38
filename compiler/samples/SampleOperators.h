// What one operator does with the samples of its inputs.
#pragma once

#include "compiler/samples/BatchForms.h"
#include "llvm/ADT/StringSet.h"

#include <limits>

namespace pipec {

struct OperatorRole {
  enum class Kind {
    Plain,   // each row of the result comes from rows of the same sample, as far as known
    Form,    // the result depends on sizes alone
    Over,    // it reduces or scans samples, takes one of them, or makes pairs of them
    Order,   // it sorts samples, or gives the order
    Selects, // elements select the rows of the result
    Writes,  // rows are put at places of the first input
    View     // the elements stay
  };
  Kind kind = Kind::Plain;
  bool isCount = false;          // Form: a number of rows
  bool fromData = false;         // elements give the sizes of the result
  bool isMade = false;           // Form: a tensor of sizes that are given as numbers
  bool reduces = false;          // a reduction of the first input, along some dimension
  bool reducesAll = false;       // with `reduces`: all dimensions, whatever follows the samples
  bool isMean = false;           // with `reduces`: an average
  bool isAverage = false;        // a loss that averages over elements that count
  bool divides = false;          // the first input by the second
  bool cutsOff = false;          // constants choose some of the samples
  bool takesFirst = false;       // constants choose some rows of the first input, whatever they are
  bool compares = false;         // with <, <=, > or >=
  bool comparesWithMany = false; // with a constant above 1, also by == or !=
  bool limits = false;           // min, clamp
  bool takesParts = false;       // further inputs are begins, ends or lengths of parts of the first
  size_t overOutput = std::numeric_limits<size_t>::max(); // one that reduces samples
};

/// Whether it is an operator of LibTorch with one of these names, without the underscore of those
/// that write.
bool isIn(const llvm::StringSet<> &names, const torch::jit::Node *node);

bool isTensor(const torch::jit::Value *value);

OperatorRole roleOf(torch::jit::Node *node, const BatchForms &forms);

/// Whether the result is a size or a number of elements of the input.
bool givesSize(const torch::jit::Node *node);

/// Whether the result follows all numbers of a list, or the one at a constant place.
bool readsList(torch::jit::Node *node);

/// Whether the operator writes some elements of its first input, chosen by a mask or by indices.
bool writesSelected(const torch::jit::Node *node);

} // namespace pipec
