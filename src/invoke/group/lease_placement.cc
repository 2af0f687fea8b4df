#include "src/invoke/group/lease_placement.h"

namespace invoker {
namespace {

// A core that is in use now counts only where none is free.
bool Better(const LeaseRoom& a, const LeaseRoom& b) {
  return a.free > 0 || b.free > 0 ? a.free > b.free : a.cores > b.cores;
}

size_t BestOf(const std::vector<LeaseRoom>& rooms, const std::vector<size_t>& open) {
  size_t best = open.front();
  for (const size_t room : open) {
    if (Better(rooms[room], rooms[best])) best = room;
  }
  return best;
}

}  // namespace

std::vector<uint32_t> PlaceExecutors(std::vector<LeaseRoom> rooms, uint32_t executors,
                                     const PickBelow& pick) {
  std::vector<uint32_t> shares(rooms.size(), 0);
  std::vector<size_t> open;
  for (size_t i = 0; i < rooms.size(); ++i) {
    if (rooms[i].open) open.push_back(i);
  }
  if (open.empty()) return shares;
  for (uint32_t given = 0; given < executors; ++given) {
    size_t best = 0;
    if (pick != nullptr) best = BestOf(rooms, {open[pick(open.size())], open[pick(open.size())]});
    // Two full ones say nothing of the others.
    if (pick == nullptr || rooms[best].free <= 0) best = BestOf(rooms, open);
    ++shares[best];
    --rooms[best].free;
    --rooms[best].cores;
  }
  return shares;
}

}  // namespace invoker
