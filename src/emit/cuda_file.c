// cuda_file.c - the .cu file around the kernels: how to compile and call it, the host and device
// text of the .co file where it stood, and in the place of the tile function what was generated for
// it.
//
// The host text is anything, macros included. A macro of it whose name the generated text uses is
// put aside around that text, so that neither can change the other.
#include "cuda_impl.h"

#include <ctype.h>
#include <string.h>

static bool is_word(char c) { return isalnum((u8)c) || c == '_'; }

// ---- the source's lines -------------------------------------------------------------------------

// line_start[i] is the first byte of line i + 1; one entry more marks the end of the text.
static void find_lines(Cuda *x)
{
    const CudaSource *s = x->source;
    // The first line, and the end of the last.
    u32 n = 2;
    for (size_t i = 0; i < s->text_n; i++) n += s->text[i] == '\n';
    u32 *start = ARENA_ARRAY(x->arena, u32, n), lines = 0;
    start[lines++] = 0;
    for (size_t i = 0; i < s->text_n; i++)
        if (s->text[i] == '\n') start[lines++] = (u32)i + 1;
    start[lines] = (u32)s->text_n;
    x->line_start = start;
    x->nlines = (int)lines;
}

// ---- macros of the host text --------------------------------------------------------------------

typedef VEC(const char *) NameList;

// Within the line that ends at `end`.
static const char *skip_blanks(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t')) s++;
    return s;
}

// Appends the names that `#define` lines of a text give.
static void collect_macros(Cuda *x, const char *s, const char *end, Map *seen, NameList *list)
{
    while (s < end) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        eol = eol ? eol : end;
        const char *c = skip_blanks(s, eol);
        if (c < eol && *c == '#') {
            c = skip_blanks(c + 1, eol);
            if (eol - c > 7 && memcmp(c, "define", 6) == 0 && !is_word(c[6])) {
                c = skip_blanks(c + 6, eol);
                const char *from = c;
                while (c < eol && is_word(*c)) c++;
                const char *name = intern_n(x->names, from, (size_t)(c - from));
                if (c > from && !map_get(seen, name)) {
                    map_put(seen, name, (void *)name);
                    vec_push(x->arena, list, name);
                }
            }
        }
        s = eol < end ? eol + 1 : end;
    }
}

// The words of generated text, comments left out.
static Map *words_of(Cuda *x, const Buf *text)
{
    Map *words = map_new(x->arena);
    for (size_t i = 0; i < text->n;) {
        const char *s = text->s + i;
        if (s[0] == '/' && s[1] == '/') {
            while (i < text->n && text->s[i] != '\n') i++;
        } else if (is_word(*s)) {
            size_t n = 1;
            while (i + n < text->n && is_word(s[n])) n++;
            const char *w = intern_n(x->names, s, n);
            map_put(words, w, (void *)w);
            i += n;
        } else {
            i++;
        }
    }
    return words;
}

// Macros of the file, and those of the command line, that the generated text would meet.
static NameList macros_to_hide(Cuda *x, const Buf *generated)
{
    NameList all = {0}, hide = {0};
    const CudaSource *f = x->source;
    if (!f->nparts) return hide;
    Map *seen = map_new(x->arena), *words = words_of(x, generated);
    for (int i = 0; i < f->nparts; i++)
        if (f->parts[i].kind != CUDA_TILE_FUNCTION)
            collect_macros(x, f->parts[i].text, f->parts[i].text + f->parts[i].text_n, seen, &all);
    for (int i = 0; i < x->source->ndefines; i++) {
        const char *name = intern(x->names, x->source->defines[i].name);
        if (!map_get(seen, name)) vec_push(x->arena, &all, name);
        map_put(seen, name, (void *)name);
    }
    for (int i = 0; i < all.n; i++)
        if (map_get(words, all.at[i])) vec_push(x->arena, &hide, all.at[i]);
    return hide;
}

