// Queues of programs on a host: data in and out, routes, what is refused; in C++, as many public programs are.
#include <string>
#include <thread>
#include <vector>

#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "check.h"

namespace {

uint32_t queue(const std::string &name = "", uint32_t depth = 8) {
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    const char *text = name.c_str();
    if (!name.empty()) OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof text, &text));
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof depth, &depth));
    uint32_t id = 0;
    OK(acltdtCreateQueue(attr, &id));
    OK(acltdtDestroyQueueAttr(attr));
    return id;
}

void put(uint32_t id, int value, const std::string &user = "") {
    OK(acltdtEnqueueData(id, &value, sizeof value, user.data(), user.size(), 100, 0));
}

int take(uint32_t id) {
    int value = 0;
    size_t size = 0;
    OK(acltdtDequeueData(id, &value, sizeof value, &size, nullptr, 0, 100));
    EXPECT(size == sizeof value);
    return value;
}

void attributes() {
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    const std::string long_name(128, 'q');
    const char *text = long_name.c_str();
    uint32_t depth = 1, id = 0;
    size_t size = 0;
    CODE(100000, acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof text, &text));
    CODE(100000, acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, 8, &depth));
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof depth, &depth));
    CODE(100000, acltdtCreateQueue(attr, &id));
    CODE(100000, acltdtCreateQueue(attr, nullptr));
    const char *name = "images";
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof name, &name));
    const char *found = nullptr;
    OK(acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_NAME_PTR, sizeof found, &size, &found));
    EXPECT(std::string(found) == "images" && found != name && size == sizeof found);
    CODE(100000, acltdtGetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, 2, &size, &depth));
    depth = 2;
    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof depth, &depth));
    OK(acltdtCreateQueue(attr, &id));
    uint32_t second = 0;
    CODE(100000, acltdtCreateQueue(attr, &second));  // the name is taken
    OK(acltdtDestroyQueue(id));
    OK(acltdtDestroyQueueAttr(attr));
    CODE(107000, acltdtDestroyQueue(id));
}

void data() {
    const uint32_t id = queue("", 2);
    int value = 0;
    size_t size = 0;
    char user[96] = {0};
    CODE(207013, acltdtDequeueData(id, &value, sizeof value, &size, nullptr, 0, 5));
    CODE(100000, acltdtDequeueData(id, &value, sizeof value, &size, nullptr, 0, 0));
    CODE(100000, acltdtEnqueueData(id, nullptr, 4, nullptr, 0, 5, 0));
    CODE(100000, acltdtEnqueueData(id, &value, 0, nullptr, 0, 5, 0));
    CODE(100000, acltdtEnqueueData(id, &value, 4, user, 97, 5, 0));
    put(id, 1, "one");
    put(id, 2);
    CODE(207014, acltdtEnqueueData(id, &value, sizeof value, nullptr, 0, 5, 0));
    CODE(107000, acltdtDequeueData(id, &value, 2, &size, nullptr, 0, 5));
    EXPECT(size == 4);
    OK(acltdtDequeueData(id, &value, sizeof value, &size, user, sizeof user, -1));
    EXPECT(value == 1 && std::string(user) == "one");
    EXPECT(take(id) == 2);
    std::thread later([id] {
        OK(aclrtSetDevice(0));
        put(id, 3);
        OK(aclrtResetDevice(0));
    });
    OK(acltdtDequeueData(id, &value, sizeof value, &size, nullptr, 0, -1));
    later.join();
    EXPECT(value == 3);
    OK(acltdtDestroyQueue(id));
    CODE(107000, acltdtEnqueueData(id, &value, sizeof value, nullptr, 0, 5, 0));
}

acltdtQueueRouteList *list_of(const std::vector<std::pair<uint32_t, uint32_t>> &routes) {
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    for (const auto &[from, to] : routes) {
        acltdtQueueRoute *route = acltdtCreateQueueRoute(from, to);
        OK(acltdtAddQueueRoute(list, route));
        OK(acltdtDestroyQueueRoute(route));
    }
    return list;
}

