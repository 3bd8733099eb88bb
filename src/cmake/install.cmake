# What "cmake --install" puts where: the libraries, their headers, and the package files for
# pkg-config and CMake. All of them find each other by relative paths, so that the tree can be moved.
include(CMakePackageConfigHelpers)

set(jobsched_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/jobsched)

# Fails when a path cannot be relative, which only an absolute CMAKE_INSTALL_LIBDIR makes so.
function(jobsched_relative result from to)
  file(RELATIVE_PATH path ${from} ${to})
  string(REGEX REPLACE "/$" "" path "${path}")
  set(${result} ${path} PARENT_SCOPE)
endfunction()

install(TARGETS jobsched jobsched_static EXPORT jobsched-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/include/jobsched.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/jobsched
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")
install(EXPORT jobsched-targets NAMESPACE jobsched::
  DESTINATION ${jobsched_cmake_dir} COMPONENT development)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/jobsched-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/jobsched-config.cmake INSTALL_DESTINATION ${jobsched_cmake_dir}
  NO_SET_AND_CHECK_MACRO)
# Until 1.0 a minor version may change the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/jobsched-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/jobsched-config.cmake
  ${PROJECT_BINARY_DIR}/package/jobsched-config-version.cmake
  DESTINATION ${jobsched_cmake_dir} COMPONENT development)

# pkg-config files name their prefix relative to themselves.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(jobsched_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  jobsched_relative(jobsched_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  set(jobsched_pc_prefix "\${pcfiledir}/${jobsched_pc_prefix}")
endif()
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${kind}})
    set(jobsched_pc_${kind} ${CMAKE_INSTALL_${kind}})
  else()
    set(jobsched_pc_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
function(jobsched_install_pc template name)
  configure_file(src/cmake/${template}.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()
jobsched_install_pc(jobsched jobsched)

# jobsched_install_backend(NAME MODULE): MODULE is what pkg-config calls the client library.
function(jobsched_install_backend name module)
  install(TARGETS jobsched_${name}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name})
  install(TARGETS jobsched_${name}_static EXPORT jobsched-${name}-targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT jobsched-${name}-targets NAMESPACE jobsched::
    DESTINATION ${jobsched_cmake_dir} COMPONENT development)
  # Not "Requires.private: sqlite3": Debian's file asks for libz in static use, though its package
  # does not bring it and nothing of it is needed.
  pkg_check_modules(client_${name} QUIET ${module})
  list(JOIN client_${name}_LDFLAGS " " client_libs)
  set(backend ${name})
  jobsched_install_pc(jobsched-backend jobsched-${name})
endfunction()
foreach(backend sqlite/sqlite3 postgresql/libpq redis/hiredis)
  cmake_path(GET backend PARENT_PATH name)
  cmake_path(GET backend FILENAME module)
  if(TARGET jobsched_${name})
    jobsched_install_backend(${name} ${module})
  endif()
endforeach()
if(TARGET jobsched_postgresql)
  # The short name that the URL has, too.
  jobsched_install_pc(jobsched-postgres jobsched-postgres)
endif()

# Programs find the libraries of their own installation.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_BINDIR})
  set(jobsched_program_rpath ${CMAKE_INSTALL_FULL_LIBDIR})
else()
  jobsched_relative(jobsched_program_rpath
    /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set(jobsched_program_rpath "$ORIGIN/${jobsched_program_rpath}")
endif()
foreach(program elected-crond jobschedctl)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "${jobsched_program_rpath}")
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    install(FILES ${PROJECT_SOURCE_DIR}/docs/${program}.1
      DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  endif()
endforeach()

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
