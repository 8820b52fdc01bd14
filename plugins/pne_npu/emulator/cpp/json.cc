#include "json.h"

#include <cctype>
#include <cstring>

namespace emu {
namespace {

class Reader {
public:
    explicit Reader(const std::string &text) : at_(text.c_str()) {}

    bool whole(int depth) { return value(depth) && (space(), *at_ == '\0'); }

private:
    void space() {
        while (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r') ++at_;
    }

    bool take(char wanted) {
        space();
        if (*at_ != wanted) return false;
        ++at_;
        return true;
    }

    bool text() {
        if (!take('"')) return false;
        for (; *at_ != '"'; ++at_) {
            if (static_cast<unsigned char>(*at_) < 32) return false;
            if (*at_ == '\\' && *++at_ == '\0') return false;
        }
        ++at_;
        return true;
    }

    bool word() {
        for (const char *known : {"true", "false", "null"}) {
            if (std::strncmp(at_, known, std::strlen(known)) == 0) {
                at_ += std::strlen(known);
                return true;
            }
        }
        const char *start = at_;
        while (std::isdigit(static_cast<unsigned char>(*at_)) != 0 || std::strchr("+-.eE", *at_) != nullptr) {
            if (*at_ == '\0') break;
            ++at_;
        }
        return at_ != start;
    }

    bool members(char end, bool named, int depth) {
        if (depth == 0) return false;
        if (take(end)) return true;
        do {
            if (named && !(text() && take(':'))) return false;
            if (!value(depth - 1)) return false;
        } while (take(','));
        return take(end);
    }

    bool value(int depth) {
        space();
        if (take('{')) return members('}', true, depth);
        if (take('[')) return members(']', false, depth);
        return *at_ == '"' ? text() : word();
    }

    const char *at_;
};

}  // namespace

bool is_json(const std::string &text, int depth) { return Reader(text).whole(depth); }

}  // namespace emu
