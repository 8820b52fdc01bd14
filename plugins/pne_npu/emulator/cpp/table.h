// Handles that are numbers, not addresses: nothing is read through one that is stale or was never given.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace emu {

enum class Tag : std::uint64_t {
    context = 1, stream, event, data_buffer, tensor_desc, dataset, model_desc, config, exec_config, queue_attr, route,
    routes, query, buffer
};

template <class T>
class Table {
public:
    explicit Table(Tag tag) : base_((std::uint64_t{0x0AC1} << 48) | (static_cast<std::uint64_t>(tag) << 40)) {}

    void *add(std::shared_ptr<T> value) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        const std::uint64_t handle = base_ | (++count_ << 4);
        values_.emplace(handle, std::move(value));
        return reinterpret_cast<void *>(handle);
    }

    std::shared_ptr<T> find(const void *handle) const {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        const auto found = values_.find(reinterpret_cast<std::uint64_t>(handle));
        return found == values_.end() ? nullptr : found->second;
    }

    std::shared_ptr<T> remove(const void *handle) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        const auto found = values_.find(reinterpret_cast<std::uint64_t>(handle));
        if (found == values_.end()) return nullptr;
        std::shared_ptr<T> value = std::move(found->second);
        values_.erase(found);
        return value;
    }

    // Whether a handle was given once and has been destroyed since.
    bool was(const void *handle) const {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        const auto number = reinterpret_cast<std::uint64_t>(handle);
        return number > base_ && number <= (base_ | (count_ << 4)) && values_.count(number) == 0;
    }

    std::vector<std::pair<void *, std::shared_ptr<T>>> all() const {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        std::vector<std::pair<void *, std::shared_ptr<T>>> found;
        for (const auto &[handle, value] : values_) found.emplace_back(reinterpret_cast<void *>(handle), value);
        return found;
    }

    void clear() {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        values_.clear();
    }

private:
    const std::uint64_t base_;
    mutable std::shared_mutex mutex_;
    std::uint64_t count_ = 0;
    std::unordered_map<std::uint64_t, std::shared_ptr<T>> values_;
};

}  // namespace emu
