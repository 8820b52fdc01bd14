#include "library.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

#include "flow_func/flow_func_version.h"
#include "functions.h"
#include "registry.h"

namespace dflow {
namespace {
constexpr char kSection[] = ".dflow_sdk";
constexpr uint64_t kMostSections = 1U << 16;
constexpr uint64_t kMostBytes = 1U << 20;
const uint32_t kMark = FlowFunc::FLOW_FUNC_BUILT_WITH[0];
const uint32_t kOwn = FlowFunc::FLOW_FUNC_BUILT_WITH[1];

// `count` things at an offset of a file; nothing if it is too short.
template <typename T>
std::vector<T> ReadAt(std::ifstream *file, uint64_t offset, uint64_t count)
{
    std::vector<T> found(count);
    file->clear();
    file->seekg(static_cast<std::streamoff>(offset));
    file->read(reinterpret_cast<char *>(found.data()), static_cast<std::streamsize>(count * sizeof(T)));
    return file->good() ? found : std::vector<T>();
}

// The words of the section, as they lie in the file.
std::vector<uint32_t> SectionWords(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    const auto head = ReadAt<Elf64_Ehdr>(&file, 0, 1);
    if (head.empty() || memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0 || head[0].e_ident[EI_CLASS] != ELFCLASS64 ||
        head[0].e_shentsize != sizeof(Elf64_Shdr) || head[0].e_shnum > kMostSections) {
        return {};
    }
    const auto sections = ReadAt<Elf64_Shdr>(&file, head[0].e_shoff, head[0].e_shnum);
    if (head[0].e_shstrndx >= sections.size()) {
        return {};
    }
    const Elf64_Shdr &table = sections[head[0].e_shstrndx];
    const auto names = ReadAt<char>(&file, table.sh_offset, std::min<uint64_t>(table.sh_size, kMostBytes));
    for (const Elf64_Shdr &section : sections) {
        const uint64_t end = section.sh_name + sizeof(kSection);
        if (end <= names.size() && memcmp(names.data() + section.sh_name, kSection, sizeof(kSection)) == 0) {
            return ReadAt<uint32_t>(&file, section.sh_offset, std::min<uint64_t>(section.sh_size, kMostBytes) / 4);
        }
    }
    return {};
}

std::string Words(uint32_t version)
{
    return std::to_string(version >> 16) + "." + std::to_string(version & 0xffffU);
}

// Why such a library must not be loaded, in words; "" if it may.
std::string RefuseSdk(const std::string &path, const SdkVersions &found)
{
    for (const uint32_t version : {found.lowest, found.highest}) {
        if (version != 0 && version >> 16 != kOwn >> 16) {
            return "library " + path + " was built with version " + Words(version) +
                   " of the flow_func SDK, and this dflow-pne-udf has version " + Words(kOwn) +
                   ": build it again with the SDK that is here (`dflow udf env`), or install the dflow-pne-udf it was "
                   "built with";
        }
    }
    return "";
}

// What to say on top of the loader's text where a library needs what a newer SDK has; "" if that is not it.
std::string ExplainSdk(const SdkVersions &found)
{
    return found.highest <= kOwn ? ""
                                 : "; it was built with version " + Words(found.highest) +
                                       " of the flow_func SDK, and this dflow-pne-udf has version " + Words(kOwn) +
                                       ": install a newer dflow-pne-udf, or build it again with the SDK that is here";
}
}  // namespace

SdkVersions ReadSdkVersions(const std::string &path)
{
    SdkVersions found;
    found.own = kOwn;
    const std::vector<uint32_t> words = SectionWords(path);
    for (size_t i = 0; i + 1 < words.size(); i++) {
        if (words[i] == kMark) {
            found.lowest = found.highest == 0 ? words[i + 1] : std::min(found.lowest, words[i + 1]);
            found.highest = std::max(found.highest, words[i + 1]);
        }
    }
    return found;
}

std::string LoadLibrary(const std::string &path)
{
    const std::lock_guard<std::recursive_mutex> guard(Registry::Get().lock());
    const SdkVersions versions = ReadSdkVersions(path);
    std::string fault = RefuseSdk(path, versions);
    if (!fault.empty()) {
        return fault;
    }
    const Outcome outcome = Guarded([&] {
        if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
            const char *const text = dlerror();
            fault = (text == nullptr ? "the loader gave no reason" : text) + ExplainSdk(versions);
        }
        return 0;
    });
    if (outcome.is_exception()) {
        fault = "a static initialiser threw " + outcome.error_type + ": " + outcome.message;
    }
    return fault.empty() ? fault : "library " + path + " does not load: " + fault;
}

}  // namespace dflow
