// Writes the inputs from which fuzzing begins: for every target some that reach far into it.
//
//   make_corpus FOLDER
//
// The corpus is committed, so that every build fuzzes from the same; run it again when a format
// changes.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <string_view>
#include <vector>

#include "core/base/crc32c.h"
#include "core/base/disk.h"
#include "core/base/error.h"
#include "core/cluster/membership/membership_messages.h"
#include "core/cluster/sockets/peer_handshake.h"
#include "core/collective/call/call_header_wire.h"
#include "core/collective/call/shared_header.h"
#include "core/collective/stream/link_frame.h"
#include "core/dataset/example/tensor_proto.h"
#include "core/dataset/exec/iterator.h"
#include "core/dataset/exec/iterator_state.h"
#include "core/dataset/expression/expression.h"
#include "core/dataset/expression/expression_function.h"
#include "core/dataset/graph/envelope.h"
#include "core/dataset/records/compressed_writer.h"
#include "core/dataset/ops/snapshot_files.h"
#include "core/dataset/records/snappy_block.h"
#include "core/dataset/records/tf_record_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/position_pipelines.h"

namespace tutti {
namespace {

class Corpus {
 public:
  Corpus(const std::filesystem::path& folder, const char* target) : folder_(folder / target) {
    std::filesystem::create_directories(folder_);
  }
  void Add(const std::string& input) {
    char name[16];
    std::snprintf(name, sizeof(name), "%02d", number_++);
    std::ofstream(folder_ / name, std::ios::binary) << input;
  }

