/* The parser: one function for each level of the grammar, from `a|b` down to a single byte. */

#include "program.h"

typedef struct {
    const char *at;
    int depth;
    absl_arena *arena;
    absl_status status;
} parser;

static node *either(parser *p);

static node *fail(parser *p, absl_status status)
{
    p->status = status;
    return NULL;
}

static node *make(parser *p, int kind, node *left, node *right)
{
    node *made = absl_arena_take(p->arena, sizeof(node));
    if (!made)
        return fail(p, ABSL_EXHAUSTED);
    made->kind = kind;
    made->times = 0;
    made->left = left;
    made->right = right;
    for (int i = 0; i < 8; i++)
        made->set[i] = 0;
    return made;
}

static node *invert(node *one)
{
    for (int i = 0; i < 8; i++)
        one->set[i] = ~one->set[i];
    return one;
}

/* [abc], [a-z], [^a-z]: `at` is after the bracket. A dash is a byte like any other at the end. */
static node *class(parser *p)
{
    node *one = make(p, BYTE, NULL, NULL);
    if (!one)
        return NULL;
    int inverted = *p->at == '^';
    p->at += inverted;
    while (*p->at && *p->at != ']') {
        unsigned char first = *p->at++, last = first;
        if (*p->at == '-' && p->at[1] && p->at[1] != ']') {
            last = p->at[1];
            p->at += 2;
        }
        if (last < first)
            return fail(p, ABSL_INVALID);
        for (int c = first; c <= last; c++)
            set_add(one->set, c);
    }
    if (*p->at++ != ']')
        return fail(p, ABSL_INVALID);
    return inverted ? invert(one) : one;
}

static node *atom(parser *p)
{
    char c = *p->at++;
    if (c == '(') {
        if (++p->depth > DEEPEST)
            return fail(p, ABSL_INVALID);
        node *inner = either(p);
        p->depth--;
        if (inner && *p->at++ != ')')
            return fail(p, ABSL_INVALID);
        return inner;
    }
    if (c == '[')
        return class(p);
    if (absl_contains("*+?", c)) /* nothing to repeat */
        return fail(p, ABSL_INVALID);
    node *one = make(p, BYTE, NULL, NULL);
    if (!one)
        return NULL;
    if (c == '.')
        return invert(one);
    if (c == '\\' && !(c = *p->at++)) /* nothing to escape */
        return fail(p, ABSL_INVALID);
    set_add(one->set, c);
    return one;
}

static node *repeat(parser *p)
{
    node *piece = atom(p);
    while (piece && *p->at && absl_contains("*+?", *p->at)) {
        piece = make(p, REPEAT, piece, NULL);
        if (piece)
            piece->times = *p->at++;
    }
    return piece;
}

static node *join(parser *p)
{
    node *pieces = make(p, EMPTY, NULL, NULL);
    while (pieces && *p->at && !absl_contains("|)", *p->at)) {
        node *piece = repeat(p);
        pieces = piece ? make(p, JOIN, pieces, piece) : NULL;
    }
    return pieces;
}

static node *either(parser *p)
{
    node *choice = join(p);
    while (choice && *p->at == '|') {
        p->at++;
        node *other = join(p);
        choice = other ? make(p, EITHER, choice, other) : NULL;
    }
    return choice;
}

node *re2_parse(absl_arena *arena, const char *pattern, absl_status *status)
{
    parser p = {pattern, 0, arena, ABSL_OK};
    node *tree = either(&p);
    if (tree && *p.at) /* a parenthesis that nothing opened */
        tree = fail(&p, ABSL_INVALID);
    *status = p.status;
    return tree;
}
