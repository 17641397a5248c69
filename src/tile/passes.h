// passes.h - the passes over the tile IR, in the order of the table in src/pass.c. Each changes the
// module in place and returns false after reporting an error to m->diag.
#ifndef BATON_TILE_PASSES_H
#define BATON_TILE_PASSES_H

#include "tile.h"

bool tile_advise(TileModule *m);        // advice.c: warnings about old ways of writing pipelines
bool tile_infer_layouts(TileModule *m); // infer.c: a register layout for every fragment
bool tile_fuse(TileModule *m);          // fuse.c: multiply-adds
bool tile_start_copies_early(TileModule *m); // early.c: copies before arithmetic
bool tile_pipeline(TileModule *m);      // pipeline.c: roles of loops that ask for a pipeline
bool tile_handoff(TileModule *m);       // handoff.c: what protects the slots that are handed back

#endif
