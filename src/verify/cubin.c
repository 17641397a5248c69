// cubin.c - reads the ELF file: sections, the symbols that tell kernels from device functions, and
// the line table (DWARF 2), whose addresses are relocations against those symbols.
//
// Input: any bytes. Output: the code sections in the order of the file. Invariant: a Span is read
// through span_* alone, and those never leave it.
#include "cubin.h"

#include <string.h>

// A piece of the file. Reading past its end gives 0 and leaves `bad` set.
typedef struct {
    const u8 *at;
    size_t n, pos;
    bool bad;
} Span;

typedef struct {
    u32 name, type, link, info;
    u64 offset, size, entry_size;
    Span data; // empty for sections without bytes in the file
} Section;

typedef struct {
    Arena *arena;
    Span file;
    Section *sections;
    int nsections;
    Section *names;   // of sections
    Section *symbols; // NULL: none
    int *text_of;     // per section: its place among the texts, from 1; 0: no code
    Cubin *out;
} Reader;

enum {
    TYPE_SYMBOLS = 2, TYPE_RELOCATIONS_ADDEND = 4, TYPE_NO_BITS = 8, TYPE_RELOCATIONS = 9,
    MACHINE_CUDA = 190, SYMBOL_BYTES = 24, SYMBOL_FUNCTION = 2, OTHER_ENTRY = 0x10,
    SECTION_BYTES = 64, LINES_MAX = 1 << 20, LINE_FILES_MAX = 4096
};

// n bytes, at most 8, lowest first.
static u64 span_uint(Span *s, int n)
{
    u64 v = 0;
    // A place that was stepped to may lie behind the end.
    if (s->bad || s->pos > s->n || s->n - s->pos < (size_t)n) {
        s->bad = true;
        return 0;
    }
    for (int i = 0; i < n; i++) v |= (u64)s->at[s->pos + (size_t)i] << (8 * i);
    s->pos += (size_t)n;
    return v;
}

static Span span_part(Span s, u64 offset, u64 n)
{
    if (offset > s.n || n > s.n - offset) return (Span){.bad = true};
    return (Span){.at = s.at + offset, .n = (size_t)n};
}

static bool span_more(const Span *s) { return !s->bad && s->pos < s->n; }

// Seven bits a byte, lowest first; the top bit says that another follows.
static i64 span_leb(Span *s, bool is_signed)
{
    u64 v = 0;
    int shift = 0;
    u8 byte = 0x80;
    while (byte & 0x80) {
        byte = (u8)span_uint(s, 1);
        if (s->bad) return 0;
        if (shift < 64) v |= (u64)(byte & 0x7f) << shift;
        shift += 7;
    }
    if (is_signed && shift < 64 && (byte & 0x40)) v |= ~(u64)0 << shift;
    return (i64)v;
}

// A text that must end inside the span; "" otherwise.
static const char *span_text(Span *s)
{
    const u8 *end = s->bad || s->pos >= s->n ? NULL : memchr(s->at + s->pos, 0, s->n - s->pos);
    if (!end) {
        s->bad = true;
        return "";
    }
    const char *text = (const char *)s->at + s->pos;
    s->pos = (size_t)(end - s->at) + 1;
    return text;
}

static const char *section_name(const Reader *r, const Section *s)
{
    Span names = r->names->data;
    names.pos = s->name < names.n ? s->name : names.n;
    return span_text(&names);
}

static const char *read_sections(Reader *r)
{
    Span h = r->file;
    if (h.n < 64 || memcmp(h.at, "\177ELF", 4) != 0) return "it is not an ELF file";
    if (h.at[4] != 2 || h.at[5] != 1) return "it is not a 64-bit little-endian ELF file";
    h.pos = 18;
    if (span_uint(&h, 2) != MACHINE_CUDA) return "it is an ELF file for another machine than a GPU";
    h.pos = 40;
    u64 table = span_uint(&h, 8);
    h.pos = 58;
    u64 entry = span_uint(&h, 2), count = span_uint(&h, 2), names = span_uint(&h, 2);
    Span t = span_part(r->file, table, entry * count);
    if (t.bad || entry < SECTION_BYTES || !count || names >= count)
        return "its table of sections does not lie inside the file";
    r->sections = ARENA_ARRAY(r->arena, Section, count);
    r->nsections = (int)count;
    for (int i = 0; i < r->nsections; i++) {
        Section *s = &r->sections[i];
        t.pos = (size_t)i * (size_t)entry;
        s->name = (u32)span_uint(&t, 4);
        s->type = (u32)span_uint(&t, 4);
        t.pos += 16; // flags, address
        s->offset = span_uint(&t, 8);
        s->size = span_uint(&t, 8);
        s->link = (u32)span_uint(&t, 4);
        s->info = (u32)span_uint(&t, 4);
        t.pos += 8; // alignment
        s->entry_size = span_uint(&t, 8);
        if (s->type == TYPE_NO_BITS || !s->type) continue;
        s->data = span_part(r->file, s->offset, s->size);
        if (s->data.bad) return "a section does not lie inside the file";
        if (s->type == TYPE_SYMBOLS) r->symbols = s;
    }
    r->names = &r->sections[names];
    return NULL;
}

