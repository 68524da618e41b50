#include "core/collective/select/selector.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace tutti {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMostRanks = 1 << 20;

constexpr const char* kLocalityNames[] = {"in_process", "shared_memory", "tcp", "mixed",
                                          "shared_window", "hosts"};
constexpr const char* kAlgorithmNames[] = {"flat_fold", "slice_and_share", "slice_fold", "direct",
                                           "segments", "staged", "hierarchical", "flat", "tree",
                                           "chain", "ring"};
constexpr CollectiveOp kSelectedOps[] = {
    CollectiveOp::kAllReduce, CollectiveOp::kReduce,    CollectiveOp::kReduceScatter,
    CollectiveOp::kBroadcast, CollectiveOp::kAllGather, CollectiveOp::kGather,
    CollectiveOp::kScatter,   CollectiveOp::kAllToAll};

// The limits are where the curves of the algorithms have been measured to cross. "64KiB/ranks":
// all ranks' inputs together fit a second-level cache several times; "/peers": what a rank hands
// out before anybody has said that it listens.
constexpr const char* kBuiltInRows = R"(
all_reduce     in_process    2   160KiB      flat_fold
all_reduce     in_process    any 16KiB/ranks flat_fold
all_reduce     in_process    any 256         flat_fold
all_reduce     in_process    any 512KiB      staged
all_reduce     in_process    any any         slice_and_share
reduce         in_process    any 16KiB/ranks flat_fold
reduce         in_process    any 256         flat_fold
reduce         in_process    any any         slice_fold
reduce_scatter in_process    any 16KiB/ranks flat_fold
reduce_scatter in_process    any 256         flat_fold
reduce_scatter in_process    any any         slice_fold
broadcast      in_process    any any         direct
all_gather     in_process    any any         direct
gather         in_process    any any         direct
scatter        in_process    any any         direct
all_to_all     in_process    any any         direct
all_reduce     shared_memory 1   4KiB        flat_fold
all_reduce     shared_memory 2   96KiB       flat_fold
all_reduce     shared_memory 3-  64KiB/ranks flat_fold
all_reduce     shared_memory any any         slice_and_share 128KiB
reduce         shared_memory 1-3 any         slice_fold 128KiB
reduce         shared_memory 4-  64KiB/ranks slice_fold 128KiB
reduce         shared_memory 4-  any         slice_and_share 128KiB
reduce_scatter shared_memory any any         slice_fold 128KiB
broadcast      shared_memory any any         segments 64KiB
all_gather     shared_memory any any         segments 128KiB
gather         shared_memory any any         segments
scatter        shared_memory any any         segments 128KiB
all_to_all     shared_memory any any         segments 128KiB
all_reduce     shared_window 1-3 512KiB      staged
all_reduce     shared_window 4-  128KiB      staged
all_reduce     shared_window any any         slice_and_share
reduce         shared_window 1-3 16KiB       staged
reduce         shared_window 1-3 any         direct
reduce         shared_window 4-  any         staged
reduce_scatter shared_window any 16KiB       staged
reduce_scatter shared_window any any         direct
broadcast      shared_window 1-2 any         staged
broadcast      shared_window 3-  16KiB       staged
broadcast      shared_window 3-  any         direct
all_gather     shared_window any 16KiB       staged
all_gather     shared_window any any         direct
scatter        shared_window any 16KiB       staged
scatter        shared_window any any         direct
all_to_all     shared_window any 16KiB       staged
all_to_all     shared_window any any         direct
all_reduce     hosts         any any         hierarchical 1MiB
reduce         hosts         any any         hierarchical 1MiB
reduce_scatter hosts         any any         hierarchical 1MiB
broadcast      hosts         any any         hierarchical 4MiB
all_gather     hosts         any any         hierarchical
)";
// Many ranks: what goes over the tree all comes to rank 0, and a chain takes longer the more ranks
// there are. A large reduce_scatter has all pairs: a chain carries twice its bytes.
constexpr const char* kLinkRows = R"(
all_reduce     {0} 9-32 32KiB      tree
all_reduce     {0} 33- 1MiB/ranks  tree
all_reduce     {0} 9-  128KiB      chain 16KiB
all_reduce     {0} 9-  1MiB        chain 32KiB
all_reduce     {0} 9-  any         chain 64KiB
reduce         {0} 9-32 32KiB      tree
reduce         {0} 33- 1MiB/ranks  tree
reduce         {0} 9-  128KiB      chain 16KiB
reduce         {0} 9-  1MiB        chain 32KiB
reduce         {0} 9-  any         chain 64KiB
reduce_scatter {0} 9-  1MiB/ranks  chain 32KiB
broadcast      {0} 9-  any         tree
all_gather     {0} 9-  128KiB/ranks tree
all_gather     {0} 9-  any         ring
all_reduce     {0} 1-2 256KiB      flat_fold
all_reduce     {0} 3-4 192KiB/peers flat_fold
all_reduce     {0} 5-8 64KiB/peers flat_fold
all_reduce     {0} 1-2 any         slice_and_share 128KiB
all_reduce     {0} 3-8 any         slice_and_share 128KiB
reduce         {0} 1-8 64KiB/peers flat_fold
reduce         {0} 1-2 any         slice_and_share 256KiB
reduce         {0} 3-8 any         slice_and_share 128KiB
reduce_scatter {0} any 64KiB/peers flat_fold
reduce_scatter {0} any 4KiB        flat_fold
reduce_scatter {0} 1-2 any         slice_and_share 256KiB
reduce_scatter {0} 3-  any         slice_and_share 128KiB
broadcast      {0} 1-8 any         segments
all_gather     {0} 1-8 any         segments
gather         {0} any any         segments
scatter        {0} any any         segments
all_to_all     {0} any any         segments
)";

