// Buffers that queues carry; they are for programs that run on the chip itself.
#include "message_buffer.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "acl/acl_rt.h"
#include "acl/acl_tdt_queue.h"
#include "device.h"
#include "settings.h"
#include "table.h"

namespace emu {
namespace {

Table<Message> &messages() {
    static Table<Message> &made = *new Table<Message>(Tag::buffer);
    return made;
}

}  // namespace

Area::~Area() {
    if (block != nullptr && !block->freed) memory::release(block);
}

MessagePtr make_message(int device, std::size_t size) {
    auto area = std::make_shared<Area>();
    area->block = memory::take_device(device, std::max(size, std::size_t{1}), 0);
    if (area->block == nullptr) return nullptr;
    area->capacity = size;
    auto message = std::make_shared<Message>();
    message->area = std::move(area);
    message->made = trail();
    return message;
}

MessagePtr copy_of(const Message &message) {
    auto copy = std::make_shared<Message>();
    copy->area = message.area;
    copy->length = message.length;
    copy->user = message.user;
    copy->made = message.made;
    for (const MessagePtr &member : message.chain) {
        copy->chain.push_back(copy_of(*member));
        copy->chain.back()->is_member = true;
    }
    return copy;
}

void *handle_of(const MessagePtr &message) {
    if (message->handle == nullptr) message->handle = messages().add(message);
    return message->handle;
}

void drop_handles(const MessagePtr &message) {
    if (message->handle != nullptr) messages().remove(message->handle);
    for (const MessagePtr &member : message->chain) drop_handles(member);
}

MessagePtr message_of(void *handle, int &code) {
    code = 0;
    MessagePtr found = messages().find(handle);
    if (found != nullptr && !found->is_queued) return found;
    const bool was = found != nullptr || messages().was(handle);
    code = misuse(ACL_ERROR_RT_PARAM_INVALID, was ? "use-after-free" : "foreign-handle", "buffer " + hex(handle)
            + (found != nullptr ? " belongs to a queue" : was ? " has been freed" : " was never allocated"));
    return nullptr;
}

std::vector<Trail> living_messages() {
    std::vector<Trail> found;
    for (const auto &[handle, message] : messages().all()) {
        if (!message->is_queued && !message->is_member) found.push_back(message->made);
    }
    return found;
}

void forget_messages() { messages().clear(); }

}  // namespace emu

using namespace emu;

namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 30;
constexpr std::size_t kMostMembers = 128;

int refuse_on_host(int code) {
    return fail(code, "EH0001", std::string(Call::site().function) + " is for programs that run on the chip itself");
}

#define BUFFERS_OF_ACL \
    if (!settings().on_device) return refuse_on_host(ACL_ERROR_FEATURE_UNSUPPORTED)
#define BUFFERS_OF_RUNTIME \
    if (!settings().on_device) return refuse_on_host(ACL_ERROR_RT_FEATURE_NOT_SUPPORT)

// A function that both layers have under their own name; each refuses on a host with its own code.
#define BOTH_LAYERS(NAME, PARAMETERS, RESULT) \
    aclError acltdt##NAME PARAMETERS {        \
        ACL_CALL(acltdt##NAME);               \
        BUFFERS_OF_ACL;                       \
        return RESULT;                        \
    }                                         \
    aclError aclrt##NAME PARAMETERS {         \
        ACL_CALL(aclrt##NAME);                \
        BUFFERS_OF_RUNTIME;                   \
        return RESULT;                        \
    }

int allocate(std::size_t size, void **made) {
    if (made == nullptr) return null_argument("buf");
    if (size == 0 || size > kMostBytes) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "a buffer has from 1 byte to 4 GiB");
    }
    ACL_CONTEXT(context);
    const MessagePtr message = make_message(context->device, size);
    if (message == nullptr) {
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE1001", "the device has no memory for the buffer");
    }
    *made = handle_of(message);
    return 0;
}

int free_buffer(void *buf) {
    if (buf == nullptr) return null_argument("buf");
    int code = 0;
    const MessagePtr message = message_of(buf, code);
    if (message == nullptr) return code;
    if (message->is_member) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "member-free", "a member of a chain goes with the chain's head",
                      &message->made);
    }
    drop_handles(message);
    return 0;
}

int data_of(void *buf, void **data, std::size_t *size) {
    if (buf == nullptr || data == nullptr || size == nullptr) return null_argument("buf, dataPtr or size");
    int code = 0;
    const MessagePtr message = message_of(buf, code);
    if (message == nullptr) return code;
    *data = message->area->block->address;
    *size = message->area->capacity;
    return 0;
}

int set_length(void *buf, std::size_t length) {
    if (buf == nullptr) return null_argument("buf");
    int code = 0;
    const MessagePtr message = message_of(buf, code);
    if (message == nullptr) return code;
    if (length > message->area->capacity) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the length is above the buffer's size");
    }
    message->length = length;
    return 0;
}

