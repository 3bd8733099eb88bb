# How everything of ours is compiled and linked. Only our own targets are touched: a project
# that takes jobsched in through add_subdirectory() keeps its own flags.

function(jobsched_make_flags)
  add_library(jobsched_flags INTERFACE)
  target_compile_options(jobsched_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    -Wvla -Wformat=2 -Wundef -Wcast-align -Wpointer-arith -Wwrite-strings)
  # Where text may be cut, that is meant and marked by a (void); whether gcc warns of it depends on
  # what it inlines.
  target_compile_options(jobsched_flags INTERFACE
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
  target_compile_definitions(jobsched_flags INTERFACE _GNU_SOURCE)
  if(JOBSCHED_WERROR)
    target_compile_options(jobsched_flags INTERFACE -Werror)
  endif()
  if(JOBSCHED_ASSERTIONS)
    target_compile_options(jobsched_flags INTERFACE -UNDEBUG)
  endif()
  # The sanitizers bring checks of their own, which do not go together with these.
  if(JOBSCHED_SANITIZE)
    return()
  endif()
  target_compile_options(jobsched_flags INTERFACE -fstack-protector-strong)
  # A distributor's own level, given through CFLAGS, is kept.
  if(NOT CMAKE_C_FLAGS MATCHES "_FORTIFY_SOURCE")
    target_compile_options(jobsched_flags INTERFACE
      $<$<NOT:$<CONFIG:Debug,>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=2>)
  endif()
  target_link_options(jobsched_flags INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endfunction()

# A shared library that names everything it needs, so that loading it cannot fail for a symbol
# that nobody provides.
function(jobsched_harden library)
  if(NOT JOBSCHED_SANITIZE)
    target_link_options(${library} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
