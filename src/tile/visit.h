// visit.h - what one operation of the tile IR accesses, for passes that ask about a whole program.
// Private to src/tile.
#ifndef BATON_TILE_VISIT_H
#define BATON_TILE_VISIT_H

#include "tile.h"

// GENERIC: by ordinary loads and stores of the threads; the others are reads by products and both
// sides of copies, which the lowering may give to the TMA unit.
enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_GENERIC = 4 };

typedef void TileViewFn(void *ctx, const TileOp *op, TileView *view, int how);
// Calls f for each box of memory that op accesses itself; what stands in its bodies is not asked.
void tile_visit_views(TileOp *op, TileViewFn *f, void *ctx);
// The same for op and all that stands in it.
void tile_visit_all(TileOp *op, TileViewFn *f, void *ctx);
// Does op, or what stands in it, access the memory of this buffer?
bool tile_accesses(const TileKernel *k, TileOp *op, int buffer);

#endif
