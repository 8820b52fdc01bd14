#include "config.h"

#include <set>

namespace dflow {
namespace {
// Faults, one after the other.
class Faults {
public:
    void Add(const std::string &text)
    {
        text_ += (text_.empty() ? "" : "; ") + text;
    }

    const std::string &text() const
    {
        return text_;
    }

private:
    std::string text_;
};

std::string TextOf(const char *text)
{
    return text == nullptr ? "" : text;
}

std::string Number(uint64_t value)
{
    return std::to_string(value);
}

class ConfigReader {
public:
    ConfigReader(const dflow_udf_config &from, Config *config, Node *node) : from_(from), config_(config), node_(node) {}

    std::string Read()
    {
        ReadTable();
        if (!faults_.text().empty()) {
            return faults_.text();
        }
        ReadNode();
        ReadQueues();
        for (uint32_t i = 0; i < from_.n_funcs; i++) {
            ReadFunc(from_.funcs[i]);
        }
        CheckInputs();
        MarkShared();
        ReadInvoked();
        ReadDeadParts();
        if (from_.failed_calls != nullptr) {
            CheckQueue(*from_.failed_calls, "the way of failed calls");
        }
        for (uint64_t i = 0; i < from_.n_notices; i++) {
            CheckQueue(from_.notices[i].notices, "queue " + Number(from_.notices[i].queue));
            node_->notices[from_.notices[i].queue] = from_.notices[i].notices;
        }
        return faults_.text();
    }

private:
    void ReadTable()
    {
        const auto *const table = static_cast<const dflow_transport *>(from_.transport);
        if (from_.api != DFLOW_UDF_API) {
            faults_.Add("the caller speaks version " + Number(from_.api) + " of flow_func_runtime.h, this library " +
                        Number(DFLOW_UDF_API));
        } else if (table == nullptr || table->abi != DFLOW_TRANSPORT_ABI ||
                   !DFLOW_TRANSPORT_HAS(table, last_error)) {
            faults_.Add("the transport offers no native table of version " + Number(DFLOW_TRANSPORT_ABI));
        } else if (from_.n_funcs == 0) {
            faults_.Add("the node has no functions");
        }
        config_->table = table;
    }

    void ReadNode()
    {
        config_->library = TextOf(from_.library);
        config_->threads = from_.threads;
        node_->name = TextOf(from_.node);
        node_->work_path = TextOf(from_.work_path);
        node_->scope = TextOf(from_.scope);
        node_->device_id = from_.device_id;
        node_->instance = from_.instance;
        node_->instance_count = from_.instance_count;
        node_->input_num = from_.n_inputs;
        node_->stops_on_error = (from_.flags & DFLOW_UDF_STOP_ON_ERROR) != 0;
        node_->catches_exceptions = (from_.flags & DFLOW_UDF_EXCEPTION_CATCH) != 0;
        node_->checks_inputs = (from_.flags & DFLOW_UDF_CHECK_INPUTS) != 0;
        node_->is_scatter = (from_.flags & DFLOW_UDF_BALANCE_SCATTER) != 0;
        node_->is_gather = (from_.flags & DFLOW_UDF_BALANCE_GATHER) != 0;
        node_->cancelled = Cancelled(from_.cancelled);
        node_->failed_calls_queue = from_.failed_calls;
        node_->limits.max_cache = from_.align_max_cache;
        node_->limits.timeout_ns = from_.align_timeout_ms < 0 ? -1 : from_.align_timeout_ms * kMillisecond;
        node_->limits.is_dropping = from_.align_drop != 0;
        if (node_->is_scatter && node_->is_gather) {
            faults_.Add("a node cannot both scatter and gather");
        }
        if (!ReadAttrs(from_.attrs, from_.attrs_size, &node_->attrs)) {
            faults_.Add("the attributes are not in the form of flow_func_runtime.h");
        }
    }

    void CheckQueue(uint32_t queue, const std::string &what)
    {
        if (queue == DFLOW_UDF_NO_QUEUE || config_->table->level(config_->table->context, queue) < 0) {
            faults_.Add(what + " has queue " + Number(queue) + ", which the group does not have");
        }
    }

