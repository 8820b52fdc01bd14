#include "aligner.h"

#include <algorithm>

namespace dflow {
namespace {
// The join keys of every message in it: its own and those of its batch members.
std::vector<PartKey> Keys(const Message &msg)
{
    std::vector<PartKey> keys{msg.key()};
    const View aux = msg.aux();
    for (uint32_t i = 0; i < MemberCount(aux); i++) {
        const Head member = MemberHead(aux, i);
        const PartKey key{member.trans_id, member.data_label};
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
            keys.push_back(key);
        }
    }
    return keys;
}
}  // namespace

Aligner::Aligner(Bus *bus, size_t ports, const std::vector<DeadPart> &dead, const AlignLimits &limits)
    : bus_(bus), ports_(ports), limits_(limits), counts_(ports, 0)
{
    for (const DeadPart &part : dead) {
        std::set<size_t> missing;
        for (size_t port = 0; port < ports; port++) {
            if (std::find(part.ports.begin(), part.ports.end(), port) == part.ports.end()) {
                missing.insert(port);
            }
        }
        if (!missing.empty()) {
            dead_[{part.trans_id, part.data_label}] = missing;
        }
    }
}

void Aligner::Offer(size_t port, MessagePtr msg, int64_t now, std::vector<MessageSet> *complete)
{
    if (ports_ == 1) {
        if (IsWanted(port, *msg)) {
            complete->emplace_back(1, std::move(msg));
        }
        return;
    }
    if (MemberCount(msg->aux()) != 0 && Keys(*msg).size() > 1 && !msg->Is(kEnd) && CanHold(*msg)) {
        return Hold(port, std::move(msg), now, complete);
    }
    std::vector<Part> parts;
    for (MessagePtr &part : SplitMembers(msg)) {
        parts.emplace_back(port, std::move(part));
    }
    std::set<PartKey> heads;
    for (const Part &part : parts) {
        const auto found = batch_of_.find(part.second->key());
        if (found != batch_of_.end()) {
            heads.insert(found->second);
        }
    }
    std::vector<Part> all;
    for (const PartKey &head : heads) {
        for (Part &part : Split(head)) {
            all.push_back(std::move(part));
        }
    }
    std::move(parts.begin(), parts.end(), std::back_inserter(all));
    for (Part &part : all) {
        if (IsWanted(part.first, *part.second)) {
            Add(part.first, std::move(part.second), now, complete);
        }
    }
}

// Whether a batch may wait, or pair, as a whole.
bool Aligner::CanHold(const Message &msg) const
{
    const std::vector<PartKey> keys = Keys(msg);
    std::set<PartKey> heads;
    for (const PartKey &key : keys) {
        const auto found = batch_of_.find(key);
        if (found != batch_of_.end()) {
            heads.insert(found->second);
        }
    }
    if (heads.empty()) {
        return std::none_of(keys.begin(), keys.end(), [this](const PartKey &key) {
            return waiting_.count(Key(key.first, key.second, false)) != 0 || dead_.count(key) != 0;
        });
    }
    if (heads.size() != 1 || *heads.begin() != msg.key()) {
        return false;
    }
    const std::vector<PartKey> other = Keys(*held_.at(msg.key()).ports.begin()->second);
    return std::set<PartKey>(other.begin(), other.end()) == std::set<PartKey>(keys.begin(), keys.end());
}

void Aligner::Hold(size_t port, MessagePtr msg, int64_t now, std::vector<MessageSet> *complete)
{
    const PartKey head = msg->key();
    const std::vector<PartKey> keys = Keys(*msg);
    const auto known = held_.find(head);
    const bool is_known = known != held_.end() && known->second.ports.count(port) != 0;
    if (msg->Is(kInjected) && (is_known || done_.Has(Key(head.first, head.second, false)))) {
        return;
    }
    if (known == held_.end()) {
        held_[head].since = now;
    }
    Batch &batch = held_[head];
    batch.ports[port] = std::move(msg);
    for (const PartKey &key : keys) {
        batch_of_[key] = head;
    }
    if (batch.ports.size() < ports_) {
        return;
    }
    Batch whole = Forget(head);
    for (const PartKey &key : keys) {
        done_.Add(Key(key.first, key.second, false));
    }
    MessageSet set;
    for (auto &entry : whole.ports) {
        set.push_back(std::move(entry.second));
    }
    complete->push_back(std::move(set));
}

