"""nbgrader's settings: the package knows where the rooms are, this file only asks it."""

from crashlab.course.engine import configure

configure(get_config())  # noqa: F821  (nbgrader puts get_config here)
