// Runs functions of every kind at once over the transport in plain memory, for sanitizers: instances come and go, are
// suspended and recovered, held up, get endings and batches, fail and raise, while other threads look at them. Gives 0
// if every transaction ended and no block is left.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "dflow/flow_func_runtime.h"
#include "dflow/transport.h"
#include "wire.h"

extern "C" {
const dflow_transport *heap_create(uint64_t limit);
int64_t heap_queue(const dflow_transport *table, const char *name, uint32_t depth);
uint64_t heap_blocks(const dflow_transport *table);
void heap_destroy(const dflow_transport *table);
}

namespace {
constexpr int64_t kSecond = 1000000000;

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                      \
        }                                                                 \
    } while (false)

struct FuncSpec {
    const char *name;
    std::vector<uint32_t> inputs;
    std::vector<uint32_t> outputs;
    uint32_t flags;
};

// One instance over a group of its own.
class Rig {
public:
    Rig(std::vector<FuncSpec> funcs, size_t inputs, size_t outputs, uint32_t threads)
        : table_(heap_create(0)), funcs_(std::move(funcs))
    {
        for (size_t i = 0; i < inputs; i++) {
            ins.push_back(static_cast<uint32_t>(heap_queue(table_, ("in" + std::to_string(i)).c_str(), 8)));
        }
        for (size_t i = 0; i < outputs; i++) {
            outs.push_back(static_cast<uint32_t>(heap_queue(table_, ("out" + std::to_string(i)).c_str(), 4)));
        }
        Open(threads);
    }

    ~Rig()
    {
        dflow_udf_close(udf);
        for (const uint32_t queue : ins) {
            Drain(queue);
        }
        for (const uint32_t queue : outs) {
            Drain(queue);
        }
        CHECK(heap_blocks(table_) == 0);
        heap_destroy(table_);
    }

    void Feed(uint32_t port, uint64_t trans_id, int32_t value, uint8_t flag)
    {
        const uint64_t body = flag != 0 ? 0 : sizeof(dflow::Desc) + sizeof(int64_t);
        const int64_t key = table_->allocate(table_->context, sizeof(dflow::Head) + body, 0);
        dflow_block_view view;
        CHECK(key >= 0 && table_->view(table_->context, key, &view) == 0);
        auto *const head = static_cast<dflow::Head *>(view.head);
        memset(head, 0, sizeof(*head) + body);
        head->trans_id = trans_id;
        head->token = dflow::RootToken(trans_id);
        head->body_size = body;
        head->data_flag = flag;
        if (body != 0) {
            auto *const desc = static_cast<dflow::Desc *>(view.data);
            desc->dtype = 9;
            desc->rank = 1;
            desc->dims[0] = 1;
            desc->data_size = sizeof(int64_t);
            memcpy(desc + 1, &value, sizeof(value));
        }
        CHECK(table_->enqueue(table_->context, ins[port], key, 30 * kSecond) == 0);
    }

    // The xor of the tokens of the next message; false when the queue has nothing for a while.
    bool Take(uint32_t port, dflow::Head *head, int64_t wait_ns)
    {
        const int64_t key = table_->dequeue(table_->context, outs[port], wait_ns);
        if (key < 0) {
            return false;
        }
        dflow_block_view view;
        CHECK(table_->view(table_->context, key, &view) == 0);
        memcpy(head, view.head, sizeof(*head));
        CHECK(table_->release(table_->context, key) == 0);
        return true;
    }

    void Close(uint32_t port)
    {
        table_->close(table_->context, ins[port]);
    }

    void WaitFor(int wanted)
    {
        int state = dflow_udf_get_state(udf);
        while (state != wanted) {
            const int next = dflow_udf_wait(udf, state, 30 * kSecond);
            CHECK(next != state);
            state = next;
        }
    }

    // Put a transaction on the board of cancelled ones, in the place of the one before; 0 for none.
    void Cancel(uint64_t trans_id)
    {
        __atomic_store_n(&board_[8], trans_id, __ATOMIC_RELAXED);
        __atomic_store_n(&board_[2], 1, __ATOMIC_RELAXED);
        __atomic_store_n(&board_[0], trans_id != 0, __ATOMIC_RELAXED);
        __atomic_fetch_add(&board_[1], 1, __ATOMIC_RELAXED);
    }

