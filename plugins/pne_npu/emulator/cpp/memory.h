// Blocks of device memory and of pinned host memory: where they are, what they hold, whether they live.
//
// The address of a device block is one that the host cannot read; its bytes lie elsewhere (`data`), where only the
// emulator looks. In the run mode "device" both are the same. Addresses are not given again for a long time after a
// free, so that stale ones are recognised.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "report.h"

namespace emu {

enum class Place { device, pinned, registered };

struct Block {
    Place place = Place::device;
    int device = -1;
    char *address = nullptr;  // what the program is given
    char *data = nullptr;     // where its bytes are
    std::size_t size = 0;     // what the program asked for
    std::size_t charged = 0;  // what the device's account says
    std::size_t mapped = 0;
    bool shared_weights = false;
    std::atomic<int> pending{0};  // tasks submitted that use it
    std::atomic<bool> freed{false};
    Trail made;
    Trail ended;
};

using BlockPtr = std::shared_ptr<Block>;

// A stretch of memory as a program named it.
struct Span {
    char *data = nullptr;  // where the bytes are
    BlockPtr block;        // none for pageable host memory
    bool is_device() const { return block != nullptr && block->place == Place::device; }
};

namespace memory {

// Take a block from a device's memory; nullptr if it has not that much left.
BlockPtr take_device(int device, std::size_t size, std::size_t spare);
BlockPtr take_pinned(std::size_t size);
BlockPtr register_host(void *address, std::size_t size);
// The block an address lies in, living or freed; nullptr if there is none.
BlockPtr find(const void *address);
// Give a block back; what it was used for wrongly is reported.
void release(const BlockPtr &block);
// Charge a device for something that is no block; false if it has not that much left.
bool charge(int device, std::size_t size);
void discharge(int device, std::size_t size);
// Bytes of a device that this process and those it shares it with have taken.
std::size_t used(int device);
std::size_t peak(int device);
std::vector<BlockPtr> living();
// Blocks of a device go with it.
void drop_device(int device);
// For the signal handler: whether an address may belong to a device.
bool may_be_device(const void *address);

// A stretch a program names, checked: alive, inside its block. `code` is 0 if it is; else it was reported.
//   what: the argument's name, for the report.
Span span(const void *address, std::size_t size, const char *what, int &code);
// Fill with a pattern that nobody takes for data.
void poison(char *data, std::size_t size);

}  // namespace memory
}  // namespace emu
