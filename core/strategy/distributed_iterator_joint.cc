// Positions of distributed iterators: a worker's own, and the joint one of all workers.
//
//   distributed_iterator   version, checksum, and of one worker: policy, workers, worker, replicas,
//                          and what the step maker saves
//   dealt_iterator         the same of a worker whose sources are parts of others'
//   joint_iterator         version, checksum, and: how batches are cut, then of each worker one of
//                          the two above
//
// Who restores a joint position of as many workers and replicas goes to its own part of it, by
// itself. Otherwise all workers do it together: each makes its iterators, and when all have them
// all go there.

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/crc32c.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/strategy/distributed_iterator.h"

namespace tutti {

namespace {

constexpr int64_t kOwnVersion = 3;
constexpr int64_t kDealtVersion = 1;
constexpr int64_t kJointVersion = 1;
constexpr const char* kOwnKind = "distributed_iterator";
constexpr const char* kDealtKind = "dealt_iterator";
constexpr const char* kJointKind = "joint_iterator";
constexpr TeamLabel kSavingJoint{"saving a joint position"};
constexpr TeamLabel kRestoringJoint{"restoring a joint position"};

std::string SealPosition(const char* kind, int64_t version, std::string_view position) {
  StateWriter state;
  state.Section(kind);
  state.Int(version);
  state.Int(Crc32c(position.data(), position.size()));
  state.Bytes(position);
  return std::move(state).TakeBytes();
}

bool IsPosition(const char* kind, std::string_view state) {
  StateReader reader(state);
  reader.Section(kind);
  return reader.ok();
}

Result<std::string_view> OpenPosition(const char* kind, int64_t version, std::string_view state) {
  StateReader envelope(state);
  envelope.Section(kind);
  envelope.Version("the position of a distributed iterator", version);
  const int64_t checksum = envelope.IntIn(0, UINT32_MAX);
  const std::string_view position = envelope.Bytes();
  if (envelope.ok() &&
      (!envelope.at_end() || checksum != Crc32c(position.data(), position.size()))) {
    envelope.Fail("the checksum does not fit");
  }
  TUTTI_RETURN_IF_ERROR(envelope.status());
  return position;
}

bool ReadsEverything(int64_t policy) {
  const auto how = static_cast<AutoShardPolicy>(policy);
  return how == AutoShardPolicy::kData || how == AutoShardPolicy::kOff;
}

}  // namespace

// ---- Saving. ----

Result<std::string> DistributedIterator::Save(const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "save"));
  return SaveOwn(call);
}

Result<std::string> DistributedIterator::SaveOwn(const CallOptions& call) {
  StateWriter position;
  TUTTI_RETURN_IF_ERROR(SaveInto(&position, call));
  return maker_.is_dealt() ? SealPosition(kDealtKind, kDealtVersion, position.bytes())
                           : SealPosition(kOwnKind, kOwnVersion, position.bytes());
}

Status DistributedIterator::SaveInto(StateWriter* writer, const CallOptions& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitForThread(lock, call, "save: waiting for the steps being made"));
  lock.unlock();
  // Nobody makes steps or takes any now: the caller is inside, and the thread has nothing to do.
  TUTTI_RETURN_IF_ERROR(CheckWhole());
  std::vector<const LocalStep*> not_taken;
  for (const Step& step : ready_) not_taken.push_back(&step.local);
  writer->Int(static_cast<int64_t>(dataset_->shard_policy()));
  writer->Int(dataset_->strategy()->num_workers());
  writer->Int(dataset_->strategy()->worker());
  writer->Int(static_cast<int64_t>(dataset_->strategy()->num_local_replicas()));
  return maker_.Save(not_taken, writer, call);
}