// push_macro and pop_macro keep the host text's meaning of a name on both sides of this text.
static void print_generated(Cuda *x, const Buf *generated, Buf *out)
{
    NameList hide = macros_to_hide(x, generated);
    for (int i = 0; i < hide.n; i++)
        buf_printf(out, "#pragma push_macro(\"%s\")\n#undef %s\n", hide.at[i], hide.at[i]);
    buf_write(out, generated->s, generated->n);
    for (int i = 0; i < hide.n; i++) buf_printf(out, "#pragma pop_macro(\"%s\")\n", hide.at[i]);
}

// ---- parts of the file --------------------------------------------------------------------------

// Device text, with the language's own spelling of __device__ as CUDA has it.
static void print_device_text(const CudaPart *p, Buf *out)
{
    static const char own[] = "__co_device__";
    for (size_t i = 0; i < p->text_n;) {
        bool word = p->text_n - i >= sizeof own - 1 &&
                    memcmp(p->text + i, own, sizeof own - 1) == 0 &&
                    (i == 0 || !is_word(p->text[i - 1]));
        if (word) {
            buf_puts(out, "__device__");
            i += sizeof own - 1;
        } else {
            buf_putc(out, p->text[i++]);
        }
    }
}

// Host text as it is; only directives that are baton's own become comments.
static void print_host_text(const CudaPart *p, Buf *out)
{
    const char *s = p->text, *end = p->text + p->text_n;
    while (s < end) {
        const char *eol = memchr(s, '\n', (size_t)(end - s));
        eol = eol ? eol + 1 : end;
        const char *c = skip_blanks(s, eol);
        bool own = c < eol && *c == '#';
        static const char *const word[] = {"pragma", "croq"};
        for (int i = 0; i < COUNT(word) && own; i++) {
            size_t n = strlen(word[i]);
            c = skip_blanks(c + (i == 0), eol);
            own = (size_t)(eol - c) > n && memcmp(c, word[i], n) == 0 && !is_word(c[n]);
            c += own ? n : 0;
        }
        if (own) buf_puts(out, "// ");
        buf_write(out, s, (size_t)(eol - s));
        s = eol;
    }
}

// Macros of the command line, for the host text. What would end or continue the line is left out.
static void print_defines(const CudaSource *s, Buf *out)
{
    for (int i = 0; i < s->ndefines; i++) {
        const char *name = s->defines[i].name, *value = s->defines[i].value;
        buf_printf(out, "#ifndef %s\n#define %s ", name, name);
        for (const char *c = value ? value : "1"; *c; c++)
            buf_putc(out, (u8)*c < 32 || *c == '\\' ? ' ' : *c);
        buf_puts(out, "\n#endif\n");
    }
}

// The file's parts in their order, so that what the kernel's text uses of the host text stands
// before it.
static void print_parts(Cuda *x, const Buf *generated, Buf *out)
{
    const CudaSource *f = x->source;
    if (!f->nparts) {
        print_generated(x, generated, out);
        return;
    }
    print_defines(x->source, out);
    for (int i = 0; i < f->nparts; i++) {
        const CudaPart *p = &f->parts[i];
        switch ((CudaPartKind)p->kind) {
        case CUDA_HOST_TEXT: print_host_text(p, out); break;
        case CUDA_DEVICE_TEXT: print_device_text(p, out); break;
        case CUDA_TILE_FUNCTION:
            if (out->s[out->n - 1] != '\n') buf_putc(out, '\n');
            if (p->name && strcmp(p->name, x->source->entry) == 0)
                print_generated(x, generated, out);
            else buf_printf(out, "// The tile function %s is not part of this file.\n",
                            p->name ? p->name : "?");
            break;
        }
    }
}

// The file's name fit for a comment: control characters and a backslash, which could end or
// continue the line, become question marks.
static const char *base_name(Cuda *x, const char *path)
{
    const char *slash = strrchr(path, '/');
    Buf b = {0};
    for (const char *c = slash ? slash + 1 : path; *c; c++)
        buf_putc(&b, (u8)*c < 32 || *c == '\\' ? '?' : *c);
    const char *s = arena_strndup(x->arena, b.s ? b.s : "", b.n);
    buf_free(&b);
    return s;
}

