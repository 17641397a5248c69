// text.h - words that the text form of the tile IR uses beside the names of ops.h; print.c and
// read.c must agree on them. Private to src/tile.
//
// A module is a sequence of functions:
//
//   fn NAME {
//   //@ ...                                   the launch plan, as plan_print writes it
//   kernel NAME {
//     when EXPR                               (optional)
//     grid %x = EXPR, %y = EXPR
//     threads 256 max 0 min 0 maxnreg 0
//     global NAME TYPE [EXPR, ...] param N
//     shared NAME TYPE [EXPR, ...] LAYOUT slots N
//     frag NAME TYPE [N, N] LEVEL FRAGLAYOUT slots N
//     scalar %NAME TYPE
//     future NAME
//   body {
//     OPERATION ...                           one a line, fields in the order of its row in ops.h
//   }
//   }
//   }
//
// A view is `BUFFER [slot (EXPR)] [ORIGIN : EXTENT : LIMIT, ...]`; `!` before an origin says that
// the view dropped this dimension. Scalars are in prefix form: `float.f32 0.5`, `int.s32 (EXPR)`,
// `scalar %x`, `frag NAME [slot N] at(0, 1)`, `elem.bf16 VIEW`, `add.f32(A, B)`, `cast.bf16(A)`,
// `bitcast.s32(A)`. A comment runs from `//` to the end of the line (not behind a bare EXPR).
#ifndef BATON_TILE_TEXT_H
#define BATON_TILE_TEXT_H

#include "tile.h"

extern const char *const tile_engine_name[2];
extern const char *const tile_hint_name[3];
extern const char *const tile_frag_layout_name[FL_COUNT]; // one word each; "none" for FL_NONE
#define TILE_PLAN_PREFIX "//@ "

#endif
