"""From one author file to a solution notebook, a student notebook and a graded class.

`author` reads an author file and `release` makes the notebooks from it, with nbgrader (`engine`).
`execute` runs a notebook in a fresh kernel: for `run_course`, the author's proof, and for `check`,
the learner's. `trial` tries the known wrong answers, `sample_class` lets nbgrader grade them. `cli`
prints what they return.
"""