// The single messages that batches waiting under a head stand for.
std::vector<Aligner::Part> Aligner::Split(const PartKey &head)
{
    std::vector<Part> parts;
    for (const auto &entry : Forget(head).ports) {
        for (MessagePtr &part : SplitMembers(entry.second)) {
            parts.emplace_back(entry.first, std::move(part));
        }
    }
    return parts;
}

Aligner::Batch Aligner::Forget(const PartKey &head)
{
    Batch batch = std::move(held_.at(head));
    held_.erase(head);
    for (const auto &entry : batch.ports) {
        for (const PartKey &key : Keys(*entry.second)) {
            batch_of_.erase(key);
        }
    }
    return batch;
}

// The message without its members, and a stand-in for each member that is not its head.
std::vector<MessagePtr> Aligner::SplitMembers(const MessagePtr &msg) const
{
    const View aux = msg->aux();
    const uint32_t count = MemberCount(aux);
    std::vector<MessagePtr> parts{msg};
    if (count == 0) {
        return parts;
    }
    const auto kept = static_cast<uint8_t>(msg->head().data_flag & (kError | kInjected));
    const Bytes rest = AuxWithoutMembers(aux);
    for (uint32_t i = 0; i < count; i++) {
        Head head = MemberHead(aux, i);
        if (PartKey(head.trans_id, head.data_label) == msg->key()) {
            continue;
        }
        head.data_flag = static_cast<uint8_t>(kept | kNull | ((kept & kError) != 0 ? 0 : kSkip));
        parts.push_back(std::make_shared<Message>(bus_, head, rest));
    }
    msg->ReplaceAux(rest);
    return parts;
}

bool Aligner::IsWanted(size_t port, const Message &msg)
{
    if (!dead_.empty()) {
        const auto found = dead_.find(msg.key());
        if (found != dead_.end() && found->second.erase(port) != 0) {
            if (found->second.empty()) {
                dead_.erase(found);
            }
            return false;
        }
    }
    return !poisoned_.Has(msg.head().trans_id);
}

void Aligner::Add(size_t port, MessagePtr msg, int64_t now, std::vector<MessageSet> *complete)
{
    const PartKey part = msg->key();
    const Key key(part.first, part.second, msg->Is(kEnd));
    auto found = waiting_.find(key);
    if (msg->Is(kInjected) && (done_.Has(key) || (found != waiting_.end() && !found->second.ports[port].empty()))) {
        return;
    }
    if (replaced_.Has({key, port})) {
        replaced_.Remove({key, port});
        return;
    }
    if (found == waiting_.end()) {
        found = waiting_.emplace(key, Slot{std::vector<std::deque<MessagePtr>>(ports_), now}).first;
    }
    auto &slot = found->second.ports;
    const auto is_empty = [](const std::deque<MessagePtr> &queue) { return queue.empty(); };
    const MessagePtr offered = msg;
    slot[port].push_back(std::move(msg));
    if (offered->Is(kInjected)) {
        replaced_.Add({key, port});
    }
    counts_[port]++;
    if (std::none_of(slot.begin(), slot.end(), is_empty)) {
        MessageSet set;
        for (size_t i = 0; i < ports_; i++) {
            set.push_back(std::move(slot[i].front()));
            slot[i].pop_front();
            counts_[i]--;
        }
        if (std::all_of(slot.begin(), slot.end(), is_empty)) {
            waiting_.erase(found);
        }
        done_.Add(key);
        complete->push_back(std::move(set));
        return;
    }
    const auto other = waiting_.find(Key(part.first, part.second, !std::get<2>(key)));
    if (other == waiting_.end()) {
        return;
    }
    for (size_t i = 0; i < ports_; i++) {
        if (!slot[i].empty() && !other->second.ports[i].empty()) {
            return;
        }
    }
    complete->push_back(Mismatch(*offered));
}

// End a transaction whose parts cannot pair.
MessageSet Aligner::Mismatch(const Message &msg)
{
    Head head = msg.head();
    Poison(head.trans_id);
    ErrorInfo error;
    error.kind = "align";
    error.message = "one input got a stream of parts where another got a single message, so they cannot be paired";
    error.error_type = "AlignmentError";
    head.data_flag = kError | kNull;
    MessageSet set;
    for (size_t i = 0; i < ports_; i++) {
        set.push_back(std::make_shared<Message>(bus_, head, AuxWithError(View(), error)));
    }
    return set;
}

