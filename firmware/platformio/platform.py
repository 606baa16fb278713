"""The development platform of boards that refold builds with installed compilers."""

from platformio.platform.base import PlatformBase


class RefoldPlatform(PlatformBase):
    """It needs no packages: the environment's name is the board's id."""