// What there is to choose: where, of which collective, and up to how many bytes it can.
struct Ability {
  CollectiveAlgorithm algorithm;
  uint32_t ops;         // bits by CollectiveOp
  uint32_t localities;  // bits by Locality
  int64_t most_bytes;
  int64_t least_chunk;  // 0: no chunk can be chosen
  int64_t most_chunk;
  int64_t usual_chunk = 128 * kKiB;  // of a row that says none
};

template <typename Enum>
constexpr uint32_t Bit(Enum value) {
  return uint32_t{1} << static_cast<uint32_t>(value);
}

constexpr uint32_t kAllReduce = Bit(CollectiveOp::kAllReduce);
constexpr uint32_t kReduce = Bit(CollectiveOp::kReduce);
constexpr uint32_t kReduceScatter = Bit(CollectiveOp::kReduceScatter);
constexpr uint32_t kMoves = Bit(CollectiveOp::kBroadcast) | Bit(CollectiveOp::kAllGather) |
                            Bit(CollectiveOp::kGather) | Bit(CollectiveOp::kScatter) |
                            Bit(CollectiveOp::kAllToAll);
constexpr uint32_t kAllGather = Bit(CollectiveOp::kAllGather);
constexpr uint32_t kBroadcast = Bit(CollectiveOp::kBroadcast);
constexpr uint32_t kGather = Bit(CollectiveOp::kGather);
constexpr uint32_t kEqualMoves = kMoves & ~kBroadcast & ~kGather;
constexpr uint32_t kFolds = kAllReduce | kReduce | kReduceScatter;
// A gather makes a new tensor, from inputs that may be strided.
constexpr uint32_t kDirectMoves = kMoves & ~Bit(CollectiveOp::kGather);
constexpr uint32_t kInProcess = Bit(Locality::kInProcess);
constexpr uint32_t kShared = Bit(Locality::kSharedMemory);
constexpr uint32_t kSharedWindow = Bit(Locality::kSharedWindow);
constexpr uint32_t kLinks = Bit(Locality::kTcp) | Bit(Locality::kMixed);
constexpr uint32_t kHosts = Bit(Locality::kHosts);
constexpr uint32_t kFromHostToHost =
    kFolds | Bit(CollectiveOp::kBroadcast) | Bit(CollectiveOp::kAllGather);
