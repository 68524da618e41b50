#include "core/collective/group/local_team.h"

#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/usable_cores.h"
#include "core/base/wait.h"
#include "core/collective/thread/local_family.h"
#include "core/collective/thread/local_group.h"
#include "core/collective/thread/local_transport.h"

namespace tutti {
namespace {

// One key of Exchange, until every worker has taken its answer.
struct Meeting {
  std::vector<std::optional<std::string>> parts;  // by worker
  size_t num_parts = 0;
  size_t num_done = 0;  // workers that brought a part and have returned
  Status error;         // of a worker that gave up, for the others
};

}  // namespace

struct LocalTeam::Job {
  std::vector<int64_t> replicas;
  int64_t reproducible = -1;  // the worker that wants it

  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::map<std::string, Meeting, std::less<>> meetings;
  std::vector<bool> left;
  Status failure;
  // One for each communicator that was created.
  struct Group {
    std::shared_ptr<LocalFamily> family;
    Ref<LocalGroup> group;
  };
  std::map<std::string, Group, std::less<>> groups;

  // The first worker that has left without bringing its part.
  std::optional<int64_t> MissingForGood(const Meeting& meeting) const {
    for (size_t worker = 0; worker < left.size(); ++worker) {
      if (left[worker] && !meeting.parts[worker]) return static_cast<int64_t>(worker);
    }
    return std::nullopt;
  }
  std::string Missing(const Meeting& meeting) const {
    std::string text;
    for (size_t worker = 0; worker < left.size(); ++worker) {
      if (meeting.parts[worker]) continue;
      if (!text.empty()) text += ", ";
      text += Format("worker {}", worker);
    }
    return text;
  }
};

std::vector<Ref<WorkerTeam>> LocalTeam::Create(std::vector<Ref<Environment>> environments,
                                               std::vector<int64_t> replicas,
                                               int64_t reproducible) {
  auto job = std::make_shared<Job>();
  job->reproducible = reproducible;
  job->replicas = std::move(replicas);
  job->left.resize(environments.size());
  std::vector<Ref<WorkerTeam>> teams;
  for (size_t worker = 0; worker < environments.size(); ++worker) {
    teams.push_back(MakeRef<LocalTeam>(std::move(environments[worker]), job,
                                       static_cast<int64_t>(worker)));
  }
  return teams;
}

LocalTeam::LocalTeam(Ref<Environment> environment, std::shared_ptr<Job> job, int64_t worker)
    : environment_(std::move(environment)), job_(std::move(job)), worker_(worker) {}

// In a forked child a lost thread may hold the mutex.
LocalTeam::~LocalTeam() {
  if (environment_->LeftBehindByFork()) return;
  std::lock_guard<std::mutex> lock(job_->mutex);
  job_->left[static_cast<size_t>(worker_)] = true;
  job_->changed.notify_all();
}

int64_t LocalTeam::num_workers() const { return static_cast<int64_t>(job_->replicas.size()); }

std::string LocalTeam::Describe(int64_t worker) const {
  return Format("worker {} (pid {})", worker, getpid());
}

int64_t LocalTeam::replicas_on_this_machine() const {
  return std::accumulate(job_->replicas.begin(), job_->replicas.end(), int64_t{0});
}

Result<std::vector<std::string>> LocalTeam::Exchange(std::string_view key, std::string bytes,
                                                     const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(environment_->CheckUsable("exchange"));
  Job& job = *job_;
  const auto own = static_cast<size_t>(worker_);
  const size_t size = job.replicas.size();
  std::unique_lock<std::mutex> lock(job.mutex);
  TUTTI_RETURN_IF_ERROR(job.failure);
  const auto entry = job.meetings.try_emplace(std::string(key)).first;
  Meeting& meeting = entry->second;
  meeting.parts.resize(size);
  if (meeting.parts[own]) {
    return FailedPrecondition("worker {}: exchange \"{}\" is called twice; use a key once", worker_,
                              key);
  }
  meeting.parts[own] = std::move(bytes);
  ++meeting.num_parts;
  job.changed.notify_all();

  // A part that comes after somebody gave up completes nothing: all get the same answer.
  const auto over = [&] {
    return meeting.num_parts == size || !meeting.error.ok() || !job.failure.ok() ||
           job.MissingForGood(meeting).has_value();
  };
  const std::string what = Format("worker {}: exchange \"{}\"", worker_, key);
  Status status = WaitUntil(lock, job.changed, environment_->clock(), call, over, what);
  std::vector<std::string> all;
  if (meeting.error.ok() && meeting.num_parts == size) {
    status = OkStatus();
    for (const std::optional<std::string>& part : meeting.parts) all.push_back(*part);
  } else if (!status.ok()) {
    const std::string missing = job.Missing(meeting);
    status = std::move(status).With("missing", missing).WithPrefix(
        Format("{} waits for {}", what, missing));
    if (meeting.error.ok()) {
      meeting.error = Cancelled("exchange \"{}\": worker {} gave up: {}", key, worker_,
                                status.message())
                          .With("worker", worker_);
      job.changed.notify_all();
    }
  } else if (!job.failure.ok()) {
    status = job.failure;
  } else if (!meeting.error.ok()) {
    status = meeting.error;
  } else {
    const int64_t gone = job.MissingForGood(meeting).value();
    status = Unavailable("{} needs worker {}, which has left", what, gone)
                 .With("rank", gone)
                 .With("worker", gone);
  }
  if (++meeting.num_done == size) job.meetings.erase(entry);
  if (!status.ok()) return status;
  return all;
}

// All workers are threads of one process: there is nothing to choose.
Result<Ref<Communicator>> LocalTeam::CreateCommunicator(
    std::string_view name, int64_t epoch, const CallOptions& call,
    std::optional<CollectiveTransport> /*transport*/) {
  const std::string key = Format("communicator {} epoch {}", name, epoch);
  TUTTI_RETURN_IF_ERROR(Exchange(key, "", call).status());
  Job::Group group;
  {
    std::lock_guard<std::mutex> lock(job_->mutex);
    TUTTI_RETURN_IF_ERROR(job_->failure);
    Job::Group& shared = job_->groups[key];
    if (!shared.group) {
      // Ranks spin when every replica can have a core, not just every rank.
      const size_t cores = UsableCores();
      const bool fits = replicas_on_this_machine() <= static_cast<int64_t>(cores);
      shared.family = std::make_shared<LocalFamily>(environment_, fits ? cores : 0, nullptr);
      shared.group = shared.family->Make(std::string(name), num_workers(), epoch);
    }
    group = shared;
  }
  return Communicator::CreateOver(
      environment_.get(), name, worker_, num_workers(), epoch,
      std::make_unique<LocalTransport>(std::move(group.group), worker_, group.family));
}

bool LocalTeam::reproducible() const { return worker_ == job_->reproducible; }

Status LocalTeam::failure() const {
  if (environment_->LeftBehindByFork()) return environment_->CheckUsable("look at the job");
  std::lock_guard<std::mutex> lock(job_->mutex);
  return job_->failure;
}

void LocalTeam::Fail(Status error) {
  if (environment_->LeftBehindByFork()) return;
  std::vector<std::shared_ptr<LocalFamily>> families;
  {
    std::lock_guard<std::mutex> lock(job_->mutex);
    if (!job_->failure.ok()) return;
    job_->failure = error;
    for (const auto& [key, group] : job_->groups) families.push_back(group.family);
    job_->changed.notify_all();
  }
  for (const std::shared_ptr<LocalFamily>& family : families) family->Fail(error);
}

}  // namespace tutti
