// cache.c - assembled code by content, one file per entry in one folder that many processes share.
//
// Name: the 128-bit hash of everything that determines the machine code, in hexadecimal. Contents:
//
//     baton-cache 1 HASH0 HASH1 LENGTH CODE_BYTES LOG_BYTES CHECK newline, code, log
//
// with six 16-digit hexadecimal numbers. A reader believes an entry only if the header repeats the
// whole key, the file is exactly as long as it says, and CHECK is the hash of code and log;
// anything else is as if it were not there, and the next writer replaces it. Writers use a
// temporary name and a rename, so an entry is whole or absent. The hashes are for accidents, not
// for adversaries: the folder belongs to the user, like the programs that he runs.
#include "rt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A file beyond it is no cubin of ours; it is not read at all.
enum { ENTRY_LIMIT = 256 << 20 }; // bytes of one file

// What is done to the PTX besides its own text; changing how it is assembled changes this.
static const char assembler[] = "driver linker, default options, version 1";

// The second half of the key: eight bytes at a time, multiply and fold, unrelated to FNV.
// Two unrelated hashes and the length make a key of 192 bits: accidents do not collide in all
// three.
static u64 hash_words(const void *data, size_t n, u64 h)
{
    const u8 *p = data;
    for (; n >= 8; p += 8, n -= 8) {
        u64 w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    u64 tail = n;
    for (size_t i = 0; i < n; i++) tail = tail << 8 | p[i];
    h = (h ^ tail) * 0xd6e8feb86659fd93u;
    return h ^ (h >> 29);
}

// Goes on where the last call stopped: the halves of the key are their own seeds.
static void hash_more(RtCacheKey *k, const void *p, size_t n)
{
    k->hash[0] = hash_bytes(p, n, k->hash[0]);
    k->hash[1] = hash_words(p, n, k->hash[1]);
    k->length += n;
}

// The driver's version stands for its assembler: another driver may make other code of equal PTX.
RtCacheKey rt_cache_key(const char *ptx, size_t ptx_bytes, const char *options, int driver_version)
{
    RtCacheKey k = {0};
    // Each text with its NUL, so that the borders between them count.
    hash_more(&k, assembler, sizeof assembler);
    hash_more(&k, BATON_VERSION_TEXT, sizeof BATON_VERSION_TEXT);
    hash_more(&k, &driver_version, sizeof driver_version);
    if (!options) options = "";
    hash_more(&k, options, strlen(options) + 1);
    hash_more(&k, ptx, ptx_bytes);
    return k;
}

// A relative XDG_CACHE_HOME is to be ignored, says its specification.
char *rt_cache_dir(Arena *a)
{
    const char *dir = getenv("BATON_CACHE");
    if (dir && *dir) return arena_printf(a, "%s", dir);
    dir = getenv("XDG_CACHE_HOME");
    if (dir && *dir == '/') return arena_printf(a, "%s/baton", dir);
    dir = getenv("HOME");
    return dir && *dir ? arena_printf(a, "%s/.cache/baton", dir) : NULL;
}

// "<dir>/<32 hexadecimal digits>.cubin"
static char *entry_path(Arena *a, const char *dir, RtCacheKey key)
{
    return arena_printf(a, "%s/%016" PRIx64 "%016" PRIx64 ".cubin", dir, key.hash[0], key.hash[1]);
}

// Header of an entry; returns its length.
static int put_header(char *out, size_t n, RtCacheKey key, const void *code, size_t code_bytes,
                      const char *log, size_t log_bytes)
{
    u64 check = hash_bytes(log, log_bytes, hash_bytes(code, code_bytes, 1));
    return snprintf(out, n,
                    "baton-cache 1 %016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %016" PRIx64
                    " %016" PRIx64 " %016" PRIx64 "\n",
                    key.hash[0], key.hash[1], key.length, (u64)code_bytes, (u64)log_bytes, check);
}

// "baton-cache 1 " has 14 characters, each number 16 and a blank (the last a newline).
enum { HEADER_BYTES = 14 + 6 * 17, CODE_AT = 14 + 3 * 17, LOG_AT = CODE_AT + 17 };

// 16 digits; what is none ends the number, and then the header will not compare equal.
static u64 hex_at(const char *s)
{
    char digits[17] = {0};
    memcpy(digits, s, 16);
    return strtoull(digits, NULL, 16);
}

// True when the bytes are the entry for `key`; the lengths are then set.
static bool entry_is_whole(const Buf *b, RtCacheKey key, size_t *code_bytes, size_t *log_bytes)
{
    if (b->n < HEADER_BYTES) return false;
    u64 code = hex_at(b->s + CODE_AT), log = hex_at(b->s + LOG_AT);
    if (code > b->n || log > b->n || HEADER_BYTES + code + log != b->n) return false;
    // The header that these contents must have, as text: every field is compared at once.
    char want[HEADER_BYTES + 1];
    const char *body = b->s + HEADER_BYTES;
    put_header(want, sizeof want, key, body, (size_t)code, body + code, (size_t)log);
    *code_bytes = (size_t)code;
    *log_bytes = (size_t)log;
    return memcmp(want, b->s, HEADER_BYTES) == 0;
}

// Only absence is silent: a folder without permission or a damaged entry is worth a note.
bool rt_cache_get(Arena *a, const char *dir, RtCacheKey key, Buf *code, Buf *log, const char **note)
{
    *note = "";
    const char *path = entry_path(a, dir, key);
    struct stat st;
    if (stat(path, &st) != 0) {
        if (errno != ENOENT) *note = arena_printf(a, "%s: %s", path, strerror(errno));
        return false;
    }
    Buf file = {0};
    const char *why = file_read(path, &file, ENTRY_LIMIT);
    size_t code_bytes = 0, log_bytes = 0;
    if (!why && !entry_is_whole(&file, key, &code_bytes, &log_bytes)) why = "the entry is damaged";
    if (why) {
        *note = arena_printf(a, "%s: %s", path, why);
    } else {
        buf_write(code, file.s + HEADER_BYTES, code_bytes);
        buf_write(log, file.s + HEADER_BYTES + code_bytes, log_bytes);
    }
    buf_free(&file);
    return !why;
}

// Makes the folder and those above it. False with errno when it is not there afterwards.
// Folders on the way may exist or be made by another process at this moment: only the last counts.
static bool make_folder(Arena *a, const char *dir)
{
    char *path = arena_printf(a, "%s", dir);
    for (char *s = path + 1; *s; s++) {
        if (*s != '/') continue;
        *s = 0;
        mkdir(path, 0777);
        *s = '/';
    }
    struct stat st;
    if (mkdir(path, 0777) == 0) return true;
    if (errno != EEXIST) return false;
    if (stat(path, &st) != 0) return false;
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode);
}

// All n bytes, in as many calls as it takes; false with errno.
static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

// The temporary file lies in the same folder, since a rename is atomic only inside a file system.
const char *rt_cache_put(Arena *a, const char *dir, RtCacheKey key, const void *code,
                         size_t code_bytes, const char *log)
{
    if (!make_folder(a, dir)) return arena_printf(a, "%s: %s", dir, strerror(errno));
    const char *path = entry_path(a, dir, key);
    char *temporary = arena_printf(a, "%s.XXXXXX", path);
    int fd = mkstemp(temporary);
    if (fd < 0) return arena_printf(a, "%s: %s", dir, strerror(errno));
    char header[HEADER_BYTES + 1];
    size_t log_bytes = strlen(log);
    put_header(header, sizeof header, key, code, code_bytes, log, log_bytes);
    bool ok = write_all(fd, header, HEADER_BYTES) && write_all(fd, code, code_bytes) &&
              write_all(fd, log, log_bytes);
    int why = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (ok && rename(temporary, path) != 0) {
        ok = false;
        why = errno;
    }
    if (ok) return NULL;
    unlink(temporary);
    return arena_printf(a, "%s: %s", path, strerror(why));
}
