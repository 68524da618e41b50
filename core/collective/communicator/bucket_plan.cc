#include "core/collective/communicator/bucket_plan.h"

#include <exception>
#include <new>
#include <unordered_set>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/wait.h"
#include "core/collective/call/observed_names.h"
#include "core/collective/communicator/call_arguments.h"
#include "core/collective/communicator/future.h"
#include "core/device/gpu_memory.h"

namespace tutti {
namespace {

// So many tensors that are not ready are named.
constexpr size_t kMostNamed = 4;

Status CheckTensors(std::span<Tensor* const> tensors, ReduceOp op,
                    const std::vector<std::string>& names) {
  std::unordered_set<const void*> seen;  // by memory: one array may stand in several tensors
  for (size_t i = 0; i < tensors.size(); ++i) {
    Status status = CheckGiven(tensors[i], "tensor");
    if (status.ok()) status = CheckReducible(op, tensors[i]->dtype());
    if (status.ok()) status = CheckWritable(*tensors[i], "tensor");
    if (status.ok() && tensors[i]->byte_size() > 0 && !seen.insert(tensors[i]->address()).second) {
      status = InvalidArgument("it is in the plan twice; each gradient is reduced once");
    }
    if (!status.ok()) {
      return std::move(status)
          .WithPrefix(Format("bucket plan: tensor {}", DescribeTensor(i, names)))
          .With("index", i);
    }
  }
  return OkStatus();
}

// Views of one tensor of the communicator, like those given, in their order; on GPUs, tensors of
// their own where those like them lie.
Result<std::vector<Ref<Tensor>>> MakeSideBySide(Communicator& communicator,
                                                std::span<const Tensor* const> like, ReduceOp op) {
  int64_t bytes = 0;
  std::vector<int64_t> begins;
  for (size_t i = 0; i < like.size(); ++i) {
    Status status = CheckGiven(like[i], "tensor");
    if (status.ok()) status = CheckReducible(op, like[i]->dtype());
    const size_t rounded =
        status.ok() ? (like[i]->byte_size() + kBufferAlignment - 1) & ~(kBufferAlignment - 1) : 0;
    begins.push_back(bytes);
    if (status.ok() && !like[i]->device().is_cpu()) continue;
    // A tensor whose strides are 0 may have more elements than any memory.
    if (status.ok() && __builtin_add_overflow(bytes, rounded, &bytes)) {
      status = ResourceExhausted("it and those before it are more than there are addresses");
    }
    if (!status.ok()) {
      return std::move(status).WithPrefix(Format("bucket plan: tensor {}", i)).With("index", i);
    }
  }
  Result<Ref<Tensor>> whole = communicator.CreateTensor(DType::kUint8, Shape({bytes}));
  if (!whole.ok()) return whole.status().WithPrefix("bucket plan");
  std::vector<Ref<Tensor>> tensors;
  auto* const data = static_cast<std::byte*>((*whole)->mutable_data());
  for (size_t i = 0; i < like.size(); ++i) {
    if (const GpuStream* const stream = StreamOf(*like[i])) {
      TUTTI_ASSIGN_OR_RETURN(
          tensors.emplace_back(),
          MakeRef<GpuMemory>(stream->place())->Create(like[i]->dtype(), like[i]->shape(), true));
      continue;
    }
    tensors.push_back(Tensor::View(data + begins[i], like[i]->dtype(), like[i]->shape(), {}, false,
                                   *whole, like[i]->device()));
  }
  return tensors;
}

}  // namespace

Result<Ref<BucketPlan>> BucketPlan::Create(Ref<Communicator> communicator,
                                           std::span<Tensor* const> tensors, ReduceOp op,
                                           int64_t bytes_per_pack,
                                           std::vector<std::string> names) {
  if (bytes_per_pack < 0) {
    return InvalidArgument("bucket plan: bytes_per_pack is {}; pass the bytes of a bucket, or 0 "
                           "for {}",
                           bytes_per_pack, HumanBytes(kAutoBucketBytes));
  }
  if (!names.empty() && names.size() != tensors.size()) {
    return InvalidArgument("bucket plan: {} names for {} tensors; give each one a name, or none",
                           names.size(), tensors.size());
  }
  TUTTI_RETURN_IF_ERROR(CheckTensors(tensors, op, names));
  std::vector<int64_t> bytes;
  std::vector<Ref<Tensor>> held;
  for (Tensor* tensor : tensors) {
    bytes.push_back(static_cast<int64_t>(tensor->byte_size()));
    held.push_back(Ref<Tensor>::Retain(tensor));
  }
  std::vector<Pack> buckets =
      PackTensors(bytes, bytes_per_pack == 0 ? kAutoBucketBytes : bytes_per_pack);
  return MakeRef<BucketPlan>(std::move(communicator), std::move(held), op, std::move(buckets),
                             std::move(names));
}

Result<Ref<BucketPlan>> BucketPlan::CreateLike(Ref<Communicator> communicator,
                                               std::span<const Tensor* const> like, ReduceOp op,
                                               int64_t bytes_per_pack,
                                               std::vector<std::string> names) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> tensors,
                         MakeSideBySide(*communicator, like, op));
  std::vector<Tensor*> pointers;
  for (const Ref<Tensor>& tensor : tensors) pointers.push_back(tensor.get());
  return Create(std::move(communicator), pointers, op, bytes_per_pack, std::move(names));
}

