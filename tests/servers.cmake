# The private servers that tests share: started once before the first test that needs them, ended
# after the last (ctest fixtures), and by tests/run.sh if the run is cut short. Who stops or breaks a
# server starts one of its own, by the same scripts.
#
# jobsched_test_server(TEST... SERVERS NAME...): these tests need them.
#   postgresql  JOBSCHED_TEST_POSTGRESQL is its URL: postgresql:///postgres?host=FOLDER&user=postgres
#   redis       JOBSCHED_TEST_REDIS is its URL: redis://?socket=FOLDER/redis.sock
#   postgresql_rough  a second one, for tests that count locks or end other sessions: one at a time
# Tests that run at the same time share the first two, so each takes a namespace, or a schema or
# database, of its own.

# The path of a unix socket is short, so the folders are not in the build tree.
string(MD5 jobsched_place ${PROJECT_BINARY_DIR})
string(SUBSTRING ${jobsched_place} 0 10 jobsched_place)
set(jobsched_postgresql_script ${CMAKE_CURRENT_LIST_DIR}/support/postgres.sh)
set(jobsched_redis_script ${CMAKE_CURRENT_LIST_DIR}/support/redis.sh)

function(jobsched_test_server)
  cmake_parse_arguments(arg "" "" "SERVERS" ${ARGN})
  foreach(test ${arg_UNPARSED_ARGUMENTS})
    foreach(server ${arg_SERVERS})
      string(REGEX REPLACE "_.*" "" kind ${server})
      if(TARGET jobsched_${kind})
        string(TOUPPER ${kind} name)
        set_property(TEST ${test} APPEND PROPERTY FIXTURES_REQUIRED ${server})
        set_property(TEST ${test} APPEND PROPERTY
          ENVIRONMENT "JOBSCHED_TEST_${name}=${jobsched_${server}_url}")
      endif()
      if(server MATCHES "_rough$")
        set_property(TEST ${test} APPEND PROPERTY RESOURCE_LOCK ${server})
      endif()
    endforeach()
  endforeach()
endfunction()

# For tests/run.sh, which removes what an interrupted run has left.
set(jobsched_servers)
foreach(server postgresql postgresql_rough redis)
  string(REGEX REPLACE "_.*" "" kind ${server})
  set(directory /tmp/jobsched-${server}-${jobsched_place})
  set(jobsched_${server}_directory ${directory})
  if(kind STREQUAL "redis")
    set(jobsched_${server}_url "redis://?socket=${directory}/redis.sock")
  else()
    set(jobsched_${server}_url "postgresql:///postgres?host=${directory}&user=postgres")
  endif()
  if(TARGET jobsched_${kind})
    add_test(NAME ${server}_start COMMAND sh ${jobsched_${kind}_script} fresh ${directory})
    add_test(NAME ${server}_remove COMMAND sh ${jobsched_${kind}_script} remove ${directory})
    set_tests_properties(${server}_start PROPERTIES FIXTURES_SETUP ${server})
    set_tests_properties(${server}_remove PROPERTIES FIXTURES_CLEANUP ${server})
    set_tests_properties(${server}_start ${server}_remove PROPERTIES LABELS servers TIMEOUT 120)
    string(APPEND jobsched_servers "${jobsched_${kind}_script} ${directory}\n")
  endif()
endforeach()
file(WRITE ${PROJECT_BINARY_DIR}/servers.txt "${jobsched_servers}")
