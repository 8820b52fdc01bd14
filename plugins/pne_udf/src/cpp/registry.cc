#include "registry.h"

#include <set>

#include "log.h"

namespace dflow {
namespace {
template <typename Creator>
const Creator *Find(const std::map<std::string, Creator> &creators, const std::string &name)
{
    const auto found = creators.find(name);
    return found == creators.end() ? nullptr : &found->second;
}

template <typename Creator>
bool Register(const char *name, const Creator &creator)
{
    if (name == nullptr || creator == nullptr) {
        Log(Level::kError, "a function without a %s cannot be registered", name == nullptr ? "name" : "creator");
        return false;
    }
    try {
        Registry::Get().Add(name, creator);
    } catch (...) {
        return false;
    }
    return true;
}
}  // namespace

// Never destroyed: creators lie in libraries that stay loaded until the process ends.
Registry &Registry::Get()
{
    static auto *const registry = new Registry();
    return *registry;
}

template <typename Creator>
void Registry::AddTo(std::map<std::string, Creator> *creators, const char *name, const Creator &creator, bool is_error)
{
    const std::lock_guard<std::recursive_mutex> guard(lock_);
    if (!creators->emplace(name, creator).second) {
        Log(is_error ? Level::kError : Level::kWarn, "function %s is registered already; the first one holds", name);
    }
}

void Registry::Add(const char *name, const FlowFunc::FLOW_FUNC_CREATOR_FUNC &creator)
{
    AddTo(&single_, name, creator, true);
}

void Registry::Add(const char *name, const FlowFunc::MULTI_FUNC_CREATOR_FUNC &creator)
{
    AddTo(&multi_, name, creator, false);
}

void Registry::Add(const char *name, const FlowFunc::MULTI_FUNC_WITH_Q_CREATOR_FUNC &creator)
{
    AddTo(&queue_, name, creator, false);
}

std::string Registry::List()
{
    const std::lock_guard<std::recursive_mutex> guard(lock_);
    std::set<std::string> lines;
    for (const auto &entry : single_) {
        lines.insert("single " + entry.first + "\n");
    }
    for (const auto &entry : multi_) {
        lines.insert("multi " + entry.first + "\n");
    }
    for (const auto &entry : queue_) {
        lines.insert("queue " + entry.first + "\n");
    }
    std::string text;
    for (const std::string &line : lines) {
        text += line;
    }
    return text;
}

std::string Registry::Names()
{
    const std::lock_guard<std::recursive_mutex> guard(lock_);
    std::set<std::string> names;
    for (const auto &entry : single_) {
        names.insert(entry.first);
    }
    for (const auto &entry : multi_) {
        names.insert(entry.first);
    }
    for (const auto &entry : queue_) {
        names.insert(entry.first);
    }
    std::string text;
    for (const std::string &name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text.empty() ? "none" : text;
}

const FlowFunc::FLOW_FUNC_CREATOR_FUNC *Registry::Single(const std::string &name) const
{
    return Find(single_, name);
}

const FlowFunc::MULTI_FUNC_CREATOR_FUNC *Registry::Multi(const std::string &name) const
{
    return Find(multi_, name);
}

const FlowFunc::MULTI_FUNC_WITH_Q_CREATOR_FUNC *Registry::Queue(const std::string &name) const
{
    return Find(queue_, name);
}
}  // namespace dflow

namespace FlowFunc {
bool RegisterFlowFunc(const char *flowFuncName, const FLOW_FUNC_CREATOR_FUNC &func) noexcept
{
    return dflow::Register(flowFuncName, func);
}

bool RegisterMultiFunc(const char *flowFuncName, const MULTI_FUNC_CREATOR_FUNC &func) noexcept
{
    return dflow::Register(flowFuncName, func);
}

bool RegisterMultiFunc(const char *flowFuncName, const MULTI_FUNC_WITH_Q_CREATOR_FUNC &func) noexcept
{
    return dflow::Register(flowFuncName, func);
}
}  // namespace FlowFunc
