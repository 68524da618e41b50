// Walks over a dataset in all the ways in which one can walk: element by element and in slabs,
// with breaks in which the position is saved and gone on from in another iterator, called off in
// between, passed over, and again. One table of datasets and their elements is tested with it per
// operation.
#ifndef TUTTI_CORE_DATASET_TESTING_OP_WALKS_TESTING_H_
#define TUTTI_CORE_DATASET_TESTING_OP_WALKS_TESTING_H_

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/call_options.h"
#include "core/base/error.h"
#include "core/dataset/testing/dataset_testing.h"

namespace tutti {

struct OpWalk {
  std::string name;
  std::function<Ref<Dataset>()> build;  // equal each time
  // As DatasetTest::Next has them, but for datasets in them, which are "<0 1 2>", one component's
  // after the other; of a failure, behind its "!", a part of the message. Of a dataset without an
  // end the first ones.
  std::vector<std::string> elements;
  bool endless = false;
  bool saves = true;
};

class OpWalksTest : public DatasetTest {
 protected:
  void ExpectAllWalks(const std::vector<OpWalk>& walks) {
    for (const OpWalk& walk : walks) {
      SCOPED_TRACE(walk.name);
      ExpectRest(walk, *Iterate(walk.build()), 0);
      ExpectSlabs(walk);
      ExpectCalledOff(walk);
      ExpectPassedOver(walk);
      if (!walk.endless) ExpectTwice(walk);
      if (walk.saves) ExpectBreaks(walk);
    }
  }

 private:
  using Texts = std::vector<std::string>;

  // Of a dataset in it all elements: "<0 1 2>".
  static std::string TextOf(const Value& value) {
    std::string text;
    for (const Leaf& leaf : value.leaves()) {
      if (leaf.kind() != LeafKind::kDataset) return value.ToString();
      text += text.empty() ? "<" : ", <";
      const Ref<Iterator> inner =
          Iterate(Ref<Dataset>::Retain(const_cast<Dataset*>(leaf.object_as<const Dataset>())));
      for (bool first = true;; first = false) {
        const std::string element = TextOf(inner->Next(CallOptions()));
        if (element == ".") break;
        text += (first ? "" : " ") + element;
      }
      text += ">";
    }
    return text;
  }
  static std::string TextOf(const Result<Ref<Value>>& element) {
    if (!element.ok()) return "!" + std::string(element.status().message());
    return *element ? TextOf(**element) : ".";
  }
  static bool Fits(const std::string& found, const std::string& expected) {
    if (!expected.starts_with("!")) return found == expected;
    return found.starts_with("!") && found.find(expected.substr(1)) != std::string::npos;
  }
  static void ExpectNext(const OpWalk& walk, Iterator& iterator, size_t place) {
    const std::string found = TextOf(iterator.Next(CallOptions()));
    const std::string expected = place < walk.elements.size() ? walk.elements[place] : ".";
    EXPECT_TRUE(Fits(found, expected)) << "element " << place << " is " << found << " and not "
                                       << expected;
  }
  // From `place` on, and the end, which stays.
  static void ExpectRest(const OpWalk& walk, Iterator& iterator, size_t place) {
    for (; place < walk.elements.size(); ++place) ExpectNext(walk, iterator, place);
    for (int i = 0; i < 2 && !walk.endless; ++i) ExpectNext(walk, iterator, place);
    Close(iterator);
  }

