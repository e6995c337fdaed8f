"""The outside of an agent: what a dead process cannot take back."""

from crashlab.world.folder import WorkFolder
from crashlab.world.mail import Delivered, MailService, mail_service
from crashlab.world.store import SoundStore

__all__ = ["Delivered", "MailService", "SoundStore", "WorkFolder", "mail_service"]
