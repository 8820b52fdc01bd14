#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "acl/acl_error_codes.h"
#include "settings.h"
#include "shared_account.h"

namespace emu::memory {
namespace {

constexpr std::size_t kQuarantineBlocks = 4096;
constexpr std::size_t kQuarantineBytes = std::size_t{64} << 30;
constexpr unsigned char kCanary = 0xC5;
constexpr unsigned char kPoison = 0xA5;

struct Account {
    std::size_t used = 0;
    std::size_t peak = 0;
};

struct Registry {
    std::mutex mutex;
    std::map<std::uintptr_t, BlockPtr> blocks;  // by address, living and in quarantine
    std::deque<BlockPtr> quarantine;
    std::size_t quarantined = 0;
    std::map<int, Account> accounts;
};

Registry &registry() {
    static Registry &made = *new Registry;
    return made;
}

std::atomic<std::uintptr_t> device_low{UINTPTR_MAX};
std::atomic<std::uintptr_t> device_high{0};

std::size_t page() {
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::size_t rounded(std::size_t size) { return (size + page() - 1) / page() * page(); }

char *map(std::size_t size, int protection) {
    void *found = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return found == MAP_FAILED ? nullptr : static_cast<char *>(found);
}

void remember(const BlockPtr &block) {
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.blocks[reinterpret_cast<std::uintptr_t>(block->address)] = block;
}

void widen(const Block &block) {
    const auto low = reinterpret_cast<std::uintptr_t>(block.address);
    std::uintptr_t seen = device_low;
    while (low < seen && !device_low.compare_exchange_weak(seen, low)) {}
    seen = device_high;
    while (low + block.mapped > seen && !device_high.compare_exchange_weak(seen, low + block.mapped)) {}
}

// The bytes between the end of a pinned block and its page's end still hold what was put there.
bool canary_holds(const Block &block) {
    for (std::size_t i = block.size; i < rounded(block.size); ++i) {
        if (static_cast<unsigned char>(block.data[i]) != kCanary) return false;
    }
    return true;
}

void unmap(const Block &block) {
    if (block.place == Place::registered) return;
    munmap(block.address, block.mapped);
}

// Let go of what has been in quarantine longest; the registry is locked.
void shorten_quarantine(Registry &all) {
    while (all.quarantine.size() > kQuarantineBlocks || all.quarantined > kQuarantineBytes) {
        const BlockPtr oldest = all.quarantine.front();
        all.quarantine.pop_front();
        all.quarantined -= oldest->mapped;
        all.blocks.erase(reinterpret_cast<std::uintptr_t>(oldest->address));
        unmap(*oldest);
    }
}

std::string words(const Block &block) {
    const char *kind = block.place == Place::device ? "device" : block.place == Place::pinned ? "pinned" : "registered";
    return std::string(kind) + " block " + hex(block.address) + " of " + std::to_string(block.size) + " bytes";
}

}  // namespace

BlockPtr take_device(int device, std::size_t size, std::size_t spare) {
    const std::size_t whole = (size + 31) / 32 * 32 + spare;
    if (whole < size || !charge(device, whole)) return nullptr;
    auto block = std::make_shared<Block>();
    block->device = device;
    block->size = size;
    block->charged = whole;
    block->mapped = rounded(whole) + page();
    const bool open = settings().on_device;
    block->address = map(block->mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    block->data = open ? block->address : map(rounded(whole), PROT_READ | PROT_WRITE);
    if (block->address == nullptr || block->data == nullptr) {
        if (block->address != nullptr) munmap(block->address, block->mapped);
        discharge(device, whole);
        return nullptr;
    }
    if (settings().mode != Mode::lenient) poison(block->data, size);
    block->made = trail();
    widen(*block);
    remember(block);
    return block;
}

BlockPtr take_pinned(std::size_t size) {
    auto block = std::make_shared<Block>();
    block->place = Place::pinned;
    block->size = size;
    block->mapped = rounded(size) + page();
    block->address = map(block->mapped, PROT_READ | PROT_WRITE);
    if (block->address == nullptr) return nullptr;
    block->data = block->address;
    mprotect(block->address + rounded(size), page(), PROT_NONE);
    if (settings().mode != Mode::lenient) {
        poison(block->data, size);
        std::memset(block->data + size, kCanary, rounded(size) - size);
    }
    block->made = trail();
    remember(block);
    return block;
}

BlockPtr register_host(void *address, std::size_t size) {
    auto block = std::make_shared<Block>();
    block->place = Place::registered;
    block->size = size;
    block->mapped = size;
    block->address = static_cast<char *>(address);
    block->data = block->address;
    block->made = trail();
    remember(block);
    return block;
}

BlockPtr find(const void *address) {
    Registry &all = registry();
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    const std::lock_guard<std::mutex> lock(all.mutex);
    auto next = all.blocks.upper_bound(wanted);
    if (next == all.blocks.begin()) return nullptr;
    const BlockPtr &block = std::prev(next)->second;
    return wanted - reinterpret_cast<std::uintptr_t>(block->address) < block->mapped ? block : nullptr;
}

void release(const BlockPtr &block) {
    if (block->pending > 0) {
        caution("freed-in-use", words(*block) + " is freed while " + std::to_string(block->pending.load()) +
                                    " tasks that use it have not run");
    }
    if (block->place == Place::pinned && settings().mode != Mode::lenient && !canary_holds(*block)) {
        misuse(ACL_ERROR_RT_PARAM_INVALID, "overrun", "something wrote beyond the end of " + words(*block),
                &block->made,
               "allocated");
    }
    block->freed = true;
    block->ended = trail();
    if (block->charged > 0) discharge(block->device, block->charged);
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (block->place == Place::registered) {
        all.blocks.erase(reinterpret_cast<std::uintptr_t>(block->address));
        return;
    }
    // The bytes go, the address stays taken; whoever still uses the bytes reads zeros of the system, not others' data.
    if (block->data != block->address) {
        madvise(block->data, rounded(block->charged), MADV_DONTNEED);
    } else {
        madvise(block->data, block->mapped, MADV_DONTNEED);
        mprotect(block->address, block->mapped, PROT_NONE);
    }
    all.quarantine.push_back(block);
    all.quarantined += block->mapped;
    shorten_quarantine(all);
}

bool charge(int device, std::size_t size) {
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const shared_account::Turn turn;
    Account &account = all.accounts[device];
    const std::size_t taken = account.used + shared_account::others(device);
    if (taken > settings().memory || size > settings().memory - taken) return false;
    account.used += size;
    account.peak = std::max(account.peak, account.used);
    shared_account::tell(device, account.used);
    return true;
}

void discharge(int device, std::size_t size) {
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    Account &account = all.accounts[device];
    account.used -= std::min(size, account.used);
    const shared_account::Turn turn;
    shared_account::tell(device, account.used);
}

std::size_t used(int device) {
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    return std::min(all.accounts[device].used + shared_account::others(device), settings().memory);
}

std::size_t peak(int device) {
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    return all.accounts[device].peak;
}

std::vector<BlockPtr> living() {
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    std::vector<BlockPtr> found;
    for (const auto &[address, block] : all.blocks) {
        if (!block->freed) found.push_back(block);
    }
    return found;
}

void drop_device(int device) {
    for (const BlockPtr &block : living()) {
        if (block->place == Place::device && block->device == device) {
            note("leak", words(*block) + " was not freed before its device was reset", &block->made);
            release(block);
        }
    }
}

bool may_be_device(const void *address) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    return wanted >= device_low && wanted < device_high;
}

Span span(const void *address, std::size_t size, const char *what, int &code) {
    code = 0;
    BlockPtr block = find(address);
    if (block == nullptr) return Span{static_cast<char *>(const_cast<void *>(address)), nullptr};
    const auto offset = static_cast<std::size_t>(static_cast<const char *>(address) - block->address);
    if (block->freed) {
        code = misuse(ACL_ERROR_RT_PARAM_INVALID, "use-after-free", std::string(what) + " lies in the freed " +
                      words(*block), &block->ended, "freed");
    } else if (offset > block->size || size > block->size - offset) {
        code = misuse(ACL_ERROR_RT_PARAM_INVALID, "out-of-bounds", std::string(what) + ": " + std::to_string(size) +
                      " bytes from byte " + std::to_string(offset) + " on reach beyond the " + words(*block),
                      &block->made, "allocated");
    }
    return Span{block->data + offset, block};
}

void poison(char *data, std::size_t size) { std::memset(data, kPoison, size); }

}  // namespace emu::memory