// The others wait for this worker's part, also where it has none.
Result<std::string> DistributedIterator::JoinStates(const Result<std::string>& own,
                                                    const CallOptions& call) {
  StateWriter mine;
  mine.Int(steps_given_);
  mine.Bytes(own.ok() ? *own : std::string());
  std::vector<std::string> all{mine.bytes()};
  if (team_) {
    Result<std::vector<std::string>> exchanged =
        team_->Exchange(kSavingJoint, own.status(), mine.bytes(), call);
    TUTTI_RETURN_IF_ERROR(own.status());
    TUTTI_ASSIGN_OR_RETURN(all, std::move(exchanged));
  }
  TUTTI_RETURN_IF_ERROR(own.status());
  StateWriter joint;
  joint.Int(static_cast<int64_t>(maker_.plan().cut));
  joint.Int(static_cast<int64_t>(all.size()));
  for (size_t w = 0; w < all.size(); ++w) {
    StateReader theirs(all[w]);
    const int64_t steps = theirs.Int();
    joint.Bytes(theirs.Bytes());
    TUTTI_RETURN_IF_ERROR(theirs.status());
    if (steps == steps_given_) continue;
    return FailedPrecondition(
        "a joint position: worker {} has taken {} steps and this worker {}; all workers save "
        "behind the same step",
        w, steps, steps_given_);
  }
  return SealPosition(kJointKind, kJointVersion, joint.bytes());
}

Result<std::string> DistributedIterator::SaveJoint(const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "save"));
  const Status elastic = dataset_->CheckElastic();
  return JoinStates(elastic.ok() ? SaveOwn(call) : Result<std::string>(elastic), call);
}

Result<std::string> DistributedIterator::SaveForCheckpoint(const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "save"));
  Result<std::string> own = SaveOwn(call);
  const Status elastic = dataset_->CheckElastic();
  Result<std::string> joint = JoinStates(
      own.ok() && !elastic.ok() ? Result<std::string>(elastic) : own, call);
  TUTTI_RETURN_IF_ERROR(own.status());
  if (joint.ok()) return dataset_->strategy()->worker() == 0 ? std::move(joint) : std::move(own);
  if (!std::exchange(told_not_joint_, true)) {
    environment().log().Warning(Format(
        "a checkpoint of a distributed iterator is for as many workers as it is saved by: {}",
        joint.status().message()));
  }
  return own;
}

// ---- Restoring. ----

Status DistributedIterator::Restore(std::string_view state, const CallOptions& call) {
  Turn turn(*this);
  TUTTI_RETURN_IF_ERROR(turn.Enter(call, "restore"));
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitForThread(lock, call, "restore: waiting for the steps being made"));
  lock.unlock();
  return RestoreFrom(state, call);
}

Status DistributedIterator::RestoreFrom(std::string_view state, const CallOptions& call) {
  if (IsPosition(kJointKind, state)) return RestoreJoint(state, call);
  TUTTI_ASSIGN_OR_RETURN(SavedPosition position, ReadPosition(state));
  return RestoreOwn(std::move(position), call);
}

Result<DistributedIterator::SavedPosition> DistributedIterator::ReadPosition(
    std::string_view state) const {
  const bool is_dealt = IsPosition(kDealtKind, state);
  TUTTI_ASSIGN_OR_RETURN(const std::string_view content,
                         OpenPosition(is_dealt ? kDealtKind : kOwnKind,
                                      is_dealt ? kDealtVersion : kOwnVersion, state));
  StateReader reader(content);
  SavedPosition position;
  position.policy = reader.Int();
  position.num_workers = reader.IntIn(1, INT64_MAX);
  position.worker = reader.IntIn(0, position.num_workers - 1);
  position.num_replicas = reader.IntIn(1, INT64_MAX);
  TUTTI_RETURN_IF_ERROR(reader.status());
  TUTTI_ASSIGN_OR_RETURN(
      position.maker, ReadMakerState(&reader, dataset_->element_spec().tree_ref(), is_dealt));
  return position;
}

