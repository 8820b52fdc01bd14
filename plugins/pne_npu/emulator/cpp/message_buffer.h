// Buffers of acltdt: a header over a data area that several headers may share, chained to others.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "memory.h"

namespace emu {

constexpr std::size_t kUserBytes = 96;

// Device memory that goes when nobody refers to it.
struct Area {
    BlockPtr block;
    std::size_t capacity = 0;
    ~Area();
};

struct Message {
    std::shared_ptr<Area> area;
    std::size_t length = 0;  // bytes of the area that are valid
    std::array<char, kUserBytes> user{};
    std::vector<std::shared_ptr<Message>> chain;  // the others behind this head
    bool is_member = false;                       // of another's chain
    std::atomic<bool> is_queued{false};           // belongs to a queue, not to the program
    void *handle = nullptr;
    Trail made;
};

using MessagePtr = std::shared_ptr<Message>;

// A message with room for so many bytes; nullptr if the device has not that much.
MessagePtr make_message(int device, std::size_t size);
// Another header over the same bytes, of each member of a chain.
MessagePtr copy_of(const Message &message);
// Give a message a handle, if it has none, and take one away with all its chain.
void *handle_of(const MessagePtr &message);
void drop_handles(const MessagePtr &message);
// The message of a handle that the program owns and may pass on; `code` says what is wrong.
MessagePtr message_of(void *handle, int &code);
std::vector<Trail> living_messages();
void forget_messages();

}  // namespace emu
