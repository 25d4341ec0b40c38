// Tables and quantities for people. Every report uses them.
#pragma once

#include "ir/support/Quantities.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace pipec {

/// Columns aligned with two spaces between them; the heading is underlined by colour on a terminal
/// only (NO_COLOR is honoured).
///
///   Table table({{"stage"}, {"modules"}, {"bytes", Table::Right}});
///   table.addRow({"0", "encoder .. encoder.4", "1.2 MiB"});
///   table.print(toStdout());
class Table {
public:
  enum Align { Left, Right };
  struct Column {
    std::string title;
    Align align = Left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Missing cells are empty.
  void addRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  const std::vector<Column> &columns() const { return columns_; }
  const std::vector<std::vector<std::string>> &rows() const { return rows_; }
  void print(llvm::raw_ostream &out) const;

private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A heading above a table: bold on a terminal.
void printHeading(llvm::raw_ostream &out, llvm::StringRef heading);

/// Whether colour may be used on `out`: a terminal, NO_COLOR not set.
bool usesColour(llvm::raw_ostream &out);

/// Times in JSON documents.
inline double inMilliseconds(double nanoseconds) { return nanoseconds / 1e6; }

} // namespace pipec
