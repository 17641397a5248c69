// from_ast.h - the syntax tree of a .co file to tile IR and the launch plan's parameters, symbols
// and checks.
//
// Input: a parsed file. Output: one TileFn per tile function (or only `entry`), with its kernels.
// Names are resolved, types and shapes checked, immutable integers replaced by their expressions.
// Whatever the language has and this compiler has not yet is refused with a located error
// "not supported yet: ...". Nothing is left half done: on false the module is not to be used.
#ifndef BATON_TILE_FROM_AST_H
#define BATON_TILE_FROM_AST_H

#include "../ast/ast.h"
#include "../contract.h"
#include "tile.h"

// `m` needs its arena, names, exprs and diag. entry NULL: all functions of the file. The contract,
// or NULL, says which parameters the launch makes; these are no arguments of the plan.
bool tile_from_ast(TileModule *m, const AstFile *f, const Contract *c, const char *entry);

// ---- infer.c: gives every fragment its register layout, and checks that shared operands of matrix
// products have a swizzled layout. Errors go to m->diag; true when there is none.
bool tile_infer_layouts(TileModule *m);
// ---- library.c: built-in functions that are device helpers of their own.
typedef struct {
    const char *name, *text; // the text is one function of that name
} TileLibraryFunction;
const TileLibraryFunction *tile_library(const char *name); // NULL: there is none
// ---- partial.c: partial sums of vectors are not read as complete ones. Called by the above.
bool tile_check_partial(TileModule *m);

#endif