constexpr int64_t kAny = SelectorRow::kAny;

constexpr Ability kAbilities[] = {
    // Copies of the inputs have a room of this size, at most.
    {CollectiveAlgorithm::kFlatFold, kFolds, kInProcess, 256 * kKiB, 0, 0},
    {CollectiveAlgorithm::kSliceAndShare, kAllReduce, kInProcess, kAny, 0, 0},
    {CollectiveAlgorithm::kStaged, kAllReduce, kInProcess, kAny, 0, 0},
    {CollectiveAlgorithm::kSliceFold, kReduce | kReduceScatter, kInProcess, kAny, 0, 0},
    {CollectiveAlgorithm::kDirect, kMoves, kInProcess, kAny, 0, 0},
    // A rank's block in the segment.
    {CollectiveAlgorithm::kFlatFold, kAllReduce, kShared, 512 * kKiB, 0, 0},
    {CollectiveAlgorithm::kSliceAndShare, kAllReduce | kReduce, kShared, kAny, 16 * kKiB,
     256 * kKiB},
    // Four rounds of slices, or chunks, side by side in a block.
    {CollectiveAlgorithm::kSliceFold, kReduce | kReduceScatter, kShared, kAny, 16 * kKiB,
     128 * kKiB},
    {CollectiveAlgorithm::kSegments, kEqualMoves, kShared, kAny, 16 * kKiB, 128 * kKiB},
    {CollectiveAlgorithm::kSegments, kBroadcast, kShared, kAny, 16 * kKiB, 256 * kKiB, 64 * kKiB},
    {CollectiveAlgorithm::kSegments, kGather, kShared, kAny, 0, 0},
    {CollectiveAlgorithm::kStaged, kFolds | kDirectMoves, kSharedWindow, kAny, 0, 0},
    {CollectiveAlgorithm::kSliceAndShare, kAllReduce, kSharedWindow, kAny, 0, 0},
    {CollectiveAlgorithm::kDirect, kFolds | kDirectMoves, kSharedWindow, kAny, 0, 0},
    // A peer takes so many bytes behind a header.
    {CollectiveAlgorithm::kFlatFold, kFolds, kLinks, 256 * kKiB, 0, 0},
    {CollectiveAlgorithm::kSliceAndShare, kFolds, kLinks, kAny, 16 * kKiB, 512 * kKiB},
    {CollectiveAlgorithm::kSegments, kMoves, kLinks, kAny, 0, 0},
    // The inputs of all ranks come to one, in a frame each.
    {CollectiveAlgorithm::kTree, kAllReduce | kReduce | kAllGather, kLinks, 64 * kKiB, 0, 0},
    {CollectiveAlgorithm::kTree, kBroadcast, kLinks, kAny, 0, 0},
    {CollectiveAlgorithm::kChain, kFolds, kLinks, kAny, 4 * kKiB, 512 * kKiB},
    {CollectiveAlgorithm::kRing, kAllGather, kLinks, kAny, 0, 0},
    {CollectiveAlgorithm::kHierarchical, kFolds | kBroadcast, kHosts, kAny, 64 * kKiB,
     64 * kKiB * kKiB, kKiB * kKiB},
    {CollectiveAlgorithm::kHierarchical, Bit(CollectiveOp::kAllGather), kHosts, kAny, 0, 0},
    {CollectiveAlgorithm::kFlat, kFromHostToHost, kHosts, kAny, 0, 0},
};

const Ability* FindAbility(CollectiveOp op, Locality locality, CollectiveAlgorithm algorithm) {
  for (const Ability& ability : kAbilities) {
    if (ability.algorithm == algorithm && (ability.ops & Bit(op)) != 0 &&
        (ability.localities & Bit(locality)) != 0) {
      return &ability;
    }
  }
  return nullptr;
}

