// The names of C's functions as a user of the package knows them, for messages.
#ifndef TUTTI_BINDINGS_SWIG_PYTHON_PUBLIC_NAMES_H_
#define TUTTI_BINDINGS_SWIG_PYTHON_PUBLIC_NAMES_H_

#include <algorithm>
#include <string>
#include <string_view>

namespace tutti_python {

// "Communicator.all_reduce" for communicator_all_reduce, with tutti_ in front or without.
inline std::string PublicName(std::string_view name) {
  static constexpr struct {
    std::string_view prefix;
    std::string_view owner;
  } kOwners[] = {
      {"bucket_plan_", "BucketPlan"},
      {"checkpoint_manager_", "CheckpointManager"},
      {"checkpoint_", "Checkpoint"},
      {"cluster_resolver_", "ClusterResolver"},
      {"cluster_spec_", "ClusterSpec"},
      {"cluster_", "Cluster"},
      {"communicator_", "Communicator"},
      {"context_", "ReplicaContext"},
      {"data_options_", "Options"},
      {"dataset_", "Dataset"},
      {"device_spec_", "DeviceSpec"},
      {"distributed_dataset_", "DistributedDataset"},
      {"distributed_iterator_", "DistributedIterator"},
      {"event_", "Event"},
      {"expression_", "Expression"},
      {"function_", "Function"},
      {"future_", "Future"},
      {"iterator_", "Iterator"},
      {"record_writer_", "TFRecordWriter"},
      {"runtime_", "Runtime"},
      {"stats_aggregator_", "StatsAggregator"},
      {"strategy_", "Strategy"},
      {"stream_", "Stream"},
      {"tensor_", "Tensor"},
      {"tf_record_writer_", "TFRecordWriter"},
      {"variable_", "Variable"},
  };
  constexpr std::string_view kLibrary = "tutti_";
  if (name.substr(0, kLibrary.size()) == kLibrary) name.remove_prefix(kLibrary.size());
  for (const auto &[prefix, owner] : kOwners) {
    if (name.substr(0, prefix.size()) != prefix) continue;
    std::string_view rest = name.substr(prefix.size());
    if (rest == "create") return std::string(owner);
    for (const std::string_view verb : {"create_", "get_", "read_"}) {
      if (rest.substr(0, verb.size()) == verb) rest.remove_prefix(verb.size());
    }
    return std::string(owner) + "." + std::string(rest);
  }
  return std::string(name);
}

// A message of the library, in which C's functions go by their public names.
inline std::string PublicText(std::string_view text) {
  constexpr std::string_view kLibrary = "tutti_";
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  std::string made;
  while (!text.empty()) {
    size_t at = text.find(kLibrary);
    const bool begins = at != std::string_view::npos &&
                        (at == 0 || kLetters.find(text[at - 1]) == std::string_view::npos);
    if (at == std::string_view::npos) {
      made += text;
      break;
    }
    made += text.substr(0, at);
    text.remove_prefix(at);
    const size_t end = std::min(text.find_first_not_of(kLetters), text.size());
    // A path or a name of the user's may have these letters, too.
    const bool whole = begins && (end == text.size() || (text[end] != '/' && text[end] != '.'));
    made += whole ? PublicName(text.substr(0, end)) : std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return made;
}

}  // namespace tutti_python

#endif  // TUTTI_BINDINGS_SWIG_PYTHON_PUBLIC_NAMES_H_