BucketPlan::BucketPlan(Ref<Communicator> communicator, std::vector<Ref<Tensor>> tensors,
                       ReduceOp op, std::vector<Pack> buckets, std::vector<std::string> names)
    : communicator_(std::move(communicator)),
      tensors_(std::move(tensors)),
      op_(op),
      buckets_(std::move(buckets)),
      names_(std::make_shared<const std::vector<std::string>>(std::move(names))) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    bucket_of_.resize(buckets_[b].last, b);
  }
  // What has been launched must not be lost for lack of memory.
  launched_.reserve(buckets_.size());
  BeginStep();
}

BucketPlan::~BucketPlan() = default;

void BucketPlan::OnLastRelease() const noexcept {
  if (!communicator_->environment().LeftBehindByFork()) delete this;
}

void BucketPlan::BeginStep() {
  is_ready_.assign(tensors_.size(), false);
  num_unready_.clear();
  for (const Pack& bucket : buckets_) num_unready_.push_back(bucket.last - bucket.first);
  launched_.clear();
}

Result<Ref<Tensor>> BucketPlan::GetTensor(size_t index) const {
  if (index >= tensors_.size()) {
    return InvalidArgument("bucket plan: tensor {} is asked for, and the plan has {}", index,
                           tensors_.size())
        .With("index", index);
  }
  return tensors_[index];
}

int64_t BucketPlan::num_steps() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_steps_;
}

Status BucketPlan::Ready(size_t index) {
  if (index >= tensors_.size()) {
    return InvalidArgument("bucket plan: tensor {} is ready, and the plan has {}", index,
                           tensors_.size())
        .With("index", index);
  }
  std::unique_lock<std::mutex> lock(mutex_);
  TUTTI_RETURN_IF_ERROR(failure_);
  if (is_ready_[index]) {
    return FailedPrecondition(
               "bucket plan: tensor {} is ready for the second time in step {}; wait for the plan "
               "at the end of each step",
               NameOf(index), num_steps_ + 1)
        .With("index", index);
  }
  is_ready_[index] = true;
  --num_unready_[bucket_of_[index]];
  LaunchComplete(lock);
  return failure_;
}

void BucketPlan::LaunchComplete(std::unique_lock<std::mutex>& lock) {
  if (launching_) return;
  // Whoever waits must not wait for a thread that an exception has taken away.
  const struct Launching {
    explicit Launching(BucketPlan* self, std::unique_lock<std::mutex>& lock)
        : self(self), lock(lock) {
      self->launching_ = true;
    }
    ~Launching() {
      if (!lock.owns_lock()) lock.lock();
      self->launching_ = false;
      self->changed_.notify_all();
    }
    BucketPlan* const self;
    std::unique_lock<std::mutex>& lock;
  } launching(this, lock);
  while (failure_.ok() && launched_.size() < buckets_.size() &&
         num_unready_[launched_.size()] == 0) {
    const Pack& bucket = buckets_[launched_.size()];
    lock.unlock();
    Result<Launched> launched = TryLaunch(bucket);
    lock.lock();
    if (launched.ok()) {
      launched_.push_back(std::move(launched).value());
    } else if (failure_.ok()) {
      failure_ = launched.status();
      // Peers must not wait for buckets that will not come, whether or not this rank waits.
      const Status failure = failure_;
      lock.unlock();
      communicator_->Abort(failure);
      lock.lock();
    }
  }
}

Result<BucketPlan::Launched> BucketPlan::Launch(const Pack& bucket) const {
  std::vector<const Tensor*> inputs;
  std::vector<Tensor*> outputs;
  for (size_t i = bucket.first; i < bucket.last; ++i) {
    inputs.push_back(tensors_[i].get());
    outputs.push_back(tensors_[i].get());
  }
  Launched launched;
  launched.cancellation = MakeRef<Cancellation>();
  const CallOptions call{Deadline::Infinite(), launched.cancellation.get()};
  const ObservedNames names(TensorNames{names_, bucket.first});
  TUTTI_ASSIGN_OR_RETURN(launched.future,
                         communicator_->AllReduceAsync(inputs, op_, call, outputs));
  return launched;
}

Result<BucketPlan::Launched> BucketPlan::TryLaunch(const Pack& bucket) const noexcept {
  try {
    return Launch(bucket);
  } catch (const std::exception&) {
    return Status::OutOfMemory();
  }
}

std::string BucketPlan::NameOf(size_t index) const { return DescribeTensor(index, *names_); }

std::string BucketPlan::ToString() const {
  return Format("bucket plan of {} tensors ({}) in {} buckets, {} steps", tensors_.size(),
                ReduceOpName(op_), buckets_.size(), num_steps());
}

