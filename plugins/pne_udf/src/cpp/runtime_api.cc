// flow_func_runtime.h: the library as an executor calls it. Nothing throws across it.
#include "dflow/flow_func_runtime.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "crash.h"
#include "instance.h"
#include "library.h"
#include "registry.h"

struct dflow_udf {
    std::unique_ptr<dflow::Instance> instance;
};

namespace {
thread_local std::string t_error;

int Fault(int code, const std::string &text)
{
    t_error = text;
    return code;
}

// Run something; what it throws becomes a code.
template <typename Code>
int Safely(const Code &code)
{
    try {
        return code();
    } catch (const std::exception &error) {
        return Fault(DFLOW_UDF_E_SYSTEM, error.what());
    } catch (...) {
        return Fault(DFLOW_UDF_E_SYSTEM, "an unknown exception");
    }
}

template <size_t Size>
void CopyText(const std::string &text, char (&out)[Size])
{
    const size_t length = std::min(text.size(), Size - 1);
    memcpy(out, text.data(), length);
    out[length] = '\0';
}
}  // namespace

extern "C" {
FLOW_FUNC_VISIBILITY uint32_t dflow_udf_api(void)
{
    return DFLOW_UDF_API;
}

FLOW_FUNC_VISIBILITY const char *dflow_udf_last_error(void)
{
    return t_error.c_str();
}

FLOW_FUNC_VISIBILITY int dflow_udf_load(const char *path)
{
    return Safely([path] {
        const std::string fault = dflow::LoadLibrary(path == nullptr ? "" : path);
        return fault.empty() ? static_cast<int>(DFLOW_UDF_OK) : Fault(DFLOW_UDF_E_LIBRARY, fault);
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_sdk_versions(const char *path, uint32_t *versions)
{
    return Safely([=] {
        const dflow::SdkVersions found = dflow::ReadSdkVersions(path == nullptr ? "" : path);
        versions[0] = found.lowest;
        versions[1] = found.highest;
        versions[2] = found.own;
        return static_cast<int>(DFLOW_UDF_OK);
    });
}

FLOW_FUNC_VISIBILITY int64_t dflow_udf_functions(char *buffer, uint64_t size)
{
    std::string text;
    const int code = Safely([&text] {
        text = dflow::Registry::Get().List();
        return DFLOW_UDF_OK;
    });
    if (code != DFLOW_UDF_OK) {
        return code;
    }
    if (buffer != nullptr && size != 0) {
        const uint64_t length = std::min<uint64_t>(text.size(), size - 1);
        memcpy(buffer, text.data(), length);
        buffer[length] = '\0';
    }
    return static_cast<int64_t>(text.size()) + 1;
}

FLOW_FUNC_VISIBILITY int dflow_udf_open(const struct dflow_udf_config *config, struct dflow_udf **out)
{
    return Safely([config, out] {
        if (config == nullptr || out == nullptr) {
            return Fault(DFLOW_UDF_E_CONFIG, "no configuration");
        }
        std::string faults;
        auto made = std::make_unique<dflow_udf>();
        made->instance = std::make_unique<dflow::Instance>(*config, &faults);
        if (!faults.empty()) {
            return Fault(DFLOW_UDF_E_CONFIG, faults);
        }
        made->instance->Open();
        *out = made.release();
        return static_cast<int>(DFLOW_UDF_OK);
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_wait(struct dflow_udf *udf, int state, int64_t wait_ns)
{
    return Safely([=] { return udf->instance->Wait(state, wait_ns); });
}

FLOW_FUNC_VISIBILITY int dflow_udf_get_state(struct dflow_udf *udf)
{
    return Safely([=] { return udf->instance->state(); });
}

FLOW_FUNC_VISIBILITY int dflow_udf_trace(struct dflow_udf *udf, const char *path, const char *head)
{
    return Safely([=] {
        return udf->instance->Trace(path, head) ? static_cast<int>(DFLOW_UDF_OK)
                                                : Fault(DFLOW_UDF_E_SYSTEM, std::string(path) + ": " + strerror(errno));
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_start(struct dflow_udf *udf)
{
    return Safely([=] {
        return udf->instance->Start() ? static_cast<int>(DFLOW_UDF_OK)
                                      : Fault(DFLOW_UDF_E_STATE, "only a ready instance can be started");
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_stop(struct dflow_udf *udf)
{
    return Safely([=] {
        udf->instance->Stop();
        return static_cast<int>(DFLOW_UDF_OK);
    });
}

FLOW_FUNC_VISIBILITY void dflow_udf_close(struct dflow_udf *udf)
{
    (void)Safely([=] {
        delete udf;
        return static_cast<int>(DFLOW_UDF_OK);
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_get_stats(struct dflow_udf *udf, int32_t func, struct dflow_udf_stats *out)
{
    return Safely([=] {
        return udf->instance->Stats(func, out) ? static_cast<int>(DFLOW_UDF_OK)
                                               : Fault(DFLOW_UDF_E_CONFIG, "there is no such function");
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_get_failure(struct dflow_udf *udf, struct dflow_udf_failure *out)
{
    return Safely([=] {
        const dflow::Failure failure = udf->instance->failure();
        *out = dflow_udf_failure();
        out->code = failure.code;
        out->is_node = failure.is_node ? 1 : 0;
        out->trans_id = failure.trans_id;
        CopyText(failure.error_type, out->error_type);
        CopyText(failure.message, out->message);
        return static_cast<int>(DFLOW_UDF_OK);
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_suspend(struct dflow_udf *udf)
{
    return Safely([=] {
        return udf->instance->Suspend() ? static_cast<int>(DFLOW_UDF_OK)
                                        : Fault(DFLOW_UDF_E_STATE, "only a running instance can be suspended");
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_recover(struct dflow_udf *udf)
{
    return Safely([=] {
        return udf->instance->Recover() ? static_cast<int>(DFLOW_UDF_OK)
                                        : Fault(DFLOW_UDF_E_STATE, "only a suspended instance can be recovered");
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_hold(struct dflow_udf *udf, int is_held)
{
    return Safely([=] {
        udf->instance->Hold(is_held != 0);
        return static_cast<int>(DFLOW_UDF_OK);
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_is_quiet(struct dflow_udf *udf)
{
    return Safely([=] { return udf->instance->is_quiet() ? 1 : 0; });
}

FLOW_FUNC_VISIBILITY int dflow_udf_take_exception(struct dflow_udf *udf, struct dflow_udf_exception *out)
{
    return Safely([=] {
        dflow::ExceptionNote note;
        if (!udf->instance->TakeRaised(&note)) {
            return 0;
        }
        *out = dflow_udf_exception();
        out->code = note.code;
        out->trans_id = note.trans_id;
        out->user_context_id = note.user_context_id;
        memcpy(out->head, &note.head, sizeof(out->head));
        return 1;
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_notify_exception(struct dflow_udf *udf, const char *scope,
                                                    const struct dflow_udf_exception *exception)
{
    return Safely([=] {
        dflow::ExceptionNote note;
        note.code = exception->code;
        note.is_expired = exception->expired != 0;
        note.trans_id = exception->trans_id;
        note.user_context_id = exception->user_context_id;
        memcpy(&note.head, exception->head, sizeof(note.head));
        udf->instance->Notify(scope == nullptr ? "" : scope, note);
        return static_cast<int>(DFLOW_UDF_OK);
    });
}

FLOW_FUNC_VISIBILITY int dflow_udf_catch_crashes(void)
{
    return dflow::CatchCrashes() ? static_cast<int>(DFLOW_UDF_OK)
                                 : Fault(DFLOW_UDF_E_SYSTEM, "a signal handler could not be set");
}
}
