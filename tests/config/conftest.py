"""What is measured here is what is said, not how long it takes: imports are lazy, and machines are shared."""

from hypothesis import settings

settings.register_profile("words", deadline=None)
settings.load_profile("words")