std::string BucketPlan::DescribeUnready() const {
  std::vector<std::string> named;
  size_t count = 0;
  for (size_t i = 0; i < is_ready_.size(); ++i) {
    if (is_ready_[i]) continue;
    if (++count <= kMostNamed) named.push_back(NameOf(i));
  }
  if (count > kMostNamed) named.push_back(Format("{} more", count - kMostNamed));
  return Join(named, ", ");
}

Status BucketPlan::Wait(const CallOptions& options) {
  TUTTI_RETURN_IF_ERROR(CheckCollectiveAllowed("bucket plan"));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return failure_;
    if (waiting_) {
      return FailedPrecondition("bucket plan: another thread waits for step {}; one does",
                                num_steps_ + 1);
    }
    waiting_ = true;
  }
  try {
    return WaitForStep(options);
  } catch (...) {
    EndLeftWait();
    throw;
  }
}

void BucketPlan::EndLeftWait() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (failure_.ok()) failure_ = Status::OutOfMemory();
  changed_.wait(lock, [this] { return !launching_; });
  const Status failure = failure_;
  lock.unlock();
  // Nothing more is launched; what runs ends with the epoch.
  try {
    communicator_->Abort(failure);
  } catch (const std::bad_alloc&) {
    // The calls that were launched end it.
  }
  for (const Launched& launched : launched_) {
    launched.cancellation->Cancel(failure);
    launched.future->WaitUntilDone().rep();
  }
  lock.lock();
  waiting_ = false;
  ended_ = true;
}

Status BucketPlan::AwaitReady(std::unique_lock<std::mutex>& lock, const CallOptions& options) {
  Environment& environment = communicator_->environment();
  Clock& clock = environment.clock();
  const std::string what = Format("bucket plan: step {}", num_steps_ + 1);
  const auto settled = [this] {
    return !launching_ && (!failure_.ok() || launched_.size() == buckets_.size());
  };
  const int64_t start_ns = clock.NowNs();
  int64_t warning_ns = wait_warning_ns_.load();
  for (;;) {
    if (warning_ns == kNeverNs) {
      return WaitUntil(lock, changed_, clock, options, settled, what);
    }
    CallOptions until_warning = options;
    const Deadline warning = Deadline::After(clock, warning_ns);
    until_warning.deadline = Deadline::Earlier(options.deadline, warning);
    Status status = WaitUntil(lock, changed_, clock, until_warning, settled, what);
    if (status.code() != StatusCode::kDeadlineExceeded || !warning.Expired(clock)) return status;
    if (options.deadline.Expired(clock)) return status;
    const std::string unready = DescribeUnready();
    const int64_t waited_ns = clock.NowNs() - start_ns;
    if (warning_ns < kNeverNs / 4) warning_ns *= 2;
    if (unready.empty()) continue;  // it waits for a launch, which says itself what it waits for
    lock.unlock();
    environment.log().Warning(
        Format("{} has waited for {} and goes on waiting; tensors that are not ready: {}; say "
               "ready of each tensor in each step, also of one that got no gradient",
               what, HumanDuration(waited_ns), unready));
    lock.lock();
  }
}

Status BucketPlan::WaitForStep(const CallOptions& options) {
  std::unique_lock<std::mutex> lock(mutex_);
  Status status = AwaitReady(lock, options);
  const bool all_are_launched = status.ok() && failure_.ok();
  if (!status.ok()) {
    const std::string unready = DescribeUnready();
    if (!unready.empty()) {
      status = std::move(status).WithPrefix(Format("tensors that are not ready: {}", unready));
    }
  } else if (!failure_.ok()) {
    status = failure_;
  }
  // From here on nothing more is launched, but for what is being launched this moment.
  if (!all_are_launched && failure_.ok()) failure_ = status;
  changed_.wait(lock, [this] { return !launching_; });
  const std::vector<Launched> launched = launched_;
  lock.unlock();

  // Peers must not wait for buckets that will not come.
  if (!all_are_launched) communicator_->Abort(status);
  Status reduced = AwaitLaunched(launched, options);
  if (!reduced.ok() && all_are_launched) status = std::move(reduced);

  lock.lock();
  waiting_ = false;
  if (status.ok()) {
    ++num_steps_;
    BeginStep();
  } else {
    failure_ = status;
    ended_ = true;
  }
  return status;
}

Status BucketPlan::AwaitLaunched(std::span<const Launched> launched, const CallOptions& options) {
  Status first;
  for (size_t b = 0; b < launched.size(); ++b) {
    const auto& [future, cancellation] = launched[b];
    Status waited = future->Wait(options);
    if (!waited.ok()) {
      // The call, which is the one that runs, ends as if the deadline or the cancellation had been
      // its own, and says who is missing. It has to end, for it uses the tensors.
      cancellation->Cancel(
          std::move(waited).WithPrefix(Format("bucket {} of {}", b + 1, launched.size())));
      TUTTI_RETURN_IF_ERROR(future->WaitUntilDone());
    }
    Ref<Value> none;
    Status status = future->GetResult(&none);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace tutti
