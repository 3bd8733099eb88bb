/* consumer.cpp: as consumer.c, in C++11. */
#include <jobsched.h>
#if defined(WITH_SQLITE) || defined(WITH_POSTGRESQL) || defined(WITH_REDIS)
#define WITH_DRIVERS
#include <jobsched/backend.h>
#endif

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <string>

namespace
{
struct Wait {
    std::mutex mutex;
    std::condition_variable fired;
    std::uint64_t token = 0;
};

extern "C" int job(jobsched_run *run, void *user_data)
{
    Wait *wait = static_cast<Wait *>(user_data);
    std::lock_guard<std::mutex> guard(wait->mutex);
    wait->token = jobsched_run_token(run);
    wait->fired.notify_one();
    return 0;
}

int failed(const char *what)
{
    std::cerr << "consumer: " << what << ": " << jobsched_last_error()->message << "\n";
    return 1;
}
} // namespace

int main(int argc, char **argv)
{
    if (argc != 2 || std::string(jobsched_version()) != JOBSCHED_VERSION) {
        std::cerr << "usage: consumer URL\n";
        return 2;
    }
    Wait wait;
    jobsched_options options;
    JOBSCHED_INIT(&options);
    options.lock = argv[1];
#ifdef WITH_DRIVERS
    const jobsched_backend *const backends[] = {
#ifdef WITH_SQLITE
        jobsched_backend_sqlite(),
#endif
#ifdef WITH_POSTGRESQL
        jobsched_backend_postgresql(),
#endif
#ifdef WITH_REDIS
        jobsched_backend_redis(),
#endif
        nullptr};
    options.backends = backends;
#endif
    jobsched *scheduler = nullptr;
    if (jobsched_open(&options, &scheduler) != JOBSCHED_OK) {
        return failed("open");
    }
    jobsched_job_spec spec;
    JOBSCHED_INIT(&spec);
    spec.name = "tick";
    spec.schedule = "@every 1s";
    spec.run = job;
    spec.user_data = &wait;
    if (jobsched_add(scheduler, &spec, nullptr) != JOBSCHED_OK) {
        return failed("add");
    }
    if (jobsched_start(scheduler) != JOBSCHED_OK) {
        return failed("start");
    }
    {
        std::unique_lock<std::mutex> lock(wait.mutex);
        if (!wait.fired.wait_for(lock, std::chrono::seconds(60),
                                 [&wait] { return wait.token != 0; })) {
            std::cerr << "consumer: the job has not fired\n";
            return 1;
        }
    }
    if (jobsched_drain(scheduler, 10000) != JOBSCHED_OK) {
        return failed("drain");
    }
    if (jobsched_close(scheduler) != JOBSCHED_OK) {
        return failed("close");
    }
    std::cout << argv[1] << " fired, token " << wait.token << "\n";
    return 0;
}
