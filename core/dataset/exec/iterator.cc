#include "core/dataset/exec/iterator.h"

#include <limits>
#include <utility>

#include "core/base/callback_scope.h"
#include "core/base/error.h"
#include "core/base/wait.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/graph/graph_fingerprint.h"

namespace tutti {
namespace {

// A saved state: in its envelope the graph's fingerprint and the body.
constexpr std::string_view kStateMagic = "TUTTI-I1";
constexpr size_t kFingerprintBytes = 32;

std::string NameOf(const IteratorOptions& options, const Dataset& dataset) {
  if (!options.name.empty()) return Format("iterator '{}'", options.name);
  return Format("iterator over {}", dataset.node().label());
}

Status NoState(std::string_view why) {
  return InvalidArgument(
      "restore: these bytes are no state of this iterator ({}); pass what save "
      "gave for an equal dataset",
      why);
}

// Ends what may have threads, however long that takes: they have been told to stop.
void Discard(std::unique_ptr<Stage> stage) {
  if (!stage) return;
  stage->Stop();
  (void)stage->Join(CallOptions());
}

}  // namespace

Iterator::Iterator(Ref<const Dataset> dataset, std::string name)
    : Closable(dataset->environment()->environment_ref(), name),
      dataset_(std::move(dataset)),
      account_(MakeRef<MemoryAccount>(std::move(name),
                                      Ref<MemoryAccount>::Retain(&environment().memory()))) {
  context_.environment = dataset_->environment().get();
  context_.account = account_.get();
  context_.options = &dataset_->options();
}

Iterator::~Iterator() = default;

Result<Ref<Iterator>> Iterator::Create(Ref<const Dataset> dataset, IteratorOptions options,
                                       const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed("making an iterator"));
  TUTTI_RETURN_IF_ERROR(dataset->environment()->environment().CheckUsable("making an iterator"));
  std::string name = NameOf(options, *dataset);
  Ref<Iterator> iterator = MakeRef<Iterator>(std::move(dataset), std::move(name));
  TUTTI_RETURN_IF_ERROR(iterator->MakeRoot(&iterator->root_));
  TUTTI_RETURN_IF_ERROR(iterator->Register());
  iterator->spec_ = iterator->dataset_->known_element_spec();
  if (!iterator->spec_) TUTTI_RETURN_IF_ERROR(iterator->MakeFirstElement(call));
  return iterator;
}

Status Iterator::MakeRoot(std::unique_ptr<Stage>* root) {
  TUTTI_ASSIGN_OR_RETURN(*root, MakeStage(dataset_->node(), context_));
  return OkStatus();
}

// Only an element can tell the spec: it is made now and kept for the first Next.
Status Iterator::MakeFirstElement(const CallOptions& call) {
  Result<std::string> fresh = SaveBody();
  if (fresh.ok()) fresh_state_ = std::move(fresh).value();
  Slab first;
  root_->Next(Demand{1, false}, call, &first);
  if (IsInterruption(first.status)) return first.status;
  spec_ = dataset_->known_element_spec();
  if (!spec_ && first.rows > 0) {
    TUTTI_ASSIGN_OR_RETURN(const Ref<Value> element, first.Row(0));
    spec_ = ElementSpec::OfValue(*element);
  }
  held_.Prepend(first, 0);
  return OkStatus();
}

Status Iterator::Enter(const CallOptions& call, std::string_view what) {
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed(what));
  TUTTI_RETURN_IF_ERROR(environment().CheckUsable(what));
  std::unique_lock lock(mutex_);
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, idle_, environment().clock(), call, [this] { return !busy_ || closing_; },
      closable_name()));
  if (closing_) {
    return FailedPrecondition("{}: {} was called after close; make a new iterator", closable_name(),
                              what);
  }
  busy_ = true;
  return OkStatus();
}

void Iterator::Leave() {
  {
    std::lock_guard lock(mutex_);
    busy_ = false;
  }
  idle_.notify_all();
}

Status Iterator::Pull(int64_t max_rows, const CallOptions& call, Slab* slab) {
  if (!held_.empty()) {
    held_.Pop(max_rows, slab);
  } else {
    root_->Next(Demand{max_rows, false}, call, slab);
  }
  if (IsInterruption(slab->status)) {
    // With rows the call was not interrupted.
    if (slab->rows == 0) return slab->status;
    slab->status = OkStatus();
  }
  delivered_ += slab->rows;
  fresh_state_.clear();
  if (slab->rows == 0) return OkStatus();
  std::lock_guard lock(mutex_);
  if (spec_) return OkStatus();
  spec_ = dataset_->known_element_spec();
  return OkStatus();
}