  // The slabs that calls for so many rows give, one after the other.
  void ExpectSlabs(const OpWalk& walk) {
    for (const int64_t most : {2, 3, 100, 10'000}) {
      SCOPED_TRACE(Format("slabs of {}", most));
      const Ref<Iterator> iterator = Iterate(walk.build());
      Texts found;
      while (found.size() < walk.elements.size()) {
        Slab slab;
        ASSERT_TRUE(iterator->NextSlab(most, CallOptions(), &slab).ok());
        ASSERT_LE(slab.rows, most);
        ASSERT_TRUE(slab.rows > 0 || !slab.status.ok() || slab.end);
        for (int64_t i = 0; i < slab.rows; ++i) found.push_back(TextOf(*slab.Row(i).value()));
        if (!slab.status.ok()) found.push_back("!" + std::string(slab.status.message()));
        if (slab.end) break;
      }
      ASSERT_GE(found.size(), walk.elements.size());
      for (size_t i = 0; i < walk.elements.size(); ++i) {
        EXPECT_TRUE(Fits(found[i], walk.elements[i])) << i << ": " << found[i];
      }
      Close(*iterator);
    }
  }

  // A call that is cancelled loses nothing.
  void ExpectCalledOff(const OpWalk& walk) {
    SCOPED_TRACE("called off");
    const auto cancellation = MakeRef<Cancellation>();
    cancellation->Cancel();
    const CallOptions call{Deadline::Infinite(), cancellation.get()};
    const Ref<Iterator> iterator = Iterate(walk.build());
    for (size_t place = 0; place < walk.elements.size(); ++place) {
      // What is there already, it may give.
      const Result<Ref<Value>> element = iterator->Next(call);
      if (!element.ok() && IsInterruption(element.status())) {
        ExpectNext(walk, *iterator, place);
      } else {
        EXPECT_TRUE(Fits(TextOf(element), walk.elements[place])) << place;
      }
    }
    ExpectRest(walk, *iterator, walk.elements.size());
  }

  // As far as the first failure.
  void ExpectPassedOver(const OpWalk& walk) {
    const auto failure = std::ranges::find_if(
        walk.elements, [](const std::string& text) { return text.starts_with("!"); });
    for (int64_t count = 0; count <= failure - walk.elements.begin(); ++count) {
      SCOPED_TRACE(Format("without the first {}", count));
      ExpectRest(walk, *Iterate(Ok(walk.build()->Skip(count))), static_cast<size_t>(count));
    }
  }

  // Repeat has a pass again only when it had an element, which a failure is, too.
  void ExpectTwice(const OpWalk& walk) {
    SCOPED_TRACE("twice");
    OpWalk twice = walk;
    twice.elements.insert(twice.elements.end(), walk.elements.begin(), walk.elements.end());
    ExpectRest(twice, *Iterate(Ok(walk.build()->Repeat(2))), 0);
    if (!walk.saves) return;
    // Saved in the second pass.
    const Ref<Dataset> dataset = Ok(walk.build()->Repeat(2));
    const Ref<Iterator> iterator = Iterate(dataset);
    const size_t place = walk.elements.size() + walk.elements.size() / 2;
    for (size_t i = 0; i < place; ++i) ExpectNext(twice, *iterator, i);
    ExpectRest(twice, *Resumed(dataset, *iterator), place);
    Close(*iterator);
  }

  static Ref<Iterator> Resumed(const Ref<Dataset>& dataset, Iterator& saved) {
    const Result<std::string> state = saved.Save(CallOptions());
    EXPECT_TRUE(state.ok()) << state.status().ToString();
    const Ref<Iterator> iterator = Iterate(dataset);
    if (!state.ok()) return iterator;
    const Status restored = iterator->Restore(*state, CallOptions());
    EXPECT_TRUE(restored.ok()) << restored.ToString();
    return iterator;
  }

  void ExpectBreaks(const OpWalk& walk) {
    const size_t count = walk.elements.size();
    // Unused, in the middle, exhausted; and what was resumed is resumed again.
    for (const size_t place : {size_t{0}, count / 2, count}) {
      SCOPED_TRACE(Format("saved at {}", place));
      const Ref<Iterator> iterator = Iterate(walk.build());
      for (size_t i = 0; i < place; ++i) ExpectNext(walk, *iterator, i);
      if (place == count && !walk.endless) ExpectNext(walk, *iterator, place);
      const Ref<Iterator> resumed = Resumed(walk.build(), *iterator);
      // The first one goes on, too, and is then gone.
      ExpectRest(walk, *iterator, place);
      const size_t later = std::min(place + 2, count);
      for (size_t i = place; i < later; ++i) ExpectNext(walk, *resumed, i);
      const Ref<Iterator> again = Resumed(walk.build(), *resumed);
      ExpectRest(walk, *again, later);
      ExpectRest(walk, *resumed, later);
    }
    SCOPED_TRACE("ten breaks");
    Ref<Iterator> iterator = Iterate(walk.build());
    const size_t step = std::max<size_t>(count / 10, 1);
    for (size_t place = 0; place < count; ++place) {
      if (place % step == 0) {
        const Ref<Iterator> resumed = Resumed(walk.build(), *iterator);
        Close(*iterator);
        iterator = resumed;
      }
      ExpectNext(walk, *iterator, place);
    }
    ExpectRest(walk, *iterator, count);
  }
};

}  // namespace tutti

#endif  // TUTTI_CORE_DATASET_TESTING_OP_WALKS_TESTING_H_
