/* outside.c: stands for the backend of an outside author: a shared library of its own, with a
 * scheme that needs translation into a symbol. What it does is what single: does. */
#include <jobsched/backend.h>

JOBSCHED_API const jobsched_backend *jobsched_backend_outside_x(void);

const jobsched_backend *jobsched_backend_outside_x(void)
{
    static jobsched_backend driver; /* filled the same way each time it is asked for */
    driver = *jobsched_backend_single();
    driver.scheme = "outside-x";
    return &driver;
}