Status DistributedIterator::RestoreOwn(SavedPosition position, const CallOptions& call) {
  const Strategy& strategy = *dataset_->strategy();
  const bool same_cut =
      position.num_workers == strategy.num_workers() &&
      position.num_replicas == static_cast<int64_t>(strategy.num_local_replicas());
  if (position.maker.is_dealt) {
    if (!same_cut || position.worker != strategy.worker()) {
      return InvalidArgument(
          "restore: the position was saved by worker {} of {} with {} replicas each, this is "
          "worker {} of {} with {}; restore a joint position, which the workers save together",
          position.worker, position.num_workers, position.num_replicas, strategy.worker(),
          strategy.num_workers(), strategy.num_local_replicas());
    }
    if (position.maker.position.block >= static_cast<int64_t>(maker_.plan().num_blocks)) {
      return InvalidArgument(
          "restore: the position lies in block {} of a batch, of which there are {}",
          position.maker.position.block, maker_.plan().num_blocks);
    }
    Prepared prepared;
    TUTTI_ASSIGN_OR_RETURN(StepSource source,
                           OpenParts(std::move(position.maker.parts), position.maker.states,
                                     position.maker.turn, call));
    prepared.sources.push_back(std::move(source));
    prepared.items = std::move(position.maker.items);
    prepared.position = position.maker.position;
    return GoTo(std::move(prepared), call);
  }
  TUTTI_RETURN_IF_ERROR(CheckWorkers(position.policy, position.num_workers, position.worker));
  if (dataset_->shared_part()) {
    return InvalidArgument(
        "restore: the position was saved by a worker that read its data alone, and this one shares "
        "its files with others (share_files); restore a joint position, which the workers save "
        "together");
  }
  if (maker_.is_dealt()) {
    // Back to what is this worker's own.
    Prepared prepared;
    for (const Ref<const Dataset>& dataset : dataset_->sources()) {
      TUTTI_ASSIGN_OR_RETURN(Ref<Iterator> iterator, OpenPart(dataset, {}, call));
      prepared.sources.emplace_back(std::move(iterator));
    }
    StepMaker there(maker_.plan(), std::move(prepared.sources));
    const Status restored = there.Restore(std::move(position.maker), same_cut, call);
    if (!restored.ok()) {
      (void)there.CloseSources(call);
      return restored;
    }
    prepared.sources = there.Take(&prepared.items, &prepared.position);
    return GoTo(std::move(prepared), call);
  }
  TUTTI_RETURN_IF_ERROR(maker_.Restore(std::move(position.maker), same_cut, call));
  ForgetSteps();
  return OkStatus();
}

void DistributedIterator::ForgetSteps() {
  ended_ = making_ = false;
  exception_ = OkStatus();
  steps_given_ = 0;
  std::lock_guard<std::mutex> lock(mutex_);
  ready_.clear();
  begun_ = wanted_ = false;
  consumer_ = {};
}

Status DistributedIterator::CheckWorkers(int64_t policy, int64_t num_workers,
                                         int64_t worker) const {
  const Strategy& strategy = *dataset_->strategy();
  if (num_workers == strategy.num_workers() && worker == strategy.worker()) return OkStatus();
  const bool cuts = dataset_->plan().cut != StepPlan::Cut::kNone;
  if (cuts && ReadsEverything(policy) &&
      ReadsEverything(static_cast<int64_t>(dataset_->shard_policy()))) {
    return OkStatus();
  }
  return InvalidArgument(
      "restore: the position was saved by worker {} of {}, this is worker {} of {}, and each reads "
      "data of its own, of which the others have no position; restore a joint position, which the "
      "workers save together, or restore with as many workers, each its own state, or choose the "
      "auto-shard policy DATA",
      worker, num_workers, strategy.worker(), strategy.num_workers());
}

Result<Ref<Iterator>> DistributedIterator::OpenPart(const Ref<const Dataset>& dataset,
                                                    std::string_view state,
                                                    const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Iterator> iterator, Iterator::Create(dataset, {}, call));
  bool closing = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing = stopping_;
    if (!closing) opening_.push_back(iterator);
  }
  Status status = closing ? FailedPrecondition("restore: the iterator was closed meanwhile")
                          : OkStatus();
  if (status.ok() && !state.empty()) status = iterator->Restore(state, call);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(opening_, iterator);
  }
  if (status.ok()) return iterator;
  (void)iterator->Close(call);
  return status;
}

