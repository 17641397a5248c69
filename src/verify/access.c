// access.c - which two accesses break which rule.
#include "model.h"

bool model_is_write(u8 kind)
{
    return kind == ACCESS_WRITE || kind == ACCESS_ATOMIC || kind == ACCESS_CP || kind == ACCESS_LOAD;
}

static bool is_async(u8 kind)
{
    return kind == ACCESS_WGMMA || kind == ACCESS_STORE || kind == ACCESS_LOAD;
}

const char *model_conflict(const Access *x, const Access *y, bool together)
{
    if (x->kind == ACCESS_INIT || y->kind == ACCESS_INIT) {
        bool use = x->kind == ACCESS_USE || (together && y->kind == ACCESS_USE);
        return use ? "O8" : NULL;
    }
    if (x->kind == ACCESS_USE || y->kind == ACCESS_USE) return NULL;
    if (!model_is_write(x->kind) && !model_is_write(y->kind)) return NULL;
    if (x->kind == ACCESS_ATOMIC && y->kind == ACCESS_ATOMIC) return NULL;
    if (y->kind == ACCESS_CP || (together && x->kind == ACCESS_CP)) return "O13";
    // Asynchronous reads that nobody has waited for.
    if (y->kind == ACCESS_WGMMA) return model_is_write(x->kind) ? "O5" : NULL;
    if (y->kind == ACCESS_STORE) return model_is_write(x->kind) ? "O7" : NULL;
    if (together) return x->kind == ACCESS_LOAD || y->kind == ACCESS_LOAD ? "O3" : "O2";
    // An ordinary access long ago is open towards the other proxy only.
    if (y->kind > ACCESS_ATOMIC || !is_async(x->kind)) return NULL;
    return y->kind == ACCESS_READ ? "O6" : "O4";
}
