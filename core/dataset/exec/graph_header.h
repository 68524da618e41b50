// What a saved position begins with: which graph it is of, and in which version each op of that
// graph saves its part (OpTraits::state_version). An iterator's state has one; a stage that runs
// datasets of its own, which a function made for instance, writes one before the states of their
// stages:
//
//   writer->Bytes(header);  // GraphHeader(dataset->node()), made when the dataset is
//   ...
//   TUTTI_RETURN_IF_ERROR(CheckGraphHeader(header, reader->Bytes()));
#ifndef TUTTI_CORE_DATASET_EXEC_GRAPH_HEADER_H_
#define TUTTI_CORE_DATASET_EXEC_GRAPH_HEADER_H_

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tutti {

class Node;

// kDescribed: with a line on each of the first operations, by which a state of another dataset can
// say where that differs.
enum class HeaderText { kNone, kDescribed };
Result<std::string> GraphHeader(const Node& root, HeaderText text = HeaderText::kNone);

// INVALID_ARGUMENT when the state that began with `saved` is of another graph than `own`, or has an
// op in another version, which it names. Where both are described it says which operation differs,
// and how.
Status CheckGraphHeader(std::string_view own, std::string_view saved);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXEC_GRAPH_HEADER_H_