Result<StepSource> DistributedIterator::OpenParts(std::vector<SourcePart> parts,
                                                  const std::vector<std::string_view>& states,
                                                  size_t turn, const CallOptions& call) {
  Status status;
  for (size_t i = 0; i < parts.size() && status.ok(); ++i) {
    const Result<Ref<const Dataset>> dataset = dataset_->PartOf(parts[i].origin, call);
    status = dataset.status();
    if (!status.ok()) break;
    Result<Ref<Iterator>> iterator = OpenPart(*dataset, states[i], call);
    status = iterator.status();
    if (status.ok()) parts[i].iterator = std::move(iterator).value();
  }
  if (status.ok()) return StepSource(std::move(parts), turn);
  for (const SourcePart& part : parts) {
    if (part.iterator) (void)part.iterator->Close(call);
  }
  return status;
}

Status DistributedIterator::GoTo(Prepared prepared, const CallOptions& call) {
  std::vector<StepSource> left;
  bool closing = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing = stopping_;
    left = closing ? std::move(prepared.sources)
                   : maker_.Replace(std::move(prepared.sources), std::move(prepared.items),
                                    prepared.position);
  }
  if (!closing) ForgetSteps();
  // What does not end in time is left to the reaper.
  for (const StepSource& source : left) (void)source.Close(call);
  if (closing) return FailedPrecondition("restore: the iterator was closed meanwhile");
  return OkStatus();
}

// ---- Joint positions. ----

Status DistributedIterator::RestoreJoint(std::string_view state, const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(const std::string_view content,
                         OpenPosition(kJointKind, kJointVersion, state));
  StateReader reader(content);
  const int64_t cut = reader.Int();
  const int64_t num_workers = reader.IntIn(1, INT64_MAX);
  std::vector<SavedPosition> saved;
  for (int64_t w = 0; w < num_workers && reader.ok(); ++w) {
    const std::string_view one = reader.Bytes();
    if (!reader.ok()) break;
    TUTTI_ASSIGN_OR_RETURN(SavedPosition position, ReadPosition(one));
    if (position.num_workers != num_workers || position.worker != w ||
        position.num_replicas != (w == 0 ? position : saved[0]).num_replicas ||
        position.policy != (w == 0 ? position : saved[0]).policy ||
        position.maker.is_dealt != (w == 0 ? position : saved[0]).maker.is_dealt) {
      reader.Fail("its parts are not those of the workers of one job");
    }
    saved.push_back(std::move(position));
  }
  if (reader.ok() && !reader.at_end()) reader.Fail("there are bytes behind the end");
  TUTTI_RETURN_IF_ERROR(reader.status());
  if (cut != static_cast<int64_t>(maker_.plan().cut)) {
    return InvalidArgument(
        "restore: the joint position is of a dataset that is divided in another way: cut by {}, "
        "and this one by {}; distribute it as it was, with the same option rebatch",
        cut, static_cast<int64_t>(maker_.plan().cut));
  }
  const Strategy& strategy = *dataset_->strategy();
  if (num_workers == strategy.num_workers() &&
      saved[0].num_replicas == static_cast<int64_t>(strategy.num_local_replicas())) {
    return RestoreOwn(std::move(saved[static_cast<size_t>(strategy.worker())]), call);
  }
  const bool shares = !saved[0].maker.is_dealt && ReadsEverything(saved[0].policy) &&
                      ReadsEverything(static_cast<int64_t>(dataset_->shard_policy())) &&
                      maker_.plan().cut != StepPlan::Cut::kNone;
  Result<Prepared> prepared = Prepared();
  if (!shares) prepared = Deal(std::move(saved), call);
  if (team_) {
    // All go there, or none.
    const int64_t checksum = Crc32c(state.data(), state.size());
    const Result<std::vector<std::string>> others = team_->Exchange(
        kRestoringJoint, prepared.status(), Format("{}", checksum), call);
    Status status = prepared.ok() ? others.status() : prepared.status();
    for (size_t w = 0; status.ok() && w < others->size(); ++w) {
      if ((*others)[w] == Format("{}", checksum)) continue;
      status = InvalidArgument(
          "restore: worker {} restores another joint position than this one; all workers restore "
          "the same",
          w);
    }
    if (!status.ok()) {
      if (prepared.ok()) {
        for (const StepSource& source : prepared->sources) (void)source.Close(call);
      }
      return status;
    }
  }
  // Data that every worker reads: all stand at the same place.
  if (shares) return RestoreOwn(std::move(saved[0]), call);
  TUTTI_RETURN_IF_ERROR(prepared.status());
  return GoTo(std::move(prepared).value(), call);
}