    std::vector<std::vector<Route>> ReadOutputs(const dflow_udf_output *outputs, uint32_t count,
                                                const std::string &what)
    {
        std::vector<std::vector<Route>> all(count);
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t k = 0; k < outputs[i].n_routes; k++) {
                const dflow_udf_route &route = outputs[i].routes[k];
                std::vector<uint32_t> queues(route.queues, route.queues + route.n_queues);
                all[i].emplace_back(std::move(queues), route.rule, route.spares);
                if (route.n_queues <= route.spares) {
                    faults_.Add(what + " " + Number(i) + " has a route without queues");
                }
                for (const uint32_t queue : all[i].back().queues()) {
                    CheckQueue(queue, what + " " + Number(i));
                }
            }
        }
        return all;
    }

    void ReadQueues()
    {
        config_->inputs.assign(from_.inputs, from_.inputs + from_.n_inputs);
        for (uint32_t i = 0; i < from_.n_inputs; i++) {
            CheckQueue(from_.inputs[i], "input " + Number(i));
        }
        config_->outputs = ReadOutputs(from_.outputs, from_.n_outputs, "output");
    }

    void ReadFunc(const dflow_udf_func &func)
    {
        FuncInfo info;
        info.name = TextOf(func.name);
        info.node = node_->name;
        info.instance = node_->instance;
        info.inputs.assign(func.inputs, func.inputs + func.n_inputs);
        info.outputs.assign(func.outputs, func.outputs + func.n_outputs);
        info.is_stream = (func.flags & DFLOW_UDF_STREAM_INPUT) != 0;
        if (info.name.empty()) {
            faults_.Add("a function has no name");
        }
        for (const uint32_t input : info.inputs) {
            if (input >= from_.n_inputs) {
                faults_.Add("function " + info.name + " uses input " + Number(input) + ", the node has " +
                            Number(from_.n_inputs));
            } else if (!inputs_.insert(input).second) {
                faults_.Add("input " + Number(input) + " is used twice");
            }
        }
        for (const uint32_t output : info.outputs) {
            if (output >= from_.n_outputs) {
                faults_.Add("function " + info.name + " uses output " + Number(output) + ", the node has " +
                            Number(from_.n_outputs));
            }
        }
        config_->funcs.push_back(info);
    }

    void CheckInputs()
    {
        for (uint32_t i = 0; i < from_.n_inputs; i++) {
            if (inputs_.count(i) == 0) {
                faults_.Add("input " + Number(i) + " is used by no function");
            }
        }
    }

    void MarkShared()
    {
        std::map<uint32_t, size_t> users;
        for (const FuncInfo &info : config_->funcs) {
            for (const uint32_t output : info.outputs) {
                users[output]++;
            }
        }
        for (FuncInfo &info : config_->funcs) {
            for (const uint32_t output : info.outputs) {
                info.is_shared.push_back(users[output] > 1);
            }
        }
    }

    void ReadInvoked()
    {
        for (uint32_t i = 0; i < from_.n_invoked; i++) {
            const dflow_udf_invoked &invoked = from_.invoked[i];
            InvokedSpec spec;
            spec.key = TextOf(invoked.key);
            const std::string what = "invoked model " + spec.key;
            spec.inputs = ReadOutputs(invoked.inputs, invoked.n_inputs, what + " input");
            spec.outputs.assign(invoked.outputs, invoked.outputs + invoked.n_outputs);
            for (const uint32_t queue : spec.outputs) {
                CheckQueue(queue, what + " output");
            }
            if (!keys_.insert(spec.key).second) {
                faults_.Add(what + " is given twice");
            }
            config_->invoked.push_back(std::move(spec));
        }
    }

    void ReadDeadParts()
    {
        for (uint32_t i = 0; i < from_.n_dead_parts; i++) {
            const dflow_udf_dead_part &part = from_.dead_parts[i];
            config_->dead_parts.push_back(
                DeadPart{part.trans_id, part.data_label, {part.ports, part.ports + part.n_ports}});
        }
    }

    const dflow_udf_config &from_;
    Config *config_;
    Node *node_;
    Faults faults_;
    std::set<uint32_t> inputs_;
    std::set<std::string> keys_;
};
}  // namespace

std::string ReadConfig(const dflow_udf_config &from, Config *config, Node *node)
{
    return ConfigReader(from, config, node).Read();
}
}  // namespace dflow
