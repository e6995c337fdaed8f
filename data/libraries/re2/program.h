/* Inside re2: the tree that a pattern is parsed into, and the program made from that tree. */

#ifndef PROGRAM_H
#define PROGRAM_H

#include "re2.h"

enum { MOST_STEPS = 300, DEEPEST = 50 }; /* parentheses within parentheses */

typedef uint32_t byte_set[8]; /* one bit for each byte */

static inline void set_add(byte_set set, unsigned char c)
{
    set[c / 32] |= (uint32_t)1 << c % 32;
}

static inline int set_has(const byte_set set, unsigned char c)
{
    return set[c / 32] >> c % 32 & 1;
}

/* A piece of a pattern: EMPTY fits nothing at all, BYTE one byte of a set, JOIN its left and then
   its right piece, EITHER one of the two; REPEAT its left one as often as `times` says: * + ? */
typedef struct node {
    enum { EMPTY, BYTE, JOIN, EITHER, REPEAT } kind;
    char times;
    byte_set set;
    struct node *left;
    struct node *right;
} node;

/* A step of a program: TAKE a byte of the set and go on, go to BOTH `a` and `b`, or be DONE. */
typedef struct {
    enum { TAKE, BOTH, DONE } kind;
    const uint32_t *set;
    int a;
    int b;
} step;

struct re2 {
    absl_arena arena;
    uint64_t key;
    step *steps;
    int count;
};

node *re2_parse(absl_arena *arena, const char *pattern, absl_status *status);
absl_status re2_program(re2 *re, const node *tree);

#endif
