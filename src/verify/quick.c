// quick.c - the table of quick parts, and their findings as errors of a build.
#include "quick.h"

#include <string.h>

const CheckPart quick_parts[] = {
    {"stores", check_stores, true},            // O7
    {"initialisation", check_init, true},      // O8
    {"products", check_products, true},        // O9
    {"bytes", check_bytes, true},              // O10
    {"barriers", check_barriers, true},        // O11
    {"registers", check_registers, true},      // O12
    {"values", check_values, true},            // uninitialised reads
};
const int quick_parts_n = COUNT(quick_parts);

bool quick_check(const ThreadModule *m, const Plan *plan, Diag *d)
{
    Arena *a = arena_new(0);
    CheckReport r = {.arena = a};
    check_module(m, plan, d, quick_parts, quick_parts_n, CHECK_QUICK, &r);
    check_errors(&r, d);
    bool clean = r.broken.n == 0;
    arena_free(a);
    return clean;
}
