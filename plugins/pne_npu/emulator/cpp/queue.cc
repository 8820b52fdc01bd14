#include "queue.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "acl/acl_error_codes.h"

namespace emu::queues {
namespace {

struct Queue {
    std::string name;
    std::size_t depth = 0;
    int device = 0;
    std::deque<MessagePtr> messages;
    Trail made;
};

struct World {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::uint32_t, Queue> all;
    std::vector<Route> routes;
    std::uint32_t last = 0;
};

World &world() {
    static World &made = *new World;
    return made;
}

// Ids of the queues a queue's messages go to; the world is locked.
std::vector<std::uint32_t> targets(std::uint32_t from) {
    std::vector<std::uint32_t> found;
    for (const Route &route : world().routes) {
        if (route.from == from) found.push_back(route.to);
    }
    return found;
}

// Move the first message of a queue to all its targets, if all have room.
bool move_one(std::uint32_t id, Queue &queue) {
    const std::vector<std::uint32_t> to = targets(id);
    if (to.empty() || queue.messages.empty()) return false;
    for (const std::uint32_t target : to) {
        const Queue &other = world().all.at(target);
        if (other.messages.size() >= other.depth) return false;
    }
    const MessagePtr message = queue.messages.front();
    queue.messages.pop_front();
    for (std::size_t i = 0; i < to.size(); ++i) {
        MessagePtr moved = i + 1 < to.size() ? copy_of(*message) : message;
        moved->is_queued = true;
        world().all.at(to[i]).messages.push_back(std::move(moved));
    }
    return true;
}

// A queue has changed: let everything move that can. Routes have no loops, so this ends.
void settle() {
    for (bool moved = true; moved;) {
        moved = false;
        for (auto &[id, queue] : world().all) moved = move_one(id, queue) || moved;
    }
    world().changed.notify_all();
}

bool leads_to(std::uint32_t from, std::uint32_t wanted) {
    if (from == wanted) return true;
    for (const std::uint32_t next : targets(from)) {
        if (leads_to(next, wanted)) return true;
    }
    return false;
}

int unknown(std::uint32_t id) {
    const bool was = id > 0 && id <= world().last;
    return misuse(ACL_ERROR_RT_PARAM_INVALID, was ? "use-after-destroy" : "foreign-handle",
                  "queue " + std::to_string(id) + (was ? " has been destroyed" : " was never created"));
}

// Wait until a queue is as wanted, then do something with it; all under the lock.
Waited when(std::uint32_t id, int timeout, const std::function<bool(Queue &)> &act, const std::function<bool()> &stopped) {
    std::unique_lock<std::mutex> lock(world().mutex);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout);
    for (;;) {
        const auto found = world().all.find(id);
        if (found == world().all.end() || (stopped && stopped())) return Waited::gone;
        if (act(found->second)) {
            settle();
            return Waited::done;
        }
        if (timeout < 0) world().changed.wait(lock);
        else if (std::chrono::steady_clock::now() >= end) return Waited::expired;
        else world().changed.wait_until(lock, end);
    }
}

}  // namespace

int create(const std::string &name, std::uint32_t depth, int device, std::uint32_t &id) {
    const std::lock_guard<std::mutex> lock(world().mutex);
    for (const auto &[other, queue] : world().all) {
        if (!name.empty() && queue.name == name) {
            return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "there is a queue of the name " + name + " already");
        }
    }
    id = ++world().last;
    world().all[id] = Queue{name.empty() ? "queue" + std::to_string(id) : name, depth, device, {}, trail()};
    return 0;
}

int destroy(std::uint32_t id) {
    const std::lock_guard<std::mutex> lock(world().mutex);
    if (world().all.count(id) == 0) return unknown(id);
    for (const Route &route : world().routes) {
        if (route.from == id || route.to == id) {
            return fail(ACL_ERROR_FAILURE, "EH0001", "queue " + std::to_string(id) + " has a route; unbind it first");
        }
    }
    for (const MessagePtr &message : world().all[id].messages) drop_handles(message);
    world().all.erase(id);
    world().changed.notify_all();
    return 0;
}

int check(std::uint32_t id) {
    const std::lock_guard<std::mutex> lock(world().mutex);
    return world().all.count(id) == 0 ? unknown(id) : 0;
}

int device_of(std::uint32_t id) {
    const std::lock_guard<std::mutex> lock(world().mutex);
    const auto found = world().all.find(id);
    return found == world().all.end() ? 0 : found->second.device;
}

Waited put(std::uint32_t id, const MessagePtr &message, int timeout, const std::function<bool()> &stopped) {
    return when(id, timeout, [&](Queue &queue) {
        if (queue.messages.size() >= queue.depth) return false;
        message->is_queued = true;
        queue.messages.push_back(message);
        return true;
    }, stopped);
}

Waited take(std::uint32_t id, MessagePtr &message, int timeout, const std::function<bool(const Message &)> &fits,
            const std::function<bool()> &stopped) {
    return when(id, timeout, [&](Queue &queue) {
        if (queue.messages.empty()) return false;
        if (fits && !fits(*queue.messages.front())) return true;
        message = std::move(queue.messages.front());
        message->is_queued = false;
        queue.messages.pop_front();
        return true;
    }, stopped);
}

void wake() {
    const std::lock_guard<std::mutex> lock(world().mutex);
    world().changed.notify_all();
}

int bind(const Route &route) {
    const std::lock_guard<std::mutex> lock(world().mutex);
    for (const std::uint32_t id : {route.from, route.to}) {
        if (world().all.count(id) == 0) return unknown(id);
    }
    if (leads_to(route.to, route.from)) {
        return fail(ACL_ERROR_FAILURE, "EH0001", "the route would close a loop");
    }
    for (const Route &one : world().routes) {
        if (one.from == route.from && one.to == route.to) return 0;
    }
    world().routes.push_back(route);
    settle();
    return 0;
}

int unbind(const Route &route) {
    const std::lock_guard<std::mutex> lock(world().mutex);
    auto &all = world().routes;
    for (auto one = all.begin(); one != all.end(); ++one) {
        if (one->from != route.from || one->to != route.to) continue;
        all.erase(one);
        settle();
        return 0;
    }
    return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "there is no such route");
}

std::vector<Route> routes() {
    const std::lock_guard<std::mutex> lock(world().mutex);
    return world().routes;
}

std::vector<Trail> living() {
    const std::lock_guard<std::mutex> lock(world().mutex);
    std::vector<Trail> found;
    for (const auto &[id, queue] : world().all) found.push_back(queue.made);
    return found;
}

void forget() {
    const std::lock_guard<std::mutex> lock(world().mutex);
    world().routes.clear();
    world().all.clear();
    world().changed.notify_all();
}

}  // namespace emu::queues
