# Makes a C file of the SQL files: cmake -DOUT=file.c -DIN="a.sql;b.sql" -P embed.cmake
# A line of SQL becomes a string of its own, so that no literal is longer than C99 promises.
set(body "")
foreach(file IN LISTS IN)
  file(READ "${file}" text)
  string(REGEX REPLACE "(^|\n)--[^\n]*" "\\1" text "${text}")
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REGEX REPLACE "\n+" "\n" text "${text}")
  string(REPLACE "\n" "\\n\",\n    \"" text "${text}")
  string(APPEND body "    \"${text}\",\n")
endforeach()
file(WRITE "${OUT}" "/* Made by sql/embed.cmake. */
#include \"store.h\"

const char *const jsi_pg_ddl[] = {
${body}    NULL,
};
")
