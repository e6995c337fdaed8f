/* re2: regular expressions in time linear in the text, whatever the pattern. Needs abseil.

   A pattern is made of bytes: a b . [a-z] [^a-z] \. (ab) a|b a* a+ a?
   A namesake of RE2, written for this course. */

#ifndef RE2_H
#define RE2_H

#include "abseil.h"

typedef struct re2 re2;

/* Compile a pattern into the memory given, where it lives from then on. NULL if it cannot be;
   `said` is "ok" or the reason. */
re2 *re2_compile(const char *pattern, void *memory, size_t size, const char **said);

int re2_full_match(const re2 *re, const char *text);    /* 1 if the whole text fits, or 0 */
int re2_partial_match(const re2 *re, const char *text); /* 1 if some part of it fits, or 0 */

uint64_t re2_key(const re2 *re); /* the same for the same pattern: a key for a cache */

#endif
