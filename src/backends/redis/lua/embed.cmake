# Makes a C file of the scripts: cmake -DOUT=file.c -DIN="a.lua;b.lua" [-DNO_MARK=1] -P embed.cmake
# A line becomes a string of its own, so that no literal is longer than C99 promises.
set(body "")
set(table "")
foreach(file IN LISTS IN)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" text)
  if(NO_MARK)
    # For tests only: the election without its mark. It must be seen to fail.
    string(REPLACE "if c.sched <= f.mark then" "if false then" text "${text}")
    string(REPLACE "if f.mark ~= c.after then" "if false then" text "${text}")
  endif()
  string(REGEX REPLACE "(^|\n) *--[^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE " -- [^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n[ \n]*" "\n" text "${text}")
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\",\n    \"" text "${text}")
  string(APPEND body "static const char *const ${name}_text[] = {\n    \"${text}\",\n    NULL,\n};\n\n")
  string(APPEND table "    [JSI_SCRIPT_${name}] = ${name}_text,\n")
endforeach()
file(WRITE "${OUT}" "/* Made by lua/embed.cmake. */
#include \"store.h\"

${body}const char *const *const jsi_redis_scripts[JSI_SCRIPT_COUNT] = {
${table}};
")
