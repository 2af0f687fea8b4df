#include "src/invoke/group/leases/lease_placement.h"

#include <algorithm>
#include <map>

namespace invoker {
namespace {

// A core that is in use now counts only where none is free.
bool Better(const LeaseRoom& a, const LeaseRoom& b) {
  return a.free > 0 || b.free > 0 ? a.free > b.free : a.cores > b.cores;
}

// The open rooms with something free in the domain that has the fewest; all that are open if
// nothing is free.
std::vector<size_t> LeastUsed(const std::vector<LeaseRoom>& rooms, const std::vector<size_t>& open,
                              std::map<size_t, uint32_t>* given) {
  const uint32_t none = UINT32_MAX;
  uint32_t fewest = none;
  for (const size_t room : open) {
    if (rooms[room].free > 0) fewest = std::min(fewest, (*given)[rooms[room].domain]);
  }
  if (fewest == none) return open;
  std::vector<size_t> least;
  for (const size_t room : open) {
    if (rooms[room].free > 0 && (*given)[rooms[room].domain] == fewest) least.push_back(room);
  }
  return least;
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
  const bool spread = std::any_of(open.begin(), open.end(), [&](size_t room) {
    return rooms[room].domain != rooms[open.front()].domain;
  });
  std::map<size_t, uint32_t> given_to;
  for (uint32_t given = 0; given < executors; ++given) {
    const std::vector<size_t> among = spread ? LeastUsed(rooms, open, &given_to) : open;
    size_t best = 0;
    if (pick != nullptr) {
      best = BestOf(rooms, {among[pick(among.size())], among[pick(among.size())]});
    }
    // Two full ones say nothing of the others.
    if (pick == nullptr || rooms[best].free <= 0) best = BestOf(rooms, among);
    ++given_to[rooms[best].domain];
    ++shares[best];
    --rooms[best].free;
    --rooms[best].cores;
  }
  return shares;
}

}  // namespace invoker
