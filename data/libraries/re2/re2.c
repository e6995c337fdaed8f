/* What others call: a pattern is parsed, made a program, and keyed by its hash. */

#include "program.h"

re2 *re2_compile(const char *pattern, void *memory, size_t size, const char **said)
{
    absl_status status = ABSL_EXHAUSTED;
    absl_arena arena;
    absl_arena_init(&arena, memory, size);
    re2 *re = absl_arena_take(&arena, sizeof(re2));
    if (re) {
        re->arena = arena;
        re->key = absl_hash(pattern);
        const node *tree = re2_parse(&re->arena, pattern, &status);
        if (tree)
            status = re2_program(re, tree);
    }
    *said = absl_status_text(status);
    return status == ABSL_OK ? re : NULL;
}

uint64_t re2_key(const re2 *re)
{
    return re->key;
}