std::vector<std::string> AlgorithmsOf(CollectiveOp op, Locality locality) {
  std::vector<std::string> names;
  for (const Ability& ability : kAbilities) {
    if ((ability.ops & Bit(op)) != 0 && (ability.localities & Bit(locality)) != 0) {
      names.push_back(AlgorithmName(ability.algorithm));
    }
  }
  return names;
}

template <typename Enum, size_t kCount>
std::optional<Enum> FindName(const char* const (&names)[kCount], std::string_view text) {
  for (size_t i = 0; i < kCount; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

std::string SizeText(int64_t bytes) {
  if (bytes == kAny) return "any";
  if (bytes != 0 && bytes % (kKiB * kKiB) == 0) return Format("{}MiB", bytes / (kKiB * kKiB));
  if (bytes != 0 && bytes % kKiB == 0) return Format("{}KiB", bytes / kKiB);
  return Format("{}", bytes);
}

std::string LimitText(const SelectorRow& row) {
  const char* const shared_by[] = {"", "/ranks", "/peers"};
  return SizeText(row.limit) + (row.limit == kAny ? "" : shared_by[static_cast<size_t>(row.per)]);
}

std::string RanksText(const SelectorRow& row) {
  if (row.least_ranks == 1 && row.most_ranks == kAny) return "any";
  if (row.most_ranks == kAny) return Format("{}-", row.least_ranks);
  if (row.least_ranks == row.most_ranks) return Format("{}", row.least_ranks);
  return Format("{}-{}", row.least_ranks, row.most_ranks);
}

std::string RowText(const SelectorRow& row) {
  std::string text = Format("{:<14} {:<13} {:<5} {:<11} {}", CollectiveOpName(row.op),
                            LocalityName(row.locality), RanksText(row), LimitText(row),
                            AlgorithmName(row.algorithm));
  if (row.chunk_bytes != 0) text += Format(" {}", SizeText(row.chunk_bytes));
  return text;
}

std::string TextOf(std::span<const SelectorRow> rows) {
  std::string text;
  for (const SelectorRow& row : rows) text += RowText(row) + "\n";
  return text;
}

std::vector<std::string> Words(std::string_view line) {
  std::vector<std::string> words;
  for (size_t i = 0; i < line.size();) {
    const size_t begin = line.find_first_not_of(" \t\r", i);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    i = end;
  }
  return words;
}

Status ParseRanks(std::string_view text, SelectorRow* row) {
  if (text == "any") return OkStatus();
  const size_t dash = text.find('-');
  const std::optional<int64_t> least = ParseInt64(text.substr(0, dash));
  std::optional<int64_t> most = least;
  if (dash != std::string_view::npos) {
    most = dash + 1 == text.size() ? kAny : ParseInt64(text.substr(dash + 1));
  }
  if (!least || !most || *least < 1 || *most < *least ||
      (*most > kMostRanks && *most != kAny)) {
    return InvalidArgument("ranks is {}; expected any, 4, 2-4 or 2-, and at most {}", Quote(text),
                           kMostRanks);
  }
  row->least_ranks = *least;
  row->most_ranks = *most;
  return OkStatus();
}

Status ParseLimit(std::string_view text, SelectorRow* row) {
  if (text == "any") return OkStatus();
  const size_t slash = text.find('/');
  const std::string_view shared_by =
      slash == std::string_view::npos ? std::string_view() : text.substr(slash);
  const std::optional<int64_t> bytes = ParseBytes(text.substr(0, slash));
  if (!bytes || *bytes < 0 ||
      (!shared_by.empty() && shared_by != "/ranks" && shared_by != "/peers")) {
    return InvalidArgument(
        "up to is {}; expected any, a size like 32KiB, 64KiB/ranks or 64KiB/peers", Quote(text));
  }
  row->limit = *bytes;
  row->per = shared_by == "/ranks"   ? SelectorRow::Per::kRanks
             : shared_by == "/peers" ? SelectorRow::Per::kPeers
                                     : SelectorRow::Per::kCall;
  return OkStatus();
}

Status ParseChunk(std::span<const std::string> words, const Ability& ability,
                  const std::string& what, SelectorRow* row) {
  if (words.empty()) {
    if (ability.least_chunk != 0) row->chunk_bytes = ability.usual_chunk;
    return OkStatus();
  }
  const std::string& text = words[0];
  if (ability.least_chunk == 0) {
    return InvalidArgument("chunk is {}, and {} has none to be chosen; leave it out", Quote(text),
                           what);
  }
  const std::optional<int64_t> bytes = ParseBytes(text);
  if (!bytes || *bytes < ability.least_chunk || *bytes > ability.most_chunk ||
      *bytes % kKiB != 0) {
    return InvalidArgument("chunk is {}; expected whole KiB from {} to {} for {}", Quote(text),
                           SizeText(ability.least_chunk), SizeText(ability.most_chunk), what);
  }
  row->chunk_bytes = *bytes;
  return OkStatus();
}

Result<SelectorRow> ParseRow(std::span<const std::string> words) {
  SelectorRow row;
  if (words.size() < 5 || words.size() > 6) {
    return InvalidArgument(
        "{} words; expected collective, where, ranks, up to, algorithm and perhaps a chunk",
        words.size());
  }
  std::vector<std::string> ops;
  for (const CollectiveOp op : kSelectedOps) {
    ops.push_back(CollectiveOpName(op));
    if (words[0] == ops.back()) row.op = op;
  }
  if (row.op == CollectiveOp::kNone) {
    return InvalidArgument("collective is {}; expected {}", Quote(words[0]), Join(ops, ", "));
  }
  const std::optional<Locality> locality = FindName<Locality>(kLocalityNames, words[1]);
  if (!locality) {
    return InvalidArgument("where is {}; expected {}", Quote(words[1]),
                           JoinAll(kLocalityNames, ", "));
  }
  row.locality = *locality;
  TUTTI_RETURN_IF_ERROR(ParseRanks(words[2], &row));
  TUTTI_RETURN_IF_ERROR(ParseLimit(words[3], &row));
  const std::string place = Format("{} over {}", words[0], words[1]);
  const std::vector<std::string> names = AlgorithmsOf(row.op, row.locality);
  const std::optional<CollectiveAlgorithm> algorithm =
      FindName<CollectiveAlgorithm>(kAlgorithmNames, words[4]);
  const Ability* ability =
      algorithm ? FindAbility(row.op, row.locality, *algorithm) : nullptr;
  if (ability == nullptr) {
    return InvalidArgument("algorithm of {} is {}; expected {}", place, Quote(words[4]),
                           Join(names, ", "));
  }
  row.algorithm = *algorithm;
  // The row must be possible for every number of ranks that it is for: the fewest have the most.
  const int64_t most = row.LimitOf(row.least_ranks);
  if (most > ability->most_bytes) {
    return InvalidArgument("up to is {}, and {} by {} can take {} at most", Quote(words[3]), place,
                           words[4], SizeText(ability->most_bytes));
  }
  TUTTI_RETURN_IF_ERROR(
      ParseChunk(words.subspan(5), *ability, Format("{} by {}", place, words[4]), &row));
  return row;
}

Status ParseRows(std::string_view text, std::string_view origin, std::vector<SelectorRow>* rows) {
  int64_t number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    const std::string_view row_texts = std::string_view(line).substr(0, line.find('#'));
    for (const std::string& row_text : Split(row_texts, ';')) {
      const std::vector<std::string> words = Words(row_text);
      if (words.empty()) continue;
      Result<SelectorRow> row = ParseRow(words);
      if (!row.ok()) {
        return row.status()
            .WithPrefix(Format("{}:{}", origin, number))
            .With("file", origin)
            .With("line", number);
      }
      rows->push_back(*row);
    }
  }
  return OkStatus();
}

uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

const std::vector<SelectorRow>& BuiltInRows() {
  static const std::vector<SelectorRow>* const rows = [] {
    auto* parsed = new std::vector<SelectorRow>();
    // A test parses them; nothing else can be wrong with a constant.
    ParseRows(kBuiltInRows, "built in", parsed).rep();
    ParseRows(fmt::format(fmt::runtime(kLinkRows), "tcp"), "built in", parsed).rep();
    ParseRows(fmt::format(fmt::runtime(kLinkRows), "mixed"), "built in", parsed).rep();
    return parsed;
  }();
  return *rows;
}

}  // namespace