static CubinText *text_of_section(const Reader *r, u64 section)
{
    int i = section < (u64)r->nsections ? r->text_of[section] : 0;
    return i ? &r->out->texts.at[i - 1] : NULL;
}

// A kernel is a function whose symbol carries the mark of an entry and begins its section.
static void mark_entries(Reader *r)
{
    if (!r->symbols) return;
    Span s = r->symbols->data;
    while (span_more(&s)) {
        size_t start = s.pos;
        s.pos += 4;
        u64 info = span_uint(&s, 1), other = span_uint(&s, 1), section = span_uint(&s, 2);
        CubinText *t = s.bad ? NULL : text_of_section(r, section);
        if (t && (info & 15) == SYMBOL_FUNCTION && (other & OTHER_ENTRY)) t->entry = true;
        s.pos = start + SYMBOL_BYTES;
        if (s.pos > s.n) s.bad = true;
    }
}

// Sections that overlap could hold many times what the file holds: their sum is bounded by it.
static const char *read_texts(Reader *r)
{
    size_t total = 0;
    r->text_of = ARENA_ARRAY(r->arena, int, r->nsections);
    for (int i = 0; i < r->nsections; i++) {
        const Section *s = &r->sections[i];
        const char *name = section_name(r, s);
        if (strncmp(name, ".text.", 6) != 0 || !s->data.n) continue;
        if (s->data.n % CUBIN_INSTRUCTION)
            return "a section of code is not a whole number of 16-byte instructions";
        total += s->data.n;
        if (total > r->file.n) return "its sections of code overlap";
        CubinText t = {.name = name + 6, .code = s->data.at, .bytes = s->data.n};
        vec_push(r->arena, &r->out->texts, t);
        r->text_of[i] = r->out->texts.n;
    }
    return r->out->texts.n ? NULL : "there is no code in it (no section .text.NAME)";
}

// ---- lines -----------------------------------------------------------------------------------

// What is to be added to an address in a section, and of which code it is.
typedef struct {
    u64 addend;
    CubinText *text;
} Relocation;

typedef struct {
    Reader *reader;
    Map *relocations; // from the place in the section, plus 1, to the Relocation
    // the state of the program
    CubinText *text;
    u64 address;
    i64 line;
    u64 file;
    VEC(const char *) files;
    int rows;
} LineReader;

static void read_relocations(LineReader *l, int section)
{
    Reader *r = l->reader;
    int read = 0;
    for (int i = 0; i < r->nsections && r->symbols; i++) {
        const Section *s = &r->sections[i];
        bool addend = s->type == TYPE_RELOCATIONS_ADDEND;
        if ((!addend && s->type != TYPE_RELOCATIONS) || s->info != (u32)section) continue;
        Span t = s->data;
        while (span_more(&t) && read++ < LINES_MAX) {
            u64 where = span_uint(&t, 8), info = span_uint(&t, 8);
            u64 plus = addend ? span_uint(&t, 8) : 0;
            if (t.bad) break;
            Span symbol = span_part(r->symbols->data, (info >> 32) * SYMBOL_BYTES, SYMBOL_BYTES);
            symbol.pos = 6;
            u64 target = span_uint(&symbol, 2);
            u64 value = span_uint(&symbol, 8);
            CubinText *text = symbol.bad ? NULL : text_of_section(r, target);
            if (!text || where >= SIZE_MAX) continue;
            Relocation *rel = ARENA_NEW(r->arena, Relocation);
            *rel = (Relocation){plus + value, text};
            map_put(l->relocations, (void *)(uintptr_t)(where + 1), rel);
        }
    }
}

static void add_row(LineReader *l)
{
    if (!l->text || l->rows >= LINES_MAX || l->line < 0 || l->line > INT32_MAX) return;
    const char *file = l->file && l->file <= (u64)l->files.n ? l->files.at[l->file - 1] : "?";
    CubinLine row = {l->address, (u32)l->line, file};
    l->rows++;
    // Behind a jump back in the addresses the table could not be searched: such rows are left out.
    int n = l->text->lines.n;
    if (n && l->text->lines.at[n - 1].offset > row.offset) return;
    vec_push(l->reader->arena, &l->text->lines, row);
}

static void begin_sequence(LineReader *l)
{
    l->text = NULL;
    l->address = 0;
    l->line = 1;
    l->file = 1;
}