Result<Ref<Value>> Iterator::Next(const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(Enter(call, "next"));
  Slab slab;
  Status status = Pull(1, call, &slab);
  Result<Ref<Value>> element = Ref<Value>();
  if (!status.ok()) {
    element = std::move(status);
  } else if (slab.rows > 0) {
    // What comes after the row comes with the next call.
    held_.Prepend(slab, 1);
    element = slab.Row(0);
  } else if (!slab.status.ok()) {
    ++delivered_;
    element = slab.status;
  }
  Leave();
  return element;
}

Result<Ref<Value>> Iterator::NextOptional(const CallOptions& call) {
  TUTTI_ASSIGN_OR_RETURN(Ref<Value> element, Next(call));
  return Value::OfLeaf(Leaf::OfOptional(std::move(element)));
}

Status Iterator::NextSlab(int64_t max_rows, const CallOptions& call, Slab* slab) {
  if (max_rows < 1)
    return InvalidArgument("next_slab: max_rows must be positive, got {}", max_rows);
  TUTTI_RETURN_IF_ERROR(Enter(call, "next_slab"));
  slab->Clear();
  Status status = Pull(max_rows, call, slab);
  if (status.ok() && !slab->status.ok()) ++delivered_;
  Leave();
  return status;
}

Ref<const ElementSpec> Iterator::element_spec() const {
  std::lock_guard lock(mutex_);
  return spec_ ? spec_ : no_spec_;
}

Result<std::string> Iterator::SaveBody() {
  StateWriter writer;
  writer.Int(delivered_);
  TUTTI_RETURN_IF_ERROR(held_.Save(&writer));
  TUTTI_RETURN_IF_ERROR(root_->Save(&writer));
  return std::move(writer).TakeBytes();
}

Result<std::string> Iterator::Save(const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(Enter(call, "save"));
  Result<std::string> body = fresh_state_.empty() ? SaveBody() : Result<std::string>(fresh_state_);
  Status status = body.status();
  if (status.ok() && fingerprint_.empty()) {
    Result<std::string> fingerprint = GraphFingerprint(dataset_->node());
    status = fingerprint.status();
    if (status.ok()) fingerprint_ = std::move(fingerprint).value();
  }
  std::string state;
  if (status.ok()) state = SealEnvelope(kStateMagic, fingerprint_ + *body);
  Leave();
  if (!status.ok()) return status;
  return state;
}

Status Iterator::RestoreBody(std::string_view body, const CallOptions& call) {
  StateReader reader(body);
  const int64_t delivered = reader.IntIn(0, std::numeric_limits<int64_t>::max());
  HeldRows held;
  held.Restore(&reader);
  TUTTI_RETURN_IF_ERROR(reader.status());
  std::unique_ptr<Stage> root;
  context_.restoring = true;
  Status status = MakeRoot(&root);
  context_.restoring = false;
  if (status.ok()) status = root->Restore(&reader, call);
  if (status.ok()) status = reader.status();
  if (status.ok() && !reader.at_end()) status = NoState("they go on behind their end");
  if (!status.ok()) {
    Discard(std::move(root));
    return status;
  }
  {
    std::lock_guard lock(mutex_);
    std::swap(root_, root);
    if (closing_) root_->Stop();
  }
  held_ = std::move(held);
  delivered_ = delivered;
  fresh_state_.clear();
  Discard(std::move(root));
  return OkStatus();
}

Status Iterator::Restore(std::string_view state, const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(Enter(call, "restore"));
  Status status;
  if (fingerprint_.empty()) {
    Result<std::string> fingerprint = GraphFingerprint(dataset_->node());
    status = fingerprint.status();
    if (status.ok()) fingerprint_ = std::move(fingerprint).value();
  }
  if (status.ok()) {
    std::string_view content;
    if (const char* why = OpenEnvelope(kStateMagic, state, &content)) {
      status = NoState(why);
    } else if (content.substr(0, kFingerprintBytes) != fingerprint_) {
      status = NoState("they are of another dataset");
    } else {
      status = RestoreBody(content.substr(kFingerprintBytes), call);
    }
  }
  Leave();
  return status;
}

Status Iterator::OnClose(const CallOptions& call) {
  TUTTI_RETURN_IF_ERROR(CheckComputingAllowed("close"));
  std::unique_lock lock(mutex_);
  closing_ = true;
  if (root_) root_->Stop();
  idle_.notify_all();
  TUTTI_RETURN_IF_ERROR(WaitUntil(
      lock, idle_, environment().clock(), call, [this] { return !busy_; }, closable_name()));
  lock.unlock();
  return root_ ? root_->Join(call) : OkStatus();
}

}  // namespace tutti
