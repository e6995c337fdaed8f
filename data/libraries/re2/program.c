/* From a tree to a program, by Thompson's construction: each piece becomes some steps, and where
   a piece ends the next one begins. */

#include "program.h"

static int add(re2 *re, int kind, const uint32_t *set)
{
    if (re->count == MOST_STEPS)
        return -1;
    step *made = &re->steps[re->count];
    made->kind = kind;
    made->set = set;
    made->a = made->b = re->count + 1;
    return re->count++;
}

/* Write the steps of a piece; 0 if there is no room for them. */
static int write(re2 *re, const node *piece)
{
    int fork, jump;
    switch (piece->kind) {
    case EMPTY:
        return 1;
    case BYTE:
        return add(re, TAKE, piece->set) >= 0;
    case JOIN:
        return write(re, piece->left) && write(re, piece->right);
    case EITHER:
        if ((fork = add(re, BOTH, NULL)) < 0 || !write(re, piece->left))
            return 0;
        if ((jump = add(re, BOTH, NULL)) < 0)
            return 0;
        re->steps[fork].b = re->count;
        if (!write(re, piece->right))
            return 0;
        re->steps[jump].a = re->steps[jump].b = re->count;
        return 1;
    case REPEAT:
        fork = re->count;
        if (piece->times != '+' && add(re, BOTH, NULL) < 0) /* may be left out */
            return 0;
        if (!write(re, piece->left))
            return 0;
        if (piece->times != '?') { /* may come again */
            if ((jump = add(re, BOTH, NULL)) < 0)
                return 0;
            re->steps[jump].a = fork;
        }
        if (piece->times != '+')
            re->steps[fork].b = re->count;
        return 1;
    }
    return 0;
}

absl_status re2_program(re2 *re, const node *tree)
{
    re->count = 0;
    re->steps = absl_arena_take(&re->arena, MOST_STEPS * sizeof(step));
    if (!re->steps || !write(re, tree) || add(re, DONE, NULL) < 0)
        return ABSL_EXHAUSTED;
    return ABSL_OK;
}
