// What lower-attributes does with objects of TorchScript classes of which more is asked than their
// attributes: stored, chosen between, put into containers. Where nothing is assigned to an object
// any more once it is handed on, it cannot be told from the values of its attributes, and becomes a
// tuple of them:
//
//   %box : Box = prim::CreateObject()
//    = prim::SetAttr[name="n"](%box, %two)
//   %list : Box[] = prim::ListConstruct(%box)       %tuple : (int) = prim::TupleConstruct(%two)
//   %last : Box = aten::__getitem__(%list, %at) =>  %list : (int)[] = prim::ListConstruct(%tuple)
//   %n : int = prim::GetAttr[name="n"](%last)       %last : (int) = aten::__getitem__(%list, %at)
//                                                   %n : int = prim::TupleIndex(%last, %zero)
//
// Where something is assigned to an object that others know, under another name or in a container,
// its attributes stand in cells, lists of one element: a tuple of these is shared as the object
// was.
//
//   %n : int = prim::GetAttr[name="n"](%box)    =>  %cell : int[] = prim::TupleIndex(%box, %zero)
//                                                   %n : int = aten::__getitem__(%cell, %zero)
//    = prim::SetAttr[name="n"](%box, %one)      =>   = aten::clear(%cell)
//                                                   %same : int[] = aten::append(%cell, %one)
//
// A class is one of tuples as a whole, in every type that names it, or stays as it is.
#pragma once

#include "ir/support/Error.h"

#include <set>
#include <string>

namespace torch::jit {
struct Graph;
}

namespace pipec {

class TupleClasses;

/// Of one run of lower-attributes. Calls must be inlined. objectPaths: attributes of the model that
/// are objects, which are their attributes ("a.b"). Errors: those of lowerLocalObjects.
llvm::Error lowerObjectValues(torch::jit::Graph &graph, const std::set<std::string> &objectPaths,
                              TupleClasses &classes);

} // namespace pipec
