// without.c - the parts of sets.h in a build without libisl: nothing is shown, and that is said.
#include "sets.h"

void check_bounds(const CheckJob *job)
{
    check_open(job, "bounds", (Loc){0}, "built without libisl: bounds not shown");
}

void check_output(const CheckJob *job)
{
    check_open(job, "output", (Loc){0}, "built without libisl: output not shown");
}

bool sets_are_asked(void) { return false; }