int32_t status_of(acltdtQueueRouteList *list, size_t index) {
    acltdtQueueRoute *route = acltdtCreateQueueRoute(0, 0);
    OK(acltdtGetQueueRoute(list, index, route));
    int32_t status = -1;
    size_t size = 0;
    OK(acltdtGetQueueRouteParam(route, ACL_TDT_QUEUE_ROUTE_STATUS_INT32, sizeof status, &size, &status));
    OK(acltdtDestroyQueueRoute(route));
    return status;
}

size_t count_from(uint32_t from) {
    acltdtQueueRouteQueryInfo *query = acltdtCreateQueueRouteQueryInfo();
    acltdtQueueRouteList *found = acltdtCreateQueueRouteList();
    const acltdtQueueRouteQueryMode mode = ACL_TDT_QUEUE_ROUTE_QUERY_SRC;
    CODE(100000, acltdtSetQueueRouteQueryInfo(query, ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32, sizeof from, &from));
    OK(acltdtSetQueueRouteQueryInfo(query, ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM, sizeof mode, &mode));
    CODE(100000, acltdtQueryQueueRoutes(query, found));
    OK(acltdtSetQueueRouteQueryInfo(query, ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32, sizeof from, &from));
    OK(acltdtQueryQueueRoutes(query, found));
    const size_t count = acltdtGetQueueRouteNum(found);
    OK(acltdtDestroyQueueRouteList(found));
    OK(acltdtDestroyQueueRouteQueryInfo(query));
    return count;
}

void routes() {
    const uint32_t from = queue(), left = queue("", 2), right = queue("", 2);
    acltdtQueueRouteList *both = list_of({{from, left}, {from, right}});
    OK(acltdtBindQueueRoutes(both));
    EXPECT(status_of(both, 0) == ACL_TDT_QUEUE_ROUTE_BIND && count_from(from) == 2 && count_from(left) == 0);
    for (int i = 1; i < 5; ++i) put(from, i);  // the targets hold two, the rest waits in front of them
    for (int i = 1; i < 5; ++i) EXPECT(take(left) == i && take(right) == i);
    acltdtQueueRouteList *loop = list_of({{left, from}});
    CODE(500001, acltdtBindQueueRoutes(loop));
    EXPECT(status_of(loop, 0) == ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL);
    CODE(500001, acltdtDestroyQueue(left));
    OK(acltdtUnbindQueueRoutes(both));
    EXPECT(status_of(both, 1) == ACL_TDT_QUEUE_ROUTE_UNBIND && count_from(from) == 0);
    CODE(100000, acltdtUnbindQueueRoutes(both));
    put(from, 7);
    EXPECT(take(from) == 7);
    for (const uint32_t id : {from, left, right}) OK(acltdtDestroyQueue(id));
    OK(acltdtDestroyQueueRouteList(both));
    OK(acltdtDestroyQueueRouteList(loop));
}

void refused() {
    acltdtBuf buf = nullptr;
    uint32_t id = queue(), permission = 0;
    CODE(200006, acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buf));
    CODE(200006, acltdtEnqueue(id, buf, 0));
    CODE(200006, acltdtDequeue(id, &buf, 0));
    CODE(200006, acltdtGrantQueue(id, 1, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    CODE(200006, acltdtAttachQueue(id, 0, &permission));
    CODE(207000, aclrtAllocBuf(&buf, 64));
    EXPECT(acltdtCreateChannel(0, "images") == nullptr && acltdtSendTensor(nullptr, nullptr, -1) == 200006);
    OK(acltdtDestroyQueue(id));
}

}  // namespace

int main() {
    uint32_t id = 0;
    OK(aclInit(nullptr));
    CODE(107002, acltdtCreateQueue(nullptr, &id));
    OK(aclrtSetDevice(0));
    attributes();
    data();
    routes();
    refused();
    finish();
    return 0;
}
