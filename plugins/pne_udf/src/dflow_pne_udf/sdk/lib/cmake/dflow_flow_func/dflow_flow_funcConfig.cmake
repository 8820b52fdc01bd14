# find_package(dflow_flow_func) gives the target dflow::flow_func: the headers and libflow_func.so of this SDK.
#
# Found where CMAKE_PREFIX_PATH holds the folder that `ASCEND_HOME_PATH` names.
get_filename_component(_dflow_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_dflow_library "${_dflow_root}/devlib/linux/${CMAKE_SYSTEM_PROCESSOR}/libflow_func.so")
if(NOT EXISTS "${_dflow_library}")
    set(dflow_flow_func_FOUND FALSE)
    set(dflow_flow_func_NOT_FOUND_MESSAGE "there is no ${_dflow_library}")
elseif(NOT TARGET dflow::flow_func)
    add_library(dflow::flow_func SHARED IMPORTED)
    set_target_properties(dflow::flow_func PROPERTIES
        IMPORTED_LOCATION "${_dflow_library}"
        IMPORTED_SONAME libflow_func.so
        INTERFACE_INCLUDE_DIRECTORIES "${_dflow_root}/include"
        INTERFACE_COMPILE_FEATURES cxx_std_11)
endif()
unset(_dflow_root)
unset(_dflow_library)
