# For find_package(festina): link festina::festina, or festina::static.
get_filename_component(_festina_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET festina::festina)
    add_library(festina::festina SHARED IMPORTED)
    set_target_properties(festina::festina PROPERTIES
        IMPORTED_LOCATION "${_festina_prefix}/lib/libfestina.so"
        INTERFACE_INCLUDE_DIRECTORIES "${_festina_prefix}/include")
    add_library(festina::static STATIC IMPORTED)
    set_target_properties(festina::static PROPERTIES
        IMPORTED_LOCATION "${_festina_prefix}/lib/libfestina.a"
        INTERFACE_INCLUDE_DIRECTORIES "${_festina_prefix}/include"
        INTERFACE_LINK_LIBRARIES "pthread;dl;m")
endif()
unset(_festina_prefix)
