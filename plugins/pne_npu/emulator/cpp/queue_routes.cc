// Attributes of queues, and routes between them.
#include <cstring>

#include "acl/acl_tdt_queue.h"
#include "queue.h"
#include "queue_parts.h"
#include "report.h"

namespace emu {

Table<QueueAttr> &queue_attrs() {
    static Table<QueueAttr> &made = *new Table<QueueAttr>(Tag::queue_attr);
    return made;
}

}  // namespace emu

using namespace emu;

namespace {

Table<RouteEntry> &entries() {
    static Table<RouteEntry> &made = *new Table<RouteEntry>(Tag::route);
    return made;
}

Table<RouteList> &lists() {
    static Table<RouteList> &made = *new Table<RouteList>(Tag::routes);
    return made;
}

Table<RouteQuery> &queries() {
    static Table<RouteQuery> &made = *new Table<RouteQuery>(Tag::query);
    return made;
}

int not_living(const char *what) {
    return misuse(ACL_ERROR_INVALID_PARAM, "foreign-handle", std::string(what) + " does not live");
}

int wrong_size(std::size_t size, std::size_t wanted) {
    return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the value takes " + std::to_string(wanted) + " bytes, got "
            + std::to_string(size));
}

template <class T>
int destroy(Table<T> &table, const void *handle, const char *what) {
    return table.remove(handle) == nullptr ? not_living(what) : 0;
}

// Give a value to a program that has room for so many bytes.
int give(const void *value, std::size_t size, std::size_t room, std::size_t *told, void *target) {
    if (room < size) return wrong_size(room, size);
    std::memcpy(target, value, size);
    *told = size;
    return 0;
}

bool wanted(const RouteQuery &query, const queues::Route &route) {
    switch (query.mode) {
        case ACL_TDT_QUEUE_ROUTE_QUERY_SRC: return route.from == query.from;
        case ACL_TDT_QUEUE_ROUTE_QUERY_DST: return route.to == query.to;
        case ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST: return route.from == query.from && route.to == query.to;
        default: return false;  // no route of the emulator becomes abnormal
    }
}

// Whether a query has what its mode needs.
bool complete(const RouteQuery &query) {
    switch (query.mode) {
        case ACL_TDT_QUEUE_ROUTE_QUERY_SRC: return query.has_from;
        case ACL_TDT_QUEUE_ROUTE_QUERY_DST: return query.has_to;
        case ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST: return query.has_from && query.has_to;
        default: return query.mode == ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL;
    }
}

// Bind or unbind every route of a list; the first code that is not 0.
int change(const void *handle, int (*act)(const queues::Route &), std::int32_t done, std::int32_t failed) {
    const auto list = lists().find(handle);
    if (list == nullptr) return not_living("the list of routes");
    if (list->entries.empty()) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the list has no routes");
    int first = 0;
    for (RouteEntry &entry : list->entries) {
        const int code = act(queues::Route{entry.from, entry.to});
        entry.status = code == 0 ? done : failed;
        if (first == 0) first = code;
    }
    return first;
}

}  // namespace

extern "C" {

acltdtQueueAttr *acltdtCreateQueueAttr(void) {
    ACL_NAMED(acltdtCreateQueueAttr);
    return static_cast<acltdtQueueAttr *>(queue_attrs().add(std::make_shared<QueueAttr>()));
}

aclError acltdtDestroyQueueAttr(const acltdtQueueAttr *attr) {
    ACL_CALL(acltdtDestroyQueueAttr);
    ACL_NOT_NULL(attr);
    return destroy(queue_attrs(), attr, "the queue attribute");
}

aclError acltdtSetQueueAttr(acltdtQueueAttr *attr, acltdtQueueAttrType type, size_t len, const void *param) {
    ACL_CALL(acltdtSetQueueAttr);
    ACL_NOT_NULL(attr);
    ACL_NOT_NULL(param);
    const auto found = queue_attrs().find(attr);
    if (found == nullptr) return not_living("the queue attribute");
    if (type == ACL_TDT_QUEUE_NAME_PTR) {
        const char *name = nullptr;
        if (len != sizeof name) return wrong_size(len, sizeof name);
        std::memcpy(&name, param, sizeof name);
        if (name == nullptr) return null_argument("name");
        if (std::strlen(name) > 127) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "a name has at most 127 characters");
        found->name = name;
        return ACL_SUCCESS;
    }
    if (type != ACL_TDT_QUEUE_DEPTH_UINT32) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown attribute");
    if (len != sizeof found->depth) return wrong_size(len, sizeof found->depth);
    std::memcpy(&found->depth, param, sizeof found->depth);
    return ACL_SUCCESS;
}

