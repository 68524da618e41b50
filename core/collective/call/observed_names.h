// ObservedNames: what the tensors of a thread's calls are called, in messages about what is found
// in them.
//
//   const ObservedNames names({all_names, bucket.first});  // calls below have such tensors
#ifndef TUTTI_CORE_COLLECTIVE_CALL_OBSERVED_NAMES_H_
#define TUTTI_CORE_COLLECTIVE_CALL_OBSERVED_NAMES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

// Tensor i of a call is number first + i, by the name that stands there, if one does.
struct TensorNames {
  std::shared_ptr<const std::vector<std::string>> names;  // null: calls have no such names
  size_t first = 0;
};

class ObservedNames {
 public:
  explicit ObservedNames(TensorNames names);
  ~ObservedNames();
  ObservedNames(const ObservedNames&) = delete;
  ObservedNames& operator=(const ObservedNames&) = delete;

  // Of the calling thread.
  static TensorNames Current();

 private:
  TensorNames before_;
};

// "3", or "3 (layer2.bias)".
std::string DescribeTensor(size_t index, const std::vector<std::string>& names);

// "the input" of the only tensor of a call, "the input 2" of one of several, "the input of tensor 3
// (layer2.bias)" where they have names.
std::string NameObserved(const char* what, size_t i, size_t count);

}  // namespace tutti

#endif  // TUTTI_CORE_COLLECTIVE_CALL_OBSERVED_NAMES_H_
