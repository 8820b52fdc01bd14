// Creators of functions by name, as libraries register them when they are loaded.
#ifndef DFLOW_UDF_REGISTRY_H
#define DFLOW_UDF_REGISTRY_H

#include <map>
#include <mutex>
#include <string>

#include "flow_func/meta_flow_func.h"
#include "flow_func/meta_multi_func.h"

namespace dflow {
// The three registries of this process. Creators run while it is locked: do not register from a constructor.
class Registry {
public:
    static Registry &Get();

    void Add(const char *name, const FlowFunc::FLOW_FUNC_CREATOR_FUNC &creator);
    void Add(const char *name, const FlowFunc::MULTI_FUNC_CREATOR_FUNC &creator);
    void Add(const char *name, const FlowFunc::MULTI_FUNC_WITH_Q_CREATOR_FUNC &creator);

    // Lines of kind and name, sorted.
    std::string List();

    // Registered names, in words, for error texts.
    std::string Names();

    // Loading libraries, making, initialising and destroying functions: one at a time in a process.
    std::recursive_mutex &lock()
    {
        return lock_;
    }

    const FlowFunc::FLOW_FUNC_CREATOR_FUNC *Single(const std::string &name) const;
    const FlowFunc::MULTI_FUNC_CREATOR_FUNC *Multi(const std::string &name) const;
    const FlowFunc::MULTI_FUNC_WITH_Q_CREATOR_FUNC *Queue(const std::string &name) const;

private:
    template <typename Creator>
    void AddTo(std::map<std::string, Creator> *creators, const char *name, const Creator &creator, bool is_error);

    std::recursive_mutex lock_;
    std::map<std::string, FlowFunc::FLOW_FUNC_CREATOR_FUNC> single_;
    std::map<std::string, FlowFunc::MULTI_FUNC_CREATOR_FUNC> multi_;
    std::map<std::string, FlowFunc::MULTI_FUNC_WITH_Q_CREATOR_FUNC> queue_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_REGISTRY_H