int get_length(void *buf, std::size_t *length) {
    if (buf == nullptr || length == nullptr) return null_argument("buf or len");
    int code = 0;
    if (const MessagePtr message = message_of(buf, code); message != nullptr) *length = message->length;
    return code;
}

int user_data(void *buf, const void *from, void *to, std::size_t size, std::size_t offset) {
    if (buf == nullptr || (from == nullptr && to == nullptr)) return null_argument("buf or dataPtr");
    if (offset > kUserBytes || size > kUserBytes - offset) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "user data has 96 bytes");
    }
    int code = 0;
    const MessagePtr message = message_of(buf, code);
    if (message == nullptr) return code;
    if (from != nullptr) std::memcpy(message->user.data() + offset, from, size);
    else std::memcpy(to, message->user.data() + offset, size);
    return 0;
}

int copy_reference(void *buf, void **made) {
    if (buf == nullptr || made == nullptr) return null_argument("buf or newBuf");
    int code = 0;
    const MessagePtr message = message_of(buf, code);
    if (message == nullptr) return code;
    const MessagePtr copy = copy_of(*message);
    *made = handle_of(copy);
    return 0;
}

int append(void *head, void *buf) {
    if (head == nullptr || buf == nullptr) return null_argument("headBuf or buf");
    int code = 0;
    const MessagePtr first = message_of(head, code);
    const MessagePtr rest = code == 0 ? message_of(buf, code) : nullptr;
    if (code != 0) return code;
    if (first == rest) return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "EE9999", "a chain is appended to itself");
    if (first->is_member || rest->is_member) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "a member of a chain is no head, and in no other chain");
    }
    if (first->chain.size() + rest->chain.size() + 2 > kMostMembers) {
        return fail(ACL_ERROR_RT_OVER_LIMIT, "EE1001", "a chain has at most 128 buffers");
    }
    rest->is_member = true;
    first->chain.push_back(rest);
    std::move(rest->chain.begin(), rest->chain.end(), std::back_inserter(first->chain));
    rest->chain.clear();
    return 0;
}

int chain_size(void *head, std::uint32_t *count) {
    if (head == nullptr || count == nullptr) return null_argument("headBuf or num");
    int code = 0;
    const MessagePtr first = message_of(head, code);
    if (first != nullptr) *count = static_cast<std::uint32_t>(first->chain.size() + 1);
    return code;
}

int chain_member(void *head, std::uint32_t index, void **buf) {
    if (head == nullptr || buf == nullptr) return null_argument("headBuf or buf");
    int code = 0;
    const MessagePtr first = message_of(head, code);
    if (first == nullptr) return code;
    if (index > first->chain.size()) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the chain has no buffer " + std::to_string(index));
    }
    *buf = index == 0 ? head : handle_of(first->chain[index - 1]);
    return 0;
}

}  // namespace

extern "C" {

aclError acltdtAllocBuf(size_t size, uint32_t type, acltdtBuf *buf) {
    ACL_CALL(acltdtAllocBuf);
    BUFFERS_OF_ACL;
    if (type > ACL_TDT_DVPP_MEM) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "a buffer's type is 0 or 1");
    return allocate(size, buf);
}

aclError aclrtAllocBuf(aclrtMbuf *buf, size_t size) {
    ACL_CALL(aclrtAllocBuf);
    BUFFERS_OF_RUNTIME;
    return allocate(size, buf);
}

static_assert(std::is_same_v<acltdtBuf, void *> && std::is_same_v<aclrtMbuf, void *>);

BOTH_LAYERS(FreeBuf, (void *buf), free_buffer(buf))
BOTH_LAYERS(GetBufData, (void *const buf, void **dataPtr, size_t *size), data_of(buf, dataPtr, size))
BOTH_LAYERS(SetBufDataLen, (void *buf, size_t len), set_length(buf, len))
BOTH_LAYERS(GetBufDataLen, (void *buf, size_t *len), get_length(buf, len))
BOTH_LAYERS(GetBufUserData, (void *const buf, void *dataPtr, size_t size, size_t offset),
            user_data(buf, nullptr, dataPtr, size, offset))
BOTH_LAYERS(SetBufUserData, (void *buf, const void *dataPtr, size_t size, size_t offset),
            user_data(buf, dataPtr, nullptr, size, offset))
BOTH_LAYERS(CopyBufRef, (void *const buf, void **newBuf), copy_reference(buf, newBuf))
BOTH_LAYERS(AppendBufChain, (void *headBuf, void *buf), append(headBuf, buf))
BOTH_LAYERS(GetBufChainNum, (void *headBuf, uint32_t *num), chain_size(headBuf, num))
BOTH_LAYERS(GetBufFromChain, (void *headBuf, uint32_t index, void **buf), chain_member(headBuf, index, buf))

}  // extern "C"
