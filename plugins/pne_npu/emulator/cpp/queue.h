// Queues of acltdt: what lies in them, and the routes that move messages from one to another.
//
// Everything here is guarded by one lock, and whoever changes a queue moves what its routes let move before he lets go
// of it; so routes need no thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "message_buffer.h"

namespace emu::queues {

struct Route {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
};

// Code of waiting for a queue: 0, expired, or the queue is gone.
enum class Waited { done, expired, gone };

// Make a queue; 0 and its id, or a code.
int create(const std::string &name, std::uint32_t depth, int device, std::uint32_t &id);
int destroy(std::uint32_t id);
// 0 if a queue lives, else the code of using one that does not (told as misuse).
int check(std::uint32_t id);
int device_of(std::uint32_t id);
// Put a message into a queue.
//   timeout: milliseconds, below 0 without limit, 0 for one try.
//   stopped: ends the wait early when it says so; may be empty.
Waited put(std::uint32_t id, const MessagePtr &message, int timeout, const std::function<bool()> &stopped = {});
// Take the first message out of a queue, if `fits` says so; arguments as for put.
Waited take(std::uint32_t id, MessagePtr &message, int timeout, const std::function<bool(const Message &)> &fits = {},
            const std::function<bool()> &stopped = {});
// Let those who wait ask their `stopped` again.
void wake();
int bind(const Route &route);
int unbind(const Route &route);
std::vector<Route> routes();
std::vector<Trail> living();
void forget();

}  // namespace emu::queues