static void print_head(Cuda *x, const char *prototype, Buf *out)
{
    const char *file = base_name(x, x->source->path), *dot = strrchr(file, '.');
    int stem = dot && dot != file ? (int)(dot - file) : (int)strlen(file);
    buf_printf(out,
               "// CUDA C++ of the tile function `%s` of %s, for Hopper GPUs; written by baton.\n"
               "//\n"
               "// Compile:  nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -c %.*s.cu\n",
               x->source->entry, file, stem, file);
    if (*prototype)
        buf_printf(out,
                   "// Call:     %s;\n"
                   "//           It returns 0, or a code that %s_message explains.\n",
                   prototype, x->source->entry);
    buf_puts(out, "#include <cuda.h>\n#include <cuda_runtime.h>\n#include <stdint.h>\n");
    for (int i = 0; i < x->mod->fns.n; i++) {
        if (!x->mod->fns.at[i]->texts.n) continue;
        buf_puts(out, "#include <stdio.h>\n");
        break;
    }
    bool helpers = false;
    for (int i = 0; i < x->source->nparts; i++)
        helpers = helpers || x->source->parts[i].kind == CUDA_DEVICE_TEXT;
    if (helpers) buf_puts(out, "#pragma nv_diag_suppress 177 // helpers were inlined: unused here\n");
    buf_puts(out, "\n");
}

// ---- what CUDA cannot name ----------------------------------------------------------------------

// A kernel keeps its name, which the plan and callers use; one that means something in C++ is
// refused.
static bool check_names(Cuda *x, Diag *d)
{
    Map *reserved = cu_reserved(x);
    for (int i = 0; i < x->mod->fns.n; i++) {
        const char *name = x->mod->fns.at[i]->name;
        if (!map_get(reserved, intern(x->names, name))) continue;
        // The kernel has the tile function's name, so its place is the one to show.
        Loc loc = {0};
        const CudaSource *f = x->source;
        for (int k = 0; k < f->nparts; k++)
            if (f->parts[k].kind == CUDA_TILE_FUNCTION && f->parts[k].name &&
                strcmp(f->parts[k].name, x->source->entry) == 0)
                loc = f->parts[k].loc;
        diag_error(
            d, loc, "rename the tile function",
            "not supported yet: a kernel named `%s` in CUDA C++, where the name has a meaning",
            name);
        return false;
    }
    return true;
}

// Kernels are printed before the file's head is: only then is it known which helpers they need.
bool cuda_print(const CudaSource *s, Diag *d, Buf *out)
{
    const ThreadModule *m = s->module;
    Buf helpers = {0}, kernels = {0}, generated = {0}, prototype = {0};
    Cuda x = {.source = s, .mod = m, .arena = m->arena, .helpers = &helpers, .pending = -1};
    x.names = intern_new(x.arena);
    x.helpers_made = map_new(x.arena);
    find_lines(&x);
    if (!check_names(&x, d)) return false;
    for (int i = 0; i < m->fns.n; i++) cu_kernel(&x, m->fns.at[i], &kernels);
    // The launcher goes behind the kernels, which it calls by name.
    if (s->plan) cu_print_launcher(&x, s->plan, &prototype, &kernels);
    if (x.uses_smem)
        buf_puts(&generated, "extern __shared__ __align__(1024) unsigned char baton_smem[];\n");
    if (helpers.n)
        buf_puts(&generated,
                 "\n// ---- single instructions -----------------------------------------"
                 "---------------------------\n");
    buf_write(&generated, helpers.s ? helpers.s : "", helpers.n);
    buf_puts(&generated,
             "\n// ---- kernels ----------------------------------------------------------"
             "-----------------------\n");
    buf_write(&generated, kernels.s ? kernels.s : "", kernels.n);
    print_head(&x, prototype.s ? prototype.s : "", out);
    print_parts(&x, &generated, out);
    buf_free(&helpers);
    buf_free(&kernels);
    buf_free(&generated);
    buf_free(&prototype);
    return true;
}
