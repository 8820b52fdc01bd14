#include "call.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace dflow {
namespace {
// Bits of a data message that its sender may set.
constexpr uint8_t kUserBits = kNull | kCustomId;
}  // namespace

Call::Call(Bus *bus, Outputs *outputs, const FuncInfo *info)
    : bus_(bus), sink_(outputs), info_(info), outputs_(info->outputs.size()), halves_(info->inputs.size())
{
    memset(&head_, 0, sizeof(head_));
}

View Call::members() const
{
    return View{members_.data(), members_.size()};
}

size_t Call::Local(uint32_t output) const
{
    const auto found = std::find(info_->outputs.begin(), info_->outputs.end(), output);
    return static_cast<size_t>(found - info_->outputs.begin());
}

void Call::Begin(const Message *head)
{
    const std::lock_guard<std::mutex> guard(lock_);
    is_open_ = head != nullptr;
    answered_.store(head == nullptr ? outputs_.size() : 0, std::memory_order_relaxed);
    ForgetRaised();
    if (head == nullptr) {
        has_lost_ = false;
        return;
    }
    has_head_ = true;
    head_ = head->head();
    const View aux = head->aux();
    const View members = aux.size == 0 ? View() : MemberBytes(aux);
    members_.assign(members.data, members.data + members.size);
}

void Call::BeginException(const Head &head)
{
    const std::lock_guard<std::mutex> guard(lock_);
    is_open_ = false; // the transaction has been ended where the exception was raised
    answered_.store(outputs_.size(), std::memory_order_relaxed);
    ForgetRaised();
    has_head_ = true;
    head_ = head;
    members_.clear();
}

int Call::Send(uint32_t output, MessagePtr msg)
{
    const size_t at = Local(output);
    const std::lock_guard<std::mutex> guard(lock_);
    Output &out = outputs_[at];
    if (let_go_.Has(msg->head().trans_id)) {
        return kOk;
    }
    out.count++;
    out.is_explicit = msg->head().trans_id != 0;
    if (!out.is_explicit) {
        msg->head().trans_id = ImplicitTransaction(out);
    }
    if (!is_open_) {
        return EmitForeign(at, std::move(msg));
    }
    const bool is_own = msg->head().trans_id == head_.trans_id;
    if (!out.is_stream && is_own && out.has_own) { // the second one: now they are parts
        out.is_stream = true;
        const int code = EmitHeld(at);
        return First(code, EmitPart(at, std::move(msg)));
    }
    if (out.is_stream || (!is_own && out.held_back.empty())) {
        return is_own ? EmitPart(at, std::move(msg)) : EmitForeign(at, std::move(msg));
    }
    if (is_own) { // the first one: a second is a part
        out.has_own = true;
        answered_.fetch_add(1, std::memory_order_relaxed);
    }
    out.held_back.push_back(std::move(msg));
    return kOk;
}

// The transaction of a message that names none: that of the call; or, where there are no calls for transactions, of the
// oldest message that was taken and has no answer, which is the count of messages where ids are counted and all is 1:1.
uint64_t Call::ImplicitTransaction(const Output &out) const
{
    if (!info_->is_stream && !info_->inputs.empty()) {
        return has_head_ ? head_.trans_id : std::numeric_limits<uint64_t>::max();
    }
    return out.ledger.is_empty() ? out.count : out.ledger.Oldest();
}

// Send what was held back: the own one as it is, or as the first of several parts.
int Call::EmitHeld(size_t at)
{
    Output &out = outputs_[at];
    int code = kOk;
    for (MessagePtr &msg : out.held_back) {
        const bool is_own = msg->head().trans_id == head_.trans_id;
        if (!is_own) {
            code = First(code, EmitForeign(at, std::move(msg)));
        } else if (out.is_stream) {
            code = First(code, EmitPart(at, std::move(msg)));
        } else {
            code = First(code, EmitOwn(at, std::move(msg)));
        }
    }
    out.held_back.clear();
    return code;
}

int Call::EmitOwn(size_t at, MessagePtr msg)
{
    Head head = msg->head();
    head.data_flag &= kUserBits;
    head.token = head_.token;
    head.data_label = msg->keeps_label() ? head.data_label : head_.data_label;
    return sink_->Send(info_->outputs[at], msg.get(), head, members(), msg.use_count() == 1);
}

int Call::EmitPart(size_t at, MessagePtr msg)
{
    Output &out = outputs_[at];
    Head head = msg->head();
    head.data_flag &= kUserBits;
    head.token = ChildToken(head_.token, out.parts);
    head.data_label = msg->keeps_label() ? head.data_label : PartLabel(head_.data_label, out.parts);
    out.parts++;
    out.token ^= head.token;
    return sink_->Send(info_->outputs[at], msg.get(), head, View(), msg.use_count() == 1);
}

