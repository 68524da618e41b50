// `tutti doctor`, the cluster: TF_CONFIG as the library reads it, and whether this machine can be
// the task that it says.

#include <fmt/format.h>
#include <sys/socket.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "capi/tool/c_handles.h"
#include "capi/tool/doctor_checks.h"
#include "capi/tool/network_addresses.h"
#include "capi/tool/owned_fd.h"

namespace tutti::tool {
namespace {

struct Cluster {
  CClusterSpec spec;
  std::string task_type;  // empty: not said
  tutti_optional_int64 task_id = {0, 0};
};

CStatus ReadTfConfig(Cluster* cluster) {
  CClusterResolver resolver;
  CStatus status(tutti_cluster_resolver_create_tf_config(nullptr, Out(&resolver)));
  if (status) return status;
  status.reset(tutti_cluster_resolver_read_cluster_spec(resolver.get(), Out(&cluster->spec)));
  if (status) return status;
  CBytes type;
  status.reset(tutti_cluster_resolver_read_task_type(resolver.get(), Out(&type)));
  if (status) return status;
  if (type) cluster->task_type = TextOf(type);
  status.reset(tutti_cluster_resolver_read_task_id(resolver.get(), &cluster->task_id));
  return status;
}

std::vector<std::string> AddressesOf(const tutti_cluster_spec* spec) {
  std::vector<std::string> addresses;
  for (size_t job = 0; job < tutti_cluster_spec_get_job_count(spec); ++job) {
    const char* name = tutti_cluster_spec_get_job(spec, job);
    for (size_t i = 0; i < tutti_cluster_spec_get_task_count(spec, name); ++i) {
      const int64_t index = tutti_cluster_spec_get_task_index(spec, name, i);
      const char* address = tutti_cluster_spec_get_task_address(spec, name, index);
      if (address != nullptr) addresses.emplace_back(address);
    }
  }
  return addresses;
}

bool IsLoopbackText(const std::string& address) {
  return address.rfind("127.", 0) == 0 || address.rfind("localhost:", 0) == 0 ||
         address.rfind("[::1]:", 0) == 0;
}

// Whether a server of this process could listen at `address`; 0 or errno.
int TryToListen(const SocketAddress& address) {
  const OwnedFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd.valid()) return errno;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), address.generic(), address.size) != 0) return errno;
  return listen(fd.get(), 1) == 0 ? 0 : errno;
}

void CheckOwnAddress(const std::string& address, DoctorReport* report) {
  std::string error;
  const std::vector<SocketAddress> found = Resolve(address, &error);
  if (found.empty()) {
    report->AddProblem(fmt::format("this task's address: {}", error),
                       "correct it in TF_CONFIG, or make the host known (/etc/hosts, DNS)");
    return;
  }
  const int listening = TryToListen(found[0]);
  if (listening == EADDRINUSE) {
    report->AddProblem(fmt::format("the port of this task's address {} is in use", address),
                       "see who has it (ss -ltnp); another port must change on all workers");
  } else if (listening == EADDRNOTAVAIL) {
    report->AddProblem(fmt::format("this task's address {} ({}) is none of this machine's", address,
                                   found[0].Host()),
                       "compare it with the interfaces above; is this the machine that task runs "
                       "on?");
  } else if (listening != 0) {
    report->AddProblem(fmt::format("nobody can listen at this task's address {}: {}", address,
                                   std::strerror(listening)),
                       "choose an address of this machine and a port above 1023");
  }
}

void CheckSpec(const Cluster& cluster, DoctorReport* report) {
  const std::vector<std::string> addresses = AddressesOf(cluster.spec.get());
  const size_t num_loopback =
      static_cast<size_t>(std::count_if(addresses.begin(), addresses.end(), IsLoopbackText));
  if (num_loopback > 0 && num_loopback < addresses.size()) {
    report->AddProblem("some addresses of TF_CONFIG are loopback ones and some are not: another "
                       "machine cannot reach 127.0.0.1 here",
                       "give each task the address that the others reach its machine at");
  }
  if (num_loopback < addresses.size() && getenv("TUTTI_JOB_SECRET") == nullptr &&
      getenv("TUTTI_JOB_SECRET_FILE") == nullptr) {
    report->AddProblem("the cluster spans machines, and there is no job secret",
                       "put one secret into a file on all of them (head -c32 /dev/urandom | xxd -p "
                       "-c64; chmod 600) and name it in TUTTI_JOB_SECRET_FILE");
  }
  const char* own = cluster.task_id.present == 0
                        ? nullptr
                        : tutti_cluster_spec_get_task_address(
                              cluster.spec.get(), cluster.task_type.c_str(), cluster.task_id.value);
  if (!addresses.empty() && own == nullptr) {
    report->AddFatalProblem(
        fmt::format("TF_CONFIG says that this is {}, which its cluster does not have",
                    cluster.task_id.present != 0
                        ? fmt::format("{} {}", cluster.task_type, cluster.task_id.value)
                        : std::string("no task")),
        "correct \"task\" in TF_CONFIG");
  } else if (own != nullptr) {
    CheckOwnAddress(own, report);
  }
}

}  // namespace

void CheckTfConfig(DoctorReport* report) {
  const char* variable = getenv("TF_CONFIG");
  if (variable == nullptr || *variable == '\0') {
    report->Add("TF_CONFIG", Json(), {"not set: a multi-worker strategy is alone"});
    return;
  }
  Cluster cluster;
  if (const CStatus status = ReadTfConfig(&cluster)) {
    const char* message = tutti_status_get_message(status.get());
    report->Add("TF_CONFIG", {{"error", message}}, {"is wrong"});
    report->AddFatalProblem(
        message, "TF_CONFIG looks like {\"cluster\": {\"worker\": [\"10.0.0.1:2222\", "
                 "\"10.0.0.2:2222\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}");
    return;
  }
  CBytes json;
  const CStatus status(tutti_cluster_spec_to_json(cluster.spec.get(), Out(&json)));
  const std::string spec = status ? "" : TextOf(json);
  Json facts = {{"cluster", Json::parse(spec, nullptr, false)}, {"task", nullptr}};
  std::string task = "no task";
  if (cluster.task_id.present != 0) {
    facts["task"] = {{"type", cluster.task_type}, {"index", cluster.task_id.value}};
    task = fmt::format("{} {}", cluster.task_type, cluster.task_id.value);
  }
  report->Add("TF_CONFIG", std::move(facts), {fmt::format("this is {} of {}", task, spec)});
  CheckSpec(cluster, report);
}

}  // namespace tutti::tool
