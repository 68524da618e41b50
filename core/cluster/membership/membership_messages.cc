#include "core/cluster/membership/membership_messages.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/cluster/membership/silence.h"
#include "tutti/v1/membership.pb.h"

namespace tutti {
namespace {

constexpr size_t kMaxTextBytes = 512;          // names, addresses
constexpr size_t kMaxSentenceBytes = 8 << 10;  // messages of statuses
constexpr int kMaxDetails = 32;
constexpr int kMaxCauses = 8;
constexpr int kMaxCauseDepth = 3;
constexpr int64_t kMaxReplicas = 1 << 20;
constexpr int64_t kMaxEpoch = INT64_MAX / 4;  // nobody counts that far

// Cuts at the limit, not inside a UTF-8 character.
std::string Bounded(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return std::string(text.substr(0, limit));
}

// ---- Statuses

void Write(const Status& status, v1::StatusDef* def, int depth = 0) {
  def->set_code(static_cast<int32_t>(status.code()));
  def->set_message(Bounded(status.message(), kMaxSentenceBytes));
  for (const StatusDetail& detail : status.details()) {
    if (def->details_size() == kMaxDetails) break;
    v1::StatusDetailDef* const out = def->add_details();
    out->set_key(Bounded(detail.key, kMaxTextBytes));
    if (const auto* integer = std::get_if<int64_t>(&detail.value)) {
      out->set_integer(*integer);
    } else if (const auto* real = std::get_if<double>(&detail.value)) {
      out->set_real(*real);
    } else {
      out->set_text(Bounded(std::get<std::string>(detail.value), kMaxSentenceBytes));
    }
  }
  if (depth == kMaxCauseDepth) return;
  for (const Status& cause : status.causes()) {
    if (def->causes_size() == kMaxCauses) break;
    Write(cause, def->add_causes(), depth + 1);
  }
}

// What is beyond a bound is left out: a status must arrive.
Status Read(const v1::StatusDef& def, int depth = 0) {
  auto code = static_cast<StatusCode>(def.code());
  if (def.code() < 0 || def.code() > static_cast<int32_t>(StatusCode::kUnauthenticated)) {
    code = StatusCode::kUnknown;
  }
  Status status(code, Bounded(def.message(), kMaxSentenceBytes));
  for (int i = 0; i < std::min(def.details_size(), kMaxDetails); ++i) {
    const v1::StatusDetailDef& detail = def.details(i);
    const std::string key = Bounded(detail.key(), kMaxTextBytes);
    if (detail.has_integer()) {
      status = std::move(status).With(key, detail.integer());
    } else if (detail.has_real()) {
      status = std::move(status).With(key, detail.real());
    } else {
      status = std::move(status).With(key, Bounded(detail.text(), kMaxSentenceBytes));
    }
  }
  if (depth == kMaxCauseDepth) return status;
  for (int i = 0; i < std::min(def.causes_size(), kMaxCauses); ++i) {
    status = std::move(status).WithCause(Read(def.causes(i), depth + 1));
  }
  return status;
}

Status ReadFailure(const v1::StatusDef& def, Status* failure) {
  *failure = Read(def);
  if (failure->ok()) return InvalidArgument("a failure says that all is well");
  return OkStatus();
}

// ---- Workers and keys

Status CheckText(std::string_view what, std::string_view text) {
  if (text.size() <= kMaxTextBytes) return OkStatus();
  return InvalidArgument("{} has {} bytes, at most {} are allowed", what, text.size(),
                         kMaxTextBytes);
}

Status CheckRange(std::string_view what, int64_t value, int64_t least, int64_t most) {
  if (least <= value && value <= most) return OkStatus();
  return InvalidArgument("{} is {}, it must be within {} and {}", what, value, least, most);
}

Status CheckKey(std::string_view key) {
  if (key.size() <= kMaxExchangeKeyBytes) return OkStatus();
  return InvalidArgument("the key of an exchange has {} bytes, at most {} are allowed", key.size(),
                         kMaxExchangeKeyBytes);
}

// `what` is "exchange" or "regrouping", with its name if that is known.
Status CheckPart(std::string_view what, size_t bytes) {
  if (bytes <= kMaxExchangePartBytes) return OkStatus();
  return InvalidArgument("{}: a part has {} bytes, at most {} are allowed", what, bytes,
                         kMaxExchangePartBytes);
}

template <typename Parts>
Status ReadParts(std::string_view what, const Parts& from, std::vector<std::string>* parts) {
  TUTTI_RETURN_IF_ERROR(
      CheckRange(Format("{}: the number of parts", what), from.size(), 0, kMaxWorkers));
  for (const std::string& part : from) {
    TUTTI_RETURN_IF_ERROR(CheckPart(what, part.size()));
    parts->push_back(part);
  }
  return OkStatus();
}

void Write(const WorkerInfo& info, v1::WorkerDef* def) {
  def->set_worker(info.worker);
  def->set_task(info.task);
  def->set_num_replicas(info.num_replicas);
  def->set_usable_cores(info.usable_cores);
  def->set_pid(info.pid);
  def->set_pid_start_time(info.pid_start_time);
  def->set_host(Bounded(info.host, kMaxTextBytes));
  def->set_boot_id(info.boot_id);
  def->set_pid_namespace(info.pid_namespace);
  def->set_tcp_address(info.tcp_address);
  def->set_local_address(info.local_address);
  def->set_build(Bounded(info.build, kMaxTextBytes));
}

Status Read(const v1::WorkerDef& def, WorkerInfo* info) {
  TUTTI_RETURN_IF_ERROR(CheckRange("the worker's number", def.worker(), 0, kMaxWorkers - 1));
  TUTTI_RETURN_IF_ERROR(CheckRange("the number of replicas", def.num_replicas(), 1, kMaxReplicas));
  for (const std::string* text : {&def.task(), &def.host(), &def.boot_id(), &def.pid_namespace(),
                                  &def.tcp_address(), &def.local_address(), &def.build()}) {
    TUTTI_RETURN_IF_ERROR(CheckText("a text about the worker", *text));
  }
  info->worker = def.worker();
  info->task = def.task();
  info->num_replicas = def.num_replicas();
  info->usable_cores = std::max<int64_t>(1, def.usable_cores());
  info->pid = def.pid();
  info->pid_start_time = def.pid_start_time();
  info->host = def.host();
  info->boot_id = def.boot_id();
  info->pid_namespace = def.pid_namespace();
  info->tcp_address = def.tcp_address();
  info->local_address = def.local_address();
  info->build = def.build();
  return OkStatus();
}

void Write(const MemberId& id, v1::MemberIdDef* def) {
  def->set_worker(id.worker);
  def->set_arrival(id.arrival);
}

Status Read(const v1::MemberIdDef& def, MemberId* id) {
  TUTTI_RETURN_IF_ERROR(CheckRange("a member's number", def.worker(), 0, kMaxWorkers - 1));
  *id = {def.worker(), def.arrival()};
  return OkStatus();
}

template <typename Defs>
Status ReadMembers(const Defs& defs, std::vector<MemberId>* members) {
  TUTTI_RETURN_IF_ERROR(CheckRange("the number of members", defs.size(), 0, kMaxWorkers));
  for (const v1::MemberIdDef& def : defs) {
    TUTTI_RETURN_IF_ERROR(Read(def, &members->emplace_back()));
  }
  return OkStatus();
}

// ---- One Write and one Read per message

void Write(const Hello& hello, v1::ToCoordinator* def) {
  v1::HelloDef* const out = def->mutable_hello();
  out->set_major(hello.major);
  out->set_minor(hello.minor);
  out->set_capabilities(hello.capabilities);
  out->set_incarnation(hello.incarnation);
  for (const std::string& task : hello.tasks) out->add_tasks(task);
  for (const std::string& address : hello.addresses) out->add_addresses(address);
  Write(hello.info, out->mutable_worker());
}

Status Read(const v1::HelloDef& def, MessageToCoordinator* message) {
  Hello hello;
  hello.major = def.major();
  hello.minor = def.minor();
  if (hello.major != kMembershipMajor) {
    hello.info.worker = def.worker().worker();
    hello.info.build = Bounded(def.worker().build(), kMaxTextBytes);
    *message = std::move(hello);
    return OkStatus();
  }
  hello.capabilities = def.capabilities();
  hello.incarnation = def.incarnation();
  TUTTI_RETURN_IF_ERROR(CheckRange("the number of tasks", def.tasks_size(), 1, kMaxWorkers));
  TUTTI_RETURN_IF_ERROR(CheckRange("the number of addresses", def.addresses_size(),
                                   def.tasks_size(), def.tasks_size()));
  for (int i = 0; i < def.tasks_size(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckText("a task's name", def.tasks(i)));
    TUTTI_RETURN_IF_ERROR(CheckText("an address", def.addresses(i)));
    hello.tasks.push_back(def.tasks(i));
    hello.addresses.push_back(def.addresses(i));
  }
  TUTTI_RETURN_IF_ERROR(Read(def.worker(), &hello.info));
  *message = std::move(hello);
  return OkStatus();
}

void Write(const Heartbeat& heartbeat, v1::ToCoordinator* def) {
  def->mutable_heartbeat()->set_knows_of_failure(heartbeat.knows_of_failure);
}
void Write(const Heartbeat&, v1::ToMember* def) { def->mutable_heartbeat(); }

void Write(const ExchangePart& part, v1::ToCoordinator* def) {
  def->mutable_exchange_part()->set_key(part.key);
  def->mutable_exchange_part()->set_part(part.part);
}

Status Read(const v1::ExchangePartDef& def, MessageToCoordinator* message) {
  TUTTI_RETURN_IF_ERROR(CheckKey(def.key()));
  TUTTI_RETURN_IF_ERROR(
      CheckPart(Format("exchange {}", Quote(def.key())), def.part().size()));
  *message = ExchangePart{def.key(), def.part()};
  return OkStatus();
}

void Write(const ExchangeWithdrawal& withdrawal, v1::ToCoordinator* def) {
  def->mutable_exchange_withdrawal()->set_key(withdrawal.key);
  Write(withdrawal.reason, def->mutable_exchange_withdrawal()->mutable_reason());
}

Status Read(const v1::ExchangeWithdrawalDef& def, MessageToCoordinator* message) {
  TUTTI_RETURN_IF_ERROR(CheckKey(def.key()));
  ExchangeWithdrawal withdrawal{def.key(), {}};
  TUTTI_RETURN_IF_ERROR(ReadFailure(def.reason(), &withdrawal.reason));
  *message = std::move(withdrawal);
  return OkStatus();
}

void Write(const Suspicion& suspicion, v1::ToCoordinator* def) {
  def->mutable_suspicion()->set_worker(suspicion.worker);
  def->mutable_suspicion()->set_what(Bounded(suspicion.what, kMaxTextBytes));
  def->mutable_suspicion()->set_arrival(suspicion.arrival);
}

Status Read(const v1::SuspicionDef& def, MessageToCoordinator* message) {
  TUTTI_RETURN_IF_ERROR(CheckRange("the suspected worker", def.worker(), 0, kMaxWorkers - 1));
  *message = Suspicion{def.worker(), Bounded(def.what(), kMaxTextBytes), def.arrival()};
  return OkStatus();
}

void Write(const JobAbort& abort, v1::ToCoordinator* def) {
  Write(abort.reason, def->mutable_abort()->mutable_reason());
  def->mutable_abort()->set_gives_up_worker_0(abort.gives_up_worker_0);
}

Status Read(const v1::AbortDef& def, MessageToCoordinator* message) {
  JobAbort abort;
  TUTTI_RETURN_IF_ERROR(ReadFailure(def.reason(), &abort.reason));
  abort.gives_up_worker_0 = def.gives_up_worker_0();
  *message = std::move(abort);
  return OkStatus();
}

void Write(const Goodbye& goodbye, v1::ToCoordinator* def) {
  v1::GoodbyeDef* const out = def->mutable_goodbye();
  if (!goodbye.reason.ok()) Write(goodbye.reason, out->mutable_reason());
}

Status Read(const v1::GoodbyeDef& def, MessageToCoordinator* message) {
  *message = Goodbye{Read(def.reason())};
  return OkStatus();
}

void Write(const Refusal& refusal, v1::ToMember* def) {
  Write(refusal.reason, def->mutable_refusal()->mutable_reason());
}

Status Read(const v1::RefusalDef& def, MessageToMember* message) {
  Refusal refusal;
  TUTTI_RETURN_IF_ERROR(ReadFailure(def.reason(), &refusal.reason));
  *message = std::move(refusal);
  return OkStatus();
}

void Write(const Gathering& gathering, v1::ToMember* def) {
  v1::GatheringDef* const out = def->mutable_gathering();
  out->set_waiting_for(Bounded(gathering.waiting_for, kMaxSentenceBytes));
  if (!gathering.misfit.ok()) Write(gathering.misfit, out->mutable_misfit());
}

Status Read(const v1::GatheringDef& def, MessageToMember* message) {
  *message = Gathering{Bounded(def.waiting_for(), kMaxSentenceBytes), Read(def.misfit())};
  return OkStatus();
}

void WriteDeparture(const Departure& departure, v1::DepartureDef* def) {
  def->set_worker(departure.worker);
  Write(departure.reason, def->mutable_reason());
}

Status ReadDeparture(const v1::DepartureDef& def, Departure* departure) {
  TUTTI_RETURN_IF_ERROR(CheckRange("the worker that left", def.worker(), 0, kMaxWorkers - 1));
  departure->worker = def.worker();
  return ReadFailure(def.reason(), &departure->reason);
}

void Write(const Welcome& welcome, v1::ToMember* def) {
  v1::WelcomeDef* const out = def->mutable_welcome();
  out->set_job_id(welcome.job_id);
  out->set_minor(welcome.minor);
  out->set_capabilities(welcome.capabilities);
  for (const WorkerInfo& info : welcome.workers) Write(info, out->add_workers());
  out->set_silence_limit_ns(welcome.silence_limit_ns);
  out->set_heartbeat_interval_ns(welcome.heartbeat_interval_ns);
  out->set_elastic(welcome.elastic);
  for (const MemberId& newcomer : welcome.newcomers) Write(newcomer, out->add_newcomers());
  for (const Departure& absent : welcome.absent) WriteDeparture(absent, out->add_absent());
}

Status Read(const v1::WelcomeDef& def, MessageToMember* message) {
  Welcome welcome;
  welcome.job_id = def.job_id();
  welcome.minor = def.minor();
  welcome.capabilities = def.capabilities();
  TUTTI_RETURN_IF_ERROR(CheckRange("the number of workers", def.workers_size(), 1, kMaxWorkers));
  for (int i = 0; i < def.workers_size(); ++i) {
    WorkerInfo info;
    TUTTI_RETURN_IF_ERROR(Read(def.workers(i), &info));
    TUTTI_RETURN_IF_ERROR(CheckRange("the worker's number", info.worker, i, i));
    welcome.workers.push_back(std::move(info));
  }
  welcome.silence_limit_ns = def.silence_limit_ns();
  welcome.heartbeat_interval_ns = def.heartbeat_interval_ns();
  if (!MembershipTiming{welcome.silence_limit_ns, welcome.heartbeat_interval_ns}.IsPossible()) {
    return InvalidArgument(
        "the limit of silence and the interval of heartbeats must be within 1 and {} ns, got {} ns "
        "and {} ns",
        MembershipTiming::kLongestNs, welcome.silence_limit_ns, welcome.heartbeat_interval_ns);
  }
  welcome.elastic = def.elastic();
  TUTTI_RETURN_IF_ERROR(ReadMembers(def.newcomers(), &welcome.newcomers));
  TUTTI_RETURN_IF_ERROR(
      CheckRange("the number of absent workers", def.absent_size(), 0, kMaxWorkers));
  for (const v1::DepartureDef& absent : def.absent()) {
    TUTTI_RETURN_IF_ERROR(ReadDeparture(absent, &welcome.absent.emplace_back()));
  }
  *message = std::move(welcome);
  return OkStatus();
}

void Write(const ExchangeResult& result, v1::ToMember* def) {
  v1::ExchangeResultDef* const out = def->mutable_exchange_result();
  out->set_key(result.key);
  for (const std::string& part : result.parts) out->add_parts(part);
  out->set_last(result.last);
}

Status Read(const v1::ExchangeResultDef& def, MessageToMember* message) {
  TUTTI_RETURN_IF_ERROR(CheckKey(def.key()));
  ExchangeResult result;
  result.key = def.key();
  TUTTI_RETURN_IF_ERROR(
      ReadParts(Format("exchange {}", Quote(def.key())), def.parts(), &result.parts));
  result.last = def.last();
  *message = std::move(result);
  return OkStatus();
}

void Write(const ExchangeFailure& failure, v1::ToMember* def) {
  def->mutable_exchange_failure()->set_key(failure.key);
  Write(failure.reason, def->mutable_exchange_failure()->mutable_reason());
}

Status Read(const v1::ExchangeFailureDef& def, MessageToMember* message) {
  TUTTI_RETURN_IF_ERROR(CheckKey(def.key()));
  ExchangeFailure failure{def.key(), {}};
  TUTTI_RETURN_IF_ERROR(ReadFailure(def.reason(), &failure.reason));
  *message = std::move(failure);
  return OkStatus();
}

void Write(const JobFailure& failure, v1::ToMember* def) {
  Write(failure.reason, def->mutable_job_failure()->mutable_reason());
}

Status Read(const v1::JobFailureDef& def, MessageToMember* message) {
  JobFailure failure;
  TUTTI_RETURN_IF_ERROR(ReadFailure(def.reason(), &failure.reason));
  *message = std::move(failure);
  return OkStatus();
}

void Write(const Departure& departure, v1::ToMember* def) {
  WriteDeparture(departure, def->mutable_departure());
}

Status Read(const v1::DepartureDef& def, MessageToMember* message) {
  Departure departure;
  TUTTI_RETURN_IF_ERROR(ReadDeparture(def, &departure));
  *message = std::move(departure);
  return OkStatus();
}

void Write(const Arrival& arrival, v1::ToMember* def) {
  Write(arrival.info, def->mutable_arrival()->mutable_worker());
  def->mutable_arrival()->set_arrival(arrival.arrival);
}

Status Read(const v1::ArrivalDef& def, MessageToMember* message) {
  Arrival arrival;
  TUTTI_RETURN_IF_ERROR(Read(def.worker(), &arrival.info));
  arrival.arrival = def.arrival();
  *message = std::move(arrival);
  return OkStatus();
}

// ---- Regrouping

void Write(const RegroupPart& part, v1::ToCoordinator* def) {
  v1::RegroupPartDef* const out = def->mutable_regroup_part();
  out->set_id(part.id);
  out->set_name(part.name);
  for (const MemberId& member : part.among) Write(member, out->add_among());
  out->set_all(part.all);
  out->set_at_least(part.at_least);
  out->set_epoch(part.epoch);
  out->set_part(part.part);
}

Status Read(const v1::RegroupPartDef& def, MessageToCoordinator* message) {
  TUTTI_RETURN_IF_ERROR(CheckKey(def.name()));
  const std::string what = Format("regrouping {}", Quote(def.name()));
  TUTTI_RETURN_IF_ERROR(CheckPart(what, def.part().size()));
  RegroupPart part;
  part.id = def.id();
  part.name = def.name();
  TUTTI_RETURN_IF_ERROR(ReadMembers(def.among(), &part.among));
  part.all = def.all();
  part.at_least = def.at_least();
  TUTTI_RETURN_IF_ERROR(
      CheckRange(what + ": the least number of ranks", part.at_least, 0, kMaxWorkers));
  part.epoch = def.epoch();
  part.part = def.part();
  TUTTI_RETURN_IF_ERROR(CheckRange(what + ": the epoch", part.epoch, 0, kMaxEpoch));
  *message = std::move(part);
  return OkStatus();
}

void Write(const RegroupWithdrawal& withdrawal, v1::ToCoordinator* def) {
  def->mutable_regroup_withdrawal()->set_id(withdrawal.id);
  Write(withdrawal.reason, def->mutable_regroup_withdrawal()->mutable_reason());
}

Status Read(const v1::RegroupWithdrawalDef& def, MessageToCoordinator* message) {
  RegroupWithdrawal withdrawal{def.id(), {}};
  TUTTI_RETURN_IF_ERROR(ReadFailure(def.reason(), &withdrawal.reason));
  *message = std::move(withdrawal);
  return OkStatus();
}

void Write(const Resignation& resignation, v1::ToCoordinator* def) {
  v1::ResignationDef* const out = def->mutable_resignation();
  out->set_name(resignation.name);
  for (const MemberId& member : resignation.among) Write(member, out->add_among());
  out->set_epoch(resignation.epoch);
}

Status Read(const v1::ResignationDef& def, MessageToCoordinator* message) {
  TUTTI_RETURN_IF_ERROR(CheckKey(def.name()));
  Resignation resignation{def.name(), {}, def.epoch()};
  TUTTI_RETURN_IF_ERROR(ReadMembers(def.among(), &resignation.among));
  *message = std::move(resignation);
  return OkStatus();
}

void Write(const RegroupResult& result, v1::ToMember* def) {
  v1::RegroupResultDef* const out = def->mutable_regroup_result();
  out->set_id(result.id);
  out->set_epoch(result.epoch);
  for (const MemberId& member : result.members) Write(member, out->add_members());
  for (const std::string& part : result.parts) out->add_parts(part);
  out->set_last(result.last);
}

Status Read(const v1::RegroupResultDef& def, MessageToMember* message) {
  RegroupResult result;
  result.id = def.id();
  result.epoch = def.epoch();
  TUTTI_RETURN_IF_ERROR(CheckRange("regrouping: the epoch", result.epoch, 0, 2 * kMaxEpoch));
  TUTTI_RETURN_IF_ERROR(ReadMembers(def.members(), &result.members));
  TUTTI_RETURN_IF_ERROR(CheckRange("the number of parts of a regrouping", def.parts_size(),
                                   def.members_size(), def.members_size()));
  TUTTI_RETURN_IF_ERROR(ReadParts("regrouping", def.parts(), &result.parts));
  result.last = def.last();
  *message = std::move(result);
  return OkStatus();
}

void Write(const RegroupFailure& failure, v1::ToMember* def) {
  def->mutable_regroup_failure()->set_id(failure.id);
  Write(failure.reason, def->mutable_regroup_failure()->mutable_reason());
}

Status Read(const v1::RegroupFailureDef& def, MessageToMember* message) {
  RegroupFailure failure{def.id(), {}};
  TUTTI_RETURN_IF_ERROR(ReadFailure(def.reason(), &failure.reason));
  *message = std::move(failure);
  return OkStatus();
}

template <typename Def>
void Write(const Note& note, Def* def) {
  v1::NoteDef* const out = def->mutable_note();
  out->set_topic(note.topic);
  Write(note.from, out->mutable_from());
  for (const MemberId& member : note.to) Write(member, out->add_to());
  out->set_content(note.content);
}

template <typename Message>
Status Read(const v1::NoteDef& def, Message* message) {
  TUTTI_RETURN_IF_ERROR(CheckKey(def.topic()));
  if (def.content().size() > kMaxNoteBytes) {
    return InvalidArgument("a note about {} has {} bytes, at most {} are allowed",
                           Quote(def.topic()), def.content().size(), kMaxNoteBytes);
  }
  Note note;
  note.topic = def.topic();
  TUTTI_RETURN_IF_ERROR(Read(def.from(), &note.from));
  TUTTI_RETURN_IF_ERROR(ReadMembers(def.to(), &note.to));
  note.content = def.content();
  *message = std::move(note);
  return OkStatus();
}

template <typename Def, typename Message>
std::string EncodeAs(const Message& message) {
  Def def;
  std::visit([&](const auto& content) { Write(content, &def); }, message);
  return def.SerializeAsString();
}

template <typename Def>
Status Parse(std::string_view bytes, Def* def) {
  if (def->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return OkStatus();
  return InvalidArgument("{} bytes that are no message of the membership protocol", bytes.size());
}

Status UnknownMessage() {
  return InvalidArgument("a message of a kind that version {}.{} of the protocol does not know",
                         kMembershipMajor, kMembershipMinor);
}

}  // namespace

std::string Encode(const MessageToCoordinator& message) {
  return EncodeAs<v1::ToCoordinator>(message);
}

std::string Encode(const MessageToMember& message) { return EncodeAs<v1::ToMember>(message); }

Status Decode(std::string_view bytes, MessageToCoordinator* message) {
  v1::ToCoordinator def;
  TUTTI_RETURN_IF_ERROR(Parse(bytes, &def));
  switch (def.content_case()) {
    case v1::ToCoordinator::kHello: return Read(def.hello(), message);
    case v1::ToCoordinator::kHeartbeat:
      *message = Heartbeat{def.heartbeat().knows_of_failure()};
      return OkStatus();
    case v1::ToCoordinator::kExchangePart: return Read(def.exchange_part(), message);
    case v1::ToCoordinator::kExchangeWithdrawal: return Read(def.exchange_withdrawal(), message);
    case v1::ToCoordinator::kSuspicion: return Read(def.suspicion(), message);
    case v1::ToCoordinator::kAbort: return Read(def.abort(), message);
    case v1::ToCoordinator::kGoodbye: return Read(def.goodbye(), message);
    case v1::ToCoordinator::kRegroupPart: return Read(def.regroup_part(), message);
    case v1::ToCoordinator::kRegroupWithdrawal: return Read(def.regroup_withdrawal(), message);
    case v1::ToCoordinator::kNote: return Read(def.note(), message);
    case v1::ToCoordinator::kResignation: return Read(def.resignation(), message);
    case v1::ToCoordinator::CONTENT_NOT_SET: break;
  }
  return UnknownMessage();
}

Status Decode(std::string_view bytes, MessageToMember* message) {
  v1::ToMember def;
  TUTTI_RETURN_IF_ERROR(Parse(bytes, &def));
  switch (def.content_case()) {
    case v1::ToMember::kRefusal: return Read(def.refusal(), message);
    case v1::ToMember::kGathering: return Read(def.gathering(), message);
    case v1::ToMember::kWelcome: return Read(def.welcome(), message);
    case v1::ToMember::kHeartbeat: *message = Heartbeat{}; return OkStatus();
    case v1::ToMember::kExchangeResult: return Read(def.exchange_result(), message);
    case v1::ToMember::kExchangeFailure: return Read(def.exchange_failure(), message);
    case v1::ToMember::kJobFailure: return Read(def.job_failure(), message);
    case v1::ToMember::kDeparture: return Read(def.departure(), message);
    case v1::ToMember::kArrival: return Read(def.arrival(), message);
    case v1::ToMember::kRegroupResult: return Read(def.regroup_result(), message);
    case v1::ToMember::kRegroupFailure: return Read(def.regroup_failure(), message);
    case v1::ToMember::kNote: return Read(def.note(), message);
    case v1::ToMember::CONTENT_NOT_SET: break;
  }
  return UnknownMessage();
}

}  // namespace tutti