// One of another transaction than the call's: it pays a debt, or stands for that transaction as a whole.
int Call::EmitForeign(size_t at, MessagePtr msg)
{
    Head head = msg->head();
    head.data_flag &= kUserBits;
    Debt debt;
    if (outputs_[at].ledger.Take(head.trans_id, &debt)) {
        head.token = debt.head.token;
        head.data_label = msg->keeps_label() ? head.data_label : debt.head.data_label;
    } else {
        head.token = RootToken(head.trans_id);
    }
    const View members{debt.members.data(), debt.members.size()};
    return sink_->Send(info_->outputs[at], msg.get(), head, members, msg.use_count() == 1);
}

int Call::EmitEnding(size_t at, const Head &head, View aux)
{
    Message ending(bus_, Flagged(head, kNull));
    return sink_->Send(info_->outputs[at], &ending, ending.head(), aux, false);
}

// Close the parts; if they were made of a batch, the marker also ends its other members.
int Call::EmitEnd(size_t at)
{
    Head head = Flagged(head_, kEnd);
    head.token ^= outputs_[at].token;
    return EmitEnding(at, head, members());
}

int Call::Finish(std::vector<std::weak_ptr<Message>> kept)
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (!is_open_) {
        return kOk;
    }
    int code = kOk;
    for (size_t at = 0; at < outputs_.size(); at++) {
        Output &out = outputs_[at];
        if (!out.held_back.empty()) {
            code = First(code, EmitHeld(at));
        }
        if (out.is_stream) {
            code = First(code, EmitEnd(at));
        } else if (!out.has_own && !kept.empty()) {
            out.ledger.Owe(head_, members(), kept);
            has_debts_.store(true, std::memory_order_relaxed);
        } else if (!out.has_own && !info_->is_shared[at]) {
            code = First(code, EmitEnding(at, Flagged(head_, kSkip), members()));
        }
        out.is_stream = out.has_own = false;
        out.parts = out.token = 0;
        if (!out.ledger.is_empty()) {
            code = First(code, First(PayReleased(at), PayOldest(at, false)));
        }
    }
    is_open_ = false;
    return code;
}

int Call::Fail(const ErrorInfo &error, int32_t ret_code)
{
    const std::lock_guard<std::mutex> guard(lock_);
    int code = kOk;
    Head head = Flagged(head_, kError);
    head.ret_code = ret_code;
    const Bytes aux = AuxWithError(members(), error);
    for (size_t at = 0; at < outputs_.size(); at++) {
        Output &out = outputs_[at];
        out.held_back.clear();
        out.is_stream = out.has_own = false;
        out.parts = out.token = 0;
        out.ledger.Forget(head_.trans_id);
        if (is_open_) {
            code = First(code, EmitEnding(at, head, View{aux.data(), aux.size()}));
        }
    }
    is_open_ = false;
    return code;
}

int Call::PassOn(const Message &msg)
{
    const std::lock_guard<std::mutex> guard(lock_);
    return PassOnLocked(msg);
}

int Call::PassOnLocked(const Message &msg)
{
    int code = kOk;
    for (size_t at = 0; at < outputs_.size(); at++) {
        if (msg.Is(kError)) {
            outputs_[at].ledger.Forget(msg.head().trans_id);
        }
        if (msg.Is(kSkip) && info_->is_shared[at]) {
            continue;
        }
        code = First(code, EmitEnding(at, msg.head(), msg.aux()));
    }
    return code;
}

void Call::Reset()
{
    const std::lock_guard<std::mutex> guard(lock_);
    for (Output &out : outputs_) {
        out = Output();
    }
    has_head_ = is_open_ = false;
    halves_.Clear();
    let_go_ = Recent<uint64_t>();
    memset(&head_, 0, sizeof(head_));
    members_.clear();
    ForgetRaised();
}

long Call::Holds(const Message *msg)
{
    const std::lock_guard<std::mutex> guard(lock_);
    long count = 0;
    for (const Output &out : outputs_) {
        for (const MessagePtr &held : out.held_back) {
            count += held.get() == msg ? 1 : 0;
        }
    }
    return count;
}

bool Call::Inherit(Head *head, Bytes *members)
{
    const std::lock_guard<std::mutex> guard(lock_);
    *head = head_;
    if (!members_.empty()) {
        *members = members_;
    }
    return has_head_;
}

bool Call::Raise(int32_t code, uint64_t user_context_id)
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (!has_head_ || !is_open_ || last_raised_ == head_.trans_id) {
        return false;
    }
    last_raised_ = head_.trans_id;
    raised_ = Raised{true, code, user_context_id};
    has_raised_.store(true, std::memory_order_relaxed);
    return true;
}

Raised Call::TakeRaised()
{
    if (!has_raised_.load(std::memory_order_relaxed)) {
        return Raised();
    }
    const std::lock_guard<std::mutex> guard(lock_);
    has_raised_.store(false, std::memory_order_relaxed);
    return std::exchange(raised_, Raised());
}

void Call::ForgetRaised()
{
    raised_ = Raised();
    has_raised_.store(false, std::memory_order_relaxed);
}
}  // namespace dflow
