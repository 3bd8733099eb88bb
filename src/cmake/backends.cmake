# What the backends have in common: finding the client library, and the properties of the two
# libraries that each room makes.

# jobsched_client_library(PREFIX SCHEME MODULE VERSION PACKAGE OPTION): the client library that
# pkg-config calls MODULE, as PkgConfig::PREFIX; or an error that says what to do.
function(jobsched_client_library prefix scheme module version package option)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module}>=${version})
  if(NOT ${prefix}_FOUND)
    message(FATAL_ERROR "the ${scheme}: backend needs ${module} ${version} or later, which pkg-config "
      "does not find: install ${package} (what Debian calls it), or configure with -D${option}=OFF")
  endif()
endfunction()

# jobsched_finish_backend(NAME CLIENT_LIBRARY): what every backend has in common, once its room has
# made jobsched_NAME (the shared library that the core loads) and jobsched_NAME_static.
function(jobsched_finish_backend name client)
  # Loaded by its plain name, so it carries no version; JOBSCHED_BACKEND_ABI is checked at loading.
  set_target_properties(jobsched_${name} PROPERTIES
    OUTPUT_NAME jobsched-${name} BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "$ORIGIN")
  jobsched_harden(jobsched_${name})
  # Who links the driver statically needs the static core with it: with the shared one there would
  # be two cores in the program, and the shared one loads the driver by itself.
  set_target_properties(jobsched_${name}_static PROPERTIES
    OUTPUT_NAME jobsched-${name} EXPORT_NAME ${name}
    INTERFACE_LINK_LIBRARIES "jobsched_static;${client}")
  add_library(jobsched::${name} ALIAS jobsched_${name}_static)
endfunction()
