// sha256_test.c - SHA-256 on the examples of FIPS 180-4, and on every length around the ends of
// blocks: the digest of the digests of 0, 1, .. 199 bytes (0, 1, 2 ..), by an independent program.
//
// Prints "N passed, N failed" and exits non-zero when anything failed.
#include "../../src/base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check(Arena *a, const char *what, const void *p, size_t n, const char *want)
{
    const char *got = sha256_hex(a, p, n);
    if (strcmp(got, want) == 0) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED %s: got %s, want %s\n", what, got, want);
}

int main(void)
{
    Arena *a = arena_new(0);
    check(a, "nothing", NULL, 0,
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check(a, "abc", "abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check(a, "two blocks", two, strlen(two),
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    check(a, "a million times a", million, 1000000,
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
    u8 data[200], digests[200][32];
    for (int i = 0; i < 200; i++) data[i] = (u8)i;
    for (size_t n = 0; n < 200; n++) sha256(data, n, digests[n]);
    check(a, "every length", digests, sizeof digests,
          "ba7b0fcea7d10c06b855b43d2b4dce1e3e842fff6be0acefb0faf4f2dd05bb47");
    if (sha256_file(a, "/nonexistent/file")) failed++;
    else passed++;
    printf("%d passed, %d failed\n", passed, failed);
    arena_free(a);
    return failed != 0;
}
