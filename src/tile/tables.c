// tables.c - the tables of the tile IR, made from the rows of ops.h.
#include "tile.h"

const char *const tile_level_name[LEVEL_COUNT] = {"block", "group-4", "group", "thread"};

const char *const tile_handoff_name[HANDOFF_COUNT] = {"default", "proxy", "delay", "membar",
                                                     "none"};

const TileOpInfo tile_op[TOP_COUNT] = {
#define X(id, name, fields, meaning) {name, fields, meaning},
    TILE_OPS(X)
#undef X
};

const TileMathInfo tile_math[TM_COUNT] = {
#define X(id, name, args, result) {name, args, result},
    TILE_MATHS(X)
#undef X
};
