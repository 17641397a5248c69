// parse_fuzz.c - libFuzzer target of the lexer and parser: any bytes must end in a tree and
// messages, never in a crash, a hang or a heap of memory.
#include "../../src/ast/ast.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena *arena = arena_new((size_t)256 << 20);
    Diag *d = diag_new(arena);
    // A copy of exactly `size` bytes, so that the sanitizer sees a read past the end.
    char *text = __builtin_malloc(size ? size : 1);
    if (size) __builtin_memcpy(text, data, size);
    u16 file = diag_add_file(d, "fuzz.co", text, size);
    AstFile *f = ast_parse(arena, intern_new(arena), d, file, text, size, NULL, 0);
    Buf out = {0};
    ast_print(f, &out);
    diag_print(d, &out);
    buf_free(&out);
    __builtin_free(text);
    arena_free(arena);
    return 0;
}