aclError acltdtGetQueueAttr(const acltdtQueueAttr *attr, acltdtQueueAttrType type, size_t len, size_t *paramRetSize,
                            void *param) {
    ACL_CALL(acltdtGetQueueAttr);
    ACL_NOT_NULL(attr);
    ACL_NOT_NULL(paramRetSize);
    ACL_NOT_NULL(param);
    const auto found = queue_attrs().find(attr);
    if (found == nullptr) return not_living("the queue attribute");
    const char *name = found->name.c_str();
    if (type == ACL_TDT_QUEUE_NAME_PTR) return give(&name, sizeof name, len, paramRetSize, param);
    if (type != ACL_TDT_QUEUE_DEPTH_UINT32) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown attribute");
    return give(&found->depth, sizeof found->depth, len, paramRetSize, param);
}

acltdtQueueRoute *acltdtCreateQueueRoute(uint32_t srcId, uint32_t dstId) {
    ACL_NAMED(acltdtCreateQueueRoute);
    return static_cast<acltdtQueueRoute *>(entries().add(std::make_shared<RouteEntry>(RouteEntry{srcId, dstId, 0})));
}

aclError acltdtDestroyQueueRoute(const acltdtQueueRoute *route) {
    ACL_CALL(acltdtDestroyQueueRoute);
    ACL_NOT_NULL(route);
    return destroy(entries(), route, "the route");
}

aclError acltdtGetQueueRouteParam(const acltdtQueueRoute *route, acltdtQueueRouteParamType type, size_t len,
                                  size_t *paramRetSize, void *param) {
    ACL_CALL(acltdtGetQueueRouteParam);
    ACL_NOT_NULL(route);
    ACL_NOT_NULL(paramRetSize);
    ACL_NOT_NULL(param);
    const auto found = entries().find(route);
    if (found == nullptr) return not_living("the route");
    switch (type) {
        case ACL_TDT_QUEUE_ROUTE_SRC_UINT32: return give(&found->from, sizeof found->from, len, paramRetSize, param);
        case ACL_TDT_QUEUE_ROUTE_DST_UINT32: return give(&found->to, sizeof found->to, len, paramRetSize, param);
        case ACL_TDT_QUEUE_ROUTE_STATUS_INT32: return give(&found->status, sizeof found->status, len, paramRetSize, param);
        default: return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown parameter of a route");
    }
}

acltdtQueueRouteList *acltdtCreateQueueRouteList(void) {
    ACL_NAMED(acltdtCreateQueueRouteList);
    return static_cast<acltdtQueueRouteList *>(lists().add(std::make_shared<RouteList>()));
}

aclError acltdtDestroyQueueRouteList(const acltdtQueueRouteList *routeList) {
    ACL_CALL(acltdtDestroyQueueRouteList);
    ACL_NOT_NULL(routeList);
    return destroy(lists(), routeList, "the list of routes");
}

aclError acltdtAddQueueRoute(acltdtQueueRouteList *routeList, const acltdtQueueRoute *route) {
    ACL_CALL(acltdtAddQueueRoute);
    ACL_NOT_NULL(routeList);
    ACL_NOT_NULL(route);
    const auto list = lists().find(routeList);
    const auto entry = entries().find(route);
    if (list == nullptr || entry == nullptr) return not_living("the list or the route");
    list->entries.push_back(*entry);
    return ACL_SUCCESS;
}