 private:
  const std::filesystem::path folder_;
  int number_ = 0;
};

template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::vector<CallHeader> Headers() {
  std::vector<CallHeader> headers;
  for (int op = 1; op <= static_cast<int>(kLastCollectiveOp); ++op) {
    CallHeader header;
    header.op = static_cast<CollectiveOp>(op);
    header.num_tensors = header.op == CollectiveOp::kBarrier ? 0 : op % 3 == 1 ? 3 : 1;
    header.uneven = header.op == CollectiveOp::kGather || header.op == CollectiveOp::kAllGather;
    header.root = op % 2;
    header.first = {DType::kUint8, Dims({16})};
    if (header.num_tensors > 1) {
      header.rest = {{DType::kBfloat16, Dims({4, 0, 2})}, {DType::kFloat64, Dims()}};
    }
    headers.push_back(std::move(header));
  }
  return headers;
}

std::vector<Status> Errors() {
  return {Unavailable("rank 1 has died").With("rank", int64_t{1}).With("op", "all_reduce"),
          Status(StatusCode::kDeadlineExceeded, "too late")
              .With("seconds", 1.5)
              .WithCause(Internal("a cause")),
          InvalidArgument("{}", std::string(3000, 'x'))};
}

// Shards of every compression, as files and as their records; an index; blocks of Snappy's.
void MakeSnapshots(const std::filesystem::path& folder) {
  Corpus corpus(folder, "snapshot_shard");
  Slab rows;
  rows.rows = 20;
  rows.tree = Ref<const TreeSpec>::Retain(&TreeSpec::Leaf());
  const std::vector<int64_t> zeros(60);
  rows.columns = {Column::Dense(Tensor::FromData(DType::kInt64, Shape({20, 3}), zeros.data(),
                                                 zeros.size() * sizeof(int64_t))
                                    .value())};
  Slab text = rows.Slice(0, 1);
  text.columns = {Column::Rows({Leaf::OfString("a text, a text, a text")})};
  const auto with_kind = [](char kind, std::string_view bytes) {
    return std::string(1, kind) + std::string(bytes);
  };
  const auto records_of = [](std::string_view file) {
    std::string records;
    while (!file.empty()) {
      uint64_t length;
      std::memcpy(&length, file.data(), sizeof(length));
      Put(&records, static_cast<uint16_t>(length));
      records += file.substr(kTfRecordHeaderBytes, length);
      file.remove_prefix(kTfRecordHeaderBytes + length + kTfRecordFooterBytes);
    }
    return records;
  };
  for (const SnapshotCompression compression :
       {SnapshotCompression::kNone, SnapshotCompression::kSnappy, SnapshotCompression::kGzip}) {
    const std::unique_ptr<Disk> disk = MakeMemoryDisk();
    const std::unique_ptr<SnapshotWriter> writer =
        OpenSnapshotWriter(*disk, "/snapshot", compression).value();
    const bool written = writer->Append(rows, {}, nullptr).ok() &&
                         writer->Append(text, {}, nullptr).ok() && writer->Complete(nullptr).ok();
    Require(written, "a snapshot is written");
    const std::string shard = disk->ReadFile("/snapshot/00000.shard").value();
    corpus.Add(with_kind(0, shard));
    corpus.Add(with_kind(0, std::string_view(shard).substr(0, shard.size() / 2)));
    corpus.Add(with_kind(1, records_of(shard)));
    corpus.Add(with_kind(2, std::string_view(records_of(disk->ReadFile("/snapshot/index").value()))
                                .substr(sizeof(uint16_t))));
  }
  for (const char* content : {"", "abcabcabcabc", "a text of few repetitions"}) {
    corpus.Add(with_kind(3, SnappyCompress(content).value()));
  }
}

void MakeHandshakes(const std::filesystem::path& folder) {
  Corpus corpus(folder, "peer_handshake");
  PeerHandshake::Options options;
  options.secret = JobSecret::FromText("a secret of the fuzz target").value();
  options.peer = "worker 1";
  const auto anybody = [](const PeerPurpose&) { return OkStatus(); };
  FixedRandom random(7);
  PeerHandshake connector = PeerHandshake::Connector(options, {"a group", 1, 0}, random);
  PeerHandshake acceptor = PeerHandshake::Acceptor(options, 0, anybody, random);
  std::string said[2];
  for (int turn = 0; turn < 4; ++turn) {
    for (const int way : {0, 1}) {
      std::string bytes = (way == 0 ? connector : acceptor).TakeOutput();
      said[way] += bytes;
      PeerHandshake& to = way == 0 ? acceptor : connector;
      while (!bytes.empty() && to.wanted() != 0) {
        const std::string part = bytes.substr(0, to.wanted());
        bytes.erase(0, part.size());
        if (!to.Consume(part).ok()) std::abort();
      }
    }
  }
  if (!connector.done() || !acceptor.done()) std::abort();
  corpus.Add(std::string(1, '\0') + said[0]);
  corpus.Add(std::string(1, '\1') + said[1]);
  corpus.Add(std::string(1, '\1') + PeerHandshake::RefusalFrame(Errors()[0]));
  corpus.Add(std::string(1, '\2'));
  for (const uint16_t place : {9, 14, 15, 40, 120, 0x8000 + 9, 0x8000 + 60, 0x8000 + 150}) {
    for (const uint8_t action : {0, 2}) {
      std::string input(1, '\2');
      Put(&input, place);
      Put(&input, action);
      Put(&input, uint8_t{1});
      corpus.Add(input);
    }
  }
}

void MakeFrames(const std::filesystem::path& folder) {
  Corpus corpus(folder, "link_frame");
  for (int kind = 1; kind <= static_cast<int>(kLastFrameKind); ++kind) {
    FrameHeader header;
    header.kind = static_cast<FrameKind>(kind);
    header.epoch = 1;
    header.sequence = 7;
    header.body_bytes = kind == 2 ? 0 : 40;
    header.data_bytes = kind <= 2 ? 64 : 0;
    std::string input(1, kind % 2 == 0 ? '\0' : '\1');
    input.resize(1 + kFrameHeaderBytes);
    EncodeFrameHeader(header, input.data() + 1);
    corpus.Add(input);
  }
  for (const CallHeader& header : Headers()) {
    std::string input(1, '\2');
    AppendCallHeader(header, &input);
    corpus.Add(input);
  }
  for (const Status& status : Errors()) {
    std::string input(1, '\3');
    AppendStatus(status, &input);
    corpus.Add(input);
  }
}

// What the target makes frames of.
void PutFrame(FrameKind kind, uint8_t flags, int8_t sequence, uint16_t argument,
              const std::string& body, uint16_t data_bytes, std::string* input) {
  Put(input, static_cast<uint8_t>(kind));
  Put(input, flags);
  Put(input, int8_t{0});  // the epoch's distance from the right one
  Put(input, static_cast<int8_t>(sequence - 1));
  Put(input, argument);
  Put(input, static_cast<uint16_t>(body.size()));
  Put(input, data_bytes);
  *input += body;
}

// What once was waited behind for ever.
void MakeFoundPeers(Corpus* corpus) {
  std::string input(1, '\0');
  PutFrame(FrameKind::kData, 0, 1, 0, "", 0, &input);  // of a call that the peer has not made
  corpus->Add(input);
  input = std::string(1, '\5');
  PutFrame(FrameKind::kSendData, 0, 1, 0, "", 0, &input);  // of a send to which it has not come
  corpus->Add(input);
}

// Groups whose calls begin with a tree: the peer's word, or that of rank 0, its header where the
// payload does not go along, and the payload.
void MakeTreePeers(Corpus* corpus) {
  constexpr uint8_t kLarge = 8, kTree = 16, kUpper = 32, kChain = 64;
  for (const uint8_t group : {uint8_t{kTree}, uint8_t{kTree | kUpper}, uint8_t{kTree | kChain},
                              uint8_t{kTree | kUpper | kChain}}) {
    for (const uint8_t which : {0, 1, 2, 3, 7, 0 | kLarge, 2 | kLarge, 7 | kLarge}) {
      constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast,
                                       CollectiveOp::kAllGather, CollectiveOp::kBarrier};
      const bool is_chain = (group & kChain) != 0;
      const uint16_t count = (which & kLarge) == 0 ? 16 : 8000;
      CallHeader header;
      header.op = which % 8 == 7 ? CollectiveOp::kReduceScatter : kOps[which % 8];
      header.num_tensors = header.op == CollectiveOp::kBarrier ? 0 : 1;
      header.uneven = header.op == CollectiveOp::kAllGather;
      header.root = header.op == CollectiveOp::kBroadcast ? 1 : 0;
      header.reduction =
          which % 8 == 0 || which % 8 == 7 ? ReduceOp::kMax : ReduceOp::kSum;
      if (header.num_tensors != 0) header.first = {DType::kUint8, Dims({count})};
      std::string body;
      AppendCallHeader(header, &body);
      const bool goes_along = !is_chain && header.op == CollectiveOp::kAllReduce;
      std::string input(1, static_cast<char>(group | which));
      PutFrame(FrameKind::kRoster, 0, 1, 0, body.substr(0, 1) + "11", 0, &input);
      PutFrame(FrameKind::kTree, 0, 1, static_cast<uint16_t>(body.size()), body,
               goes_along ? count : 0, &input);
      if (!goes_along) {
        PutFrame(FrameKind::kCall, 0, 1, count, body, 0, &input);
        // Rows and bytes of what goes around, and what little goes along, are all 'd'.
        if (header.uneven) PutFrame(FrameKind::kData, 0, 1, 0, "", 16, &input);
        const uint16_t share = header.op == CollectiveOp::kReduceScatter ? count / 2 : count;
        const uint16_t first = std::min<uint16_t>(share, is_chain && share == 8000 ? 4032 : share);
        PutFrame(FrameKind::kData, 0, 1, 0, "", first, &input);
        PutFrame(FrameKind::kData, 0, 1, 1, "", share == first ? share : share - first, &input);
      }
      corpus->Add(input);
    }
  }
}

void MakePeers(const std::filesystem::path& folder) {
  Corpus corpus(folder, "link_peer");
  const CollectiveOp ops[] = {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast,
                              CollectiveOp::kAllGather, CollectiveOp::kBarrier,
                              CollectiveOp::kReceive,   CollectiveOp::kSend,
                              CollectiveOp::kAllToAll,  CollectiveOp::kReduceScatter};
  for (uint8_t which = 0; which < 16; ++which) {
    const CollectiveOp op = ops[which % 8];
    const uint16_t count = which < 8 ? 16 : 34464;  // the low bits of 100'000
    CallHeader header;
    header.op = op;
    header.num_tensors = op == CollectiveOp::kBarrier ? 0 : 1;
    header.uneven = op == CollectiveOp::kAllGather || op == CollectiveOp::kAllToAll;
    header.root = op == CollectiveOp::kBroadcast ? 1 : 0;
    header.reduction = which % 8 == 0 || which % 8 == 7 ? ReduceOp::kMax : ReduceOp::kSum;
    header.first = {DType::kUint8, Dims({which < 8 ? 16 : 100'000})};
    std::string body;
    if (header.num_tensors == 0) header.first = {};
    AppendCallHeader(header, &body);
    const FrameKind kind = op == CollectiveOp::kSend      ? FrameKind::kSend
                           : op == CollectiveOp::kReceive ? FrameKind::kReceive
                                                          : FrameKind::kCall;
    const uint16_t data = kind == FrameKind::kReceive || count != 16 ? 0 : 16;
    std::string input(1, static_cast<char>(which));
    PutFrame(kind, 0, 1, data, body, data, &input);
    corpus.Add(input);
    PutFrame(kind == FrameKind::kCall ? FrameKind::kData : FrameKind::kSendData, 0, 1, 0, "", 4096,
             &input);
    corpus.Add(input);
    std::string error;
    AppendStatus(Errors()[which % 2], &error);
    PutFrame(which % 2 == 0 ? FrameKind::kError : FrameKind::kGoodbye, 0, 1, 0, error, 0, &input);
    corpus.Add(input);
  }
  MakeFoundPeers(&corpus);
  MakeTreePeers(&corpus);
}

void MakeSharedHeaders(const std::filesystem::path& folder) {
  Corpus corpus(folder, "shared_header");
  for (const CallHeader& header : Headers()) {
    std::vector<std::byte> bytes;
    EncodeSharedHeader(header, &bytes);
    std::string input(1, static_cast<char>(static_cast<int>(header.op) - 1));
    input += '\0';
    input.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    corpus.Add(input);
    input[1] = '\1';
    input.resize(input.size() - bytes.size() / 3);
    corpus.Add(input);
  }
}

// A message as the target takes it: a descriptor of a kind and size, and "window" or "none".
void PutWindow(uint8_t kind, uint32_t size, uint8_t text, std::string* input) {
  Put(input, kind);
  Put(input, size);
  Put(input, text);
}

void PutPlace(uint8_t rank, uint64_t offset, uint64_t bytes, std::string* input) {
  Put(input, rank);
  Put(input, offset);
  Put(input, bytes);
  Put(input, uint8_t{0});  // taken as they are
}

void MakeWindows(const std::filesystem::path& folder) {
  Corpus corpus(folder, "window_passing");
  for (const uint8_t shape : {0, 1, 2}) {
    const int ranks = 2 + shape / 2;
    const int peers = shape % 2 == 0 ? ranks - 1 : 1;
    // Windows, and no windows of each kind in the last place.
    for (uint8_t kind = 0; kind < 8; ++kind) {
      std::string input(1, static_cast<char>(shape));
      for (int peer = 0; peer < peers; ++peer) {
        const int messages = shape % 2 == 0 ? 1 : ranks;
        Put(&input, static_cast<uint8_t>(messages));
        for (int i = 0; i < messages; ++i) {
          const bool is_last = peer + 1 == peers && i + 1 == messages;
          PutWindow(is_last ? kind : 0, 5, is_last && kind == 5 ? 1 : 0, &input);
        }
      }
      for (uint8_t rank = 0; rank < ranks; ++rank) {
        PutPlace(rank, 4096, 4096, &input);
        PutPlace(rank, 4097, 4096, &input);
        PutPlace(rank, 6 * 4096, 0, &input);
        PutPlace(rank, UINT64_MAX - 7, 16, &input);
      }
      corpus.Add(input);
    }
  }
}

WorkerInfo Worker(int64_t number) {
  WorkerInfo info;
  info.worker = number;
  info.task = "worker " + std::to_string(number);
  info.num_replicas = 2;
  info.usable_cores = 2;
  info.pid = 4711;
  info.host = "host";
  info.boot_id = "boot";
  info.tcp_address = "127.0.0.1:2222";
  info.local_address = "@tutti-1";
  info.build = "tutti";
  return info;
}

void MakeMessages(const std::filesystem::path& folder) {
  Corpus corpus(folder, "membership");
  const Status error = Errors()[1];
  Hello hello;
  hello.incarnation = 9;
  hello.tasks = {"worker 0", "worker 1"};
  hello.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
  hello.info = Worker(1);
  RegroupPart regroup{.id = 3, .name = "group", .among = {{0, 1}, {1, 2}}, .part = "part"};
  const Note note{"topic", {0, 1}, {{1, 1}}, "content"};
  const MessageToCoordinator to_coordinator[] = {
      hello, Heartbeat{}, ExchangePart{"key", "part"}, ExchangeWithdrawal{"key", error},
      Suspicion{1, "silent", 2}, JobAbort{error, true}, Goodbye{}, Goodbye{error}, regroup,
      RegroupWithdrawal{3, error}, note, Resignation{"group", {{0, 1}, {1, 2}}, 4}};
  for (const MessageToCoordinator& message : to_coordinator) {
    corpus.Add(std::string(1, '\0') + Encode(message));
  }
  Welcome welcome;
  welcome.workers = {Worker(0), Worker(1)};
  welcome.silence_limit_ns = 1;
  welcome.heartbeat_interval_ns = 1;
  welcome.newcomers = {{1, 3}};
  welcome.absent = {{1, error}};
  const MessageToMember to_member[] = {
      Refusal{error}, Gathering{"worker 1", error}, welcome, Heartbeat{},
      ExchangeResult{"key", {"a", "b"}, true}, ExchangeFailure{"key", error}, JobFailure{error},
      Departure{1, error}, Arrival{Worker(1), 4}, RegroupResult{3, 2, {{0, 1}}, {"part"}, true},
      RegroupFailure{3, error}, note};
  for (const MessageToMember& message : to_member) {
    corpus.Add(std::string(1, '\1') + Encode(message));
  }
}

std::string Packed(const std::string& content, RecordCompression compression) {
  const std::unique_ptr<Disk> disk = MakeMemoryDisk();
  std::unique_ptr<WritableFile> file = disk->Create("/file").value();
  if (compression != RecordCompression::kNone) {
    file = MakeCompressedWriter(std::move(file), compression, kDefaultCompressionLevel).value();
  }
  const bool written = file->Append(content).ok() && file->Commit().ok();
  Require(written, "a file is written");
  return disk->ReadFile("/file").value();
}

std::string FramesOf(const std::vector<std::string>& records) {
  std::string content;
  for (const std::string& record : records) {
    std::string length;
    Put(&length, uint64_t{record.size()});
    content += length;
    Put(&content, MaskCrc32c(Crc32c(length.data(), length.size())));
    content += record;
    Put(&content, MaskCrc32c(Crc32c(record.data(), record.size())));
  }
  return content;
}

// As they are, and each packed in both ways, whole and cut off; read in blocks of several sizes.
void AddFiles(const std::filesystem::path& folder, const char* target,
              const std::vector<std::string>& contents) {
  Corpus corpus(folder, target);
  for (const std::string& content : contents) {
    for (uint8_t compression = 0; compression < 3; ++compression) {
      const std::string file = Packed(content, static_cast<RecordCompression>(compression + 1));
      std::string head(1, static_cast<char>(compression));
      head += static_cast<char>(7 * compression);
      head += '\1';
      corpus.Add(head + file);
      corpus.Add(head + file.substr(0, file.size() - std::min<size_t>(3, file.size())));
    }
  }
}

void MakeRecordFiles(const std::filesystem::path& folder) {
  AddFiles(folder, "text_line",
           {"one\ntwo\r\n\nfour\r\r\nlast", "\r",
            std::string(300, 'x') + "\n" + std::string(40, '\n')});
  std::string corrupt = FramesOf({"one", "two", "three"});
  corrupt[19 + 12] ^= 1;
  std::string large = FramesOf({"one"});
  large[7] = '\x7f';
  AddFiles(folder, "tf_record",
           {FramesOf({"one", "", "three"}), FramesOf({std::string(300, 'x')}), corrupt, large});
}

// A byte for the columns' dtypes, then the query.
void MakeQueries(const std::filesystem::path& folder) {
  Corpus corpus(folder, "sql_query");
  const std::pair<int, const char*> queries[] = {
      {0, "select name from people"},
      {4, "select id from people order by id"},
      {8, "select id from people where id > 2 -- rest"},
      {5, "select id, score from people"},
      {3, "select data, id, id, score from people order by id limit 2 offset 1"},
      {4, "with recursive n(i) as (select 0 union all select i + 1 from n) select i from n"},
      {4, "with recursive n(i) as (select 0 union all select i + 1 from n) "
          "select i from n where i < 0"},
      {0, "select group_concat(a.name || b.name) from people a join people b group by a.id"},
      {4, "select abs(-9223372036854775808)"},
      {0, "select zeroblob(1000000000)"},
      {0, "select printf('%1000000d', 7)"},
      {1, "values (1, 2), (x'00', null)"},
      {4, "insert into people values (4, '', 0, null) returning id"},
      {4, "select 1; select 2"},
      {0, "pragma table_info(people)"},
      {0, "attach 'other.db' as other"},
      {0, "select json_extract('{\"a\": [1, 2]}', '$.a[1]')"},
      {0, "select sql from sqlite_master"},
  };
  for (const auto& [shape, query] : queries) {
    corpus.Add(std::string(1, static_cast<char>(shape)) + query);
  }
}

// A byte for the dtype that is asked for, then the tensor.
void MakeTensors(const std::filesystem::path& folder) {
  Corpus corpus(folder, "tensor_proto");
  const std::string_view texts[] = {"one", "", "three"};
  std::vector<BytesView> views;
  for (const std::string_view text : texts) views.push_back(BytesView{text.data(), text.size()});
  for (const Ref<Tensor>& tensor :
       {Tensor::Scalar<int64_t>(7), Tensor::Vector<float>({1.5f, -2.0f}),
        Tensor::Vector<bool>({true, false}), Tensor::Scalar(Complex64{1, 2}),
        Tensor::FromStrings(Shape({3, 1}), views).value(),
        Tensor::Create(DType::kUint16, Shape({2, 0})).value()}) {
    const Ref<Tensor> serialized = SerializeTensor(*tensor).value();
    const auto dtype = static_cast<char>(static_cast<int32_t>(tensor->dtype()) - 1);
    corpus.Add(dtype + std::string(serialized->item<BytesView>().text()));
  }
  // Elements one by one, the last of which stands for the rest; byte strings as content.
  using std::string_literals::operator""s;
  for (const auto& [dtype, bytes] :
       {std::pair{DType::kInt64, "\x08\x09\x12\x04\x12\x02\x08\x03\x52\x02\x05\x07"s},
        std::pair{DType::kFloat64, "\x08\x02\x12\x00\x31\0\0\0\0\0\0\xf8\x3f"s},
        std::pair{DType::kFloat16, "\x08\x13\x12\x04\x12\x02\x08\x02\x6a\x03\x80\xf8\x00"s},
        std::pair{DType::kBytes, "\x08\x07\x12\x04\x12\x02\x08\x02\x22\x05\x02\x01xyz"s}}) {
    corpus.Add(static_cast<char>(static_cast<int32_t>(dtype) - 1) + bytes);
  }
}

// ---- Datasets ----

std::string Field(int number, std::string_view bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
         std::string(bytes);
}

void MakeExamples(const std::filesystem::path& folder) {
  Corpus corpus(folder, "example");
  using std::string_literals::operator""s;
  const auto feature = [](std::string_view key, int list, std::string_view values) {
    return Field(1, Field(1, key) + Field(2, Field(list, values)));
  };
  const std::string whole = feature("i", 3, Field(1, "\x07\x81\x01"s)) +
                            feature("f", 2, Field(1, "\0\0\x80\x3f"s)) +
                            feature("s", 1, Field(1, "text")) +
                            feature("b", 3, "\x08\x05"s);
  for (const char parser : {'\0', '\1'}) {
    corpus.Add(parser + Field(1, whole));
    corpus.Add(parser + Field(1, whole + feature("i", 3, Field(1, "\x01\x02"s))));
    corpus.Add(parser + Field(1, feature("f", 2, "\x0d\0\0\0\0"s)));
    corpus.Add(parser + Field(7, "unknown") + Field(1, feature("other", 1, "")));
  }
}

// The definitions of all operations, as they are written down (core/dataset/ops/goldens).
void MakeDefinitions(const std::filesystem::path& folder) {
  Corpus corpus(folder, "dataset_definition");
  std::vector<std::filesystem::path> goldens;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder / "../../../core/dataset/ops/goldens")) {
    goldens.push_back(entry.path());
  }
  std::sort(goldens.begin(), goldens.end());
  for (const std::filesystem::path& path : goldens) {
    std::ifstream file(path);
    std::string line;
    std::string hex;
    bool is_definition = false;
    while (std::getline(file, line)) {
      if (!line.starts_with("  ")) {
        is_definition = line == "definition";
      } else if (is_definition) {
        hex += line.substr(2);
      }
    }
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    std::string_view content;
    if (OpenEnvelope("TUTTI-D1", bytes, &content) == nullptr) corpus.Add(std::string(content));
  }
}

void MakeExpressions(const std::filesystem::path& folder) {
  Corpus corpus(folder, "expression");
  const auto add = [&](DType dtype, PartialShape shape, auto&& build) {
    const Ref<Expression> trace =
        Expression::Create(ElementSpec::OfTensor(dtype, std::move(shape))).value();
    const int64_t x = trace->Parameter(0).value();
    const int64_t result = build(*trace, x);
    corpus.Add(MakeExpressionFunction(*trace, Ref<const TreeSpec>::Retain(&TreeSpec::Leaf()),
                                      {{result}})
                   .value()
                   ->Define()
                   .value()
                   .payload);
  };
  const auto apply = [](Expression& trace, std::string_view name, std::vector<int64_t> inputs,
                        std::vector<int64_t> numbers = {}) {
    ExpressionAttributes attributes;
    attributes.numbers = std::move(numbers);
    return trace.Apply(name, inputs, std::move(attributes)).value();
  };
  const auto weak = [](Expression& trace, int64_t number) {
    return trace.Constant(Tensor::Scalar<int64_t>(number), true).value();
  };
  add(DType::kInt64, PartialShape::Scalar(), [&](Expression& trace, int64_t x) {
    return apply(trace, "add", {apply(trace, "multiply", {x, weak(trace, 3)}), weak(trace, 1)});
  });
  add(DType::kInt64, PartialShape::Scalar(), [&](Expression& trace, int64_t x) {
    return apply(trace, "floor_divide", {x, weak(trace, 4)});
  });
  add(DType::kInt64, PartialShape({2}), [&](Expression& trace, int64_t x) {
    return apply(trace, "reshape", {x}, {2, 1});
  });
  add(DType::kFloat32, PartialShape({3}), [&](Expression& trace, int64_t x) {
    return apply(trace, "multiply", {x, x});
  });
}

void MakePositions(const std::filesystem::path& folder) {
  Corpus corpus(folder, "position");
  const PositionPipelines world;
  for (size_t kind = 0; kind < world.pipelines.size(); ++kind) {
    const Ref<Iterator> iterator =
        Iterator::Create(world.pipelines[kind], {}, CallOptions()).value();
    for (int i = 0; i < 3; ++i) {
      const std::string state = iterator->Save(CallOptions()).value();
      std::string_view content;
      Require(OpenEnvelope("TUTTI-I2", state, &content) == nullptr, "a position is sealed");
      corpus.Add(static_cast<char>(kind) + std::string(content));
      (void)iterator->Next(CallOptions());
    }
    (void)iterator->Close(CallOptions());
  }
  const Ref<DistributedIterator> iterator = world.Distributed();
  (void)iterator->Next(CallOptions());
  const auto content = [](std::string_view state) {
    for (const char* kind : {"distributed_iterator", "dealt_iterator", "joint_iterator"}) {
      StateReader envelope(state);
      envelope.Section(kind);
      (void)envelope.Int();
      (void)envelope.Int();
      const std::string_view bytes = envelope.Bytes();
      if (envelope.ok()) return std::string(bytes);
    }
    return std::string();
  };
  const auto count = static_cast<char>(world.pipelines.size());
  const std::string own = content(iterator->Save(CallOptions()).value());
  corpus.Add(count + own);
  corpus.Add(static_cast<char>(count + 2) + content(iterator->SaveJoint(CallOptions()).value()));
  std::string several(1, static_cast<char>(count + 3));
  several += '\1';
  for (int i = 0; i < 2; ++i) {
    several += '\0';
    Put(&several, static_cast<uint16_t>(own.size()));
    several += own;
  }
  corpus.Add(several);
  (void)iterator->Close(CallOptions());
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  tutti::MakeHandshakes(argv[1]);
  tutti::MakeSnapshots(argv[1]);
  tutti::MakeFrames(argv[1]);
  tutti::MakePeers(argv[1]);
  tutti::MakeSharedHeaders(argv[1]);
  tutti::MakeWindows(argv[1]);
  tutti::MakeMessages(argv[1]);
  tutti::MakeRecordFiles(argv[1]);
  tutti::MakeQueries(argv[1]);
  tutti::MakeTensors(argv[1]);
  tutti::MakeExamples(argv[1]);
  tutti::MakeDefinitions(argv[1]);
  tutti::MakeExpressions(argv[1]);
  tutti::MakePositions(argv[1]);
  return 0;
}
