// The part of lower-attributes for objects of TorchScript classes that are more than the sum of
// their attributes: they are stored, chosen between, or put into containers. If no code assigns to
// an object once it has been passed on, the object cannot be distinguished from the values of its
// attributes, and becomes a tuple of them:
//
//   %box : Box = prim::CreateObject()
//    = prim::SetAttr[name="n"](%box, %two)
//   %list : Box[] = prim::ListConstruct(%box)       %tuple : (int) = prim::TupleConstruct(%two)
//   %last : Box = aten::__getitem__(%list, %at) =>  %list : (int)[] = prim::ListConstruct(%tuple)
//   %n : int = prim::GetAttr[name="n"](%last)       %last : (int) = aten::__getitem__(%list, %at)
//                                                   %n : int = prim::TupleIndex(%last, %zero)
//
// If code assigns to an object that is visible under another name or in a container, its attributes
// become cells, lists of one element. A tuple of cells is shared as the object was.
//
//   %n : int = prim::GetAttr[name="n"](%box)    =>  %cell : int[] = prim::TupleIndex(%box, %zero)
//                                                   %n : int = aten::__getitem__(%cell, %zero)
//    = prim::SetAttr[name="n"](%box, %one)      =>   = aten::clear(%cell)
//                                                   %same : int[] = aten::append(%cell, %one)
//
// A class becomes tuples as a whole, in every type that names it, or stays as it is.
#pragma once

#include "ir/support/Error.h"

#include <set>
#include <string>

namespace torch::jit {
struct Graph;
}

namespace pipec {

class TupleClasses;

/// For one run of lower-attributes. Calls must be inlined. `objectPaths` has the attributes of the
/// model that are objects and are represented by their attributes ("a.b"). Errors: those of
/// lowerLocalObjects.
llvm::Error lowerObjectValues(torch::jit::Graph &graph, const std::set<std::string> &objectPaths,
                              TupleClasses &classes);

} // namespace pipec