// Behind a zero byte: the length of the operation, then its number. Unknown ones are stepped over.
static void extended_operation(LineReader *l, Span *s)
{
    u64 n = (u64)span_leb(s, false);
    size_t start = s->pos;
    if (s->bad || n > s->n - start) {
        s->bad = true;
        return;
    }
    u64 op = n ? span_uint(s, 1) : 0;
    if (op == 1) {
        begin_sequence(l);
    } else if (op == 2 && n == 9) {
        const Relocation *rel = map_get(l->relocations, (void *)(uintptr_t)(s->pos + 1));
        l->address = span_uint(s, 8);
        if (rel) {
            l->text = rel->text;
            l->address += rel->addend;
        }
    }
    s->pos = start + (size_t)n;
}

// The head of one unit's table; false when it is no table of version 2 to 4.
typedef struct {
    u64 min_step, opcode_base, line_range;
    i64 line_base;
    u8 operands[256];
    size_t end;
} LineHead;

static bool read_head(LineReader *l, Span *s, LineHead *h)
{
    u64 n = span_uint(s, 4);
    if (s->bad || n > s->n - s->pos) return false;
    h->end = s->pos + (size_t)n;
    u64 version = span_uint(s, 2), head = span_uint(s, 4);
    if (s->bad || version < 2 || version > 4 || head > s->n - s->pos) return false;
    size_t program = s->pos + (size_t)head;
    h->min_step = span_uint(s, 1);
    if (version == 4) span_uint(s, 1); // operations per instruction
    span_uint(s, 1);                   // whether rows begin statements
    h->line_base = (int8_t)span_uint(s, 1);
    h->line_range = span_uint(s, 1);
    h->opcode_base = span_uint(s, 1);
    for (u64 i = 1; i < h->opcode_base; i++) h->operands[i] = (u8)span_uint(s, 1);
    while (*span_text(s)) {} // folders
    l->files.n = 0;
    for (const char *name; *(name = span_text(s)) && l->files.n < LINE_FILES_MAX;) {
        for (int i = 0; i < 3; i++) span_leb(s, false); // folder, time, size
        vec_push(l->reader->arena, &l->files, name);
    }
    s->pos = program;
    return !s->bad && h->line_range && h->opcode_base;
}

// The operations that every version has, by number; those beyond are stepped over.
static void standard_operation(LineReader *l, Span *s, const LineHead *h, u64 op)
{
    switch (op) {
    case 1: add_row(l); break;
    case 2: l->address += (u64)span_leb(s, false) * h->min_step; break;
    // In unsigned arithmetic: the file may ask for any sum.
    case 3: l->line = (i64)((u64)l->line + (u64)span_leb(s, true)); break;
    case 4: l->file = (u64)span_leb(s, false); break;
    case 8: l->address += (255 - h->opcode_base) / h->line_range * h->min_step; break;
    case 9: l->address += span_uint(s, 2); break;
    default:
        for (int i = 0; i < h->operands[op]; i++) span_leb(s, false);
    }
}

static void run_line_program(LineReader *l, Span *s, const LineHead *h)
{
    begin_sequence(l);
    while (!s->bad && s->pos < h->end) {
        u64 op = span_uint(s, 1);
        if (op == 0) {
            extended_operation(l, s);
        } else if (op < h->opcode_base) {
            standard_operation(l, s, h, op);
        } else {
            u64 special = op - h->opcode_base;
            l->address += special / h->line_range * h->min_step;
            l->line = (i64)((u64)l->line + (u64)h->line_base + special % h->line_range);
            add_row(l);
        }
    }
}

// A damaged table costs the lines, never the audit.
static void read_lines(Reader *r)
{
    for (int i = 0; i < r->nsections; i++) {
        if (strcmp(section_name(r, &r->sections[i]), ".debug_line") != 0) continue;
        LineReader l = {.reader = r, .relocations = map_new(r->arena)};
        read_relocations(&l, i);
        Span s = r->sections[i].data;
        while (span_more(&s)) {
            LineHead h = {0};
            if (!read_head(&l, &s, &h)) return;
            run_line_program(&l, &s, &h);
            if (s.bad || s.pos > h.end) return;
            s.pos = h.end;
        }
        return;
    }
}

const char *cubin_read(Arena *a, const u8 *bytes, size_t n, Cubin *out)
{
    Reader r = {.arena = a, .file = {.at = bytes, .n = n}, .out = out};
    const char *why = read_sections(&r);
    if (!why) why = read_texts(&r);
    if (why) return why;
    mark_entries(&r);
    read_lines(&r);
    return NULL;
}

const CubinLine *cubin_line(const CubinText *t, u64 offset)
{
    int low = 0, high = t->lines.n; // the row is the last one in [0, high) at or before the offset
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (t->lines.at[middle].offset <= offset) low = middle + 1;
        else high = middle;
    }
    return low ? &t->lines.at[low - 1] : NULL;
}