    std::vector<uint32_t> ins;
    std::vector<uint32_t> outs;
    struct dflow_udf *udf = nullptr;

private:
    void Open(uint32_t threads)
    {
        std::vector<struct dflow_udf_func> funcs;
        for (const FuncSpec &spec : funcs_) {
            funcs.push_back({spec.name, spec.inputs.data(), spec.outputs.data(),
                             static_cast<uint32_t>(spec.inputs.size()), static_cast<uint32_t>(spec.outputs.size()),
                             spec.flags, 0});
        }
        std::vector<struct dflow_udf_route> routes;
        std::vector<struct dflow_udf_output> outputs;
        routes.reserve(outs.size());
        for (const uint32_t &queue : outs) {
            routes.push_back({&queue, 1, 0, 0});
            outputs.push_back({&routes.back(), 1, 0});
        }
        struct dflow_udf_config config = {};
        config.api = DFLOW_UDF_API;
        config.transport = table_;
        config.node = "stress";
        config.threads = threads;
        config.funcs = funcs.data();
        config.n_funcs = static_cast<uint32_t>(funcs.size());
        config.inputs = ins.data();
        config.n_inputs = static_cast<uint32_t>(ins.size());
        config.outputs = outputs.data();
        config.n_outputs = static_cast<uint32_t>(outputs.size());
        config.align_timeout_ms = -1;
        config.cancelled = board_;
        CHECK(dflow_udf_open(&config, &udf) == DFLOW_UDF_OK);
        WaitFor(DFLOW_UDF_READY);
        CHECK(dflow_udf_start(udf) == DFLOW_UDF_OK);
        WaitFor(DFLOW_UDF_RUNNING);
    }

    void Drain(uint32_t queue)
    {
        for (;;) {
            const int64_t key = table_->dequeue(table_->context, queue, 0);
            if (key < 0) {
                return;
            }
            CHECK(table_->release(table_->context, key) == 0);
        }
    }

    const dflow_transport *table_;
    std::vector<FuncSpec> funcs_;
    uint64_t board_[512] = {};
};

