#include "shared_account.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "report.h"
#include "settings.h"

namespace emu::shared_account {
namespace {

constexpr int kProcesses = 64;
constexpr int kDevices = 16;

struct Share {
    std::int64_t process;  // 0 for a place that is free
    std::uint64_t used[kDevices];
};

struct File {
    int descriptor = -1;
    Share *shares = nullptr;
};

const File &file() {
    static const File found = [] {
        File made;
        const std::string &path = settings().shared;
        if (path.empty()) return made;
        constexpr std::size_t size = sizeof(Share) * kProcesses;
        made.descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (made.descriptor < 0 || ftruncate(made.descriptor, size) != 0) {
            note("shared", "the file " + path + " cannot be shared; memory is counted by process");
            return made;
        }
        void *mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, made.descriptor, 0);
        if (mapped != MAP_FAILED) made.shares = static_cast<Share *>(mapped);
        return made;
    }();
    return found;
}

bool lives(std::int64_t process) { return kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH; }

bool counts(int device) { return file().shares != nullptr && device >= 0 && device < kDevices; }

// This process's share, taking a free place the first time; nullptr if there is none.
Share *own() {
    const std::int64_t self = getpid();
    Share *free_one = nullptr;
    for (int i = 0; i < kProcesses; ++i) {
        Share &share = file().shares[i];
        if (share.process == self) return &share;
        if (free_one == nullptr && (share.process == 0 || !lives(share.process))) free_one = &share;
    }
    if (free_one == nullptr) return nullptr;
    *free_one = Share{self, {}};
    return free_one;
}

}  // namespace

Turn::Turn() {
    if (file().shares == nullptr) return;
    while (flock(file().descriptor, LOCK_EX) != 0 && errno == EINTR) {}
}

Turn::~Turn() {
    if (file().shares != nullptr) flock(file().descriptor, LOCK_UN);
}

std::size_t others(int device) {
    if (!counts(device)) return 0;
    std::size_t sum = 0;
    for (int i = 0; i < kProcesses; ++i) {
        const Share &share = file().shares[i];
        if (share.process != 0 && share.process != getpid() && lives(share.process)) sum += share.used[device];
    }
    return sum;
}

void tell(int device, std::size_t used) {
    if (!counts(device)) return;
    if (Share *share = own(); share != nullptr) share->used[device] = used;
}

}  // namespace emu::shared_account
