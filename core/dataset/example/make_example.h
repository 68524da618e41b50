// Makes serialised tf.train.Example messages, which parse_example reads, and every other program
// that knows the format (example_parser.h has the messages).
#ifndef TUTTI_CORE_DATASET_EXAMPLE_MAKE_EXAMPLE_H_
#define TUTTI_CORE_DATASET_EXAMPLE_MAKE_EXAMPLE_H_

#include <string>

#include "core/base/status.h"
#include "core/tensor/value.h"

namespace tutti {

// `features`, a dict or a named tuple, has a tensor or a text for each key. Integers and booleans
// become an int64_list, floats a float_list (of float32), byte strings and texts a bytes_list, each
// of the elements in row-major order: shapes are the reader's to know. Features come in the order
// of their keys' bytes, so that equal features give equal bytes. INVALID_ARGUMENT naming the key
// for complex numbers, integers beyond int64, and anything else.
Result<std::string> MakeExample(const Value& features);

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_EXAMPLE_MAKE_EXAMPLE_H_
