// diag.c - the one door for messages: collects, drops duplicates, prints in order of place with
// the source line and a caret. Texts are copied into the arena; sources are not, they must outlive
// the Diag.
#include "base.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Severity severity;
    Loc loc;
    int order; // of arrival, so that sorting by place is stable
    const char *text, *hint; // owned by the arena; hint may be NULL
} Message;

typedef struct {
    const char *name, *text; // text NULL: lines cannot be shown
    size_t n; // bytes of text
} SourceFile;

struct Diag {
    Arena *arena;
    VEC(Message) messages;
    VEC(SourceFile) files; // index 0 is "no file"
    int errors;            // all of them, also those not kept
};

// Place 0 is taken, so that a Loc of zeros means "nowhere".
Diag *diag_new(Arena *a)
{
    Diag *d = ARENA_NEW(a, Diag);
    d->arena = a;
    vec_push(a, &d->files, (SourceFile){0});
    return d;
}

u16 diag_add_file(Diag *d, const char *name, const char *text, size_t n)
{
    SourceFile f = {arena_strndup(d->arena, name, strlen(name)), text, n};
    vec_push(d->arena, &d->files, f);
    return (u16)(d->files.n - 1);
}

const char *diag_file_name(const Diag *d, u16 file)
{
    return file && file < d->files.n ? d->files.at[file].name : "?";
}

int diag_errors(const Diag *d) { return d->errors; }

// The door. Linear search for equal messages: few are kept. Severity and hint do not distinguish
// two messages; macros and several passes tend to say the same thing about one place.
void diag(Diag *d, Severity s, Loc loc, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = arena_vprintf(d->arena, fmt, ap);
    va_end(ap);
    for (int i = 0; i < d->messages.n; i++) {
        const Message *m = &d->messages.at[i];
        if (m->loc.file == loc.file && m->loc.line == loc.line && m->loc.col == loc.col &&
            strcmp(m->text, text) == 0)
            return;
    }
    if (s == SEV_ERROR && d->errors++ >= DIAG_LIMIT) return;
    // Warnings and notes share the rest of the room; an error is never lost to them.
    if (s != SEV_ERROR && d->messages.n >= 4 * DIAG_LIMIT) return;
    Message m = {s, loc, d->messages.n, text,
                 hint ? arena_strndup(d->arena, hint, strlen(hint)) : NULL};
    vec_push(d->arena, &d->messages, m);
}

// Files in the order in which they were added, then lines, columns, arrival.
static int by_place(const void *pa, const void *pb)
{
    const Message *a = pa, *b = pb;
    if (a->loc.file != b->loc.file) return a->loc.file < b->loc.file ? -1 : 1;
    if (a->loc.line != b->loc.line) return a->loc.line < b->loc.line ? -1 : 1;
    if (a->loc.col != b->loc.col) return a->loc.col < b->loc.col ? -1 : 1;
    return a->order - b->order;
}

// Prints the line of `loc` and a caret under its column; tabs stay tabs so that both lines align.
static void print_line(const SourceFile *f, Loc loc, Buf *out)
{
    size_t i = 0;
    for (u32 line = 1; line < loc.line && i < f->n; i++)
        if (f->text[i] == '\n') line++;
    size_t end = i;
    while (end < f->n && f->text[end] != '\n' && f->text[end] != '\r') end++;
    // A minified source would fill the terminal.
    if (end - i > 400) end = i + 400;
    buf_puts(out, "    ");
    for (size_t k = i; k < end; k++) {
        unsigned char c = (unsigned char)f->text[k];
        buf_putc(out, c == '\t' || c >= 32 ? (char)c : '?');
    }
    buf_puts(out, "\n");
    // A column just behind the line is fine: something is missing there.
    if (!loc.col || loc.col - 1u > end - i) return;
    buf_puts(out, "    ");
    for (size_t k = i; k < i + loc.col - 1; k++) buf_putc(out, f->text[k] == '\t' ? '\t' : ' ');
    buf_puts(out, "^\n");
}

// Sorts a copy, so that messages may still be added afterwards.
void diag_print(const Diag *d, Buf *out)
{
    static const char *const word[] = {"error", "warning", "note"};
    int n = d->messages.n;
    if (!n) return;
    Message *sorted = ARENA_ARRAY(d->arena, Message, n);
    memcpy(sorted, d->messages.at, sizeof(Message) * (size_t)n);
    qsort(sorted, (size_t)n, sizeof(Message), by_place);
    for (int i = 0; i < n; i++) {
        const Message *m = &sorted[i];
        if (m->loc.file) {
            buf_puts(out, diag_file_name(d, m->loc.file));
            if (m->loc.line) buf_printf(out, ":%u", m->loc.line);
            if (m->loc.col) buf_printf(out, ":%u", m->loc.col);
            buf_puts(out, ": ");
        } else {
            buf_puts(out, "baton: ");
        }
        buf_printf(out, "%s: %s\n", word[m->severity], m->text);
        if (m->loc.file && m->loc.file < d->files.n && m->loc.line && d->files.at[m->loc.file].text)
            print_line(&d->files.at[m->loc.file], m->loc, out);
        if (m->hint) buf_printf(out, "    hint: %s\n", m->hint);
    }
    if (d->errors > DIAG_LIMIT)
        buf_printf(out, "%d errors, the first %d shown\n", d->errors, DIAG_LIMIT);
    else if (d->errors)
        buf_printf(out, "%d error%s\n", d->errors, d->errors == 1 ? "" : "s");
}