const char* LocalityName(Locality locality) {
  return kLocalityNames[static_cast<size_t>(locality)];
}

const char* AlgorithmName(CollectiveAlgorithm algorithm) {
  return kAlgorithmNames[static_cast<size_t>(algorithm)];
}

int64_t SelectorRow::LimitOf(int64_t ranks) const {
  if (limit == kAny || per == Per::kCall) return limit;
  return limit / std::max<int64_t>(per == Per::kRanks ? ranks : ranks - 1, 1);
}

std::shared_ptr<const SelectorTable> SelectorTable::BuiltIn() {
  static const std::shared_ptr<const SelectorTable>* const table =
      new std::shared_ptr<const SelectorTable>(Parse("", "").value());
  return *table;
}

Result<std::shared_ptr<const SelectorTable>> SelectorTable::Parse(std::string_view text,
                                                                  std::string_view origin) {
  std::shared_ptr<SelectorTable> table(new SelectorTable());
  TUTTI_RETURN_IF_ERROR(ParseRows(text, origin, &table->rows_));
  table->num_own_rows_ = table->rows_.size();
  if (table->num_own_rows_ > kMostOwnRows) {
    return InvalidArgument("{}: {} rows; at most {}, leave out those that others cover", origin,
                           table->num_own_rows_, kMostOwnRows)
        .With("file", origin);
  }
  const std::vector<SelectorRow>& built_in = BuiltInRows();
  table->rows_.insert(table->rows_.end(), built_in.begin(), built_in.end());
  table->hash_ = Hash(TextOf(table->rows_));
  return std::shared_ptr<const SelectorTable>(std::move(table));
}