Result<DistributedIterator::Prepared> DistributedIterator::Deal(std::vector<SavedPosition> saved,
                                                                const CallOptions& call) {
  const Strategy& strategy = *dataset_->strategy();
  const auto own_policy = static_cast<int64_t>(dataset_->shard_policy());
  if (maker_.plan().shares_batches() ||
      (strategy.num_workers() > 1 && saved.size() > 1 && saved[0].policy != own_policy)) {
    return InvalidArgument(
        "restore: the joint position is of {} workers with the auto-shard policy {}, and this "
        "dataset has {}; distribute it with the policy that it had",
        saved.size(), saved[0].policy, own_policy);
  }
  if (maker_.sources().size() != 1) {
    return InvalidArgument(
        "restore: the joint position has an input pipeline for each worker, and this iterator has "
        "{} of one replica each (PER_REPLICA); use PER_WORKER",
        maker_.sources().size());
  }
  StepPlan plan = maker_.plan();
  plan.num_replicas = static_cast<size_t>(saved[0].num_replicas);
  plan.num_slices = plan.num_replicas * saved.size();
  plan.num_blocks = saved.size();
  std::vector<SourcePart> parts;
  std::vector<std::string_view> states;
  std::deque<LocalStep::Item> items;
  for (SavedPosition& position : saved) {
    MakerState& maker = position.maker;
    if (maker.position.block >= static_cast<int64_t>(plan.num_blocks)) {
      return InvalidArgument(
          "restore: the position lies in block {} of a batch, of which there are {}",
          maker.position.block, plan.num_blocks);
    }
    TUTTI_ASSIGN_OR_RETURN(std::deque<LocalStep::Item> rest,
                           ItemsBehind(std::move(maker.items), maker.position, plan));
    std::move(rest.begin(), rest.end(), std::back_inserter(items));
    if (!maker.is_dealt) {
      maker.parts.clear();
      SourcePart part;
      part.origin = {static_cast<AutoShardPolicy>(position.policy), position.num_workers,
                     position.worker, position.num_replicas};
      maker.parts.push_back(std::move(part));
    }
    for (size_t i = 0; i < maker.parts.size(); ++i) {
      if (maker.parts[i].ended) continue;
      parts.push_back(std::move(maker.parts[i]));
      states.push_back(maker.states[i]);
    }
  }

  const auto workers = static_cast<size_t>(strategy.num_workers());
  const auto worker = static_cast<size_t>(strategy.worker());
  Prepared prepared;
  for (size_t i = worker; i < items.size(); i += workers) {
    items[i].source = 0;
    prepared.items.push_back(std::move(items[i]));
  }
  std::vector<SourcePart> mine;
  std::vector<std::string_view> my_states;
  if (parts.size() >= workers) {
    for (size_t i = worker; i < parts.size(); i += workers) {
      mine.push_back(std::move(parts[i]));
      my_states.push_back(states[i]);
    }
  } else if (!parts.empty()) {
    const size_t shared = worker % parts.size();
    SourcePart part = std::move(parts[shared]);
    const auto sharers = static_cast<int64_t>((workers - shared + parts.size() - 1) / parts.size());
    int64_t skipped = 0;
    if (__builtin_mul_overflow(static_cast<int64_t>(worker / parts.size()), part.stride,
                               &skipped) ||
        __builtin_add_overflow(part.before, skipped, &part.before) ||
        __builtin_mul_overflow(part.stride, sharers, &part.stride)) {
      return InvalidArgument("restore: the data has been shared too many times");
    }
    mine.push_back(std::move(part));
    my_states.push_back(states[shared]);
  }
  TUTTI_ASSIGN_OR_RETURN(StepSource source, OpenParts(std::move(mine), my_states, 0, call));
  prepared.sources.push_back(std::move(source));
  return prepared;
}

}  // namespace tutti