aclError acltdtGetQueueRoute(const acltdtQueueRouteList *routeList, size_t index, acltdtQueueRoute *route) {
    ACL_CALL(acltdtGetQueueRoute);
    ACL_NOT_NULL(routeList);
    ACL_NOT_NULL(route);
    const auto list = lists().find(routeList);
    const auto entry = entries().find(route);
    if (list == nullptr || entry == nullptr) return not_living("the list or the route");
    if (index >= list->entries.size()) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the list has no such route");
    *entry = list->entries[index];
    return ACL_SUCCESS;
}

size_t acltdtGetQueueRouteNum(const acltdtQueueRouteList *routeList) {
    ACL_NAMED(acltdtGetQueueRouteNum);
    const auto list = routeList == nullptr ? nullptr : lists().find(routeList);
    return list == nullptr ? 0 : list->entries.size();
}

aclError acltdtBindQueueRoutes(acltdtQueueRouteList *qRouteList) {
    ACL_CALL(acltdtBindQueueRoutes);
    ACL_NOT_NULL(qRouteList);
    return change(qRouteList, queues::bind, ACL_TDT_QUEUE_ROUTE_BIND, ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL);
}

aclError acltdtUnbindQueueRoutes(acltdtQueueRouteList *qRouteList) {
    ACL_CALL(acltdtUnbindQueueRoutes);
    ACL_NOT_NULL(qRouteList);
    return change(qRouteList, queues::unbind, ACL_TDT_QUEUE_ROUTE_UNBIND, ACL_TDT_QUEUE_ROUTE_UNBIND);
}

acltdtQueueRouteQueryInfo *acltdtCreateQueueRouteQueryInfo(void) {
    ACL_NAMED(acltdtCreateQueueRouteQueryInfo);
    return static_cast<acltdtQueueRouteQueryInfo *>(queries().add(std::make_shared<RouteQuery>()));
}

aclError acltdtDestroyQueueRouteQueryInfo(const acltdtQueueRouteQueryInfo *info) {
    ACL_CALL(acltdtDestroyQueueRouteQueryInfo);
    ACL_NOT_NULL(info);
    return destroy(queries(), info, "the query");
}

aclError acltdtSetQueueRouteQueryInfo(acltdtQueueRouteQueryInfo *param, acltdtQueueRouteQueryInfoParamType type,
                                      size_t len, const void *value) {
    ACL_CALL(acltdtSetQueueRouteQueryInfo);
    ACL_NOT_NULL(param);
    ACL_NOT_NULL(value);
    const auto query = queries().find(param);
    if (query == nullptr) return not_living("the query");
    std::uint32_t number = 0;
    if (len != sizeof number) return wrong_size(len, sizeof number);
    std::memcpy(&number, value, sizeof number);
    if (type == ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM) {
        query->mode = static_cast<int>(number);
        return ACL_SUCCESS;
    }
    if (query->mode < 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the mode of a query is set before its queues");
    if (type != ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32 && type != ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown parameter of a query");
    }
    const bool from = type == ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32;
    (from ? query->from : query->to) = number;
    (from ? query->has_from : query->has_to) = true;
    return ACL_SUCCESS;
}

aclError acltdtQueryQueueRoutes(const acltdtQueueRouteQueryInfo *queryInfo, acltdtQueueRouteList *qRouteList) {
    ACL_CALL(acltdtQueryQueueRoutes);
    ACL_NOT_NULL(queryInfo);
    ACL_NOT_NULL(qRouteList);
    const auto query = queries().find(queryInfo);
    const auto list = lists().find(qRouteList);
    if (query == nullptr || list == nullptr) return not_living("the query or the list");
    if (!complete(*query)) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the query lacks its mode, or a queue");
    list->entries.clear();
    for (const queues::Route &route : queues::routes()) {
        if (wanted(*query, route)) list->entries.push_back(RouteEntry{route.from, route.to, ACL_TDT_QUEUE_ROUTE_BIND});
    }
    return ACL_SUCCESS;
}

}  // extern "C"