bool Aligner::TakeOverdue(int64_t now, MessageSet *partial)
{
    if (limits_.timeout_ns >= 0) {
        LetBatchesWaitAsMessages(now - limits_.timeout_ns);
    }
    auto found = waiting_.end();
    if (limits_.timeout_ns >= 0) {
        found = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto &entry) {
            return now - entry.second.since >= limits_.timeout_ns;
        });
    }
    if (found == waiting_.end() && IsFull()) {
        LetBatchesWaitAsMessages(INT64_MAX);
        found = waiting_.begin();
    }
    if (found == waiting_.end()) {
        return false;
    }
    const Key key = found->first;
    partial->assign(ports_, nullptr);
    bool is_rest = false;
    for (size_t i = 0; i < ports_; i++) {
        auto &queue = found->second.ports[i];
        if (!queue.empty()) {
            (*partial)[i] = std::move(queue.front());
            queue.pop_front();
            counts_[i]--;
        }
        is_rest = is_rest || !queue.empty();
    }
    if (!is_rest) {
        waiting_.erase(found);
    }
    done_.Add(key);
    if (limits_.is_dropping) {
        Poison(std::get<0>(key));
        return true;
    }
    for (size_t i = 0; i < ports_; i++) {
        if ((*partial)[i] == nullptr) {
            replaced_.Add({key, i});
        }
    }
    return true;
}

// Batches that wait since `oldest` or longer: as single messages they take their turn among the others.
void Aligner::LetBatchesWaitAsMessages(int64_t oldest)
{
    std::vector<PartKey> old;
    for (const auto &entry : held_) {
        if (entry.second.since <= oldest) {
            old.push_back(entry.first);
        }
    }
    for (const PartKey &head : old) {
        const int64_t since = held_.at(head).since;
        std::vector<MessageSet> none;
        for (Part &part : Split(head)) {
            Add(part.first, std::move(part.second), since, &none);
        }
    }
}

int64_t Aligner::Deadline() const
{
    if (IsFull()) {
        return 0;
    }
    if (limits_.timeout_ns < 0 || pending() == 0) {
        return -1;
    }
    int64_t oldest = INT64_MAX;
    for (const auto &entry : waiting_) {
        oldest = std::min(oldest, entry.second.since);
    }
    for (const auto &entry : held_) {
        oldest = std::min(oldest, entry.second.since);
    }
    return oldest + limits_.timeout_ns;
}

void Aligner::Poison(uint64_t trans_id)
{
    std::set<PartKey> heads;
    for (auto at = batch_of_.lower_bound(PartKey(trans_id, 0));
         at != batch_of_.end() && at->first.first == trans_id; ++at) {
        heads.insert(at->second);
    }
    for (const PartKey &head : heads) {
        const int64_t since = held_.at(head).since;
        std::vector<MessageSet> none;
        for (Part &part : Split(head)) {
            Add(part.first, std::move(part.second), since, &none);
        }
    }
    poisoned_.Add(trans_id);
    for (auto at = waiting_.lower_bound(Key(trans_id, 0, false));
         at != waiting_.end() && std::get<0>(at->first) == trans_id;) {
        for (size_t i = 0; i < ports_; i++) {
            counts_[i] -= at->second.ports[i].size();
        }
        at = waiting_.erase(at);
    }
}

void Aligner::Unpoison(uint64_t trans_id)
{
    poisoned_.Remove(trans_id);
}

void Aligner::LetGo(const std::function<MessagePtr(MessagePtr)> &stand_in)
{
    for (auto &entry : waiting_) {
        for (std::deque<MessagePtr> &port : entry.second.ports) {
            for (MessagePtr &msg : port) {
                msg = stand_in(std::move(msg));
            }
        }
    }
    for (auto &entry : held_) {
        for (auto &port : entry.second.ports) {
            port.second = stand_in(std::move(port.second));
        }
    }
}

void Aligner::Clear()
{
    waiting_.clear();
    held_.clear();
    batch_of_.clear();
    std::fill(counts_.begin(), counts_.end(), 0);
}

size_t Aligner::ShortestPort() const
{
    return static_cast<size_t>(std::min_element(counts_.begin(), counts_.end()) - counts_.begin());
}
}  // namespace dflow
