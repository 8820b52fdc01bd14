/// Multi functions: one class, several functions on one object.
#ifndef FLOW_FUNC_META_MULTI_FUNC_H
#define FLOW_FUNC_META_MULTI_FUNC_H

#include <functional>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "flow_func_ascend_string.h"
#include "flow_func_defines.h"
#include "flow_msg.h"
#include "flow_msg_queue.h"
#include "meta_params.h"
#include "meta_run_context.h"

namespace FlowFunc {
/// Base of multi functions. The functions of a node instance share one object and may run at the same time.
class FLOW_FUNC_VISIBILITY MetaMultiFunc {
public:
    MetaMultiFunc() = default;

    virtual ~MetaMultiFunc() = default;

    /// Called once before the first message; anything but 0 is an error of start-up.
    virtual int32_t Init(const std::shared_ptr<MetaParams> &params)
    {
        (void)params;
        return FLOW_FUNC_SUCCESS;
    }

    /// Forget what came so far: the graph starts over (`recover`). Where it is not overridden, the object is made anew.
    virtual int32_t ResetFlowFuncState(const std::shared_ptr<MetaParams> &params);
};

/// A function that is given one message of each of its inputs.
using PROC_FUNC_WITH_CONTEXT =
    std::function<int32_t(const std::shared_ptr<MetaRunContext> &, const std::vector<std::shared_ptr<FlowMsg>> &)>;

/// A function that takes messages from its inputs itself; called again whenever it returns.
using PROC_FUNC_WITH_CONTEXT_Q =
    std::function<int32_t(const std::shared_ptr<MetaRunContext> &, const std::vector<std::shared_ptr<FlowMsgQueue>> &)>;

/// Makes the object if there is none, and gives all functions of its kind.
using MULTI_FUNC_CREATOR_FUNC =
    std::function<int32_t(std::shared_ptr<MetaMultiFunc> &, std::map<AscendString, PROC_FUNC_WITH_CONTEXT> &)>;

using MULTI_FUNC_WITH_Q_CREATOR_FUNC =
    std::function<int32_t(std::shared_ptr<MetaMultiFunc> &, std::map<AscendString, PROC_FUNC_WITH_CONTEXT_Q> &)>;

/// Register a multi function under the name of one of its functions. False for a null name or an empty creator; the
/// first of several of one name holds.
FLOW_FUNC_VISIBILITY bool RegisterMultiFunc(const char *flowFuncName, const MULTI_FUNC_CREATOR_FUNC &func) noexcept;

FLOW_FUNC_VISIBILITY bool RegisterMultiFunc(const char *flowFuncName,
                                            const MULTI_FUNC_WITH_Q_CREATOR_FUNC &func) noexcept;

/// Registers member functions of a class; written with FLOW_FUNC_REGISTRAR.
template <typename T>
class FLOW_FUNC_VISIBILITY FlowFuncRegistrar {
public:
    using CUSTOM_PROC_FUNC = std::function<int32_t(T *, const std::shared_ptr<MetaRunContext> &,
                                                   const std::vector<std::shared_ptr<FlowMsg>> &)>;
    using CUSTOM_PROC_FUNC_WITH_Q = std::function<int32_t(T *, const std::shared_ptr<MetaRunContext> &,
                                                          const std::vector<std::shared_ptr<FlowMsgQueue>> &)>;

    FlowFuncRegistrar &RegProcFunc(const char *flowFuncName, const CUSTOM_PROC_FUNC &func)
    {
        using std::placeholders::_1;
        using std::placeholders::_2;
        funcs_[flowFuncName] = func;
        const MULTI_FUNC_CREATOR_FUNC creator = std::bind(&FlowFuncRegistrar::CreateMultiFunc, this, _1, _2);
        (void)RegisterMultiFunc(flowFuncName, creator);
        return *this;
    }

    FlowFuncRegistrar &RegProcFunc(const char *flowFuncName, const CUSTOM_PROC_FUNC_WITH_Q &func)
    {
        using std::placeholders::_1;
        using std::placeholders::_2;
        queueFuncs_[flowFuncName] = func;
        const MULTI_FUNC_WITH_Q_CREATOR_FUNC creator =
            std::bind(&FlowFuncRegistrar::CreateMultiFuncWithQ, this, _1, _2);
        (void)RegisterMultiFunc(flowFuncName, creator);
        return *this;
    }

    int32_t CreateMultiFunc(std::shared_ptr<MetaMultiFunc> &multiFunc,
                            std::map<AscendString, PROC_FUNC_WITH_CONTEXT> &procFuncs) const
    {
        return Bind(multiFunc, funcs_, procFuncs);
    }

    int32_t CreateMultiFuncWithQ(std::shared_ptr<MetaMultiFunc> &multiFunc,
                                 std::map<AscendString, PROC_FUNC_WITH_CONTEXT_Q> &procFuncs) const
    {
        return Bind(multiFunc, queueFuncs_, procFuncs);
    }

private:
    template <typename Custom, typename Bound>
    static int32_t Bind(std::shared_ptr<MetaMultiFunc> &multiFunc, const std::map<AscendString, Custom> &custom,
                        std::map<AscendString, Bound> &bound)
    {
        using std::placeholders::_1;
        using std::placeholders::_2;
        if (multiFunc == nullptr) {
            multiFunc.reset(new (std::nothrow) T());
        }
        T *const object = dynamic_cast<T *>(multiFunc.get());
        if (object == nullptr) {
            return FLOW_FUNC_FAILED;
        }
        for (const auto &entry : custom) {
            bound[entry.first] = std::bind(entry.second, object, _1, _2);
        }
        return FLOW_FUNC_SUCCESS;
    }

    std::map<AscendString, CUSTOM_PROC_FUNC> funcs_;
    std::map<AscendString, CUSTOM_PROC_FUNC_WITH_Q> queueFuncs_;
};
}  // namespace FlowFunc

/// Register functions of class `clazz`, at namespace scope, once in a source file:
///
///     FLOW_FUNC_REGISTRAR(Scale).RegProcFunc("up", &Scale::Up).RegProcFunc("down", &Scale::Down);
#define FLOW_FUNC_REGISTRAR(clazz)                                            \
    static FlowFunc::FlowFuncRegistrar<clazz> g_##clazz##FlowFuncRegistrar;   \
    static FlowFunc::FlowFuncRegistrar<clazz> &g_##clazz##Registrar __attribute__((unused)) = \
        g_##clazz##FlowFuncRegistrar

#endif  // FLOW_FUNC_META_MULTI_FUNC_H