// Feeds a number of transactions to every input from threads of their own, and counts how they end at each output. On
// request, transactions are cancelled all the while: those that are about to come, under way, or gone.
void Run(const std::vector<FuncSpec> &funcs, size_t inputs, size_t outputs, uint32_t threads, int count,
         const std::vector<int32_t> &values, bool cancels = false)
{
    fprintf(stderr, "%s%s\n", funcs[0].name, cancels ? ", with some cancelled" : "");
    Rig rig(funcs, inputs, outputs, threads);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> workers;
    std::atomic<uint64_t> fed{0};
    for (size_t port = 0; port < inputs; port++) {
        workers.emplace_back([&rig, &fed, port, count, &values] {
            for (int i = 1; i <= count; i++) {
                const uint8_t flag = i % 17 == 0 ? dflow::kSkip | dflow::kNull : 0;
                rig.Feed(static_cast<uint32_t>(port), static_cast<uint64_t>(i),
                         values[static_cast<size_t>(i) % values.size()], flag);
                fed.store(static_cast<uint64_t>(i));
            }
            rig.Close(static_cast<uint32_t>(port));
        });
    }
    for (size_t port = 0; port < outputs; port++) {
        workers.emplace_back([&rig, port, count, name = funcs[0].name] {
            uint64_t sum = 0;
            int failed = 0;
            dflow::Head head;
            for (int i = 1; i <= count; i++) {
                sum ^= dflow::RootToken(static_cast<uint64_t>(i));
            }
            while (sum != 0 && rig.Take(static_cast<uint32_t>(port), &head, 20 * kSecond)) {
                failed += (head.data_flag & dflow::kError) != 0 ? 1 : 0;
                sum ^= head.token;
            }
            if (sum != 0) {
                fprintf(stderr, "%s: not every transaction ended at output %zu\n", name, port);
                abort();
            }
            CHECK(failed < count);
        });
    }
    std::thread watcher([&rig, &is_over, &fed, cancels] {
        for (int turn = 0; !is_over.load(); turn++) {
            struct dflow_udf_stats stats;
            CHECK(dflow_udf_hold(rig.udf, turn % 4 == 1) == DFLOW_UDF_OK);
            struct dflow_udf_exception raised;
            if (cancels) {
                rig.Cancel(turn % 5 == 0 ? 0 : fed.load() + static_cast<uint64_t>(turn % 7));
            }
            CHECK(dflow_udf_get_stats(rig.udf, -1, &stats) == DFLOW_UDF_OK);
            (void)dflow_udf_take_exception(rig.udf, &raised);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    for (std::thread &worker : workers) {
        worker.join();
    }
    is_over.store(true);
    watcher.join();
    CHECK(dflow_udf_hold(rig.udf, 0) == DFLOW_UDF_OK);
    rig.WaitFor(DFLOW_UDF_FINISHED);
}

// Suspended and recovered while messages come, by turns as it runs and held up; nothing is counted, as what is in hand
// is dropped.
void Suspend(const std::vector<FuncSpec> &funcs, size_t ports, uint32_t threads)
{
    Rig rig(funcs, ports, ports, threads);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> workers;
    for (size_t port = 0; port < ports; port++) {
        workers.emplace_back([&rig, port, &is_over] {
            for (uint64_t i = 1; !is_over.load(); i++) {
                rig.Feed(static_cast<uint32_t>(port), i, 0, 0);
            }
        });
        workers.emplace_back([&rig, port, &is_over] {
            dflow::Head head;
            while (!is_over.load()) {
                (void)rig.Take(static_cast<uint32_t>(port), &head, kSecond / 100);
            }
        });
    }
    for (int i = 0; i < 5; i++) {
        CHECK(dflow_udf_hold(rig.udf, i % 2) == DFLOW_UDF_OK);
        while (i % 2 != 0 && dflow_udf_is_quiet(rig.udf) == 0) {
            std::this_thread::yield();
        }
        CHECK(dflow_udf_suspend(rig.udf) == DFLOW_UDF_OK);
        rig.WaitFor(DFLOW_UDF_SUSPENDED);
        CHECK(dflow_udf_recover(rig.udf) == DFLOW_UDF_OK);
        rig.WaitFor(DFLOW_UDF_RUNNING);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    is_over.store(true);
    for (std::thread &worker : workers) {
        worker.join();
    }
}
}  // namespace

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 1000;
    const uint32_t stream = DFLOW_UDF_STREAM_INPUT;
    Run({{"pass", {0}, {0}, 0}}, 1, 1, 1, count, {0});
    Run({{"behave", {0}, {0}, 0}}, 1, 1, 1, count, {0, 1, 2, 3, 5, 7, 8, 11});
    Run({{"first_input", {0, 1, 2}, {0}, 0}}, 3, 1, 1, count, {0});
    Run({{"buffer", {0}, {0}, 0}}, 1, 1, 1, count, {0});
    Run({{"first", {0}, {0}, 0}, {"second", {1}, {1}, 0}}, 2, 2, 0, count, {0});
    Run({{"first", {0}, {0}, 0}, {"second", {1}, {1}, 0}}, 2, 2, 1, count, {0});
    Run({{"forward", {0}, {0}, stream}}, 1, 1, 1, count, {0});
    Run({{"forward", {0}, {0}, stream}, {"echo", {1}, {1}, 0}}, 2, 2, 1, count, {0});
    Run({{"pairs", {0}, {0}, stream}}, 1, 1, 1, count - count % 34, {0});
    Run({{"first_input", {0, 1, 2}, {0}, 0}}, 3, 1, 1, count, {0}, true);
    Run({{"forward", {0}, {0}, stream}}, 1, 1, 1, count, {0}, true);
    Run({{"twins", {0, 1}, {0}, stream}}, 2, 1, 1, count, {0}, true);
    Run({{"siblings", {0, 1}, {0}, stream}}, 2, 1, 1, count, {0}, true);
    Suspend({{"first", {0}, {0}, 0}, {"second", {1}, {1}, 0}}, 2, 0);
    Suspend({{"forward", {0}, {0}, stream}, {"echo", {1}, {1}, 0}}, 2, 1);
    printf("all transactions ended, no block is left\n");
    return 0;
}