std::shared_ptr<const SelectorTable> SelectorTable::Reproducible(const SelectorTable& table) {
  std::shared_ptr<SelectorTable> copy(new SelectorTable(table));
  copy->reproducible_ = true;
  return copy;
}

std::string SelectorTable::ToString() const {
  return TextOf(rows_) +
         (reproducible_ ? "# reproducible: sums and products of floats of hosts are flat\n" : "");
}

std::string SelectorTable::OwnRows() const { return TextOf(rows().first(num_own_rows_)); }

Selector::Selector(const SelectorTable* table, Locality locality, int64_t ranks)
    : reproducible_(table != nullptr && table->reproducible()) {
  const std::shared_ptr<const SelectorTable> built_in = SelectorTable::BuiltIn();
  for (const SelectorRow& row : (table != nullptr ? *table : *built_in).rows()) {
    if (row.locality != locality || ranks < row.least_ranks || ranks > row.most_ranks) continue;
    std::vector<Step>& steps = steps_[static_cast<size_t>(row.op)];
    const int64_t limit = row.LimitOf(ranks);
    // Whatever it holds for, an earlier row holds for as well.
    if (!steps.empty() && limit <= steps.back().limit) continue;
    steps.push_back(Step{limit, Choice{row.algorithm, row.chunk_bytes}});
  }
}

bool Selector::MayChoose(CollectiveAlgorithm algorithm) const noexcept {
  return std::any_of(std::begin(kSelectedOps), std::end(kSelectedOps),
                     [&](CollectiveOp op) { return MostBytes(op, algorithm) >= 0; });
}

int64_t Selector::MostBytes(CollectiveOp op, CollectiveAlgorithm algorithm) const noexcept {
  int64_t most = -1;
  for (const Step& step : steps_[static_cast<size_t>(op)]) {
    if (step.choice.algorithm == algorithm) most = step.limit;
  }
  return most;
}

}  // namespace tutti
