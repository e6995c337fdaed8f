"""The outside of an agent: what a dead process cannot take back."""

from crashlab.world.folder import WorkFolder
from crashlab.world.store import SoundStore

__all__ = ["SoundStore", "WorkFolder"]
