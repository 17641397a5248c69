// resolve_attr.c - attributes of loops and buffers: [[pipeline(S)]] and [[handoff(P)]]. What they
// mean is decided by tile/pipeline.c and the lowering.
#include "resolve.h"

#include <string.h>

enum { PIPELINE_MAX_STAGES = 16 };

// [[pipeline(S)]] or [[pipeline(S, LOAD, COMPUTE)]] in front of a foreach: its copies have S slots;
// registers of a loading and a computing thread.
bool resolve_pipeline(Resolve *r, const AstNode *s)
{
    r->pipeline.stages = 0;
    for (int i = 0; i < s->attrs.n; i++) {
        const AstNode *a = s->attrs.at[i];
        i64 v[3] = {0};
        if (a->kind != AST_ATTR || !a->name) return false;
        if (strcmp(a->name, "pipeline")) {
            resolve_error(r, a->loc, "pipeline exists", "unknown attribute '%s' of foreach",
                          a->name);
            return false;
        }
        if (a->list.n != 1 && a->list.n != 3) {
            resolve_error(r, a->loc, "write [[pipeline(2)]] or [[pipeline(2, 24, 240)]]",
                          "[[pipeline]] takes the slots, or the slots and the registers of a "
                          "loading and a computing thread; found %d values", a->list.n);
            return false;
        }
        if (!resolve_const(r, a->list.at[0], "the slots of a pipeline", 1, PIPELINE_MAX_STAGES,
                           &v[0]))
            return false;
        for (int k = 1; k < a->list.n; k++) {
            if (!resolve_const(r, a->list.at[k], "the registers of a role", 24, 256, &v[k]))
                return false;
            if (v[k] % 8 == 0) continue;
            resolve_error(r, a->list.at[k]->loc, "take a multiple of 8",
                          "%lld registers for the threads of a role", (long long)v[k]);
            return false;
        }
        r->pipeline.stages = (int)v[0];
        r->pipeline.load = (int)v[1];
        r->pipeline.compute = (int)v[2];
    }
    return true;
}

// [[handoff(P)]] in front of a shared buffer, or of the copy that makes one.
u8 resolve_handoff(Resolve *r, const AstNode *s)
{
    u8 policy = HANDOFF_DEFAULT;
    for (int i = 0; i < s->attrs.n; i++) {
        const AstNode *a = s->attrs.at[i], *p = a->list.n == 1 ? a->list.at[0] : NULL;
        if (a->kind != AST_ATTR || !a->name) continue;
        if (strcmp(a->name, "handoff")) {
            resolve_error(r, a->loc, "handoff exists", "unknown attribute '%s' of a buffer",
                          a->name);
            continue;
        }
        u8 found = HANDOFF_DEFAULT;
        for (int k = HANDOFF_PROXY; p && p->kind == AST_NAME && k < HANDOFF_COUNT; k++)
            if (!strcmp(p->name, tile_handoff_name[k])) found = (u8)k;
        if (!found)
            resolve_error(r, a->loc, NULL,
                          "[[handoff]] takes one of proxy, delay, membar and none");
        policy = found;
    }
    return policy;
}
