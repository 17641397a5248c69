// protect.c - which event hands back which buffer, read off the side that fills it: what is
// waited for in front of a load protects the place of the load.
#include "tile.h"

// One wait in front of a load, or of several loads that follow one another, protects their places.
// Of several waits it is not known which one belongs to which load.
static void find(const TileKernel *k, const TileBlock *b, bool *protects)
{
    int waits = 0, event = -1;
    bool loading = false;
    for (int i = 0; i < b->n; i++) {
        const TileOp *o = b->at[i];
        find(k, &o->body, protects);
        find(k, &o->other, protects);
        if (o->op == TOP_EVENT_WAIT) {
            waits = loading ? 1 : waits + 1;
            event = o->event;
            loading = false;
        }
        if (o->op != TOP_COPY || o->event < 0) continue;
        loading = true;
        if (waits == 1) protects[event * k->buffers.n + tile_memory(k, o->dst.buffer)] = true;
    }
}

void tile_protections(const TileKernel *k, bool *protects) { find(k, &k->body, protects); }
